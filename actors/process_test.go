package actors

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"fedpace/actors/external"
	"fedpace/actors/external/externaltest"
	"fedpace/algorithm"
	"fedpace/data/federated"
	"fedpace/data/synthetic"
	"fedpace/internal/testkit/slow"
	"fedpace/learn"
)

func TestMain(m *testing.M) {
	if externaltest.Started() {
		externaltest.Main()
	}
	os.Exit(m.Run())
}

// program starts the test's trainer on a set. If set is nil, the trainer has data of its own.
func program(t *testing.T, set federated.Set, flags ...string) *external.Program {
	t.Helper()
	c := external.Config{Command: externaltest.Command(flags...)}
	var err error
	if set != nil {
		c.Data, err = external.Share(set)
		if err != nil {
			t.Fatal(err)
		}
	}
	p, err := external.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// both returns a problem's trainers, one in Go and one in another process.
func both(t *testing.T, p Problem, flags ...string) (here, there *Trainer) {
	t.Helper()
	here, err := NewTrainer(p)
	if err != nil {
		t.Fatal(err)
	}
	q := p
	q.Trainer = program(t, p.Set, append(flags, "-model", p.Model.String())...)
	q.Model = q.Trainer.Model()
	there, err = NewTrainer(q)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := there.Close(); err != nil {
			t.Error(err)
		}
	})
	return here, there
}

var someWork = []Assignment{
	{Task: 1, Client: 3, LocalSteps: 5, StepsDone: 0, Rate: 0.1, Weight: 0.25},
	{Task: 2, Client: 7, LocalSteps: 2, StepsDone: 40, Rate: 0.1, Weight: 0.5},
	{Task: 3, Client: 1, LocalSteps: 3, StepsDone: 2, Rate: 0.05, Batch: 7, Weight: 0.25},
}

// A trainer of another process comes to the bits of the same steps here: for samples of
// all kinds, with any minibatches, and in evaluations.
func TestProcess_StepsOfExternalTrainer(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	for task, line := range map[string]string{
		"femnist": "mlp:784,12,62", "sent140": "linear:5000,2", "shakespeare": "gru:80,79,8,16,1", "logistic": "mlp:20,6,5",
		"cifar100": "mlp:3072,4,100",
	} {
		t.Run(task, func(t *testing.T) {
			set, err := synthetic.New(task, 10, 1, 1)
			if err != nil {
				t.Fatal(err)
			}
			model, err := learn.Parse(line)
			if err != nil {
				t.Fatal(err)
			}
			checkSame(t, model, Problem{Set: set, Seed: 5, Batch: 16}, 4)
		})
	}
}

// checkSame checks that a trainer in another process gets the same sums, losses and scores as one in Go. client is one
// of the clients that are measured.
func checkSame(t *testing.T, model learn.Model, p Problem, client int) {
	t.Helper()
	base := make([]float32, model.Params())
	model.Init(base, 1)
	p.Model, p.Augment, p.Algorithm, p.Kernel = model, NoAugment, algorithm.Default, fastest(t)
	work := slices.Clone(someWork)
	// A task on some of its client's samples, as where these arrive over time.
	work = append(work, Assignment{
		Task: 4, Client: 1, LocalSteps: 4, StepsDone: 3, FirstSample: 1, Samples: 1, Rate: 0.1, Weight: 0.25,
	})
	for i := range work {
		work[i].Client %= p.Set.Clients()
	}
	here, there := both(t, p)
	want, got := make([]int64, len(base)), make([]int64, len(base))
	a, errA := here.Train(t.Context(), base, nil, work, want)
	b, errB := there.Train(t.Context(), base, nil, work, got)
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	if !slices.Equal(got, want) || a[2].FirstStepLoss != b[2].FirstStepLoss || a[0].FirstStepLoss != b[0].FirstStepLoss {
		t.Error("another sum, or other losses")
	}
	for _, client := range []int{HeldOut, client} {
		measure := func(w *Trainer) (float64, []learn.Score) {
			loss, scores, err := w.Evaluate(t.Context(), base, Measured{Client: HeldOut, FirstSample: 2, Count: 3})
			if client != HeldOut {
				loss, scores, err = w.Evaluate(t.Context(), base, Measured{Client: client, Count: 9})
			}
			if err != nil {
				t.Fatal(err)
			}
			return loss, scores
		}
		lossA, scoresA := measure(here)
		if lossB, scoresB := measure(there); lossA != lossB || !slices.Equal(scoresA, scoresB) {
			t.Errorf("client %d: loss %g and %v, want %g and %v", client, lossB, scoresB, lossA, scoresA)
		}
	}
}

// FedProx, SCAFFOLD, an optimizer and compression through another process are those of
// the steps here, up to the order of an addition.
func TestProcess_AlgorithmsThroughExternalTrainer(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	model, set, base := world(t)
	for name, p := range map[string]Problem{
		"fedprox":  {Algorithm: algorithm.FedProx{Rate: 1, Mu: 0.5}},
		"scaffold": {Algorithm: algorithm.Scaffold{Rate: 1}},
		"momentum": {Algorithm: algorithm.FedProx{Rate: 1, Mu: 0.5}, Optimizer: learn.SGD{Momentum: 0.9, WeightDecay: 0.01}},
		"top_k":    {Algorithm: algorithm.Default, Compression: algorithm.TopK{Share: 0.1, Feedback: true}},
	} {
		t.Run(name, func(t *testing.T) {
			p.Model, p.Set, p.Seed, p.Batch, p.Augment, p.Kernel = model, set, 1, 32, NoAugment, fastest(t)
			here, there := both(t, p)
			var shared *Shared
			work := slices.Clone(someWork)
			switch name {
			case "scaffold":
				mean, own := slices.Clone(base), slices.Clone(base)
				for i := range own {
					mean[i], own[i] = mean[i]/7, -own[i]/3
				}
				shared = &Shared{Mean: mean, Weight: 1. / 200}
				work[1].State = own
			case "top_k":
				shared = &Shared{Residuals: true}
				work[0].State = base
			}
			want, got := make([]int64, here.SumLength(shared)), make([]int64, here.SumLength(shared))
			a, errA := here.Train(t.Context(), base, shared, work, want)
			b, errB := there.Train(t.Context(), base, shared, work, got)
			if errA != nil || errB != nil {
				t.Fatal(errA, errB)
			}
			for i := range want {
				if d := math.Abs(float64(got[i]-want[i])) / (1 << 44); d > 1e-5 {
					t.Fatalf("value %d of the sum is %g off", i, d)
				}
			}
			for i := range a {
				for j := range a[i].State {
					if d := math.Abs(float64(a[i].State[j] - b[i].State[j])); d > 1e-5 {
						t.Fatalf("task %d: value %d of what the client keeps is %g off", i, j, d)
					}
				}
			}
		})
	}
}

// What is not trained is averaged as it is: it is not pulled, corrected or compressed.
func TestProcess_FrozenParameters(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	model, set, base := world(t)
	const buffers = 5
	from := append(slices.Clone(base), 0.5, 0.25, -1, 2, 0)
	// Each client's running means: 0.9 of what they were and 0.1 of the first sample's values, step by step.
	means := func(a Assignment) []float64 {
		means := []float64{0.5, 0.25, -1, 2, 0}
		minibatches(t, set, a, func(_ int, b *learn.Batch) {
			for i := range means {
				means[i] = 0.9*means[i] + 0.1*float64(b.X[i])
			}
		})
		return means
	}
	work := []Assignment{
		{Task: 1, Client: 3, LocalSteps: 5, Rate: 0.1, Weight: 0.25},
		{Task: 2, Client: 7, LocalSteps: 2, StepsDone: 40, Rate: 0.1, Weight: 0.75},
	}
	a, b := means(work[0]), means(work[1])
	for name, p := range map[string]Problem{
		"fedavg":   {Algorithm: algorithm.Default},
		"fedprox":  {Algorithm: algorithm.FedProx{Rate: 1, Mu: 50}},
		"scaffold": {Algorithm: algorithm.Scaffold{Rate: 1}},
		"fedadam":  {Algorithm: algorithm.FedAdam{Rate: 0.01, Beta1: 0.9, Beta2: 0.99, Tau: 1e-3}},
		"sign":     {Algorithm: algorithm.Default, Compression: algorithm.Sign{Step: 0.01}},
		"top_k":    {Algorithm: algorithm.Default, Compression: algorithm.TopK{Share: 1e-4, Feedback: true}},
	} {
		t.Run(name, func(t *testing.T) {
			p.Model, p.Set, p.Seed, p.Batch, p.Augment, p.Kernel = model, set, 1, 32, NoAugment, fastest(t)
			p.Trainer = program(t, set, "-buffers", fmt.Sprint(buffers))
			p.Model = p.Trainer.Model()
			w, err := NewTrainer(p)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := w.Close(); err != nil {
					t.Error(err)
				}
			}()
			var shared *Shared
			switch name {
			case "scaffold":
				shared = &Shared{Mean: slices.Repeat([]float32{3}, len(from)), Weight: 1. / 200}
			case "top_k":
				shared = &Shared{Residuals: true}
			}
			sum := make([]int64, w.SumLength(shared))
			outcomes, err := w.Train(t.Context(), from, shared, work, sum)
			if err != nil {
				t.Fatal(err)
			}
			next := slices.Clone(from)
			instance := algorithm.NewInstance(p.Algorithm, p.Compression, len(from), len(base), 0, 200)
			instance.Decide(sum[:len(from)])
			instance.Server.Apply(next, sum[:len(from)], 1)
			if !slices.Equal(next[len(base):], from[len(base):]) {
				t.Error("the sum moves buffers, which clients send beside it")
			}
			for client, want := range [][]float64{a, b} {
				o := outcomes[client]
				sent := slices.Clone(from[len(base):])
				copy(sent[o.FirstBuffer:], o.Buffers)
				for i, x := range sent {
					if math.Abs(float64(x)-want[i]) > 1e-5 {
						t.Errorf("client %d sends the running mean %d as %g, want %g", client, i, x, want[i])
					}
				}
			}
			if slices.Equal(next[:len(base)], base) {
				t.Error("nothing was learned")
			}
			for _, o := range outcomes {
				if o.State != nil && slices.ContainsFunc(o.State[len(base):], func(x float32) bool { return x != 0 }) {
					t.Error("a client keeps something of what is not trained")
				}
			}
			state := instance.Server.State()
			if err := instance.Server.Restore(state); err != nil {
				t.Error(err)
			}
			for _, v := range state {
				if len(v) != len(from) || slices.ContainsFunc(v[len(base):], func(x float64) bool { return x != 0 }) {
					t.Errorf("the server keeps %v of what is not trained", v[len(base):])
				}
			}
		})
	}
}

// A trainer's own samples are numbered client by client.
func TestProcess_TrainersOwnSamples(t *testing.T) {
	t.Parallel()
	set, err := synthetic.New("femnist", 12, 3, 1) // as the test's trainer makes it
	if err != nil {
		t.Fatal(err)
	}
	model, _, base := world(t)
	p := Problem{Model: model, Set: set, Seed: 1, Batch: 32, Augment: NoAugment, Algorithm: algorithm.Default, Kernel: fastest(t)}
	here, err := NewTrainer(p)
	if err != nil {
		t.Fatal(err)
	}
	p.Trainer = program(t, nil, "-own", "femnist")
	p.Model, p.Set = p.Trainer.Model(), p.Trainer.Set()
	if p.Set.Clients() != 12 || p.Set.Info().Digest != set.Info().Digest || p.Set.HeldOut() != set.HeldOut() || p.Set.Client(5) != set.Client(5) {
		t.Errorf("%d clients of %s", p.Set.Clients(), p.Set.Info().Name)
	}
	there, err := NewTrainer(p)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := there.Close(); err != nil {
			t.Error(err)
		}
	}()
	want, got := make([]int64, len(base)), make([]int64, len(base))
	_, errA := here.Train(t.Context(), base, nil, someWork, want)
	_, errB := there.Train(t.Context(), base, nil, someWork, got)
	if errA != nil || errB != nil || !slices.Equal(got, want) {
		t.Error("another sum", errA, errB)
	}
	lossA, _, errA := here.Evaluate(t.Context(), base, Measured{Client: HeldOut, FirstSample: 4, Count: 20})
	lossB, _, errB := there.Evaluate(t.Context(), base, Measured{Client: HeldOut, FirstSample: 4, Count: 20})
	if errA != nil || errB != nil || lossA != lossB {
		t.Error(lossA, lossB, errA, errB)
	}
}

// What a trainer cannot do is refused before a run, by name.
func TestProcess_UnableTrainer(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	_, set, _ := world(t)
	p := Problem{Set: set, Seed: 1, Batch: 32, Augment: NoAugment, Algorithm: algorithm.Default, Trainer: program(t, set)}
	p.Model = p.Trainer.Model()
	for want, q := range map[string]func(p *Problem){
		"augment: flip_crop is done in Go":                     func(p *Problem) { p.Augment = FlipCrop },
		"does not know the optimizer adam, but plain SGD, sgd": func(p *Problem) { p.Optimizer = learn.Adam{} },
		"minibatches of 0 samples":                             func(p *Problem) { p.Batch = 0 },
	} {
		r := p
		q(&r)
		if _, err := NewTrainer(r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A task whose update is not finite is found here.
func TestProcess_DivergingTrainer(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	model, set, base := world(t)
	_, there := both(t, Problem{Model: model, Set: set, Seed: 1, Batch: 32, Augment: NoAugment, Algorithm: algorithm.Default, Kernel: fastest(t)}, "-fault", "nan")
	_, err := there.Train(t.Context(), base, nil, someWork, make([]int64, len(base)))
	if d, ok := errors.AsType[*Diverged](err); !ok || d.Task != 2 || d.Client != 7 || !strings.Contains(d.Cause, "NaN") {
		t.Errorf("%v", err)
	}
}

// Own data that no set of the paper is like: numbers as targets, and windows of a text.
func TestProcess_StepsOnOwnData(t *testing.T) {
	t.Parallel()
	const rows = 24
	values, targets, text, next := []float32{}, []float32{}, []byte{}, []int32{}
	starts := make([]int32, rows)
	for i := range rows {
		x, y := float32(i%5)-2, float32(i%7)/3
		values, targets = append(values, x, y), append(targets, 3*x-y+0.25, x*y)
		text, next, starts[i] = append(text, byte(1+i%4)), append(next, int32(i%5)), int32(i)
	}
	text = append(text, 1, 2, 3)
	about := federated.Info{Name: "own", Digest: "0f"}
	dense, tokens := about, about
	dense.Samples = learn.Samples{Input: learn.Dense, Features: 2, Targets: 2}
	tokens.Samples = learn.Samples{Input: learn.Tokens, Features: 4, Vocabulary: 5, Classes: 5}
	group := func(s federated.Grouped) *federated.Grouped {
		var g federated.Grouping
		for c := range 4 {
			first := int32(6 * c)
			g.Add(fmt.Sprint(c), []int32{first + 1, first, first + 4, first + 2}, []int32{first + 5, first + 3})
		}
		set, err := g.Set(s)
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	for name, set := range map[string]federated.Set{
		"targets": group(federated.Grouped{About: dense, Targets: targets, Rows: &federated.FloatRows{Width: 2, Values: values}}),
		"windows": group(federated.Grouped{About: tokens, Labels: next, Rows: &federated.TextRows{Window: 4, Text: text, Starts: starts}}),
	} {
		t.Run(name, func(t *testing.T) {
			line := "layers:values=2,targets=2;dense(3),relu,dense(2)"
			if name == "windows" {
				line = "layers:tokens=4x5,classes=5;embedding(3),average,dense(5)"
			}
			model, err := learn.Parse(line)
			if err != nil {
				t.Fatal(err)
			}
			checkSame(t, model, Problem{Set: set, Seed: 5, Batch: 8}, 2)
		})
	}
}

// A buffer of any finite size is sent, and a batch norm on raw features trains. With differential privacy
// buffers are in the sum, which holds no such difference: the error names the tensor and a remedy.
func TestTrainer_BufferBeyondExactSums(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	model, set, base := world(t)
	p := Problem{Model: model, Set: set, Seed: 1, Batch: 32, Augment: NoAugment, Algorithm: algorithm.Default, Kernel: fastest(t)}
	p.Trainer = program(t, set, "-buffers", "5")
	p.Model = p.Trainer.Model()
	for name, c := range map[string]struct {
		compression algorithm.Compression
		sums        bool
	}{
		"whole":      {nil, false},
		"compressed": {algorithm.Sign{Step: 0.01}, false},
		"private":    {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := p
			p.Compression = c.compression
			p.SumsBuffers = c.sums
			w, err := NewTrainer(p)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()                                    // it has done its work
			far := append(slices.Clone(base), 0, 3e6, 0, 0, 0) // each step leaves 0.9 of the second running mean
			outcomes, err := w.Train(t.Context(), far, nil, someWork, make([]int64, len(far)))
			if c.sums {
				tensor := p.Model.Tensors()[len(p.Model.Tensors())-1].Name
				want := "of tensor " + tensor + ", moved from 3e+06 to"
				if d := (*Diverged)(nil); err == nil || errors.As(err, &d) || !strings.Contains(err.Error(), want) ||
					!strings.Contains(err.Error(), "differences below 2^17. It is not trained, and nothing diverged") {
					t.Errorf("%v, want %q", err, want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for i, o := range outcomes {
				want := 3e6 * math.Pow(0.9, float64(someWork[i].LocalSteps))
				if got := float64(o.Buffers[1-o.FirstBuffer]); math.Abs(got/want-1) > 1e-5 {
					t.Errorf("client %d sends %g, want %g", i, got, want)
				}
			}
		})
	}
}

func TestProblem_AlgorithmsOfPlainSteps(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	_, set, _ := world(t)
	p := Problem{Set: set, Seed: 1, Batch: 32, Augment: NoAugment, Algorithm: algorithm.FedNova{}, Trainer: program(t, set)}
	p.Model = p.Trainer.Model()
	for name, steps := range map[string]*external.OwnSteps{"the run's": nil, "plain": {Optimizer: "SGD", Plain: true}} {
		p.Trainer.Steps = steps
		if err := p.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	p.Trainer.Steps = &external.OwnSteps{Optimizer: "SGD", Momentum: 0.9}
	const counts = " counts on plain steps of SGD, and trainer test.go takes its own, SGD with momentum 0.9"
	refused := map[string]string{
		"fednova":   "fednova" + counts,
		"scaffold":  "scaffold" + counts,
		"decoupled": "and trainer test.go makes its own optimizer anew for each, SGD with momentum 0.9",
		"streaming": "and trainer test.go makes its own optimizer anew for each, SGD with momentum 0.9",
	}
	for _, name := range algorithm.Algorithms.Names() {
		p.Algorithm, _ = algorithm.Algorithms.Entry(name)
		err := p.Check()
		want := refused[name]
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// A model with a batch norm is refused before the run if some minibatch would have one sample.
func TestProblem_BatchNormNeedsTwoSamples(t *testing.T) {
	t.Parallel()
	model, err := learn.Parse("layers:values=3,classes=2;batch_norm,dense(2)")
	if err != nil {
		t.Fatal(err)
	}
	for want, sizes := range map[string][]int{
		"":                                   {2, 5},
		"client 1 (b) has 1 sample, and":     {2, 1},
		"minibatches of 1 sample, and batch": nil,
	} {
		p := Problem{Model: model, Batch: 4, Augment: NoAugment, Algorithm: algorithm.FedAvg{}, Set: sized{reads: model.Samples(), sizes: []int{3, 3}}}
		if sizes == nil {
			p.SmallestBatch = 1
		} else {
			p.Set = sized{reads: model.Samples(), sizes: sizes}
		}
		if err := p.Check(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", sizes, err, want)
		}
	}
}

// sized is a set of clients that have so many samples each.
type sized struct {
	federated.Set
	reads learn.Samples
	sizes []int
}

// Info returns a description that says only of what kind the samples are.
func (s sized) Info() federated.Info { return federated.Info{Samples: s.reads} }

// Clients returns the number of clients.
func (s sized) Clients() int { return len(s.sizes) }

// Client returns a client's name: a, b and so on.
func (s sized) Client(c int) string { return string(rune('a' + c)) }

// Samples returns a client's number of samples.
func (s sized) Samples(c int) int { return s.sizes[c] }
