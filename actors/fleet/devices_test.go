package fleet

import (
	"math"
	"strings"
	"testing"
)

// boards returns the configuration of a fleet of phones with this weight, with two classes of boards for real devices.
func boards(phones float64) Config {
	return Config{Network: Network{DownloadMbps: 20, UploadMbps: 5}, Compute: Compute{SecondsPerStep: 0.017}, Fleet: []Class{
		{Name: "pi4", SecondsPerStep: Constant{Value: 0.2}},
		{Name: "phone", Weight: phones},
		{Name: "pi5", SecondsPerStep: Lognormal{Median: 0.1, Sigma: 0.5}, Vary: Vary{Upload: Lognormal{Median: 1, Sigma: 0.2}}},
	}, Devices: []string{"pi5", "", "pi4"}}
}

// A device with a class takes what a simulated client of that class takes, one without a
// class what any client does, and the simulated clients draw as if there were no devices.
func TestDevices_HaveTheirClasses(t *testing.T) {
	const clients = 300
	bits := SameBits(6_710_000)
	f, err := NewFleet(boards(1), 3)
	if err != nil {
		t.Fatal(err)
	}
	for client := range 2 * clients {
		if k := f.Class(client); k != 1 {
			t.Fatalf("client %d is a %s before there are devices", client, f.Classes()[k])
		}
		if k := f.DeviceClass(client); k != NoClass {
			t.Fatalf("client %d is a device of class %d before there are devices", client, k)
		}
	}
	f.SetDevices(clients)
	of := boards(0)
	of.Fleet, of.Devices = of.Fleet[2:], nil
	alone, err := NewFleet(of, 3)
	if err != nil {
		t.Fatal(err)
	}
	for client := range clients + 5 {
		class, known := 1, NoClass
		switch client {
		case clients:
			class, known = 2, 2
		case clients + 2:
			class, known = 0, 0
		}
		if f.Class(client) != class || f.DeviceClass(client) != known {
			t.Fatalf("client %d has class %d, as a device %d; want %d and %d", client, f.Class(client), f.DeviceClass(client), class, known)
		}
		got, err := f.Plan(f.Client(client), 7, 80, bits, 0)
		if err != nil {
			t.Fatal(err)
		}
		want := Plan{Durations: Durations{335_500_000, 80 * 17_000_000, 1_342_000_000}}
		switch class {
		case 0:
			want.Compute = 80 * 200_000_000
		case 2:
			want, err = alone.Plan(alone.Client(client), 7, 80, bits, 0)
			if err != nil {
				t.Fatal(err)
			}
		}
		if got != want {
			t.Fatalf("client %d takes %+v, want %+v", client, got, want)
		}
	}
}

// Only classes of devices may have no weight beside others.
func TestDevices_ClassOfDevicesAlone(t *testing.T) {
	c := boards(1)
	c.Devices = c.Devices[:2]
	if _, err := NewFleet(c, 1); err == nil || !strings.HasPrefix(err.Error(), "fleet[0].weight: is not set") {
		t.Errorf("a class that no device has: %v", err)
	}
	c.Devices = []string{"", "pi"}
	if err := c.Check(); err == nil || err.Error() != `devices[1]: "pi" is no class of the fleet` {
		t.Errorf("a device of an unknown class: %v", err)
	}
}

// The mean of a class is that of a fleet of that class alone.
func TestDevices_MeanOfClass(t *testing.T) {
	c := boards(1)
	f, err := NewFleet(c, 3)
	if err != nil {
		t.Fatal(err)
	}
	for i, k := range c.Fleet {
		of := c
		k.Weight = 0
		of.Fleet, of.Devices = []Class{k}, nil
		alone, err := NewFleet(of, 3)
		if err != nil {
			t.Fatal(err)
		}
		want, err := alone.Mean(80, SameBits(6_710_000))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := f.MeanOf(i, 80, SameBits(6_710_000)); err != nil || got != want {
			t.Errorf("class %s takes %+v, %v in the mean; alone %+v", k.Name, got, err, want)
		}
	}
}

// An overhead adds to every phase in which something is done, in plans, means and
// expectations alike, unstretched by slowdowns and unchanged by what varies.
func TestDevices_Overhead(t *testing.T) {
	bits := SameBits(6_710_000)
	for name, k := range map[string]Class{
		"constant": {Name: "a"},
		"varied":   {Name: "a", UploadMbps: Lognormal{Median: 3, Sigma: 1}, Vary: Vary{Compute: Lognormal{Mean: 1, Sigma: 0.4}}, StepCV: 0.2},
		"slowed":   {Name: "a", Slowdown: SlowPeriods{EverySeconds: 60, ForSeconds: 30, Factor: Constant{Value: 4}}},
	} {
		c := Config{Network: Network{DownloadMbps: 20, UploadMbps: 5}, Compute: Compute{SecondsPerStep: 0.017}, Fleet: []Class{k}}
		without, err := NewFleet(c, 5)
		if err != nil {
			t.Fatal(err)
		}
		c.Fleet = []Class{k}
		c.Fleet[0].Overhead = Overhead{Download: 0.012, Compute: 0.003, Upload: 0.02}
		with, err := NewFleet(c, 5)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range []struct {
			steps int
			bits  Bits
			want  Durations
		}{
			{80, bits, Durations{12_000_000, 3_000_000, 20_000_000}},
			{80, Bits{}, Durations{0, 3_000_000, 0}},
			{0, bits, Durations{12_000_000, 0, 20_000_000}},
			{1, Bits{Down: 5}, Durations{12_000_000, 3_000_000, 0}},
		} {
			for what, f := range map[string]func(*Fleet) (Durations, error){
				"a task":          func(f *Fleet) (Durations, error) { return f.Durations(4, 9, x.steps, x.bits, 3) },
				"the mean":        func(f *Fleet) (Durations, error) { return f.Mean(x.steps, x.bits) },
				"the class's":     func(f *Fleet) (Durations, error) { return f.MeanOf(0, x.steps, x.bits) },
				"the expectation": func(f *Fleet) (Durations, error) { return f.Expect(4, x.steps, x.bits) },
			} {
				if name == "slowed" && what != "the expectation" {
					continue // phases begin later, in other spells
				}
				a, err := f(without)
				if err != nil {
					t.Fatal(err)
				}
				b, err := f(with)
				if err != nil {
					t.Fatal(err)
				}
				if got := (Durations{b.Download - a.Download, b.Compute - a.Compute, b.Upload - a.Upload}); got != x.want {
					t.Errorf("%s, %d steps of %+v: %s has an overhead of %+v, want %+v", name, x.steps, x.bits, what, got, x.want)
				}
			}
		}
		if a, b := without.Soonest(bits), with.Soonest(bits); b-a != 32_000_000 {
			t.Errorf("%s: no task is shorter than %d ns, and than %d with an overhead of 32 ms", name, a, b)
		}
	}
	for _, seconds := range []float64{-1, 1e7, math.NaN()} {
		c := Config{Network: Network{DownloadMbps: 20, UploadMbps: 5}, Fleet: []Class{{Name: "a", Overhead: Overhead{Upload: seconds}}}}
		if err := c.Check(); err == nil || !strings.HasPrefix(err.Error(), "fleet[0].overhead.upload: ") {
			t.Errorf("an overhead of %g s: %v", seconds, err)
		}
	}
}

// Classes with a count have the first clients, exactly; the others are drawn by weight.
func TestDevices_CountedClients(t *testing.T) {
	f, err := NewFleet(Config{Network: Network{DownloadMbps: 1, UploadMbps: 1}, Fleet: []Class{{Name: "a", Count: 3}, {Name: "b", Weight: 1}, {Name: "c", Count: 2, Weight: 1}}}, 7)
	if err != nil {
		t.Fatal(err)
	}
	var classes [3]int
	for client := range 1005 {
		class := f.Class(client)
		classes[class]++
		if want := []int{0, 0, 0, 2, 2}; client < len(want) && class != want[client] {
			t.Errorf("client %d is of class %d, want %d", client, class, want[client])
		}
	}
	if classes[0] != 3 || classes[1] < 400 || classes[2] < 402 {
		t.Errorf("%d clients by class", classes)
	}
	f, err = NewFleet(Config{Network: Network{DownloadMbps: 1, UploadMbps: 1}, Fleet: []Class{{Name: "rest"}, {Name: "a", Count: 3}}}, 7)
	if err != nil {
		t.Fatal(err)
	}
	for client := range 100 { // without weights, too
		if class := f.Class(client); (class == 1) != (client < 3) {
			t.Errorf("client %d is of class %d", client, class)
		}
	}
}
