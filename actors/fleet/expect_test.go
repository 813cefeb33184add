package fleet

import (
	"math"
	"testing"
)

// Where nothing varies from task to task the expected time is the time.
func TestExpect_IsExactWhereNothingVaries(t *testing.T) {
	own := Class{Name: "own", DownloadMbps: Lognormal{Mean: 20, Sigma: 0.5}, UploadMbps: Uniform{Min: 1, Max: 5}, SecondsPerStep: Pareto{Min: 0.01, Shape: 2}}
	for name, c := range map[string]Config{
		"alike":   {Network: Network{DownloadMbps: 20, UploadMbps: 5}, Compute: Compute{SecondsPerStep: 0.017}},
		"classes": {Network: Network{DownloadMbps: 20, UploadMbps: 5}, Compute: Compute{SecondsPerStep: 0.017}, Fleet: []Class{own, {Name: "plain"}}},
	} {
		f, err := NewFleet(c, 3)
		if err != nil {
			t.Fatal(err)
		}
		for client := range 200 {
			got, err := f.Expect(client, 80, SameBits(6_710_000))
			if err != nil {
				t.Fatal(err)
			}
			want, err := f.Durations(client, 9, 80, SameBits(6_710_000), 5)
			if err != nil {
				t.Fatal(err)
			}
			// A step of a fixed time counts as whole nanoseconds; others do not.
			if got.Download != want.Download || got.Upload != want.Upload || math.Abs(float64(got.Compute-want.Compute)) > 80 {
				t.Fatalf("%s: client %d is expected to take %+v, and takes %+v", name, client, got, want)
			}
		}
	}
}

// The middle of measured factors is that of their values, in whatever order they are.
func TestExpect_OfMeasuredFactors(t *testing.T) {
	for _, values := range [][]float64{{1, 2, 30}, {30, 1, 2}, {2, 30, 1}} {
		f, err := NewFleet(Config{Network: Network{DownloadMbps: 20, UploadMbps: 5}, Fleet: []Class{{
			Name: "measured", SecondsPerStep: Constant{Value: 0.01}, Vary: Vary{Compute: Empirical{Values: values}},
		}}}, 1)
		if err != nil {
			t.Fatal(err)
		}
		d, err := f.Expect(0, 50, SameBits(0))
		if err != nil || d.Compute != 1e9 {
			t.Errorf("50 steps of 0.01 s with factors %v are expected to take %d ns, want 1e9: %v", values, d.Compute, err)
		}
	}
}

// Half of the tasks take longer than their factor at the median, and slowdowns
// add their long run's share.
func TestExpect_IsTypical(t *testing.T) {
	f, err := NewFleet(Config{Network: Network{DownloadMbps: 20, UploadMbps: 5}, Fleet: []Class{{
		Name: "varies", SecondsPerStep: Lognormal{Mean: 0.02, Sigma: 1}, Vary: Vary{Compute: Lognormal{Median: 3, Sigma: 0.7}},
	}}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	longer := 0
	const tasks = 4000
	for task := range uint64(tasks) {
		client := int(task % 17)
		expected, err := f.Expect(client, 50, SameBits(0))
		if err != nil {
			t.Fatal(err)
		}
		if d, _ := f.Durations(client, task, 50, SameBits(0), 0); d.Compute > expected.Compute {
			longer++
		}
	}
	if longer < tasks*46/100 || longer > tasks*54/100 {
		t.Errorf("%d of %d tasks take longer than expected, want half", longer, tasks)
	}

	slow, err := NewFleet(Config{Network: Network{DownloadMbps: 1, UploadMbps: 1}, Compute: Compute{SecondsPerStep: 1},
		Slowdown: SlowPeriods{EverySeconds: 100, ForSeconds: 50, Factor: Constant{Value: 4}}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	mean, err := slow.Mean(80, SameBits(1e6))
	if err != nil {
		t.Fatal(err)
	}
	if d, err := slow.Expect(7, 80, SameBits(1e6)); err != nil || d != mean {
		t.Errorf("with slowdowns %+v, %v; the mean is %+v", d, err, mean)
	}
}

func TestExpect_GrowsWithSteps(t *testing.T) {
	f, err := NewFleet(Config{Network: Network{DownloadMbps: 1, UploadMbps: 1}, Compute: Compute{SecondsPerStep: 1e-9},
		Slowdown: SlowPeriods{EverySeconds: 100, ForSeconds: 50, Factor: Constant{Value: 3}}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	last := Durations{}
	for steps := range 1000 {
		d, err := f.Expect(0, steps, SameBits(1e6))
		if err != nil || d.Total() < last.Total() {
			t.Fatalf("%d steps: %+v after %+v, %v", steps, d, last, err)
		}
		last = d
	}
	if _, err := f.Expect(0, -1, SameBits(1)); err == nil {
		t.Error("a negative number of steps is expected to take no time")
	}
	if _, err := f.Expect(0, 1, SameBits(math.MaxInt64)); err == nil {
		t.Error("a transfer of years is expected to end")
	}
}
