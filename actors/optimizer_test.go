package actors

import (
	"math"
	"slices"
	"strings"
	"testing"

	"fedpace/algorithm"
	"fedpace/data/federated"
	"fedpace/learn"
)

// trainerBy returns a trainer that takes local steps by an optimizer, in minibatches of at most 48 samples.
func trainerBy(t testing.TB, model learn.Model, set federated.Set, a algorithm.Algorithm, o learn.Optimizer) *Trainer {
	t.Helper()
	w, err := NewTrainer(Problem{Model: model, Set: set, Seed: 1, Batch: 32, LargestBatch: 48, Augment: NoAugment, Algorithm: a, Optimizer: o, Kernel: fastest(t)})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

var momentum = learn.SGD{Momentum: 0.9, Nesterov: true, WeightDecay: 0.01, Clipping: learn.Clipping{Clip: 0.25}}

// Local steps with momentum, written out, in minibatches of the client's own size: also
// FedProx's, whose pull is part of the gradient that is clipped.
func TestOptimizer_StepsWithMomentum(t *testing.T) {
	model, set, base := world(t)
	const mu = 0.75
	for name, algorithm := range map[string]algorithm.Algorithm{"fedavg": algorithm.Default, "fedprox": algorithm.FedProx{Rate: 1, Mu: mu}} {
		for _, batch := range []int{0, 5, 48} {
			a := Assignment{Task: 1, Client: 3, LocalSteps: 6, StepsDone: 2, Rate: 0.1, Weight: 1, Batch: batch}
			sum := make([]int64, len(base))
			outcomes, err := trainerBy(t, model, set, algorithm, momentum).Train(t.Context(), base, nil, []Assignment{a}, sum)
			if err != nil {
				t.Fatal(err)
			}
			size := batch
			if size == 0 {
				size = 32
			}
			y, g, w := slices.Clone(base), make([]float32, len(base)), model.NewWorkspace(size, fastest(t))
			velocity, clipped := make([]float64, len(base)), 0
			var order federated.Minibatches
			order.Reset(1, a.Client, set.Samples(a.Client), size, a.StepsDone)
			for k := range a.LocalSteps {
				var b learn.Batch
				if err := set.Batch(&b, a.Client, order.Next()); err != nil {
					t.Fatal(err)
				}
				loss, err := w.Gradient(g, y, &b)
				if err != nil {
					t.Fatal(err)
				}
				if k == 0 && loss != outcomes[0].FirstStepLoss {
					t.Errorf("%s, minibatches of %d: first-step loss %g, want %g", name, batch, outcomes[0].FirstStepLoss, loss)
				}
				d := make([]float64, len(g))
				square := 0.
				for i := range d {
					d[i] = float64(g[i])
					if name == "fedprox" {
						d[i] += mu * (float64(y[i]) - float64(base[i]))
					}
					square += d[i] * d[i]
				}
				shrink := min(1, 0.25/(math.Sqrt(square)+1e-6))
				if shrink < 1 {
					clipped++
				}
				for i := range y {
					d[i] = d[i]*shrink + 0.01*float64(y[i])
					velocity[i] = 0.9*velocity[i] + d[i]
					y[i] = float32(float64(y[i]) - 0.1*(d[i]+0.9*velocity[i]))
				}
			}
			near(t, name, moved(base, sum), y)
			if clipped == 0 {
				t.Errorf("%s, minibatches of %d: no gradient was clipped", name, batch)
			}
			plain := make([]int64, len(base))
			if _, err := trainerBy(t, model, set, algorithm, nil).Train(t.Context(), base, nil, []Assignment{a}, plain); err != nil {
				t.Fatal(err)
			}
			if far := distance(moved(base, plain), y); far < 1e-3 {
				t.Errorf("%s: plain steps end only %g from those with momentum", name, far)
			}
		}
	}
}

// An optimizer's state begins at zero in each task: a client's update does not depend on
// what its worker did before.
func TestOptimizer_OptimizersForgetBetweenTasks(t *testing.T) {
	model, set, base := world(t)
	adam := learn.Adam{Moments: learn.Moments{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8}}
	models := map[[2]int64]bool{} // by the steps of two biases
	for _, o := range []learn.Optimizer{momentum, adam, learn.AdamW{Moments: adam.Moments, WeightDecay: 0.5}} {
		last := Assignment{Task: 2, Client: 5, LocalSteps: 4, Rate: 0.01, Weight: 0.5}
		busy, fresh := trainerBy(t, model, set, algorithm.Default, o), trainerBy(t, model, set, algorithm.Default, o)
		before := Assignment{Task: 1, Client: 3, LocalSteps: 7, Rate: 0.01, Weight: 0.5, Batch: 48}
		if _, err := busy.Train(t.Context(), base, nil, []Assignment{before}, make([]int64, len(base))); err != nil {
			t.Fatal(err)
		}
		got, want := make([]int64, len(base)), make([]int64, len(base))
		for w, sum := range map[*Trainer][]int64{busy: got, fresh: want} {
			if _, err := w.Train(t.Context(), base, nil, []Assignment{last}, sum); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s remembers the task before", learn.Optimizers.NameOf(o))
		}
		own, _, _, err := busy.Local(t.Context(), base, last) // what a device sends
		if err != nil {
			t.Fatal(err)
		}
		half := make([]int64, len(base))
		if bad := learn.AddExact(half, last.Weight, own, base); bad >= 0 || !slices.Equal(half, want) {
			t.Errorf("%s: a device's model is not that of the job", learn.Optimizers.NameOf(o))
		}
		models[[2]int64(want[len(want)-2:])] = true
	}
	if len(models) != 3 {
		t.Errorf("%d models of 3 optimizers", len(models))
	}
}

// What plain steps are taken for granted in is refused, and so are minibatches beyond
// the largest.
func TestOptimizer_ImpossibleOptions(t *testing.T) {
	model, set, base := world(t)
	p := Problem{Model: model, Set: set, Seed: 1, Batch: 32, Augment: NoAugment, Algorithm: algorithm.Scaffold{Rate: 1}, Optimizer: momentum, Kernel: fastest(t)}
	want := "local: scaffold counts on plain steps of SGD; want sgd without options"
	if _, err := NewTrainer(p); err == nil || err.Error() != want {
		t.Errorf("%v, want %q", err, want)
	}
	p.Optimizer = learn.SGD{}
	if _, err := NewTrainer(p); err != nil || p.Spec().Local != "" {
		t.Errorf("sgd without options: %v, %q", err, p.Spec().Local)
	}
	large := Assignment{Task: 1, Client: 3, LocalSteps: 1, Rate: 0.1, Weight: 1, Batch: 49}
	if _, err := trainerBy(t, model, set, algorithm.Default, nil).Train(t.Context(), base, nil, []Assignment{large}, make([]int64, len(base))); err == nil || !strings.Contains(err.Error(), "task 1: minibatches of 49 samples, at most 48") {
		t.Errorf("%v", err)
	}
}
