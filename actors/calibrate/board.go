package calibrate

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"fedpace/bus"
)

// Board reads what a machine says about itself in Linux's /proc and /sys. On other systems, and for
// sensors that a board lacks, it returns nothing.
type Board struct{ proc, sys fs.FS }

// ThisBoard returns the machine that this program runs on.
func ThisBoard() *Board { return &Board{os.DirFS("/proc"), os.DirFS("/sys")} }

// Machine describes where a class was measured. 0 and empty mean not known.
type Machine struct {
	// System is the operating system and architecture, such as linux/arm64.
	System string `json:"system"`
	// Model is the name of the board, and Processors the number of processors that this program
	// uses.
	Model      string `json:"model"`
	Processors int    `json:"processors"`
	// PeakBytes is this program's largest memory while it trained.
	PeakBytes int64 `json:"peak_bytes"`
	// FreeBytes is the memory that other programs can have.
	FreeBytes int64 `json:"free_bytes"`
	// Celsius is the temperature of the hottest sensor at the end.
	Celsius float64 `json:"celsius"`
	// PowerSource is what the power was read from.
	PowerSource string `json:"power_source"`
	// Watts is the mean power in each phase. Nil means that it is not known.
	Watts *Watts `json:"watts"`
}

// Watts is the mean power in each phase in watts, 0 for a phase in which it was not measured.
type Watts struct {
	Download float64 `json:"download"`
	Compute  float64 `json:"compute"`
	Upload   float64 `json:"upload"`
}

// Machine describes the board as it is now: system, processors, model, memory in bytes, and the
// highest temperature of its sensors in degrees Celsius. What cannot be read is left zero or empty.
func (b *Board) Machine() Machine {
	m := Machine{System: runtime.GOOS + "/" + runtime.GOARCH, Processors: runtime.GOMAXPROCS(0)}
	// The kernel gives the peak in kilobytes.
	m.PeakBytes = 1024 * b.numberAfter("self/status", "VmHWM:")
	m.FreeBytes = b.FreeBytes()
	if name, err := fs.ReadFile(b.sys, "firmware/devicetree/base/model"); err == nil {
		m.Model = strings.TrimSpace(strings.Trim(string(name), "\x00\n"))
	}
	// The hottest of all zones is reported. The kernel gives thousandths of a degree.
	for _, zone := range b.match("class/thermal/thermal_zone*/temp") {
		if milli, ok := b.number(zone); ok {
			m.Celsius = max(m.Celsius, milli/1000)
		}
	}
	return m
}

// FreeBytes returns the memory in bytes that a program can have without swapping, 0 if it is not known.
func (b *Board) FreeBytes() int64 { return 1024 * b.numberAfter("meminfo", "MemAvailable:") }

// numberAfter returns the number that follows a word at the beginning of a line in a file of /proc, 0 if
// there is none. A unit of kilobytes (kB) behind the number is dropped: the number stays in kilobytes.
func (b *Board) numberAfter(file, word string) int64 {
	f, err := b.proc.Open(file)
	if err != nil {
		return 0
	}
	// Closing a file that was only read loses nothing, so its error does not count.
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), word); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 10, 64)
			return n
		}
	}
	return 0
}

// match lists the files of /sys that match a pattern, in order.
func (b *Board) match(pattern string) []string {
	// Glob fails only on a bad pattern, and patterns are constants.
	found, _ := fs.Glob(b.sys, pattern)
	return found
}

// number returns the number that a file of /sys holds. It returns false if the file cannot be read or
// holds something else.
func (b *Board) number(file string) (float64, bool) {
	text, err := b.word(file)
	if err != nil {
		return 0, false
	}
	x, err := strconv.ParseFloat(text, 64)
	return x, err == nil
}

// word returns the content of a file of /sys without the white space around it.
func (b *Board) word(file string) (string, error) {
	text, err := fs.ReadFile(b.sys, file)
	return strings.TrimSpace(string(text)), err
}

// gauge reads the power of the board.
type gauge struct {
	name string
	// watts returns the power now or, if the source is a counter of energy, the mean since the last
	// call, which was the duration since ago. It returns false if no power can be told.
	watts func(since time.Duration) (float64, bool)
}

// powerGauge returns the gauge whose power covers most of the board: the battery that it drains, else a sensor
// on its supply (such as an INA219), else the processor's energy counter (RAPL). Nil means that the board
// has none of them.
func (b *Board) powerGauge() *gauge {
	for _, find := range []func() *gauge{b.batteryGauge, b.sensorGauge, b.counterGauge} {
		if g := find(); g != nil {
			return g
		}
	}
	return nil
}

// batteryGauge returns a gauge of the first battery that is discharging. On mains power a battery
// reports what it is charged with, which is not the board's power.
func (b *Board) batteryGauge() *gauge {
	for _, file := range b.match("class/power_supply/*/type") {
		folder := path.Dir(file)
		kind, _ := b.word(file)
		if state, _ := b.word(folder + "/status"); kind != "Battery" || state != "Discharging" {
			continue
		}
		// A battery gives its power in microwatts, or a current in microamperes and a voltage in
		// microvolts.
		read := b.productReader(1e-6, folder+"/power_now")
		// Files hold present values, so the duration that a gauge is given does not matter here.
		if _, ok := read(0); !ok {
			read = b.productReader(1e-12, folder+"/current_now", folder+"/voltage_now")
		}
		if _, ok := read(0); ok {
			return &gauge{name: "battery " + path.Base(folder), watts: read}
		}
	}
	return nil
}

// sensorGauge returns the channel of the hardware monitors that shows the largest power now. This is the
// one of the supply, as other channels measure parts of the board. It is nil if no channel can be
// read.
func (b *Board) sensorGauge() *gauge {
	var best *gauge
	maxWatts := 0.0
	for _, folder := range b.match("class/hwmon/hwmon*") {
		name, _ := b.word(folder + "/name")
		// A channel gives its power in microwatts, or a current in milliamperes and a voltage in
		// millivolts.
		for n := 1; n <= 8; n++ {
			read := b.productReader(1e-6, fmt.Sprintf("%s/power%d_input", folder, n))
			if _, ok := read(0); !ok {
				read = b.productReader(
					1e-6,
					fmt.Sprintf("%s/curr%d_input", folder, n),
					fmt.Sprintf("%s/in%d_input", folder, n),
				)
			}
			if watts, ok := read(0); ok && watts > maxWatts {
				best = &gauge{name: "sensor " + cmp.Or(name, path.Base(folder)), watts: read}
				maxWatts = watts
			}
		}
	}
	return best
}

// counterGauge returns a gauge of the energy counters of all processor packages (RAPL), which often only
// root may read; nil if they cannot be read. The gauge gives the mean power in watts since the last
// call. It gives no value when a counter could not be read, then or now, or has started again from zero.
func (b *Board) counterGauge() *gauge {
	files := b.packageCounters()
	// read adds up the counters of all packages, which count microjoules.
	read := func() (joules float64, ok bool) {
		for _, file := range files {
			micro, ok := b.number(file)
			if !ok {
				return 0, false
			}
			joules += micro * 1e-6
		}
		return joules, len(files) > 0
	}
	previous, isKnown := read()
	if !isKnown {
		return nil
	}
	meanPower := func(since time.Duration) (watts float64, ok bool) {
		now, nowIsKnown := read()
		used := now - previous
		// A counter that is lower than before has started again from zero.
		isMeasured := nowIsKnown && isKnown && used >= 0 && since > 0
		previous = now
		isKnown = nowIsKnown
		return used / since.Seconds(), isMeasured
	}
	return &gauge{name: "processor's counter (RAPL)", watts: meanPower}
}

// packageCounters lists the files of the energy counters of the processor packages. The counter psys
// stands beside them: it is that of the whole machine, and contains theirs.
func (b *Board) packageCounters() []string {
	return slices.DeleteFunc(b.match("class/powercap/intel-rapl:[0-9]/energy_uj"), func(file string) bool {
		name, _ := b.word(path.Dir(file) + "/name")
		return name == "psys"
	})
}

// productReader returns a function that reads a power in watts: the product of the numbers in files (one power,
// or a current and a voltage) times unit, the watts of a product of 1. The function returns false if a file
// cannot be read. It ignores its duration, as the files hold present values.
func (b *Board) productReader(unit float64, files ...string) func(time.Duration) (float64, bool) {
	return func(time.Duration) (float64, bool) {
		watts := unit
		for _, file := range files {
			x, ok := b.number(file)
			if !ok {
				return 0, false
			}
			watts *= x
		}
		// Drivers differ in the sign of a current that flows out, so the magnitude counts.
		return max(watts, -watts), true
	}
}

// Meter measures the mean power of each phase until Stop. A nil Meter measures nothing.
type Meter struct {
	gauge   *gauge
	stop    context.CancelFunc
	sampler sync.WaitGroup

	mu sync.Mutex
	// phase is the phase that the device is in, or bus.NoPhase.
	phase bus.Phase
	// sum adds up the readings of each phase, in watts, and count is their number.
	sum   map[bus.Phase]float64
	count map[bus.Phase]int
	// sampled is when the gauge was last read.
	sampled time.Time
}

// meterEvery is the interval between two readings.
const meterEvery = 250 * time.Millisecond

// StartMeter starts to measure the board's power in the background, every meterEvery, and returns the meter that
// sums it by phase until it is stopped. It is nil if the board's power cannot be read.
func (b *Board) StartMeter() *Meter {
	g := b.powerGauge()
	if g == nil {
		return nil
	}
	ctx, stop := context.WithCancel(context.Background())
	m := &Meter{
		gauge:   g,
		stop:    stop,
		sum:     map[bus.Phase]float64{},
		count:   map[bus.Phase]int{},
		sampled: time.Now(),
	}
	// The sampling ends with the meter.
	m.sampler.Go(func() {
		for range bus.Ticks(ctx, meterEvery) {
			m.mu.Lock()
			m.sample(time.Now())
			m.mu.Unlock()
		}
	})
	return m
}

// sample adds the power at the time now to the sum of the current phase, and nothing between
// phases. The caller holds the lock.
func (m *Meter) sample(now time.Time) {
	if watts, ok := m.gauge.watts(now.Sub(m.sampled)); ok && m.phase != bus.NoPhase {
		m.sum[m.phase] += watts
		m.count[m.phase]++
	}
	m.sampled = now
}

// SetPhase sets the phase in which the device is from now on, to which the next samples count. A nil
// meter ignores it.
func (m *Meter) SetPhase(p bus.Phase) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.phase = p
}

// Stop ends the measurement and returns the name of the gauge and the mean power of each phase, "" and nil
// if no power was read.
func (m *Meter) Stop() (source string, w *Watts) {
	if m == nil {
		return "", nil
	}
	m.stop()
	m.sampler.Wait()
	mean := func(p bus.Phase) float64 { return m.sum[p] / float64(max(1, m.count[p])) }
	w = &Watts{mean(bus.Download), mean(bus.Compute), mean(bus.Upload)}
	if *w == (Watts{}) {
		return "", nil
	}
	return m.gauge.name, w
}
