package algorithm_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fedpace/actors"
	. "fedpace/algorithm"
	"fedpace/coordinator/schedule"
	"fedpace/data/federated"
	"fedpace/data/synthetic"
	"fedpace/internal/testkit/slow"
	"fedpace/learn"
)

var kinds = []string{"dsgd", "fixed", "rounds", "error", "step"}

func kSchedule(t testing.TB, kind string, k0 int) schedule.K {
	t.Helper()
	for _, k := range []schedule.K{schedule.DSGD{}, schedule.FixedK{}, schedule.RoundsK{}, schedule.ErrorK{}, schedule.StepK{}} {
		if schedule.Ks.NameOf(k) == kind {
			return from{k, k0}
		}
	}
	panic(kind)
}

// smooth are options with which the adaptive servers settle on a quadratic
// rather than circle its answer.
func smooth(t testing.TB, name string) Algorithm {
	switch a := made(t, name).(type) {
	case FedAdagrad:
		a.Rate, a.Tau = 0.5, 0.1
		return a
	case FedAdam:
		a.Rate, a.Tau = 0.1, 0.1
		return a
	case FedYogi:
		a.Rate, a.Tau = 0.1, 0.1
		return a
	case FedProx:
		a.Mu = 0.5
		return a
	default:
		return a
	}
}

// Every algorithm with every K schedule, on quadratics whose answers are known:
// local steps bias the fixed point, by an amount that follows from K; with one
// step there is no bias, and SCAFFOLD has none with any K.
func TestAlgorithms_EveryScheduleOnQuadratics(t *testing.T) {
	t.Parallel()
	const eta, k0 = 0.2, 10
	q := four()
	for _, name := range Algorithms.Names() {
		if name == "streaming" || name == "decoupled" { // whose steps go on from copies that package actors keeps
			continue
		}
		for _, kind := range kinds {
			t.Run(name+"/"+kind, func(t *testing.T) {
				r := &run{model: quadraticModel{q}, set: q, algorithm: whole(smooth(t, name), nil, 2, 4), k: kSchedule(t, kind, k0), eta: eta, cohort: everyone(4), batch: 1}
				r.play(t, 3000)
				var want []float64
				switch name {
				case "scaffold":
					want = q.optimum()
				case "fedprox":
					// The pull of mu = 1/2 towards x makes the way to b_c shorter and,
					// in steps, the same as with the curvature a + mu.
					want = q.settled(func(a float64, _ int) float64 {
						return a / (a + 0.5) * (1 - math.Pow(1-eta*(a+0.5), float64(r.lastK)))
					})
				default:
					want = q.drifted(eta, func(int) int { return r.lastK })
				}
				if d := farthest(r.x, want); d > 2e-5 {
					t.Errorf("with K = %d at the end the model is %v, %g from %v", r.lastK, r.x, d, want)
				}
				wantK := map[string]int{"dsgd": 1, "fixed": 10, "rounds": 1, "step": 1}
				if k := wantK[kind]; k != 0 && r.lastK != k {
					t.Errorf("K ends at %d, want %d", r.lastK, k)
				}
				biased := farthest(r.x, q.optimum())
				if unbiased := name == "scaffold" || r.lastK == 1; unbiased != (biased < 1e-4) {
					t.Errorf("K = %d ends %g from the optimum", r.lastK, biased)
				}
			})
		}
	}
}

// SCAFFOLD with a quarter of the clients a round still finds the optimum that
// FedAvg misses.
func TestScaffold_SampledClients(t *testing.T) {
	q := four()
	r := &run{model: quadraticModel{q}, set: q, algorithm: whole(Scaffold{Rate: 1}, nil, 2, 4), k: from{schedule.FixedK{}, 10}, eta: 0.05, batch: 1,
		cohort: func(round int) []int { return []int{rand.New(rand.NewPCG(1, uint64(round))).IntN(4)} }}
	r.play(t, 6000)
	if d := farthest(r.x, q.optimum()); d > 1e-4 {
		t.Errorf("the model is %g from the optimum", d)
	}
	if biased := farthest32(q.drifted(0.05, func(int) int { return 10 }), q.optimum()); biased < 0.01 {
		t.Errorf("FedAvg's bias is %g: the test shows nothing", biased)
	}
}

func farthest32(x, y []float64) (most float64) {
	for j := range x {
		most = max(most, math.Abs(x[j]-y[j]))
	}
	return most
}

// Clients with unequal numbers of steps pull FedAvg towards those with many;
// FedNova takes that out (Wang et al. 2020, section 4), and what is left is the
// drift of local steps, which vanishes with eta.
func TestFedNova_UnequalSteps(t *testing.T) {
	q := four()
	steps := func(c, k int) int { return 1 + c*k }
	play := func(a Algorithm, eta float64, rounds int) *run {
		r := &run{model: quadraticModel{q}, set: q, algorithm: whole(a, nil, 2, 4), k: from{schedule.FixedK{}, 4}, eta: eta, cohort: everyone(4), steps: steps, batch: 1}
		r.play(t, rounds)
		return r
	}
	share := func(eta float64, power float64) []float64 {
		return q.settled(func(a float64, c int) float64 {
			k := float64(steps(c, 4))
			return (1 - math.Pow(1-eta*a, k)) / math.Pow(k, power)
		})
	}
	avg, nova := play(Default, 0.01, 4000), play(FedNova{Rate: 1}, 0.01, 4000)
	if d := farthest(avg.x, share(0.01, 0)); d > 2e-5 {
		t.Errorf("FedAvg ends %g from its fixed point", d)
	}
	if d := farthest(nova.x, share(0.01, 1)); d > 2e-5 {
		t.Errorf("FedNova ends %g from its fixed point", d)
	}
	if a, n := farthest(avg.x, q.optimum()), farthest(nova.x, q.optimum()); n > a/20 {
		t.Errorf("FedAvg ends %g from the optimum, FedNova %g", a, n)
	}
}

// tiny is a small network on synthetic FEMNIST.
func tiny(t testing.TB) (learn.Model, federated.Set) {
	t.Helper()
	model, err := learn.Parse("mlp:784,8,62")
	if err != nil {
		t.Fatal(err)
	}
	set, err := synthetic.New("femnist", 40, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := set.Close(); err != nil {
			t.Error(err)
		}
	})
	return model, set
}

// shuffled splits tasks into jobs of one size, in an order of its own.
func shuffled(size int) func([]int, int) [][]int {
	return func(work []int, round int) [][]int {
		work = slices.Clone(work)
		r := rand.New(rand.NewPCG(7, uint64(round)))
		r.Shuffle(len(work), func(i, j int) { work[i], work[j] = work[j], work[i] })
		return slices.Collect(slices.Chunk(work, size))
	}
}

// history is all that a run leaves behind.
func (r *run) history() string {
	s := fmt.Sprint(r.x, r.algorithm.Server.State())
	if v := r.algorithm.ClientStates; v != nil {
		s += fmt.Sprint(v.State())
	}
	return s
}

// loss is the mean over the held-out samples.
func (r *run) loss(t testing.TB, x []float32) float64 {
	t.Helper()
	trainer := r.trainer(t)
	sum, _, err := trainer.Evaluate(t.Context(), x, actors.Measured{Client: actors.HeldOut, FirstSample: 0, Count: r.set.HeldOut()})
	if err != nil {
		t.Fatal(err)
	}
	return sum / float64(r.set.HeldOut())
}

// Every algorithm with every K schedule on a network: it learns, and how tasks
// are grouped into jobs, and in which order they are done by which worker,
// changes not one bit of the model or of the algorithm's state.
func TestAlgorithms_EveryScheduleOnNetwork(t *testing.T) {
	slow.Test(t, "it trains for each pair; on quadratics each is played always")
	model, set := tiny(t)
	for _, name := range Algorithms.Names() {
		for _, kind := range kinds {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				play := func(parts func([]int, int) [][]int) *run {
					r := &run{model: model, set: set, algorithm: whole(made(t, name), nil, model.Params(), set.Clients()),
						k: kSchedule(t, kind, 6), eta: 0.3, batch: 8, parts: parts,
						cohort: func(round int) []int { return rand.New(rand.NewPCG(3, uint64(round))).Perm(set.Clients())[:8] },
						steps:  func(c, k int) int { return max(1, k-c%3) }}
					r.play(t, 9)
					return r
				}
				one := play(nil)
				want := one.history()
				for _, size := range []int{1, 3} {
					if got := play(shuffled(size)).history(); got != want {
						t.Fatalf("jobs of %d tasks give another history", size)
					}
				}
				start := make([]float32, model.Params())
				model.Init(start, 1)
				if before, after := one.loss(t, start), one.loss(t, one.x); !(after < before) {
					t.Errorf("the loss goes from %.3f to %.3f", before, after)
				}
			})
		}
	}
}

// FedProx with mu = 0 is FedAvg up to rounding, and SCAFFOLD's first round, in
// which all variates are zero, too.
func TestAlgorithms_ReduceToFedAvg(t *testing.T) {
	model, set := tiny(t)
	play := func(a Algorithm) []float32 {
		r := &run{model: model, set: set, algorithm: whole(a, nil, model.Params(), set.Clients()), k: from{schedule.FixedK{}, 5}, eta: 0.1, batch: 8, cohort: everyone(6)}
		r.play(t, 1)
		return r.x
	}
	want := play(Default)
	wide := make([]float64, len(want))
	for i, x := range want {
		wide[i] = float64(x)
	}
	for name, got := range map[string][]float32{
		"FedProx, mu 0": play(FedProx{Rate: 1}), "FedNova": play(FedNova{Rate: 1}),
		"FedAvgM, beta 0": play(FedAvgM{Rate: 1}),
	} {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s differs from FedAvg", name)
		}
	}
	if d := farthest(play(Scaffold{Rate: 1}), wide); d > 1e-6 {
		t.Errorf("SCAFFOLD's first round is %g from FedAvg's", d)
	}
}
