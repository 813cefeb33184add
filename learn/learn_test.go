package learn

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"fedpace/learn/internal/kernel"
)

// here is the fastest kernel.
func here() Kernel { return Kernel{fastest()} }

// on makes a workspace that runs other instructions.
func on(m Model, maxBatch int, isa kernel.ISA) Workspace {
	return m.NewWorkspace(maxBatch, Kernel{isa})
}

// everyISA runs a test once for each instruction set of this machine.
func everyISA(t *testing.T, f func(t *testing.T, isa kernel.ISA)) {
	for _, isa := range kernel.Available() {
		t.Run(isa.String(), func(t *testing.T) { f(t, isa) })
	}
}

func parse(t testing.TB, spec string) Model {
	t.Helper()
	m, err := Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// evaluate measures a model: the sum of the samples' losses, and how many are right
// for a classifier.
func evaluate(m Model, w Workspace, params []float32, b *Batch) (lossSum float64, correct int, err error) {
	scores := make([]Score, len(m.Metrics()))
	lossSum, err = w.Evaluate(params, b, scores)
	if err == nil && len(scores) > 0 {
		if n := scores[0].Weight; n != float64(b.N) {
			err = fmt.Errorf("the accuracy of %d samples has weight %g", b.N, n)
		}
		correct = int(scores[0].Sum)
	}
	return lossSum, correct, err
}

// randomBatch fills a batch that suits the model.
func randomBatch(m Model, n int, r *rand.Rand) *Batch {
	b := &Batch{N: n}
	if m.Samples().Input == Sparse {
		b.RowStart = append(b.RowStart, 0)
	}
	for range n * m.Samples().Targets {
		b.Targets = append(b.Targets, r.Float32())
	}
	for range n {
		if m.Samples().Targets == 0 {
			b.Labels = append(b.Labels, r.Int32N(int32(m.Samples().Classes)))
		}
		switch m.Samples().Input {
		case Dense:
			for range m.Samples().Features {
				b.X = append(b.X, r.Float32()*2-1)
			}
		case Tokens:
			for range m.Samples().Features {
				b.Tokens = append(b.Tokens, uint8(r.IntN(m.Samples().Vocabulary)))
			}
		case Sparse:
			words := r.Perm(m.Samples().Features)[:r.IntN(min(m.Samples().Features, 12)+1)]
			slices.Sort(words)
			for _, w := range words {
				b.Index = append(b.Index, int32(w))
				b.Value = append(b.Value, r.Float32())
			}
			b.RowStart = append(b.RowStart, int32(len(b.Index)))
		}
	}
	return b
}

func wide(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

// distance is the norm of the difference over the norm of the second.
func distance[T float32 | float64](got []float32, want []T) float64 {
	var d, n float64
	for i, w := range want {
		d += (float64(got[i]) - float64(w)) * (float64(got[i]) - float64(w))
		n += float64(w) * float64(w)
	}
	return math.Sqrt(d / n)
}

var small = []string{
	"linear:40,2", "linear:17,5", "linear:1,2",
	"mlp:7,2", "mlp:1,2", "mlp:19,33,4", "mlp:50,15,31,10", "mlp:784,62",
	"cnn:2x10x10,3,5,7,4", "cnn:1x13x16,4,3,6,3", "cnn:3x17x12,2,17,5,9",
	"gru:1,3,2,2,1", "gru:5,7,3,4,1", "gru:6,5,2,9,2", "gru:9,4,1,3,3",
}

// listed are lists of layers that together have all.
var listed = []string{
	drops,
	"layers:values=19,targets=3;norm(1),dense(8),relu,residual([dense(8),relu]),norm(4),relu,dense(3)",
	"layers:image=3x9x11,classes=5;conv(8,3,1,1),norm(4),relu,residual([conv(6,3,1,2),norm(2),relu,conv(6,3,1,1)]),relu,pool(2),average,flatten,dense(5)",
	"layers:words=40,classes=5;dense(9),relu,dense(5)",
	"layers:tokens=7x13,classes=4;embedding(5),gru(6,2,all),dropout(0.2),average,dense(4)",
}

func TestModels_ParametersOfTable1(t *testing.T) {
	for spec, want := range map[string]int{
		"linear:5000,2":             10_002,
		"mlp:784,200,200,62":        209_662,
		"cnn:3x32x32,32,64,512,100": 1_250_852,
		"gru:80,79,8,128,2":         162_887,
	} {
		m := parse(t, spec)
		if m.Params() != want {
			t.Errorf("%s has %d parameters, want %d", spec, m.Params(), want)
		}
		if m.String() != spec {
			t.Errorf("%s calls itself %s", spec, m)
		}
	}
}

func TestTensors_TileParameters(t *testing.T) {
	for _, spec := range slices.Concat(small, listed) {
		m := parse(t, spec)
		at := 0
		for _, part := range m.Tensors() {
			if part.Offset != at {
				t.Errorf("%s: %s starts at %d, want %d", spec, part.Name, part.Offset, at)
			}
			at += part.Len()
		}
		if at != m.Params() {
			t.Errorf("%s: tensors hold %d of %d parameters", spec, at, m.Params())
		}
	}
}

func TestParse_Refused(t *testing.T) {
	for spec, want := range map[string]string{
		"":                                    "not an architecture",
		"lstm:3,4":                            "not an architecture",
		"linear":                              "(features,classes)",
		"linear:5000":                         "(features,classes)",
		"linear:0,2":                          "0 features",
		"linear:5000,2,2":                     "(features,classes)",
		"mlp:784":                             "FEATURES,HIDDEN",
		"mlp:784,0,62":                        "mlp[1]: 0 is out of range",
		"mlp:784,-1,62":                       "mlp[1]: -1 is out of range",
		"mlp:784,+1,62":                       "shortest form",
		"mlp:784,1":                           "at least 2 classes",
		"mlp:1e3,62":                          "shortest form",
		"mlp:1048576,1048576":                 "parameters",
		"mlp:99999999999999,2":                "mlp[0]: 99999999999999 is out of range",
		"mlp:2" + strings.Repeat(",2", 256):   "more than 256",
		"cnn:32,32,64,512,100":                "image",
		"cnn:3x32x32,32,64,512":               "want 3 (channels, height, width) and 2",
		"cnn:3x9x32,32,64,512,100":            "1×13 cannot be pooled by 2",
		"cnn:1048576x1048576x1048576,1,1,1,2": "features",
		"cnn:1x1024x1024,1048576,1048576,1048576,2": "wide",
		"gru:80,79,8,128":         "(length,vocabulary,embedding,state,layers)",
		"gru:80,257,8,128,2":      "vocabulary",
		"gru:80,1,8,128,2":        "vocabulary: 1 is out of range",
		"gru:80,79,8,128,65":      "layers",
		"gru:1048576,79,8,1024,2": "more than 8388608 values of one sample",
	} {
		if _, err := Parse(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q): %v, want an error with %q", spec, err, want)
		}
	}
}

func TestInit_UniformWithinFanIn(t *testing.T) {
	m := parse(t, "mlp:784,200,200,62")
	a, b, other := make([]float32, m.Params()), make([]float32, m.Params()), make([]float32, m.Params())
	m.Init(a, 1)
	m.Init(b, 1)
	m.Init(other, 2)
	if !slices.Equal(a, b) {
		t.Error("one seed gives two models")
	}
	if slices.Equal(a, other) {
		t.Error("two seeds give one model")
	}
	fan := []int{784, 784, 200, 200, 200, 200}
	for i, part := range m.Tensors() {
		bound := 1 / math.Sqrt(float64(fan[i]))
		var sum, square float64
		for _, v := range a[part.Offset:][:part.Len()] {
			if math.Abs(float64(v)) > bound*(1+1e-6) {
				t.Fatalf("%s holds %g, beyond %g", part.Name, v, bound)
			}
			sum += float64(v)
			square += float64(v) * float64(v)
		}
		n := float64(part.Len())
		// Six standard errors of the mean and of the mean square of a uniform.
		if math.Abs(sum/n) > 6*bound/math.Sqrt(3*n) {
			t.Errorf("%s has mean %g", part.Name, sum/n)
		}
		if math.Abs(square/n-bound*bound/3) > 6*bound*bound*math.Sqrt(4/45.0/n) {
			t.Errorf("%s has mean square %g, want %g", part.Name, square/n, bound*bound/3)
		}
	}
}

// The gradient is the derivative of the float64 loss, by central differences, which
// are taken once for all classes.
func TestGradient_AgainstFiniteDifferences(t *testing.T) {
	t.Parallel()
	onlyLonger(t)
	for _, spec := range small {
		for _, n := range []int{1, 3, 16, 33} {
			m := parse(t, spec)
			r := rand.New(rand.NewPCG(1, uint64(n)))
			params := make([]float32, m.Params())
			m.Init(params, 3)
			b := randomBatch(m, n, r)
			x := wide(params)
			wantLoss, derivatives := referenceLoss(m, x, b), map[int]float64{}
			for range 60 {
				i := r.IntN(len(x))
				const h = 1e-5
				keep := x[i]
				x[i] = keep + h
				up := referenceLoss(m, x, b)
				x[i] = keep - h
				down := referenceLoss(m, x, b)
				x[i] = keep
				derivatives[i] = (up - down) / (2 * h)
			}
			for _, c := range kernel.Available() {
				grad := make([]float32, len(params))
				loss, err := on(m, 40, c).Gradient(grad, params, b)
				if err != nil {
					t.Fatal(err)
				}
				if math.Abs(loss-wantLoss) > 1e-5*wantLoss {
					t.Errorf("%s on %v, %d samples: loss %v, want %v", spec, c, n, loss, wantLoss)
				}
				for i, want := range derivatives {
					if math.Abs(float64(grad[i])-want) > 2e-6+1e-4*math.Abs(want) {
						t.Errorf("%s on %v, %d samples: d loss / d x[%d] = %v, want %v", spec, c, n, i, grad[i], want)
					}
				}
			}
		}
	}
}

func TestStep_FollowsGradient(t *testing.T) {
	everyISA(t, func(t *testing.T, isa kernel.ISA) {
		for _, spec := range slices.Concat(small, listed) {
			for _, n := range []int{1, 5, 32, 40} {
				m := parse(t, spec)
				w := on(m, 40, isa)
				params, grad := make([]float32, m.Params()), make([]float32, m.Params())
				m.Init(params, 3)
				b := randomBatch(m, n, rand.New(rand.NewPCG(2, uint64(n))))
				before, err := w.Gradient(grad, params, b)
				if err != nil {
					t.Fatal(err)
				}
				want := wide(params)
				for i, g := range grad {
					want[i] -= 0.3 * float64(g)
				}
				loss, err := w.Step(params, b, 0.3)
				if err != nil {
					t.Fatal(err)
				}
				if loss != before {
					t.Errorf("%s: the step's loss is %v, the gradient's %v", spec, loss, before)
				}
				if d := distance(params, want); d > 1e-7 {
					t.Errorf("%s, %d samples: step is %g off", spec, n, d)
				}
			}
		}
	})
}

func TestEvaluate_AgainstReference(t *testing.T) {
	everyISA(t, func(t *testing.T, isa kernel.ISA) {
		for _, spec := range small {
			for _, n := range []int{1, 31, 32, 70} {
				m := parse(t, spec)
				params := make([]float32, m.Params())
				m.Init(params, 4)
				b := randomBatch(m, n, rand.New(rand.NewPCG(5, uint64(n))))
				loss, correct, err := evaluate(m, on(m, 70, isa), params, b)
				if err != nil {
					t.Fatal(err)
				}
				right := 0
				for s, z := range referenceLogits(m, wide(params), b) {
					if slices.Index(z, slices.Max(z)) == int(b.Labels[s]) {
						right++
					}
				}
				want := referenceLoss(m, wide(params), b) * float64(n)
				if math.Abs(loss-want) > 1e-5*want || correct != right {
					t.Errorf("%s, %d samples: loss %v and %d correct, want %v and %d", spec, n, loss, correct, want, right)
				}
			}
		}
	})
}

// The sparse model computes what a dense layer computes on the same samples, and
// leaves the columns of absent words alone.
func TestLinear_SparseEqualsDense(t *testing.T) {
	sparse, dense := parse(t, "linear:300,2"), parse(t, "mlp:300,2")
	r := rand.New(rand.NewPCG(8, 8))
	a := make([]float32, sparse.Params())
	sparse.Init(a, 1)
	b := slices.Clone(a)
	start := slices.Clone(a)
	ws, wd := sparse.NewWorkspace(8, here()), on(dense, 8, kernel.Go)
	used := make([]bool, 300)
	for range 20 {
		batch := randomBatch(sparse, 8, r)
		full := &Batch{N: 8, Labels: batch.Labels, X: make([]float32, 8*300)}
		for s := range 8 {
			for j := batch.RowStart[s]; j < batch.RowStart[s+1]; j++ {
				full.X[s*300+int(batch.Index[j])] = batch.Value[j]
				used[batch.Index[j]] = true
			}
		}
		la, err := ws.Step(a, batch, 0.5)
		if err != nil {
			t.Fatal(err)
		}
		lb, err := wd.Step(b, full, 0.5)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(la-lb) > 1e-6 {
			t.Errorf("sparse loss %v, dense %v", la, lb)
		}
	}
	if d := distance(a, b); d > 1e-6 {
		t.Errorf("sparse and dense parameters are %g apart", d)
	}
	for x, u := range used {
		if !u && (a[x] != start[x] || a[300+x] != start[300+x]) {
			t.Errorf("column %d changed without a word", x)
		}
	}
}

func TestWorkspace_BadBatches(t *testing.T) {
	good := func(m Model) *Batch { return randomBatch(m, 4, rand.New(rand.NewPCG(1, 1))) }
	for _, c := range []struct {
		spec, want string
		spoil      func(b *Batch)
	}{
		{"mlp:5,3", "batch of 0 samples", func(b *Batch) { b.Reset() }},
		{"mlp:5,3", "batch of 9 samples", func(b *Batch) { b.N = 9 }},
		{"mlp:5,3", "3 labels", func(b *Batch) { b.Labels = b.Labels[:3] }},
		{"mlp:5,3", "label 3", func(b *Batch) { b.Labels[1] = 3 }},
		{"mlp:5,3", "label -1", func(b *Batch) { b.Labels[1] = -1 }},
		{"mlp:5,3", "reads 5 a sample", func(b *Batch) { b.X = b.X[:19] }},
		{"gru:5,7,3,4,1", "reads 5 a sample", func(b *Batch) { b.Tokens = b.Tokens[:19] }},
		{"gru:5,7,3,4,1", "sample 1 of the batch: token 7", func(b *Batch) { b.Tokens[9] = 7 }},
		{"gru:5,7,3,4,1", "label 7", func(b *Batch) { b.Labels[0] = 7 }},
		{"cnn:2x10x10,3,5,7,4", "reads 200 a sample", func(b *Batch) { b.X = b.X[:799] }},
		{"cnn:2x10x10,3,5,7,4", "label 4", func(b *Batch) { b.Labels[0] = 4 }},
		{"linear:50,2", "batch of 0 samples", func(b *Batch) { b.Reset() }},
		{"linear:50,2", "label 2", func(b *Batch) { b.Labels[0] = 2 }},
		{"linear:50,2", "do not fit", func(b *Batch) { b.RowStart = b.RowStart[:4] }},
		{"linear:50,2", "do not fit", func(b *Batch) { b.Value = b.Value[1:] }},
		{"linear:50,2", "ends before", func(b *Batch) { b.RowStart[1] = b.RowStart[4] + 1 }},
		{"linear:50,2", "index 50", func(b *Batch) { b.Index[0] = 50 }},
		{"linear:50,2", "index -1", func(b *Batch) { b.Index[0] = -1 }},
	} {
		m := parse(t, c.spec)
		b := good(m)
		c.spoil(b)
		w := m.NewWorkspace(8, here())
		params, grad := make([]float32, m.Params()), make([]float32, m.Params())
		_, stepErr := w.Step(params, b, 0.1)
		_, gradErr := w.Gradient(grad, params, b)
		_, _, evalErr := evaluate(m, w, params, b)
		for _, err := range []error{stepErr, gradErr, evalErr} {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want an error with %q", c.spec, err, c.want)
			}
		}
	}
}

func TestWorkspace_Divergence(t *testing.T) {
	everyISA(t, func(t *testing.T, isa kernel.ISA) {
		for _, spec := range []string{"mlp:5,3", "mlp:5,20,3", "linear:50,2", "cnn:2x10x10,3,5,7,4", "gru:5,7,3,4,1"} {
			for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
				m := parse(t, spec)
				params, grad := make([]float32, m.Params()), make([]float32, m.Params())
				m.Init(params, 1)
				params[len(params)-1] = float32(bad) // a bias that every sample reads
				b := randomBatch(m, 4, rand.New(rand.NewPCG(1, 1)))
				for i := range b.Labels {
					b.Labels[i] = int32(m.Samples().Classes - 1)
				}
				w := on(m, 8, isa)
				_, _, e1 := evaluate(m, w, params, b)
				_, e2 := w.Gradient(grad, params, b)
				_, e3 := w.Step(params, b, 0.1)
				for _, err := range []error{e1, e2, e3} {
					if !errors.Is(err, ErrNotFinite) {
						t.Errorf("%s with %v: %v", spec, bad, err)
					}
				}
			}
		}
	})
}

func TestStep_AllocatesNothing(t *testing.T) {
	everyISA(t, func(t *testing.T, isa kernel.ISA) {
		for _, spec := range slices.Concat(small, listed) {
			m := parse(t, spec)
			params, grad := make([]float32, m.Params()), make([]float32, m.Params())
			m.Init(params, 1)
			b := randomBatch(m, 33, rand.New(rand.NewPCG(1, 1)))
			w, scores := on(m, 40, isa), make([]Score, 1)
			if n := testing.AllocsPerRun(10, func() {
				_, _ = w.Step(params, b, 0.1)
				_, _ = w.Gradient(grad, params, b)
				_, _ = w.Evaluate(params, b, scores)
			}); n != 0 {
				t.Errorf("%s: %v allocations", spec, n)
			}
		}
	})
}

func TestAddExact_AnyOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const n, clients = 1003, 9
	base := make([]float32, n)
	models := make([][]float32, clients)
	for i := range base {
		base[i] = float32(r.NormFloat64())
	}
	for c := range models {
		models[c] = make([]float32, n)
		for i := range base {
			models[c][i] = base[i] + float32(r.NormFloat64())*float32(math.Exp2(float64(r.IntN(40)-30)))
		}
	}
	sum := func(order []int) []int64 {
		s := make([]int64, n)
		for _, c := range order {
			if bad := AddExact(s, 1.0/clients, models[c], base); bad != -1 {
				t.Fatalf("element %d of client %d refused", bad, c)
			}
		}
		return s
	}
	want := make([]int64, n)
	for _, x := range models {
		for i := range want {
			want[i] += int64(math.RoundToEven(0x1p44 * (1.0 / clients) * (float64(x[i]) - float64(base[i]))))
		}
	}
	for range 5 {
		if !slices.Equal(sum(r.Perm(clients)), want) {
			t.Fatal("the sum depends on the order, or is not the definition's")
		}
	}
}

func TestAddExact_Refused(t *testing.T) {
	inf := float32(math.Inf(1))
	nan := float32(math.NaN())
	for _, c := range []struct{ x, base float32 }{
		{1 << 17, 0}, {-(1 << 17), 0}, {1 << 16, -(1 << 16)}, {inf, 0}, {-inf, 0}, {nan, 0}, {0, nan}, {inf, inf},
	} {
		for _, at := range []int{0, 7, 8, 63, 70} {
			x, base := make([]float32, 71), make([]float32, 71)
			x[at], base[at] = c.x, c.base
			if got := AddExact(make([]int64, 71), 1, x, base); got != at {
				t.Errorf("%v - %v at %d: refused at %d", c.x, c.base, at, got)
			}
		}
	}
	x := []float32{math.Nextafter32(1<<17, 0)}
	dst := []int64{5}
	if got := AddExact(dst, 1, x, []float32{0}); got != -1 || dst[0] != int64(float64(x[0])*0x1p44)+5 {
		t.Errorf("the largest difference: refused at %d, sum %d", got, dst[0])
	}
}

// A workspace carries nothing from one batch to the next, whatever their sizes.
func TestWorkspace_Forgets(t *testing.T) {
	everyISA(t, func(t *testing.T, isa kernel.ISA) {
		for _, spec := range slices.Concat(small, listed) {
			m := parse(t, spec)
			x := make([]float32, m.Params())
			m.Init(x, 1)
			r := rand.New(rand.NewPCG(1, 1))
			used := on(m, 40, isa)
			for _, n := range []int{40, 3, 33, 1, 20} {
				b := randomBatch(m, n, r)
				a, f := slices.Clone(x), slices.Clone(x)
				la, err := used.Step(a, b, 0.3)
				if err != nil {
					t.Fatal(err)
				}
				lf, err := on(m, 40, isa).Step(f, b, 0.3)
				if err != nil {
					t.Fatal(err)
				}
				if la != lf || !slices.Equal(a, f) {
					t.Errorf("%s, %d samples: a used workspace and a fresh one differ", spec, n)
				}
			}
		}
	})
}

// Workers share a model and nothing else.
func TestWorkspace_WorkersShareNothing(t *testing.T) {
	for _, spec := range []string{"linear:40,2", "mlp:19,33,4", "cnn:2x10x10,3,5,7,4", "gru:5,7,3,4,1"} {
		m := parse(t, spec)
		start := make([]float32, m.Params())
		m.Init(start, 1)
		run := func(seed uint64) []float32 {
			x := slices.Clone(start)
			w := m.NewWorkspace(32, here())
			r := rand.New(rand.NewPCG(seed, 1))
			for range 10 {
				if _, err := w.Step(x, randomBatch(m, 32, r), 0.1); err != nil {
					t.Error(err)
				}
			}
			return x
		}
		var together [4][]float32
		var group sync.WaitGroup
		for i := range together {
			group.Go(func() { together[i] = run(uint64(i)) })
		}
		group.Wait()
		for i, got := range together {
			if !slices.Equal(got, run(uint64(i))) {
				t.Errorf("%s: worker %d differs beside others", spec, i)
			}
		}
	}
}
