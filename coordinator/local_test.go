package coordinator_test

import (
	"slices"
	"testing"

	"fedpace/coordinator/closing"
	"fedpace/coordinator/selection"
	"fedpace/learn"
)

// A client's optimizer and the size of its minibatches are its own: whoever trains, and
// however rounds are split, every model is that of the reference, which trains each task
// by itself. A run that is only timed has the same history.
func TestLocal_ThroughBus(t *testing.T) {
	t.Parallel()
	plain, fleet := newLab(t), ruleFleet(t)
	l := *plain
	l.problem.LargestBatch = 16
	l.batch = func(client int) int { return []int{0, 3, 16}[client%3] }
	for _, x := range []struct {
		name      string
		optimizer learn.Optimizer
		closing   closing.Rule
		choose    selection.Rule
	}{
		{"momentum by a deadline", learn.SGD{Momentum: 0.9, Nesterov: true, WeightDecay: 0.01, Clipping: learn.Clipping{Clip: 1}}, closing.Deadline{Seconds: 0.5}, nil},
		{"adam in rounds that overlap", learn.Adam{Moments: learn.Moments{Beta1: 0.9, Beta2: 0.99, Eps: 1e-3}}, closing.Buffered{N: 3, StalenessLimit: 2}, nil},
		{"own minibatches, chosen by losses", nil, closing.All{}, selection.PowerOfChoice{Candidates: 11}},
	} {
		t.Run(x.name, func(t *testing.T) {
			l := l
			l.problem.Optimizer = x.optimizer
			c := ruleConfig(&l, fleet, x.closing, x.choose)
			params, fingerprint, _ := reference(t, &l, fleet, c)
			for _, n := range []struct{ hosts, jobs int }{{1, 1}, {3, 4}} {
				got := ruleRun(t, &l, fleet, c, n.hosts, n.jobs)
				if got.Fingerprint != fingerprint || !slices.Equal(got.Params, params) {
					t.Errorf("%d hosts: fingerprint %x, want %x; the same model: %v", n.hosts, got.Fingerprint, fingerprint, slices.Equal(got.Params, params))
				}
			}
			if got := ruleRun(t, plain, fleet, c, 1, 1); slices.Equal(got.Params, params) {
				t.Error("plain steps in minibatches of one size end with the same model")
			}
			if x.choose != nil {
				return
			}
			c.Train = false
			if got := ruleRun(t, &l, fleet, c, 1, 1); got.Fingerprint != fingerprint {
				t.Errorf("without training: fingerprint %x, want %x", got.Fingerprint, fingerprint)
			}
		})
	}
}
