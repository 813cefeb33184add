package calibrate

import (
	"testing"
	"testing/fstest"
	"time"

	"fedpace/bus"
)

// files makes a file system of pairs: the path of a file and the line that it holds.
func files(pairs ...string) fstest.MapFS {
	fs := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		fs[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1] + "\n")}
	}
	return fs
}

func TestBoard_Reported(t *testing.T) {
	b := &Board{
		files("self/status", "Name:\tfedpace\nVmHWM:\t   51200 kB\nVmRSS:\t  100 kB", "meminfo", "MemTotal: 948304 kB\nMemAvailable:  614400 kB"),
		files("firmware/devicetree/base/model", "Raspberry Pi 4 Model B Rev 1.4\x00", "class/thermal/thermal_zone0/temp", "48686", "class/thermal/thermal_zone1/temp", "61200"),
	}
	m := b.Machine()
	if m.PeakBytes != 51200<<10 || m.FreeBytes != 614400<<10 || m.Celsius != 61.2 || m.Model != "Raspberry Pi 4 Model B Rev 1.4" {
		t.Errorf("%+v", m)
	}
	if m := (&Board{files(), files()}).Machine(); m.PeakBytes != 0 || m.Celsius != 0 || m.Model != "" {
		t.Errorf("a board that tells nothing: %+v", m)
	}
}

func TestBoard_WhereBoardsPowerStands(t *testing.T) {
	for _, c := range []struct {
		name  string
		files fstest.MapFS
		want  float64
	}{
		{"battery BAT0", files("class/power_supply/BAT0/type", "Battery", "class/power_supply/BAT0/status", "Discharging", "class/power_supply/BAT0/power_now", "5500000"), 5.5},
		{"battery B", files("class/power_supply/B/type", "Battery", "class/power_supply/B/status", "Discharging", "class/power_supply/B/current_now", "-500000", "class/power_supply/B/voltage_now", "4000000"), 2},
		{"sensor ina219", files( // a battery that is charged says nothing, and the supply's channel has the greatest power
			"class/power_supply/B/type", "Battery", "class/power_supply/B/status", "Charging", "class/power_supply/B/power_now", "5500000",
			"class/hwmon/hwmon0/name", "cpu_thermal", "class/hwmon/hwmon1/name", "ina219", "class/hwmon/hwmon1/power1_input", "3200000", "class/hwmon/hwmon1/power2_input", "900000"), 3.2},
		{"sensor ina3221", files("class/hwmon/hwmon3/name", "ina3221", "class/hwmon/hwmon3/curr1_input", "640", "class/hwmon/hwmon3/in1_input", "5000"), 3.2},
	} {
		g := (&Board{files(), c.files}).powerGauge()
		if g == nil || g.name != c.name {
			t.Errorf("%s is taken for %+v", c.name, g)
			continue
		}
		if watts, ok := g.watts(time.Second); !ok || !near(watts, c.want) {
			t.Errorf("%s tells %g W, want %g", c.name, watts, c.want)
		}
	}
	for what, none := range map[string]fstest.MapFS{
		"nothing": files(), "a mains adapter": files("class/power_supply/AC/type", "Mains"), "what is no number": files("class/hwmon/hwmon0/power1_input", "none"),
	} {
		if g := (&Board{files(), none}).powerGauge(); g != nil {
			t.Errorf("%s tells the power: %s", what, g.name)
		}
	}
}

// The processors' counters of energy are read twice: their difference over the time.
func TestBoard_CounterOfEnergy(t *testing.T) {
	sys := files("class/powercap/intel-rapl:0/energy_uj", "1000000", "class/powercap/intel-rapl:1/energy_uj", "2000000", "class/powercap/intel-rapl:0:0/energy_uj", "7")
	g := (&Board{files(), sys}).powerGauge()
	if g == nil {
		t.Fatal("it is not found")
	}
	sys["class/powercap/intel-rapl:0/energy_uj"].Data = []byte("13000000")
	if watts, ok := g.watts(2 * time.Second); !ok || !near(watts, 6) {
		t.Errorf("12 J in 2 s are %g W, %v", watts, ok)
	}
	sys["class/powercap/intel-rapl:0/energy_uj"].Data = []byte("5")
	if _, ok := g.watts(time.Second); ok {
		t.Error("a counter that began anew counts")
	}
}

// A read that fails leaves no energy that the next one could be compared with, so neither gives a power.
func TestBoard_CounterUnreadable(t *testing.T) {
	const counter = "class/powercap/intel-rapl:0/energy_uj"
	sys := files(counter, "8000000")
	g := (&Board{files(), sys}).powerGauge()
	if g == nil {
		t.Fatal("it is not found")
	}
	for _, read := range []struct {
		microjoules string
		watts       float64
		isMeasured  bool
	}{{"9000000", 1, true}, {"unreadable", 0, false}, {"12000000", 0, false}, {"14000000", 2, true}} {
		sys[counter].Data = []byte(read.microjoules)
		watts, isMeasured := g.watts(time.Second)
		if isMeasured != read.isMeasured || isMeasured && !near(watts, read.watts) {
			t.Errorf("counter at %s: %g W, %v, want %+v", read.microjoules, watts, isMeasured, read)
		}
	}
}

// The counter psys is that of the whole machine, and contains the packages.
func TestBoard_CounterPsys(t *testing.T) {
	sys := files(
		"class/powercap/intel-rapl:0/energy_uj", "1000000", "class/powercap/intel-rapl:0/name", "package-0",
		"class/powercap/intel-rapl:1/energy_uj", "5000000", "class/powercap/intel-rapl:1/name", "psys",
	)
	g := (&Board{files(), sys}).powerGauge()
	if g == nil {
		t.Fatal("it is not found")
	}
	sys["class/powercap/intel-rapl:0/energy_uj"].Data = []byte("4000000")
	sys["class/powercap/intel-rapl:1/energy_uj"].Data = []byte("15000000")
	if watts, ok := g.watts(time.Second); !ok || !near(watts, 3) {
		t.Errorf("%g W, %v, want those of the package, 3", watts, ok)
	}
}

// Samples count for the phase in which they are taken, and none between tasks.
func TestBoard_MeterTellsPhasesApart(t *testing.T) {
	watts := 1.0
	m := &Meter{gauge: &gauge{"test", func(time.Duration) (float64, bool) { return watts, true }}, stop: func() {}, sum: map[bus.Phase]float64{}, count: map[bus.Phase]int{}}
	for _, s := range []struct {
		phase bus.Phase
		watts float64
	}{{bus.Download, 2}, {bus.Compute, 4}, {bus.NoPhase, 100}, {bus.Compute, 6}} {
		m.SetPhase(s.phase)
		watts = s.watts
		m.sample(time.Time{})
	}
	if source, w := m.Stop(); source != "test" || *w != (Watts{2, 5, 0}) {
		t.Errorf("%s, %+v", source, w)
	}
	var none *Meter
	none.SetPhase(bus.Compute)
	if source, w := none.Stop(); source != "" || w != nil {
		t.Errorf("a board without a sensor: %q, %+v", source, w)
	}
}
