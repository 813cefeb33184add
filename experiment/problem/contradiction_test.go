package problem

import (
	"math"
	"strings"
	"testing"

	"fedpace/actors/fleet"
	"fedpace/bus"
	"fedpace/config"
)

// Who has a class is compared with it, phase by phase, by what is beyond nine tenths of the class's
// tasks; another class is named where it fits. 40 Mbit take 2 s and 8 s with the network's speeds, and
// K_0 = 10 steps 1 s with class pi4, 5 s with pi3. The noisy class's own factors are 0.5, 1 and 2.
func TestContradiction_OfClass(t *testing.T) {
	c, err := config.Load("", []string{
		"clients=2", "cohort=2", "schedule.k0=10", "network.model_megabits=40", "network.download_mbps=20", "network.upload_mbps=5",
		"fleet=[{name: pi4, weight: 1, seconds_per_step: 0.1}, {name: pi3, weight: 1, seconds_per_step: 0.4, overhead: {compute: 1}}, {name: noisy, seconds_per_step: 0.8, vary: {compute: {dist: empirical, values: [0.5, 1, 2]}}}, {name: unsure, seconds_per_step: 0.1, uncertainty: {compute: 0.5}}]",
		"devices.names={a: pi4, b: noisy, c: null, d: unsure}",
	})
	if err != nil {
		t.Fatal(err)
	}
	p := newProblem(c, nil)
	p.Bits = fleet.SameBits(40e6)
	p.Fleet, err = p.Config.NewFleet()
	if err != nil {
		t.Fatal(err)
	}
	p.Fleet.SetDevices(2)
	nan := math.NaN()
	for _, x := range []struct {
		client int
		took   [3]float64
		want   []string // empty: nothing
	}{
		{2, [3]float64{2, 1, 8}, nil},
		{2, [3]float64{3, 2, 8.5}, nil}, // 2.5 s of 11 s
		{2, [3]float64{nan, 1.2, nan}, nil},
		{2, [3]float64{nan, 1.3, nan}, []string{"a task of 10 steps takes 1.3 s, and 1 to 1 s with class pi4", "class unsure fits"}},
		{2, [3]float64{nan, 5.2, nan}, []string{"class pi3 fits"}},
		{2, [3]float64{2, 1, 20}, []string{"an upload takes 20 s, and 8 to 8 s with class pi4", "no class of the fleet fits"}},
		{2, [3]float64{0.1, 1, 8}, nil}, // far off, and little of the task
		{2, [3]float64{0.1, nan, nan}, []string{"a download takes 0.1 s"}},
		{3, [3]float64{nan, 4, nan}, nil},
		{3, [3]float64{nan, 16, nan}, nil},
		{3, [3]float64{nan, 2, nan}, []string{"4 to 16 s with class noisy", "class unsure fits"}},
		{4, [3]float64{9, 9, 9}, nil},
		{5, [3]float64{nan, 2, nan}, nil},
		{0, [3]float64{9, 9, 9}, nil},
	} {
		got := p.TaskContradiction(x.client, 10, x.took)
		for _, want := range x.want {
			if !strings.Contains(got, want) {
				t.Errorf("client %d, %v: %q does not say %q", x.client, x.took, got, want)
			}
		}
		if len(x.want) == 0 && got != "" {
			t.Errorf("client %d, %v: %q", x.client, x.took, got)
		}
	}
	slow := &bus.Measured{Model: "other", Batch: 32, SecondsPerStep: 9, DownloadMbps: 20, DownloadSeconds: 0.1, UploadMbps: 5}
	if got := p.CalibrationContradiction(2, []*bus.Measured{slow}); got != "" {
		t.Errorf("steps of another model contradict: %q", got)
	}
	slow.UploadMbps = 1
	if got := p.CalibrationContradiction(2, []*bus.Measured{slow}); !strings.HasPrefix(got, "an upload takes 40 s, and 8 to 8 s with class pi4") {
		t.Errorf("a slow link: %q", got)
	}
}
