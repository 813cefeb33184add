package fit

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"fedpace/actors/fleet"
)

// What a run cannot say of another one: three devices that are all alike, and each as fast as ever,
// take longer in a run in which each has a pace of its own, since the slowest sets the round. The mean
// of the slowest of three lognormal paces is drawn here anew.
func TestFit_Unknown(t *testing.T) {
	const alike = "fleet: [{name: a, download_mbps: 20, upload_mbps: 5, seconds_per_step: 0.04, overhead: {compute: 0.05}}]\ndevices: {names: {pi1: a, pi2: a, pi3: a}}\n"
	for _, k := range []struct {
		steps func(int) int
		says  bool
	}{{decay, false}, {func(int) int { return 20 }, true}} {
		dir := made{text: three, classes: alike, rounds: 40, steps: k.steps}.play(t)
		f, err := Run(dir, false)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(f.remarks(), "K was too much alike to tell"); got != k.says {
			t.Errorf("K alike: %v, said: %v", k.says, got)
		}
		if c := f.Check; math.Abs(c.Another.Value/c.RoundSeconds-1) > 0.01 || math.Abs(c.Another.High-c.Another.Low) > 0.01*c.RoundSeconds {
			t.Errorf("devices as fast as ever take %+v in another run, %g s in this one", c.Another, c.RoundSeconds)
		}
		const u = 0.3
		over := 0.0
		for i := range f.Devices {
			classOf(&f.config, f.Devices[i].Class).Uncertainty = fleet.Uncertainty{Compute: u}
			over = f.Devices[i].model.phases[compute].overhead
		}
		r, err := readRecord(dir)
		if err != nil {
			t.Fatal(err)
		}
		c, err := f.compareWithRun(r)
		if err != nil {
			t.Fatal(err)
		}
		random, slowest := rand.New(rand.NewPCG(3, 3)), 0.0
		const draws = 200_000
		for range draws {
			pace := func() float64 { return math.Exp(math.Sqrt(math.Log(1+u*u)) * random.NormFloat64()) }
			slowest += max(pace(), pace(), pace()) / draws
		}
		want := 0.0
		for _, s := range r.comparableRounds() {
			work := float64(s.tasks[0].steps)*0.04 + 0.05 - over
			want += s.took + work*(slowest-1)
		}
		if math.Abs(c.Another.Value/want-1) > 0.02 || !(c.Another.Low < want && want < c.Another.High) {
			t.Errorf("another run takes %+v, want %g", c.Another, want)
		}
		if math.Abs(c.FittedRoundSeconds/c.RoundSeconds-1) > 0.01 {
			t.Errorf("this run takes %g s of %g s", c.FittedRoundSeconds, c.RoundSeconds)
		}
	}
}

// Where steps are next to nothing beside what a task takes besides, that is all but a tenth of the
// shortest task, and said to lie up to all of it.
func TestFit_NearlyAllOverhead(t *testing.T) {
	var steps, seconds []float64
	for i := range 40 {
		k := float64(1 + i%8)
		steps, seconds = append(steps, k), append(seconds, 1+0.001*k+1e-5*float64(i%3))
	}
	if e, slope := overheadOfSteps(steps, seconds, 0); math.Abs(e.Value-0.9009) > 1e-9 || e.Low != e.Value || e.High < 0.9999 || e.High > 1.001 || slope.Value < 0.0009 || slope.Value > 0.0011 {
		t.Errorf("an overhead of %+v and %+v a step, want 0.9 of 1.001, up to 1, and 0.001", e, slope)
	}
}
