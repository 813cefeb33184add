package actors

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fedpace/algorithm"
	"fedpace/data/federated"
	"fedpace/data/synthetic"
	"fedpace/learn"
)

// world returns a small learning problem on synthetic FEMNIST: a model, a set and a base model.
func world(t testing.TB) (learn.Model, federated.Set, []float32) {
	t.Helper()
	model, err := learn.Parse("mlp:784,12,62")
	if err != nil {
		t.Fatal(err)
	}
	set, err := synthetic.New("femnist", 200, 1, 1)
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

// fastest returns the fastest kernel of this machine.
func fastest(t testing.TB) learn.Kernel {
	t.Helper()
	k, err := learn.SelectKernel(learn.AutoKernel)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// trainer returns a trainer by FedAvg.
func trainer(t testing.TB, model learn.Model, set federated.Set) *Trainer {
	t.Helper()
	return trainerOf(t, model, set, algorithm.Default)
}

// trainerOf returns a trainer with the client half of an algorithm.
func trainerOf(t testing.TB, model learn.Model, set federated.Set, a algorithm.Algorithm) *Trainer {
	t.Helper()
	w, err := NewTrainer(Problem{Model: model, Set: set, Seed: 1, Batch: 32, Augment: NoAugment, Algorithm: a, Kernel: fastest(t)})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// Algorithm 1, lines 5 to 8, written out: K steps from the global model on the
// client's minibatches, the first step's loss, the weighted exact update.
func TestTrainer_TrainIsAlgorithm1(t *testing.T) {
	model, set, base := world(t)
	work := []Assignment{
		{Task: 1, Client: 3, LocalSteps: 5, StepsDone: 0, Rate: 0.3, Weight: 0.25},
		{Task: 2, Client: 7, LocalSteps: 2, StepsDone: 40, Rate: 0.3, Weight: 0.75},
	}
	got := make([]int64, len(base))
	losses, err := trainer(t, model, set).Train(t.Context(), base, nil, work, got)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]int64, len(base))
	for i, a := range work {
		local := slices.Clone(base)
		step := model.NewWorkspace(32, fastest(t))
		var order federated.Minibatches
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

// minibatches calls f with the client's minibatches, one a local step.
func minibatches(t *testing.T, set federated.Set, a Assignment, f func(k int, b *learn.Batch)) {
	t.Helper()
	var order federated.Minibatches
	order.Reset(1, a.Client, set.Samples(a.Client), 32, a.StepsDone)
	for k := range a.LocalSteps {
		var b learn.Batch
		if err := set.Batch(&b, a.Client, order.Next()); err != nil {
			t.Fatal(err)
		}
		f(k, &b)
	}
}

// near fails the test unless got equals want but for rounding, as where want was calculated in another order of
// operations.
func near(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if d := math.Abs(float64(got[i]) - float64(want[i])); d > 2e-6*max(1, math.Abs(float64(want[i]))) {
			t.Fatalf("%s: parameter %d is %g, want %g", what, i, got[i], want[i])
		}
	}
}

// moved returns the model that results from base if one client's update is the whole sum, with weight 1.
func moved(base []float32, sum []int64) []float32 {
	x := slices.Clone(base)
	for i, s := range sum[:len(base)] {
		x[i] = float32(float64(x[i]) + float64(s)/(1<<44))
	}
	return x
}

// Li et al. 2020, Eq. 2: local steps descend h(y) = F_c(y) + mu/2 ‖y − x‖². The
// gradient of both terms is taken at the same iterate.
func TestTrainer_ProximalStepsDescendProximalObjective(t *testing.T) {
	model, set, base := world(t)
	const mu = 0.75
	a := Assignment{Task: 1, Client: 3, LocalSteps: 6, StepsDone: 2, Rate: 0.3, Weight: 1}
	sum := make([]int64, len(base))
	if _, err := trainerOf(t, model, set, algorithm.FedProx{Rate: 1, Mu: mu}).Train(t.Context(), base, nil, []Assignment{a}, sum); err != nil {
		t.Fatal(err)
	}
	y, g, w := slices.Clone(base), make([]float32, len(base)), model.NewWorkspace(32, fastest(t))
	minibatches(t, set, a, func(_ int, b *learn.Batch) {
		if _, err := w.Gradient(g, y, b); err != nil {
			t.Fatal(err)
		}
		for i := range y {
			y[i] = float32(float64(y[i]) - a.Rate*(float64(g[i])+mu*(float64(y[i])-float64(base[i]))))
		}
	})
	near(t, "FedProx", moved(base, sum), y)

	// The pull is felt: without it the model ends elsewhere, by more than near allows.
	plain := make([]int64, len(base))
	if _, err := trainer(t, model, set).Train(t.Context(), base, nil, []Assignment{a}, plain); err != nil {
		t.Fatal(err)
	}
	if far := distance(moved(base, plain), y); far < 1e-3 {
		t.Errorf("mu %g changes the model by %g", mu, far)
	}
}

// distance returns the largest absolute difference of two vectors' values.
func distance(a, b []float32) (most float64) {
	for i := range a {
		most = max(most, math.Abs(float64(a[i])-float64(b[i])))
	}
	return most
}

// One step is exactly the combined step in float32, each operation rounded by
// itself: no correction is applied before the gradient is known, or after it to
// another iterate.
func TestTrainer_ProximalStepIsOneStep(t *testing.T) {
	x, g, base := []float32{1.1, -2.3, 0.7}, []float32{0.3, 0.01, -5}, []float32{1, 2, 0.7}
	const rate, mu = float32(0.1), float32(0.4)
	want := slices.Clone(x)
	for i := range want {
		difference := want[i] - base[i]
		pull := float32(mu * difference)
		direction := g[i] + pull
		step := float32(rate * direction)
		want[i] -= step
	}
	client := algorithm.FedProx{Mu: 0.4}.Client(3)
	client.Start(base, nil, nil)
	client.Correct(x, g)
	for i := range x {
		x[i] -= float32(rate * g[i])
	}
	if !slices.Equal(x, want) {
		t.Errorf("%v, want %v", x, want)
	}
}

// Karimireddy et al. 2020, Eq. 3 and Eq. 4 with option II, written out: y ← y − η (g − c_i + c), c_i⁺ = c_i − c + (x −
// y)/(K η), and what goes to the server is y − x and c_i⁺ − c_i.
func TestTrainer_CorrectedStepsAreScaffold(t *testing.T) {
	model, set, base := world(t)
	n := len(base)
	c, own := make([]float32, n), make([]float32, n)
	for i := range c {
		c[i], own[i] = float32(i%7)*0.01, float32(i%5)*-0.02
	}
	work := []Assignment{
		{Task: 1, Client: 3, LocalSteps: 6, StepsDone: 2, Rate: 0.3, Weight: 0.5, State: own},
		{Task: 2, Client: 5, LocalSteps: 1, Rate: 0.3, Weight: 0.5}, // its first task: c_i is zero
	}
	const share = 1. / 64
	sum := make([]int64, 2*n)
	outcomes, err := trainerOf(t, model, set, algorithm.Scaffold{Rate: 1}).Train(t.Context(), base, &Shared{Mean: c, Weight: share}, work, sum)
	if err != nil {
		t.Fatal(err)
	}
	mean, change := slices.Clone(base), make([]float32, n)
	for i, a := range work {
		ci := a.State
		if ci == nil {
			ci = make([]float32, n)
		}
		y, g, w := slices.Clone(base), make([]float32, n), model.NewWorkspace(32, fastest(t))
		minibatches(t, set, a, func(k int, b *learn.Batch) {
			loss, err := w.Gradient(g, y, b)
			if err != nil {
				t.Fatal(err)
			}
			if k == 0 && loss != outcomes[i].FirstStepLoss {
				t.Errorf("task %d: first-step loss %g, want %g", a.Task, outcomes[i].FirstStepLoss, loss)
			}
			for j := range y {
				y[j] = float32(float64(y[j]) - a.Rate*(float64(g[j])-float64(ci[j])+float64(c[j])))
			}
		})
		next := make([]float32, n)
		for j := range next {
			next[j] = float32(float64(ci[j]) - float64(c[j]) + (float64(base[j])-float64(y[j]))/(float64(a.LocalSteps)*a.Rate))
			mean[j] += float32(a.Weight * (float64(y[j]) - float64(base[j])))
			change[j] += float32(share * (float64(next[j]) - float64(ci[j])))
		}
		near(t, "next variate", outcomes[i].State, next)
		if distance(next, ci) < 1e-3 {
			t.Error("the variate hardly moved: the test shows nothing")
		}
	}
	near(t, "SCAFFOLD's model", moved(base, sum), mean)
	near(t, "change of c", moved(make([]float32, n), sum[n:]), change)
}

// With K = 1 and plain steps the next variate is the gradient at x less what the
// correction added: option II agrees with option I.
func TestTrainer_OneStepVariateIsGradient(t *testing.T) {
	model, set, base := world(t)
	a := Assignment{Task: 1, Client: 3, LocalSteps: 1, Rate: 0.5, Weight: 1}
	outcomes, err := trainerOf(t, model, set, algorithm.Scaffold{Rate: 1}).Train(t.Context(), base, &Shared{Weight: 1}, []Assignment{a}, make([]int64, 2*len(base)))
	if err != nil {
		t.Fatal(err)
	}
	g := make([]float32, len(base))
	minibatches(t, set, a, func(_ int, b *learn.Batch) {
		if _, err := model.NewWorkspace(32, fastest(t)).Gradient(g, base, b); err != nil {
			t.Fatal(err)
		}
	})
	near(t, "variate", outcomes[0].State, g)
}

func TestTrainer_ImpossibleJobs(t *testing.T) {
	model, set, base := world(t)
	plain, keeps := trainer(t, model, set), trainerOf(t, model, set, algorithm.Scaffold{Rate: 1})
	good := Assignment{Task: 1, Client: 3, LocalSteps: 1, Rate: 0.5, Weight: 1}
	short := good
	short.State = base[1:]
	still := good
	still.Rate = 0
	n := len(base)
	for _, c := range []struct {
		worker *Trainer
		shared *Shared
		work   Assignment
		sum    int
		want   string
	}{
		{plain, nil, good, n + 1, "a sum of"},
		{keeps, &Shared{}, good, n, "a sum of"},
		{plain, &Shared{}, good, 2 * n, "an algorithm without"},
		{keeps, &Shared{Mean: base[1:]}, good, 2 * n, "the server's control variate"},
		{keeps, &Shared{}, short, 2 * n, "task 1: what client 3 keeps has"},
		{keeps, &Shared{}, still, 2 * n, "task 1, client 3: 1 local steps at rate 0"},
	} {
		if _, err := c.worker.Train(t.Context(), base, c.shared, []Assignment{c.work}, make([]int64, c.sum)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want it to say %q", err, c.want)
		}
	}
	if _, _, _, err := keeps.Local(t.Context(), base, good); err == nil || !strings.Contains(err.Error(), "a device has no control variates") {
		t.Errorf("a device with control variates: %v", err)
	}
}

// One worker's earlier clients leave no trace: any share of the tasks, on any
// worker, gives the same sum.
func TestTrainer_SharesAddUp(t *testing.T) {
	model, set, base := world(t)
	var work []Assignment
	for c := range 6 {
		work = append(work, Assignment{Task: uint64(c + 1), Client: c, LocalSteps: 3, Rate: 0.3, Weight: 1.0 / 6})
	}
	whole := make([]int64, len(base))
	losses, err := trainer(t, model, set).Train(t.Context(), base, nil, work, whole)
	if err != nil {
		t.Fatal(err)
	}
	parts := make([]int64, len(base))
	second, err := trainer(t, model, set).Train(t.Context(), base, nil, work[4:], parts)
	if err != nil {
		t.Fatal(err)
	}
	first, err := trainer(t, model, set).Train(t.Context(), base, nil, work[:4], parts)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(whole, parts) || !cmp.Equal(losses, append(first, second...)) {
		t.Error("two shares do not add up to the whole")
	}
}

func TestTrainer_DivergenceNamesTaskAndClient(t *testing.T) {
	model, set, base := world(t)
	work := []Assignment{{Task: 42, Client: 7, LocalSteps: 50, Rate: 1e30, Weight: 1}}
	_, err := trainer(t, model, set).Train(t.Context(), base, nil, work, make([]int64, len(base)))
	var d *Diverged
	if !errors.As(err, &d) || d.Task != 42 || d.Client != 7 || !strings.HasPrefix(err.Error(), "diverged: task 42, client 7") {
		t.Errorf("error %v, want diverged: task 42, client 7", err)
	}
}

// A compression may leave out what is too large or not a number, or make a vote of it:
// that training has diverged is found before.
func TestTrainer_DivergenceIsFoundBeforeCompression(t *testing.T) {
	model, set, base := world(t)
	for _, c := range []algorithm.Compression{
		algorithm.QSGD{Levels: 3}, algorithm.TopK{Share: 0.01}, algorithm.RandomK{Share: 1e-9}, algorithm.Sign{Step: 1},
	} {
		for _, rate := range []float64{1e20, math.Inf(1)} {
			w, err := NewTrainer(Problem{Model: model, Set: set, Seed: 1, Batch: 32, Augment: NoAugment, Algorithm: algorithm.Default, Compression: c, Kernel: fastest(t)})
			if err != nil {
				t.Fatal(err)
			}
			work := []Assignment{{Task: 42, Client: 7, LocalSteps: 1, Rate: rate, Weight: 1}}
			var d *Diverged
			if _, err := w.Train(t.Context(), base, nil, work, make([]int64, len(base))); !errors.As(err, &d) || d.Task != 42 || d.Client != 7 {
				t.Errorf("%s at rate %g: %v, want diverged: task 42, client 7", algorithm.Compressions.NameOf(c), rate, err)
			}
		}
	}
}

func TestTrainer_EvaluateAddsParts(t *testing.T) {
	model, set, base := world(t)
	w := trainer(t, model, set)
	n := 300
	loss, right, err := w.Evaluate(t.Context(), base, Measured{Client: HeldOut, FirstSample: 0, Count: n})
	if err != nil {
		t.Fatal(err)
	}
	sum, correct := 0.0, 0.0
	for from := 0; from < n; from += evaluationBatch {
		l, r, err := w.Evaluate(t.Context(), base, Measured{Client: HeldOut, FirstSample: from, Count: min(evaluationBatch, n-from)})
		if err != nil {
			t.Fatal(err)
		}
		sum += l
		correct += r[0].Sum
	}
	if loss != sum || right[0] != (learn.Score{Sum: correct, Weight: float64(n)}) {
		t.Errorf("%g, %v in one, %g, %g in parts", loss, right, sum, correct)
	}
	if mean := loss / float64(n); math.Abs(mean-math.Log(62)) > 0.5 {
		t.Errorf("an untrained model has mean loss %g, expected about ln 62 = %.2f", mean, math.Log(62))
	}
}

// A client's own samples are measured as far as asked, spread evenly over all of them.
func TestTrainer_EvaluateClientTakesOwnSamples(t *testing.T) {
	model, set, base := world(t)
	w, work := trainer(t, model, set), model.NewWorkspace(1, fastest(t))
	own := set.Samples(3)
	for _, count := range []int{1, own / 2, own} {
		loss, correct, err := w.Evaluate(t.Context(), base, Measured{Client: 3, Count: count})
		if err != nil {
			t.Fatal(err)
		}
		sum, right := 0.0, make([]learn.Score, 1)
		for i := range count {
			var one learn.Batch
			if err := set.Batch(&one, 3, []int32{int32(i * own / count)}); err != nil {
				t.Fatal(err)
			}
			l, err := work.Evaluate(base, &one, right)
			if err != nil {
				t.Fatal(err)
			}
			sum += l
		}
		if math.Abs(loss-sum) > 1e-6*sum || correct[0] != right[0] {
			t.Errorf("%d of %d samples: %g, %v, one by one %g, %v", count, own, loss, correct, sum, right)
		}
	}
}

func TestTrainer_CancelledTrainingStops(t *testing.T) {
	model, set, base := world(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	work := []Assignment{{Task: 1, Client: 0, LocalSteps: 1 << 20, Rate: 0.1, Weight: 1}}
	if _, err := trainer(t, model, set).Train(ctx, base, nil, work, make([]int64, len(base))); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context canceled", err)
	}
}

func TestTrainer_ModelAndDataMustFit(t *testing.T) {
	_, set, _ := world(t)
	other, err := learn.Parse("mlp:10,5,2")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewTrainer(Problem{Model: other, Set: set, Seed: 1, Batch: 32, Augment: NoAugment, Algorithm: algorithm.Default}); err == nil || !strings.Contains(err.Error(), "784") {
		t.Errorf("error %v, want one that names both sizes", err)
	}
}

// What the client halves cost beside plain steps.
func BenchmarkClientHalves(b *testing.B) {
	model, err := learn.Parse("mlp:784,200,200,62")
	if err != nil {
		b.Fatal(err)
	}
	_, set, _ := world(b)
	base := make([]float32, model.Params())
	model.Init(base, 1)
	for name, a := range map[string]algorithm.Algorithm{"plain": algorithm.Default, "momentum": algorithm.Default, "proximal": algorithm.FedProx{Mu: 0.01}, "variates": algorithm.Scaffold{}} {
		b.Run(name, func(b *testing.B) {
			w := trainerOf(b, model, set, a)
			if name == "momentum" {
				w = trainerBy(b, model, set, a, learn.SGD{Momentum: 0.9})
			}
			var shared *Shared
			if name == "variates" {
				shared = &Shared{Weight: 1}
			}
			sum := make([]int64, w.SumLength(shared))
			const steps = 20
			for b.Loop() {
				work := []Assignment{{Task: 1, Client: 3, LocalSteps: steps, Rate: 0.1, Weight: 1}}
				if _, err := w.Train(b.Context(), base, shared, work, sum); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*steps), "µs/step")
		})
	}
}
