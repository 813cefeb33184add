package algorithm_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"fedpace/actors"
	. "fedpace/algorithm"
	"fedpace/config"
	"fedpace/coordinator/schedule"
	"fedpace/data/federated"
	"fedpace/learn"
)

// quadratic is a federated problem whose answers are known: client c minimises
//
//	f_c(x) = Σ_j a_cj (x_j − b_cj)² / 2
//
// It is the set, with one sample a client, whose features are a_c and b_c, and
// the model's workspace at once. Every minibatch is that sample.
type quadratic struct{ a, b [][]float32 }

func (q quadratic) params() int { return len(q.a[0]) }

// quadraticModel is the problem as a model.
type quadraticModel struct{ quadratic }

func (q quadraticModel) String() string                                 { return fmt.Sprintf("quadratic:%d", q.params()) }
func (q quadraticModel) Params() int                                    { return q.params() }
func (q quadraticModel) Trainable() int                                 { return q.params() }
func (quadraticModel) Tensors() []learn.Tensor                          { return nil }
func (q quadraticModel) Samples() learn.Samples                         { return q.Info().Samples }
func (quadraticModel) Metrics() []learn.Metric                          { return nil }
func (quadraticModel) Init(params []float32, _ uint64)                  { clear(params) }
func (q quadraticModel) NewWorkspace(int, learn.Kernel) learn.Workspace { return q }

// The workspace.

func (q quadratic) Gradient(g, x []float32, batch *learn.Batch) (loss float64, err error) {
	a, b := batch.X[:q.params()], batch.X[q.params():]
	for j := range x {
		d := x[j] - b[j]
		g[j] = a[j] * d
		loss += float64(g[j]) * float64(d) / 2
	}
	return loss, nil
}

func (q quadratic) Step(x []float32, batch *learn.Batch, rate float32) (float64, error) {
	g := make([]float32, len(x))
	loss, err := q.Gradient(g, x, batch)
	for j := range x {
		x[j] -= float32(rate * g[j])
	}
	return loss, err
}

func (quadratic) Evaluate([]float32, *learn.Batch, []learn.Score) (float64, error) { return 0, nil }

// The set.

func (q quadratic) Info() federated.Info {
	return federated.Info{Name: "quadratic", Samples: learn.Samples{Input: learn.Dense, Features: 2 * q.params(), Classes: 1}}
}
func (q quadratic) Clients() int      { return len(q.a) }
func (quadratic) Client(c int) string { return fmt.Sprint(c) }
func (quadratic) Samples(int) int     { return 1 }
func (quadratic) HeldOut() int        { return 0 }
func (quadratic) Close() error        { return nil }
func (q quadratic) Batch(dst *learn.Batch, c int, _ []int32) error {
	dst.N = 1
	dst.X = append(append(dst.X, q.a[c]...), q.b[c]...)
	return nil
}
func (quadratic) HeldOutBatch(*learn.Batch, int, int) error { return nil }

// four clients that disagree, in curvature and in where they want to be.
func four() quadratic {
	return quadratic{
		a: [][]float32{{1, 0.5}, {2, 1}, {0.25, 2}, {1, 0.125}},
		b: [][]float32{{0, 2}, {1, -1}, {4, 0.5}, {-2, 3}},
	}
}

// settled is where x stops moving when client c counts with q(a_c, c):
// Σ q (b_c − x) = 0.
func (q quadratic) settled(count func(a float64, c int) float64) []float64 {
	x := make([]float64, q.params())
	for j := range x {
		above, below := 0.0, 0.0
		for c := range q.a {
			w := count(float64(q.a[c][j]), c)
			above += w * float64(q.b[c][j])
			below += w
		}
		x[j] = above / below
	}
	return x
}

// optimum is that of the mean of f_c.
func (q quadratic) optimum() []float64 {
	return q.settled(func(a float64, _ int) float64 { return a })
}

// drifted is where K steps of SGD at rate eta settle: from x, client c ends at
// b_c + (1 − eta a_c)^K (x − b_c).
func (q quadratic) drifted(eta float64, steps func(c int) int) []float64 {
	return q.settled(func(a float64, c int) float64 { return 1 - math.Pow(1-eta*a, float64(steps(c))) })
}

func farthest(x []float32, from []float64) (most float64) {
	for j := range x {
		most = max(most, math.Abs(float64(x[j])-from[j]))
	}
	return most
}

// run is one federated run in this process, without bus or clock: what a round
// is, through the code that runs depend on.
type run struct {
	model     learn.Model
	set       federated.Set
	algorithm *Instance
	k         schedule.K
	eta       float64
	cohort    func(round int) []int               // clients of a round
	steps     func(client, k int) int             // a client's share of K_r; nil: all of it
	parts     func(work []int, round int) [][]int // how the round's tasks are split into jobs; nil: one job
	batch     int

	x     []float32
	done  map[int]int64
	lastK int
}

// from is a schedule from a K_0 on.
type from struct {
	schedule.K
	k0 int
}

func (s from) LocalSteps(p schedule.Progress) int {
	p.K0 = s.k0
	return s.K.LocalSteps(p)
}

// play plays rounds.
func (r *run) play(t testing.TB, rounds int) {
	t.Helper()
	n := r.model.Params()
	if r.x == nil {
		r.x = make([]float32, n)
		r.model.Init(r.x, 1)
		r.done = map[int]int64{}
	}
	window := schedule.NewWindow(schedule.WindowConfig{Size: 2})
	for number := 1; number <= rounds; number++ {
		progress := schedule.Progress{Round: number, Converged: number > rounds/3}
		if ratio, ok := window.Ratio(); ok {
			progress.LossRatio, progress.HasLoss = ratio, true
		}
		r.lastK = r.k.LocalSteps(progress)
		window.Observe(r.round(t, number, r.lastK))
	}
}

// trainer is a new worker.
func (r *run) trainer(t testing.TB) *actors.Trainer {
	t.Helper()
	w, err := actors.NewTrainer(actors.Problem{Model: r.model, Set: r.set, Seed: 1, Batch: r.batch, Augment: actors.NoAugment, Algorithm: r.algorithm.Algorithm})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// round plays one round and returns its mean first-step loss.
func (r *run) round(t testing.TB, number, k int) float64 {
	t.Helper()
	n, clients := r.model.Params(), r.cohort(number)
	steps, work := make([]int, len(clients)), make([]actors.Assignment, len(clients))
	for i, c := range clients {
		steps[i] = k
		if r.steps != nil {
			steps[i] = r.steps(c, k)
		}
	}
	weights, scale := r.algorithm.Weigh(Equal(len(clients)), steps, nil)
	var shared *actors.Shared
	v := r.algorithm.ClientStates
	if v != nil {
		shared = &actors.Shared{Mean: v.Server(), Weight: v.Weight()}
	}
	for i, c := range clients {
		work[i] = actors.Assignment{Task: uint64(i + 1), Client: c, LocalSteps: steps[i], StepsDone: r.done[c], Rate: r.eta, Weight: weights[i]}
		if v != nil {
			work[i].State = v.Client(c).Values
		}
	}
	jobs := [][]int{indices(len(work))}
	if r.parts != nil {
		jobs = r.parts(jobs[0], number)
	}
	sum, losses, next := make([]int64, SumLength(r.algorithm.Algorithm, n)), make([]float64, len(work)), make([]ClientState, len(work))
	for _, job := range jobs {
		trainer := r.trainer(t)
		var mine []actors.Assignment
		for _, i := range job {
			mine = append(mine, work[i])
		}
		part := make([]int64, len(sum))
		outcomes, err := trainer.Train(t.Context(), r.x, shared, mine, part)
		if err != nil {
			t.Fatal(err)
		}
		for j, i := range job {
			losses[i] = outcomes[j].FirstStepLoss
			next[i] = ClientState{Values: outcomes[j].State}
		}
		if err := Merge(sum, part); err != nil {
			t.Fatal(err)
		}
	}
	r.x = slices.Clone(r.x)
	r.algorithm.Server.Apply(r.x, sum[:n], scale)
	if v != nil {
		v.Update(sum[n:], clients, next)
	}
	mean := 0.0
	for i, c := range clients {
		r.done[c] += int64(steps[i])
		mean += losses[i] / float64(len(clients))
	}
	return mean
}

func everyone(n int) func(int) []int {
	return func(int) []int { return indices(n) }
}

// made is an algorithm with its options at their defaults.
func made(t testing.TB, name string) Algorithm {
	t.Helper()
	sets := []string{"aggregate.algorithm=" + name}
	if name == "python" { // without a process it is fedavg
		sets = append(sets, "aggregate.path=server.py")
	}
	c, err := config.Load("", sets)
	if err != nil {
		t.Fatal(err)
	}
	return c.Aggregate.Algorithm
}
