package synthetic

import (
	"testing"

	"fedpace/data/datatest"
	"fedpace/data/federated"
	"fedpace/internal/keyed"
	"fedpace/learn"
)

// A task's model learns a synthetic set over rounds of FedAvg, and not at
// once: chance first, then better, and still far from saturated. Cohorts are
// smaller than the paper's, which keeps this to a few seconds.
func TestSynthetic_Learnable(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("trains for some seconds; skipped with -short")
	}
	for _, c := range []struct {
		task, model    string
		cohort, rounds int
		k, batch       int
		rate           float32
		first          float64 // accuracy before training is below
		low, high      float64 // after it
	}{
		{"femnist", "mlp:784,200,200,62", 10, 12, 40, 32, 0.3, 0.05, 0.15, 0.6},
		{"sent140", "linear:5000,2", 50, 150, 60, 8, 3.0, 0.6, 0.65, 0.9},
	} {
		t.Run(c.task, func(t *testing.T) {
			s := newSynthetic(t, c.task, 0, 1, 1)
			m, err := learn.Parse(c.model)
			if err != nil {
				t.Fatal(err)
			}
			global := make([]float32, m.Params())
			m.Init(global, 1)
			kernel, err := learn.SelectKernel(learn.AutoKernel)
			if err != nil {
				t.Fatal(err)
			}
			w := m.NewWorkspace(500, kernel)
			accuracy := func() float64 {
				scores := make([]learn.Score, 1)
				for from := 0; from < 2000; from += 500 {
					if _, err := w.Evaluate(global, datatest.HeldOut(t, s, from, 500), scores); err != nil {
						t.Fatal(err)
					}
				}
				return scores[0].Sum / 2000
			}
			before := accuracy()
			var order federated.Minibatches
			var b learn.Batch
			local := make([]float32, len(global))
			for r := range c.rounds {
				sum := make([]float64, len(global))
				for i := range c.cohort {
					client := int(keyed.Below(keyed.Hash(1, keyed.Cohort, uint64(r), uint64(i)), uint64(s.Clients())))
					copy(local, global)
					order.Reset(1, client, s.Samples(client), c.batch, int64(r*c.k))
					for range c.k {
						b.Reset()
						if err := s.Batch(&b, client, order.Next()); err != nil {
							t.Fatal(err)
						}
						if _, err := w.Step(local, &b, c.rate); err != nil {
							t.Fatal(err)
						}
					}
					for j, x := range local {
						sum[j] += float64(x)
					}
				}
				for j := range global {
					global[j] = float32(sum[j] / float64(c.cohort))
				}
			}
			after := accuracy()
			t.Logf("accuracy %.3f, after %d rounds %.3f", before, c.rounds, after)
			if before > c.first || after < c.low || after > c.high {
				t.Errorf("accuracy %.3f before (want at most %.2f), %.3f after (want %.2f to %.2f)", before, c.first, after, c.low, c.high)
			}
		})
	}
}
