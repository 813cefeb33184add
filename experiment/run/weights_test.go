package run

import (
	"math"
	"testing"

	"fedpace/config"
	"fedpace/experiment/folder"
	"fedpace/experiment/runtest"
)

// Updates weigh by the samples that their steps took. The steps of two clients of unlike speed are
// fitted, so that they arrive together, the slower one a little before: the model is then as far from
// its own towards the other's as the shares of their steps say.
func TestWeights_StepsTaken(t *testing.T) {
	t.Parallel()
	few, many := 0, 0
	model := func(sets ...string) []float32 {
		c := runtest.Convex(t, config.TaskLogistic, append([]string{
			"clients=2", "cohort=2", "stop.rounds=1", "schedule.k=fixed", "schedule.k0=12", "select=fit",
			"fleet=[{name: slow, count: 1, seconds_per_step: 0.3}, {name: fast, count: 1, seconds_per_step: 0.1}]",
		}, sets...)...)
		_, x := last(t, c)
		r, err := folder.Open(c.Out)
		if err != nil {
			t.Fatal(err)
		}
		for now := range r.Follow() {
			few, many = now.Report.Steps.Smallest, now.Report.Steps.Largest
		}
		return x
	}
	slow := model("close={rule: first, n: 1}")
	equal := model()
	taken := model("aggregate.weights=taken")
	share, length := 0., 0.
	for i := range slow {
		to := 2 * (float64(slow[i]) - float64(equal[i])) // from the fast one's
		share += to * (float64(taken[i]) - float64(slow[i]) + to)
		length += to * to
	}
	share /= length
	if want := float64(few) / float64(few+many); few >= many || math.Abs(share-want) > 1e-5 {
		t.Errorf("of %d and %d steps the shorter task weighs %.6f, want %.6f", few, many, share, want)
	}
}
