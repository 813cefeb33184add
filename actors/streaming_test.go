package actors

import (
	"math"
	"slices"
	"strings"
	"testing"

	"fedpace/algorithm"
	"fedpace/learn"
)

// Streaming DiLoCo, Algorithm 2 (Douillard et al. 2025), with AdamW inside (Loshchilov and Hutter
// 2019, Algorithm 2), written out in float64 for three workers that take unlike numbers of steps,
// one of which misses two rounds: to 1e-6 of the movement.
func TestStreaming_IsPublished(t *testing.T) {
	model, set, base := world(t)
	const rate, fragments, tau, alpha, eta, mu = 0.01, 3, 2, 0.25, 0.7, 0.9
	of := algorithm.Streaming{Rate: eta, Momentum: mu, Fragments: fragments, Overlap: tau, Mix: alpha}
	optimizer := adamW
	p := Problem{Model: model, Set: set, Seed: 1, Batch: 32, Augment: NoAugment, Algorithm: of, Optimizer: optimizer, Kernel: fastest(t)}
	trainer, err := NewTrainer(p)
	if err != nil {
		t.Fatal(err)
	}
	instance := algorithm.NewInstance(of, nil, len(base), len(base), p.MemoryValues(), 200)
	got, kept := slices.Clone(base), map[int][]float32{}

	type worker struct {
		x, m, v []float64
		steps   int
		seen    int // rounds whose fragments are in its copy
	}
	n := len(base)
	double := func() []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = float64(base[i])
		}
		return x
	}
	theta, momentum, workers := double(), make([]float64, n), map[int]*worker{}
	gradient, work := make([]float32, n), model.NewWorkspace(32, fastest(t))
	step := func(client int, r *worker, steps int) {
		local := make([]float32, n)
		minibatches(t, set, Assignment{Client: client, LocalSteps: steps, StepsDone: int64(r.steps)}, func(_ int, b *learn.Batch) {
			for i := range local {
				local[i] = float32(r.x[i])
			}
			if _, err := work.Gradient(gradient, local, b); err != nil {
				t.Fatal(err)
			}
			r.steps++
			for i, g := range gradient {
				d, k := float64(g), float64(r.steps)
				r.m[i], r.v[i] = 0.9*r.m[i]+0.1*d, 0.999*r.v[i]+0.001*d*d
				r.x[i] = (1-rate*0.01)*r.x[i] - rate*r.m[i]/(1-math.Pow(0.9, k))/(math.Sqrt(r.v[i]/(1-math.Pow(0.999, k)))+1e-8)
			}
		})
	}
	part := func(round int) (from, to int) {
		f := round % fragments
		return f * n / fragments, (f + 1) * n / fragments
	}

	for round := range 10 {
		clients := []int{3, 7, 1}
		if round == 4 || round == 5 {
			clients = clients[:2]
		}
		var tasks []Assignment
		for i, c := range clients {
			if workers[c] == nil {
				workers[c] = &worker{x: slices.Clone(theta), m: make([]float64, n), v: make([]float64, n), seen: round}
			}
			tasks = append(tasks, Assignment{
				Task: uint64(10*round + i + 1), Client: c, LocalSteps: 4 + i + round%2, StepsDone: int64(workers[c].steps), Rate: rate, Weight: 1 / float64(len(clients)), State: kept[c],
			})
		}
		sum := make([]int64, n)
		outcomes, err := trainer.Train(t.Context(), got, &Shared{Residuals: true, Rounds: uint64(round)}, tasks, sum)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range clients {
			kept[c] = outcomes[i].State
		}
		instance.SetRounds(uint64(round))
		instance.Server.Apply(got, sum, 1)

		from, to := part(round)
		mean := make([]float64, n)
		for _, a := range tasks {
			r := workers[a.Client]
			step(a.Client, r, tau)
			for missed := max(r.seen, round-fragments); missed < round; missed++ {
				a, b := part(missed)
				for i := a; i < b; i++ {
					r.x[i] = alpha*r.x[i] + (1-alpha)*theta[i]
				}
			}
			r.seen = round
			step(a.Client, r, a.LocalSteps-tau)
			for i := from; i < to; i++ {
				mean[i] += (r.x[i] - theta[i]) / float64(len(clients))
			}
		}
		for i := from; i < to; i++ {
			momentum[i] = mu*momentum[i] + mean[i]
			theta[i] += eta * (mean[i] + mu*momentum[i])
		}
	}
	want := make([]float32, n)
	for i := range want {
		want[i] = float32(theta[i])
	}
	if d := off(got, want, base); d > 1e-6 {
		t.Errorf("%g of the movement off", d)
	}
}

// Compression is of the fragment that a round sends: what it leaves out of another waits for the
// round that sends that one.
func TestStreaming_CompressesFragment(t *testing.T) {
	model, set, base := world(t)
	of := algorithm.Streaming{Rate: 0.7, Momentum: 0.9, Fragments: 3}
	p := Problem{Model: model, Set: set, Seed: 1, Batch: 32, Augment: NoAugment, Algorithm: of, Optimizer: adamW, Compression: algorithm.TopK{Share: 0.01, Feedback: true}, Kernel: fastest(t)}
	trainer, err := NewTrainer(p)
	if err != nil {
		t.Fatal(err)
	}
	n := len(base)
	work := []Assignment{{Task: 1, Client: 3, LocalSteps: 4, Rate: 0.01, Weight: 1}}
	before := make([]float32, n)
	for round := range uint64(5) {
		sum := make([]int64, n)
		outcomes, err := trainer.Train(t.Context(), base, &Shared{Residuals: true, Rounds: round}, work, sum)
		if err != nil {
			t.Fatal(err)
		}
		from, to := of.Span(round, n)
		sent, left := 0, outcomes[0].State[:n]
		for i, s := range sum {
			inside := from <= i && i < to
			if s != 0 {
				sent++
			}
			if !inside && (s != 0 || left[i] != before[i]) {
				t.Fatalf("round %d sends %d to %d, parameter %d has sent %d, and its residual goes from %g to %g", round, from, to, i, s, before[i], left[i])
			}
		}
		if most := (to-from)/100 + 1; sent == 0 || sent > most {
			t.Errorf("round %d sends %d values of %d, want 1 to %d", round, sent, to-from, most)
		}
		before, work[0].State = left, outcomes[0].State
	}
}

// With one fragment, no overlap and nothing of its own copy a client does DiLoCo's work, to the bit.
func TestStreaming_OnePiece(t *testing.T) {
	model, set, base := world(t)
	ends := map[string][]float32{}
	for name, a := range map[string]algorithm.Algorithm{
		"streaming": algorithm.Streaming{Rate: 0.7, Momentum: 0.9, Fragments: 1},
		"diloco":    algorithm.FedAvgM{Rate: 0.7, Momentum: 0.9, Nesterov: true},
	} {
		p := Problem{Model: model, Set: set, Seed: 1, Batch: 32, Augment: NoAugment, Algorithm: a, Optimizer: adamW, Kernel: fastest(t)}
		trainer, err := NewTrainer(p)
		if err != nil {
			t.Fatal(err)
		}
		instance := algorithm.NewInstance(a, nil, len(base), len(base), p.MemoryValues(), 200)
		x, work := slices.Clone(base), slices.Clone(someWork)
		for round := range 4 {
			sum := make([]int64, len(base))
			outcomes, err := trainer.Train(t.Context(), x, &Shared{Residuals: true, Rounds: uint64(round)}, work, sum)
			if err != nil {
				t.Fatal(err)
			}
			for i := range work {
				work[i].State = outcomes[i].State
			}
			instance.SetRounds(uint64(round))
			instance.Server.Apply(x, sum, 1)
		}
		ends[name] = x
	}
	if !slices.Equal(ends["streaming"], ends["diloco"]) {
		t.Errorf("%g of the movement apart", off(ends["streaming"], ends["diloco"], base))
	}
}

// A model is cut into no more fragments than it has parameters.
func TestStreaming_CutsModel(t *testing.T) {
	model, set, base := world(t)
	p := Problem{Model: model, Set: set, Seed: 1, Batch: 32, Augment: NoAugment, Optimizer: adamW, Kernel: fastest(t)}
	for more, want := range []string{"", "no more fragments"} {
		p.Algorithm = algorithm.Streaming{Rate: 0.7, Fragments: len(base) + more}
		if err := p.Check(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d fragments of %d parameters: %v, want %q", len(base)+more, len(base), err, want)
		}
	}
}
