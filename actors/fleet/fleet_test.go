package fleet

import (
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// The paper's tasks (Tables 1 and 2) by Eq. 3, worked out by hand in ns.
func TestFleet_ConstantDevicesFollowEq3(t *testing.T) {
	for _, c := range []struct {
		task  string
		beta  float64
		bits  int64
		steps int
		want  Durations
	}{
		{"sent140", 5.2e-3, 320_000, 60, Durations{16_000_000, 312_000_000, 64_000_000}},
		{"femnist", 0.017, 6_710_000, 80, Durations{335_500_000, 1_360_000_000, 1_342_000_000}},
		{"cifar100", 0.31, 40_000_000, 50, Durations{2_000_000_000, 15_500_000_000, 8_000_000_000}},
		{"shakespeare", 1.5, 5_210_000, 80, Durations{260_500_000, 120_000_000_000, 1_042_000_000}},
		{"one step", 0.017, 0, 1, Durations{0, 17_000_000, 0}},
	} {
		f, err := NewFleet(Config{Network: Network{DownloadMbps: 20, UploadMbps: 5}, Compute: Compute{SecondsPerStep: c.beta}}, 1)
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.Durations(3, 7, c.steps, SameBits(c.bits), 0)
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.task, got, err, c.want)
		}
	}
}

// Table 2's FEMNIST times: the sum of K normal times is normal with mean K beta
// and standard deviation sqrt(K) std (Kolmogorov-Smirnov at 1e-6: the bound is
// 2.69/sqrt(n)), differs between clients and tasks, and repeats for one key.
func TestFleet_NormalStepTimes(t *testing.T) {
	const n, steps = 200_000, 80
	c := Config{Network: Network{DownloadMbps: 20, UploadMbps: 5}, Compute: Compute{SecondsPerStep: 0.017, Std: 5.1e-4}}
	f, err := NewFleet(c, 1)
	if err != nil {
		t.Fatal(err)
	}
	draws := make([]float64, n)
	for i := range draws {
		d, err := f.Durations(i%500, uint64(i/500), steps, SameBits(0), 0)
		if err != nil {
			t.Fatal(err)
		}
		draws[i] = float64(d.Compute) / 1e9
	}
	again, _ := f.Durations(7, 3, steps, SameBits(0), 0)
	if got := float64(again.Compute) / 1e9; got != draws[3*500+7] {
		t.Errorf("one key gives %g and %g s", draws[3*500+7], got)
	}
	want := distuv.Normal{Mu: steps * c.Compute.SecondsPerStep, Sigma: math.Sqrt(steps) * c.Compute.Std}
	stat.SortWeighted(draws, nil)
	worst := 0.0
	for i, x := range draws {
		p := want.CDF(x)
		worst = max(worst, math.Abs(p-float64(i)/n), math.Abs(p-float64(i+1)/n))
	}
	if bound := 2.69 / math.Sqrt(n); worst > bound {
		t.Errorf("distance to the normal law is %g, want at most %g", worst, bound)
	}
}

// A standard deviation far above the mean never gives a negative time.
func TestFleet_TimesAreNeverNegative(t *testing.T) {
	f, err := NewFleet(Config{Network: Network{DownloadMbps: 20, UploadMbps: 5}, Compute: Compute{SecondsPerStep: 0.001, Std: 1}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	zero := 0
	for i := range 10_000 {
		d, err := f.Durations(i, 1, 1, SameBits(0), 0)
		if err != nil || d.Compute < 0 {
			t.Fatalf("client %d: %+v, %v", i, d, err)
		}
		if d.Compute == 0 {
			zero++
		}
	}
	if zero < 4500 || zero > 5500 {
		t.Errorf("%d of 10000 times are cut at zero, expected about half", zero)
	}
}

func TestFleet_BadSpeeds(t *testing.T) {
	good := Config{Network: Network{DownloadMbps: 20, UploadMbps: 5}, Compute: Compute{SecondsPerStep: 0.017}}
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"negative bandwidth", func(c *Config) { c.Network.DownloadMbps = -1 }, "network.download_mbps: -1 is out of range"},
		{"no bandwidth", func(c *Config) { c.Network.UploadMbps = 0 }, "network.upload_mbps: 0 is out of range"},
		{"not a number", func(c *Config) { c.Compute.SecondsPerStep = math.NaN() }, "compute.seconds_per_step: NaN"},
		{"infinite", func(c *Config) { c.Compute.Std = math.Inf(1) }, "compute.std: +Inf"},
		{"absurd", func(c *Config) { c.Compute.SecondsPerStep = 1e9 }, "compute.seconds_per_step: 1000000000 is out of range"},
	} {
		bad := good
		c.change(&bad)
		if _, err := NewFleet(bad, 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
	slow := good
	slow.Network.DownloadMbps = 1e-9
	f, err := NewFleet(slow, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Durations(1, 2, 3, SameBits(1e12), 0); err == nil || !strings.Contains(err.Error(), "task 2 of client 1") {
		t.Errorf("a transfer of ages: error %v", err)
	}
}
