package actors

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"fedpace/algorithm"
	"fedpace/internal/testkit/slow"
	"fedpace/learn"
)

// off returns the distance of got from want, in proportion to the distance of want from base.
func off(got, want, base []float32) float64 {
	distance, way := 0., 0.
	for i, w := range want {
		d, m := float64(got[i])-float64(w), float64(w)-float64(base[i])
		distance, way = distance+d*d, way+m*m
	}
	return math.Sqrt(distance / way)
}

var adamW = learn.AdamW{Moments: learn.Moments{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8}, WeightDecay: 0.01, Keeping: learn.Keeping{Keep: true}}

// inRounds trains one client in rounds of these local steps, with what it keeps, and returns the model after them.
// Another client works beside it with weight 0.
func inRounds(t *testing.T, w *Trainer, base []float32, rate float64, rounds ...int) []float32 {
	t.Helper()
	x, own, other, done := slices.Clone(base), []float32(nil), []float32(nil), int64(0)
	shared := &Shared{Residuals: true}
	if w.memoryValues == 0 {
		shared = nil // they forget
	}
	for i, k := range rounds {
		work := []Assignment{
			{Task: uint64(2*i + 1), Client: 3, LocalSteps: k, StepsDone: done, Rate: rate, Weight: 1, State: own},
			{Task: uint64(2*i + 2), Client: 7, LocalSteps: 2, Rate: rate, State: other},
		}
		sum := make([]int64, len(base))
		outcomes, err := w.Train(t.Context(), x, shared, work, sum)
		if err != nil {
			t.Fatal(err)
		}
		own, other = outcomes[0].State, outcomes[1].State
		algorithm.Default.Server(len(x)).Apply(x, sum, 1)
		done += int64(k)
	}
	return x
}

// One worker whose optimizer's state is kept, with FedAvg's server (learning rate 1, no momentum): plain AdamW
// without rounds, which is written out here (Loshchilov and Hutter 2019, Algorithm 2), to 1e-6 of the movement.
func TestKept_OneWorkerTakesPlainSteps(t *testing.T) {
	model, set, base := world(t)
	const rate, steps = 0.01, 40 // what moves less drowns in the roundings of float32
	got := inRounds(t, trainerBy(t, model, set, algorithm.Default, adamW), base, rate, 1, 7, 20, 12)
	x, g, w := make([]float64, len(base)), make([]float32, len(base)), model.NewWorkspace(32, fastest(t))
	m, v, local := make([]float64, len(x)), make([]float64, len(x)), slices.Clone(base)
	for i := range x {
		x[i] = float64(base[i])
	}
	minibatches(t, set, Assignment{Client: 3, LocalSteps: steps}, func(k int, b *learn.Batch) {
		if _, err := w.Gradient(g, local, b); err != nil {
			t.Fatal(err)
		}
		for i, d := range g {
			d := float64(d)
			m[i], v[i] = 0.9*m[i]+0.1*d, 0.999*v[i]+0.001*d*d
			n := float64(k + 1)
			x[i] = (1-rate*0.01)*x[i] - rate*m[i]/(1-math.Pow(0.9, n))/(math.Sqrt(v[i]/(1-math.Pow(0.999, n)))+1e-8)
			local[i] = float32(x[i])
		}
	})
	if d := off(got, local, base); d > 1e-6 {
		t.Errorf("%g of the movement off", d)
	}
	whole := inRounds(t, trainerBy(t, model, set, algorithm.Default, adamW), base, rate, steps)
	if d := off(got, whole, base); d > 1e-6 {
		t.Errorf("in rounds %g of the movement off", d)
	}
	forgetful := adamW
	forgetful.Keep = false
	if d := off(inRounds(t, trainerBy(t, model, set, algorithm.Default, forgetful), base, rate, 20, 20), local, base); d < 0.01 {
		t.Errorf("%g of the movement off where nothing is kept: the test shows nothing", d)
	}
}

// Rounds of one step of plain SGD with all workers and equal weights: data-parallel SGD, to 1e-6 of the movement.
func TestKept_OneStepIsParallelSGD(t *testing.T) {
	model, set, base := world(t)
	const rate, rounds, workers = 0.5, 24, 8 // what moves less drowns in the roundings of float32
	trainer := trainerBy(t, model, set, algorithm.Default, nil)
	got, want := slices.Clone(base), slices.Clone(base)
	g, w := make([]float32, len(base)), model.NewWorkspace(32, fastest(t))
	for r := range rounds {
		sum, mean := make([]int64, len(base)), make([]float64, len(base))
		var work []Assignment
		for c := range workers {
			work = append(work, Assignment{Task: uint64(r*workers + c + 1), Client: c, LocalSteps: 1, StepsDone: int64(r), Rate: rate, Weight: 1. / workers})
			minibatches(t, set, work[c], func(_ int, b *learn.Batch) {
				if _, err := w.Gradient(g, want, b); err != nil {
					t.Fatal(err)
				}
				for i, d := range g {
					mean[i] += float64(d) / workers
				}
			})
		}
		if _, err := trainer.Train(t.Context(), got, nil, work, sum); err != nil {
			t.Fatal(err)
		}
		algorithm.Default.Server(len(got)).Apply(got, sum, 1)
		for i := range want {
			want[i] = float32(float64(want[i]) - rate*mean[i])
		}
	}
	if d := off(got, want, base); d > 1e-6 {
		t.Errorf("%g of the movement off", d)
	}
}

// A trainer of another process gets back what each client keeps: to the bits of the steps here, also when it dies
// between, and with some bytes of its own.
func TestKept_ExternalTrainerKeepsState(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	model, set, base := world(t)
	kept := momentum
	kept.Keep = true
	for name, flags := range map[string][]string{
		"sound": nil, "dies": {"-fault", "die at task", "-from", "3", "-once", filepath.Join(t.TempDir(), "dead")}, "own bytes": {"-state", "3"},
	} {
		t.Run(name, func(t *testing.T) {
			here, there := both(t, Problem{Model: model, Set: set, Seed: 1, Batch: 32, Augment: NoAugment, Algorithm: algorithm.Default, Optimizer: kept, Kernel: fastest(t)}, flags...)
			mine, theirs := slices.Clone(someWork), slices.Clone(someWork)
			for i := range mine {
				mine[i].Batch, theirs[i].Batch = 0, 0
			}
			for round := range 3 {
				want, got := make([]int64, len(base)), make([]int64, len(base))
				a, errA := here.Train(t.Context(), base, &Shared{Residuals: true}, mine, want)
				b, errB := there.Train(t.Context(), base, &Shared{Residuals: true}, theirs, got)
				if errA != nil || errB != nil {
					t.Fatal(errA, errB)
				}
				if !slices.Equal(got, want) {
					t.Fatalf("round %d: another sum", round)
				}
				for i := range a {
					mine[i].State, theirs[i].State = a[i].State, b[i].State
					bytes := unpack(b[i].State)
					if n := 4*len(base) + there.problem.Trainer.State/3; len(bytes) != n || n > 4*len(base) && bytes[n-1] != byte(round+1) {
						t.Fatalf("round %d, task %d: it keeps %d bytes, of its own %v", round, i, len(bytes), bytes[4*len(base):])
					}
				}
			}
		})
	}
}

// What clients keep travels beside a residual, and beside control variates where the bytes are a trainer's own.
func TestKept_BesideOtherVectors(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	model, set, base := world(t)
	for name, p := range map[string]Problem{
		"top_k":    {Algorithm: algorithm.Default, Compression: algorithm.TopK{Share: 0.1, Feedback: true}},
		"scaffold": {Algorithm: algorithm.Scaffold{Rate: 1}},
	} {
		p.Model, p.Set, p.Seed, p.Batch, p.Augment, p.Kernel = model, set, 1, 32, NoAugment, fastest(t)
		alone, with := both(t, p, "-state", "9")
		shared := &Shared{Residuals: name == "top_k", Weight: 1. / 200}
		a, b := slices.Clone(someWork), slices.Clone(someWork)
		for round := range 2 {
			want, got := make([]int64, alone.SumLength(shared)), make([]int64, with.SumLength(shared))
			x, errX := alone.Train(t.Context(), base, shared, a, want)
			y, errY := with.Train(t.Context(), base, shared, b, got)
			if errX != nil || errY != nil {
				t.Fatal(errX, errY)
			}
			for i := range x {
				a[i].State, b[i].State = x[i].State, y[i].State
				if d := off(y[i].State[:len(base)], x[i].State, make([]float32, len(base))); d > 1e-4 {
					t.Errorf("%s, round %d: the vector before it is %g off", name, round, d)
				}
				if got := unpack(y[i].State[len(base):]); len(got) != 1 || got[0] != byte(round+1) {
					t.Errorf("%s, round %d: the trainer keeps %v", name, round, got)
				}
			}
		}
	}
}
