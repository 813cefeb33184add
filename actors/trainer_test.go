package actors

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fedpace/actors/data"
	"fedpace/actors/learn"
)

// world is a small learning problem on synthetic FEMNIST.
func world(t testing.TB) (learn.Model, data.Set, []float32) {
	t.Helper()
	model, err := learn.Parse("mlp:784,12,62")
	if err != nil {
		t.Fatal(err)
	}
	set, err := data.Synthetic("femnist", 200, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := set.Close(); err != nil {
			t.Error(err)
		}
	})
	base := make([]float32, model.Params())
	model.Init(base, 1)
	return model, set, base
}

func trainer(t testing.TB, model learn.Model, set data.Set) *Trainer {
	t.Helper()
	w, err := NewTrainer(model, set, 1, 32)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// Algorithm 1, lines 5 to 8, written out: K steps from the global model on the
// client's minibatches, the first step's loss, the weighted exact update.
func TestTrainIsAlgorithm1(t *testing.T) {
	model, set, base := world(t)
	work := []Assignment{
		{Task: 1, Client: 3, LocalSteps: 5, StepsDone: 0, Rate: 0.3, Weight: 0.25},
		{Task: 2, Client: 7, LocalSteps: 2, StepsDone: 40, Rate: 0.3, Weight: 0.75},
	}
	got := make([]int64, len(base))
	losses, err := trainer(t, model, set).Train(t.Context(), base, Method{}, work, got)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]int64, len(base))
	for i, a := range work {
		local := slices.Clone(base)
		step := model.NewWorkspace(32)
		var order data.Minibatches
		order.Reset(1, a.Client, set.Samples(a.Client), 32, 0)
		for range a.StepsDone {
			order.Next()
		}
		for k := range a.LocalSteps {
			var b learn.Batch
			if err := set.Batch(&b, a.Client, order.Next()); err != nil {
				t.Fatal(err)
			}
			loss, err := step.Step(local, &b, float32(a.Rate))
			if err != nil {
				t.Fatal(err)
			}
			if k == 0 && loss != losses[i].FirstStepLoss {
				t.Errorf("task %d: first-step loss %g, want %g", a.Task, losses[i].FirstStepLoss, loss)
			}
		}
		for j, x := range local {
			want[j] += int64(math.RoundToEven(a.Weight * (float64(x) - float64(base[j])) * (1 << 44)))
		}
	}
	if !slices.Equal(got, want) {
		t.Error("the sum differs from Algorithm 1 written out")
	}
}

// One worker's earlier clients leave no trace: any share of the tasks, on any
// worker, gives the same sum.
func TestSharesAddUp(t *testing.T) {
	model, set, base := world(t)
	var work []Assignment
	for c := range 6 {
		work = append(work, Assignment{Task: uint64(c + 1), Client: c, LocalSteps: 3, Rate: 0.3, Weight: 1.0 / 6})
	}
	whole := make([]int64, len(base))
	losses, err := trainer(t, model, set).Train(t.Context(), base, Method{}, work, whole)
	if err != nil {
		t.Fatal(err)
	}
	parts := make([]int64, len(base))
	second, err := trainer(t, model, set).Train(t.Context(), base, Method{}, work[4:], parts)
	if err != nil {
		t.Fatal(err)
	}
	first, err := trainer(t, model, set).Train(t.Context(), base, Method{}, work[:4], parts)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(whole, parts) || !cmp.Equal(losses, append(first, second...)) {
		t.Error("two shares do not add up to the whole")
	}
}

func TestDivergenceNamesTaskAndClient(t *testing.T) {
	model, set, base := world(t)
	work := []Assignment{{Task: 42, Client: 7, LocalSteps: 50, Rate: 1e30, Weight: 1}}
	_, err := trainer(t, model, set).Train(t.Context(), base, Method{}, work, make([]int64, len(base)))
	var d *Diverged
	if !errors.As(err, &d) || d.Task != 42 || d.Client != 7 || !strings.HasPrefix(err.Error(), "diverged: task 42, client 7") {
		t.Errorf("error %v, want diverged: task 42, client 7", err)
	}
}

func TestEvaluateAddsItsParts(t *testing.T) {
	model, set, base := world(t)
	w := trainer(t, model, set)
	n := 300
	loss, right, err := w.Evaluate(t.Context(), base, 0, n)
	if err != nil {
		t.Fatal(err)
	}
	sum, correct := 0.0, 0
	for from := 0; from < n; from += evaluationBatch {
		l, r, err := w.Evaluate(t.Context(), base, from, min(evaluationBatch, n-from))
		if err != nil {
			t.Fatal(err)
		}
		sum += l
		correct += r
	}
	if loss != sum || right != correct {
		t.Errorf("%g, %d in one, %g, %d in parts", loss, right, sum, correct)
	}
	if mean := loss / float64(n); math.Abs(mean-math.Log(62)) > 0.5 {
		t.Errorf("an untrained model has mean loss %g, expected about ln 62 = %.2f", mean, math.Log(62))
	}
}

func TestCancelledTrainingStops(t *testing.T) {
	model, set, base := world(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	work := []Assignment{{Task: 1, Client: 0, LocalSteps: 1 << 20, Rate: 0.1, Weight: 1}}
	if _, err := trainer(t, model, set).Train(ctx, base, Method{}, work, make([]int64, len(base))); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context canceled", err)
	}
}

func TestModelAndDataMustFit(t *testing.T) {
	_, set, _ := world(t)
	other, err := learn.Parse("mlp:10,5,2")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewTrainer(other, set, 1, 32); err == nil || !strings.Contains(err.Error(), "784") {
		t.Errorf("error %v, want one that names both sizes", err)
	}
}
