package learn

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// quadraticSample appends a sample with its A diagonal in the basis that v's
// reflection makes.
func quadraticSample(b *Batch, at, a, v []float64) {
	for _, part := range [][]float64{at, a, v} {
		for _, x := range part {
			b.X = append(b.X, float32(x))
		}
	}
	b.Labels = append(b.Labels, 0)
	b.N++
}

// Worked by hand: v = (0.6, 0.8) reflects (1, 2) to (1, 2) − 2·2.2·v = (−1.64,
// −1.52); a = (1, 10) gives ½ (1.64² + 10·1.52²) and, reflected back, the gradient.
func TestQuadratic_WorkedExample(t *testing.T) {
	m := parse(t, "quadratic:2")
	b := new(Batch)
	quadraticSample(b, []float64{2, 0}, []float64{1, 10}, []float64{0.6, 0.8})
	w := m.NewWorkspace(1, here())
	params, grad := []float32{3, 2}, make([]float32, 2)
	loss, err := w.Gradient(grad, params, b)
	if err != nil {
		t.Fatal(err)
	}
	if want := (1.64*1.64 + 10*1.52*1.52) / 2; math.Abs(loss-want) > 1e-5 {
		t.Errorf("loss %v, want %v", loss, want)
	}
	along := 0.6*-1.64 + 0.8*-15.2
	for j, want := range []float64{-1.64 - 2*along*0.6, -15.2 - 2*along*0.8} {
		if math.Abs(float64(grad[j])-want) > 1e-5 {
			t.Errorf("gradient %v at %d, want %v", grad[j], j, want)
		}
	}
	if sum, err := w.Evaluate(params, b, nil); sum != loss || err != nil {
		t.Errorf("evaluated %v, the loss is %v (%v)", sum, loss, err)
	}
}

// randomConvex is a batch for either model.
func randomConvex(m Model, n int, r *rand.Rand) *Batch {
	if m.Samples().Classes > 1 {
		return randomBatch(m, n, r)
	}
	size := m.Params()
	b := new(Batch)
	for range n {
		at, a, v, square := make([]float64, size), make([]float64, size), make([]float64, size), 0.0
		for j := range size {
			at[j], a[j], v[j] = r.NormFloat64(), 0.1+r.Float64(), r.NormFloat64()
			square += v[j] * v[j]
		}
		for j := range v {
			v[j] /= math.Sqrt(square)
		}
		quadraticSample(b, at, a, v)
	}
	return b
}

// The gradient is the loss's derivative, a step goes against it, what is
// evaluated is the mean loss, and a used workspace gives what a fresh one does.
func TestConvex_Models(t *testing.T) {
	for _, spec := range []string{"quadratic:1", "quadratic:7", "logistic:6,3,0.25", "logistic:1,2,1e-05"} {
		m := parse(t, spec)
		if m.String() != spec {
			t.Errorf("%s is written %s", spec, m)
		}
		r := rand.New(rand.NewPCG(1, 2))
		used := m.NewWorkspace(40, here())
		for _, n := range []int{1, 3, 40} {
			b := randomConvex(m, n, r)
			params, grad := make([]float32, m.Params()), make([]float32, m.Params())
			m.Init(params, 9)
			for j := range params {
				if params[j] != 0 {
					t.Fatalf("%s starts at %v", spec, params)
				}
				params[j] = float32(r.NormFloat64())
			}
			loss, err := m.NewWorkspace(n, here()).Gradient(grad, params, b)
			if err != nil {
				t.Fatal(err)
			}
			sum, _, err := evaluate(m, used, params, b)
			if err != nil || math.Abs(sum/float64(n)-loss) > 1e-6*(1+loss) {
				t.Errorf("%s: evaluated %v, the loss is %v (%v)", spec, sum/float64(n), loss, err)
			}
			for j := range params {
				const h = 1e-2 // losses are nearly quadratic, parameters float32
				up, down := append([]float32(nil), params...), append([]float32(nil), params...)
				up[j] += h
				down[j] -= h
				plus, _, _ := evaluate(m, used, up, b)
				minus, _, _ := evaluate(m, used, down, b)
				got := (plus - minus) / float64(n) / (float64(up[j]) - float64(down[j]))
				if math.Abs(got-float64(grad[j])) > 2e-4*(1+math.Abs(got)) {
					t.Errorf("%s: derivative %v at %d, the gradient is %v", spec, got, j, grad[j])
				}
			}
			stepped := append([]float32(nil), params...)
			before, err := used.Step(stepped, b, 0.5)
			if err != nil || before != loss {
				t.Errorf("%s: the step's loss is %v, the gradient's %v (%v)", spec, before, loss, err)
			}
			for j := range stepped {
				if want := params[j] - 0.5*grad[j]; math.Abs(float64(stepped[j]-want)) > 1e-5 {
					t.Errorf("%s: parameter %d is %v after a step, want %v", spec, j, stepped[j], want)
				}
			}
			scores := make([]Score, len(m.Metrics()))
			if n := testing.AllocsPerRun(10, func() {
				_, _ = used.Step(stepped, b, 0.1)
				_, _ = used.Gradient(grad, params, b)
				_, _ = used.Evaluate(params, b, scores)
			}); n != 0 {
				t.Errorf("%s: %v allocations", spec, n)
			}
		}
	}
}

// The penalty makes logistic regression mu-strongly convex: along any line the
// gradient grows by at least mu times the way.
func TestLogistic_IsStronglyConvex(t *testing.T) {
	m := parse(t, "logistic:4,3,0.5")
	r := rand.New(rand.NewPCG(3, 3))
	w := m.NewWorkspace(20, here())
	b := randomBatch(m, 20, r)
	for range 100 {
		x, y := make([]float32, m.Params()), make([]float32, m.Params())
		gx, gy := make([]float32, m.Params()), make([]float32, m.Params())
		for j := range x {
			x[j], y[j] = float32(3*r.NormFloat64()), float32(3*r.NormFloat64())
		}
		_, err := w.Gradient(gx, x, b)
		_, other := w.Gradient(gy, y, b)
		if err := errors.Join(err, other); err != nil {
			t.Fatal(err)
		}
		grown, square := 0.0, 0.0
		for j := range x {
			d := float64(x[j] - y[j])
			grown += float64(gx[j]-gy[j]) * d
			square += d * d
		}
		if grown < 0.5*square*(1-1e-4) {
			t.Errorf("the gradient grows by %v over a squared way of %v", grown, square)
		}
	}
}

func TestConvex_ParseRefuses(t *testing.T) {
	for spec, want := range map[string]string{
		"quadratic":            "(dimension)",
		"quadratic:0":          "dimension: 0 is out of range",
		"quadratic:3,4":        "(dimension)",
		"quadratic:1048576":    "dimension: 1048576 is out of range",
		"logistic:3,4":         "(features,classes,mu)",
		"logistic:3,1,1":       "classes: 1 is out of range",
		"logistic:3,4,0":       "mu",
		"logistic:3,4,1e-99":   "mu",
		"logistic:3,4,0.10":    "mu",
		"logistic:3,4,NaN":     "mu",
		"logistic:3,4,5,0.1":   "(features,classes,mu)",
		"logistic:99999,9e9,1": `classes: "9e9" is no int`,
	} {
		if _, err := Parse(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q): %v, want an error with %q", spec, err, want)
		}
	}
}

// What diverges is reported, and bad batches are errors.
func TestConvex_Problems(t *testing.T) {
	for _, spec := range []string{"quadratic:2", "logistic:6,3,1"} {
		m := parse(t, spec)
		w := m.NewWorkspace(4, here())
		b := randomConvex(m, 4, rand.New(rand.NewPCG(1, 1)))
		params := make([]float32, m.Params())
		var err error
		for i := 0; i < 1000 && err == nil; i++ {
			_, err = w.Step(params, b, 1e9)
		}
		if !errors.Is(err, ErrNotFinite) {
			t.Errorf("%s: %v after a thousand wild steps", spec, err)
		}
		clear(params)
		b.X = b.X[1:]
		if _, err := w.Step(params, b, 1); err == nil {
			t.Errorf("%s takes a batch with a value missing", spec)
		}
		b.N = 5
		if _, _, err := evaluate(m, w, params, b); err == nil {
			t.Errorf("%s takes a batch that is too large", spec)
		}
	}
}

// A host is given models as lines: whatever a line holds, it is a model that
// is written as it was read and fits its own tensors, or an error.
func FuzzParse(f *testing.F) {
	for _, spec := range []string{"linear:5000,2", "mlp:784,200,200,62", "cnn:3x32x32,32,64,512,100", "gru:80,79,8,128,2", "quadratic:20", "logistic:20,5,0.01", "logistic:1,2,1e-05", "quadratic:"} {
		f.Add(spec)
	}
	for _, l := range layeredNetworks(f) {
		f.Add(l.Name)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		m, err := Parse(spec)
		if err != nil {
			return
		}
		if m.String() != spec || m.Params() < 1 || m.Params() > MaxParams || m.Samples().Features < 1 || max(m.Samples().Classes, m.Samples().Targets) < 1 {
			t.Errorf("%q is %s with %d parameters, %d features, %d classes", spec, m, m.Params(), m.Samples().Features, m.Samples().Classes)
		}
		again, err := Parse(m.String())
		if err != nil || again.Params() != m.Params() {
			t.Errorf("%q cannot be read again: %v", spec, err)
		}
	})
}
