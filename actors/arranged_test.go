package actors

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"fedpace/data/federated"
	_ "fedpace/internal/testkit/testseed"
	"fedpace/learn"
)

// A trainer that adds only what steps have changed gives the sums, the losses and the errors of one that
// adds whole models, job after job, and however a job's clients are grouped.
func TestTrainer_ArrangedSums(t *testing.T) {
	_, set, _ := world(t)
	for _, layers := range []string{"mlp:784,14,62", "mlp:784,16,24,62"} {
		t.Run(layers, func(t *testing.T) { sameSums(t, layers, set) })
	}
}

// sameSums compares trainers of a model that is arranged and one that is not.
func sameSums(t *testing.T, layers string, set federated.Set) {
	model, err := learn.Parse(layers)
	if err != nil {
		t.Fatal(err)
	}
	base := make([]float32, model.Params())
	arranged, plain := trainer(t, model, set), trainer(t, model, set)
	if arranged.steps.(*goSteps).arranged == nil {
		t.Fatal("the steps are not arranged")
	}
	plain.sendsPlainUpdates = false
	rapid.Check(t, func(rt *rapid.T) {
		model.Init(base, rapid.Uint64Range(1, 9).Draw(rt, "model"))
		var work []Assignment
		for i := range rapid.IntRange(1, 5).Draw(rt, "clients") {
			work = append(work, Assignment{
				Task:       uint64(i + 1),
				Client:     rapid.IntRange(0, set.Clients()-1).Draw(rt, "client"),
				LocalSteps: rapid.IntRange(0, 4).Draw(rt, "steps"),
				StepsDone:  int64(rapid.IntRange(0, 100).Draw(rt, "steps done")),
				Rate:       rapid.SampledFrom([]float64{0.3, 0.3, 0.3, 1e9, 1e30}).Draw(rt, "rate"),
				Batch:      rapid.SampledFrom([]int{0, 1, 7, 32}).Draw(rt, "batch"),
				Weight:     rapid.SampledFrom([]float64{0, 0.1, 0.2}).Draw(rt, "weight"),
			})
		}
		want := make([]int64, len(base))
		outcomes, failure := plain.Train(t.Context(), base, nil, work, want)
		got := make([]int64, len(base))
		all, err := arranged.Train(t.Context(), base, nil, work, got)
		if message(err) != message(failure) {
			rt.Fatalf("the error is %v, want %v", err, failure)
		}
		if failure != nil {
			return
		}
		if diff := cmp.Diff(outcomes, all); diff != "" {
			rt.Fatal(diff)
		}
		cut := rapid.IntRange(0, len(work)).Draw(rt, "clients of the first job")
		parts := make([]int64, len(base))
		for _, job := range [][]Assignment{work[cut:], work[:cut]} {
			if _, err := arranged.Train(t.Context(), base, nil, job, parts); err != nil {
				rt.Fatal(err)
			}
		}
		if !slices.Equal(got, want) || !slices.Equal(parts, want) {
			rt.Fatal("the sums differ")
		}
	})
}

// message returns the text of an error, empty for nil.
func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
