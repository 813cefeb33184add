package actors

import (
	"slices"
	"testing"

	"fedpace/algorithm"
	"fedpace/internal/testkit/slow"
	"fedpace/learn"
)

// A trainer of another process has personal parameters as steps here have them, to the bits: its
// tensors lie in another order there, and behind what travels stand running means, which do, and
// before what is frozen. Its optimizer's memory and a residual are kept beside them.
func TestPersonal_ExternalTrainerHasPersonalParameters(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	model, set, base := world(t)
	const first, buffers, frozen = 784*12 + 12, 5, 7
	kept := momentum
	kept.Keep = true
	p := Problem{Set: set, Seed: 1, Batch: 32, Augment: NoAugment, Algorithm: algorithm.Default, Optimizer: kept, Kernel: fastest(t), Compression: algorithm.TopK{Share: 0.3, Feedback: true}}
	trainers := make([]*Trainer, 2)
	for i := range trainers {
		p := p
		p.Model = learn.ModelInfo(model)
		if i == 1 {
			p.Trainer = program(t, set, "-model", model.String(), "-buffers", "5", "-frozen", "7")
			p.Model = p.Trainer.Model()
		}
		m, err := learn.NewPersonal(p.Model, []string{"0"}, 0)
		if err != nil {
			t.Fatal(err)
		}
		p.Model = m
		trainers[i], err = NewTrainer(p)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := trainers[i].Close(); err != nil {
				t.Error(err)
			}
		})
	}
	n := len(base) - first // of the last layer, which is shared
	models := [2][]float32{slices.Concat(base[first:], base[:first]), slices.Concat(base[first:], make([]float32, buffers), base[:first], make([]float32, frozen))}
	for i := range frozen {
		models[1][len(base)+buffers+i] = float32(i) / 7
	}
	var work [2][]Assignment
	for i := range work {
		work[i] = slices.Clone(someWork)
	}
	for round := range 3 {
		var sums [2][]int64
		for i, w := range trainers {
			sums[i] = make([]int64, len(models[i]))
			outcomes, err := w.Train(t.Context(), models[i], &Shared{Residuals: true}, work[i], sums[i])
			if err != nil {
				t.Fatal(err)
			}
			for j, o := range outcomes {
				work[i][j].State = o.State
			}
			sends := slices.ContainsFunc(outcomes, func(o Outcome) bool { return len(o.Buffers) > 0 })
			if sends != (i == 1) {
				t.Fatalf("round %d, trainer %d: buffers are sent: %v", round, i, sends)
			}
		}
		if !slices.Equal(sums[0][:n], sums[1][:n]) {
			t.Fatalf("round %d: another sum", round)
		}
		if still := func(x int64) bool { return x != 0 }; slices.ContainsFunc(sums[0][n:], still) || slices.ContainsFunc(sums[1][n:], still) {
			t.Fatalf("round %d: what is personal or frozen is sent", round)
		}
		for j := range someWork {
			own := func(i int) []float32 {
				v := work[i][j].State
				return v[len(v)-1-first : len(v)-1]
			}
			if !slices.Equal(own(0), own(1)) || slices.Equal(own(0), base[:first]) {
				t.Fatalf("round %d, task %d: another part of its own", round, j)
			}
		}
		for i := range models {
			algorithm.Default.Server(len(models[i])).Apply(models[i], sums[i], 1)
		}
	}
	for j, a := range someWork {
		var losses [2]float64
		for i, w := range trainers {
			loss, _, err := w.Evaluate(t.Context(), models[i], Measured{Client: a.Client, Count: 20, State: work[i][j].State})
			if err != nil {
				t.Fatal(err)
			}
			shared, _, err := w.Evaluate(t.Context(), models[i], Measured{Client: a.Client, Count: 20})
			losses[i] = loss
			if err != nil || !(loss < shared) {
				t.Errorf("client %d: its own model has the loss %g, the shared one %g, %v", a.Client, loss, shared, err)
			}
		}
		if losses[0] != losses[1] {
			t.Errorf("client %d: losses %v", a.Client, losses)
		}
	}
}
