package learn

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// gradientsOf are some steps' gradients, of seven parameters.
func gradientsOf(steps int) (list [][]float64) {
	for t := range steps {
		var g []float64
		for i := range 7 {
			g = append(g, 3*math.Sin(float64(1+5*t+3*i)))
		}
		list = append(list, g)
	}
	return list
}

// clipped is PyTorch's clip_grad_norm_.
func clipped(g []float64, most float64) []float64 {
	square := 0.
	for _, v := range g {
		square += v * v
	}
	g = slices.Clone(g)
	if coefficient := most / (math.Sqrt(square) + 1e-6); most > 0 && coefficient < 1 {
		for i := range g {
			g[i] *= coefficient
		}
	}
	return g
}

// sgdOfPyTorch is the algorithm on the page of torch.optim.SGD, of one parameter.
func sgdOfPyTorch(s SGD) func(t int, x, g, rate float64) float64 {
	b := 0.
	return func(t int, x, g, rate float64) float64 {
		if s.WeightDecay != 0 {
			g += s.WeightDecay * x
		}
		if s.Momentum != 0 {
			if t > 1 {
				b = s.Momentum*b + g
			} else {
				b = g
			}
			if s.Nesterov {
				g += s.Momentum * b
			} else {
				g = b
			}
		}
		return x - rate*g
	}
}

// adamOfPyTorch is that on the page of torch.optim.Adam, or of AdamW.
func adamOfPyTorch(o Moments, decay float64, decoupled bool) func(t int, x, g, rate float64) float64 {
	m, v := 0., 0.
	return func(t int, x, g, rate float64) float64 {
		if decoupled {
			x -= rate * decay * x
		} else {
			g += decay * x
		}
		m = o.Beta1*m + (1-o.Beta1)*g
		v = o.Beta2*v + (1-o.Beta2)*g*g
		return x - rate*(m/(1-math.Pow(o.Beta1, float64(t))))/(math.Sqrt(v/(1-math.Pow(o.Beta2, float64(t))))+o.Eps)
	}
}

// Every optimizer takes the steps of its formulas, and those again in the next task.
func TestOptimizers_StepsOfPyTorch(t *testing.T) {
	standard := Moments{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8}
	quick := Moments{Beta1: 0.5, Beta2: 0.75, Eps: 1e-3}
	sgd := func(s SGD) func() func(int, float64, float64, float64) float64 {
		return func() func(int, float64, float64, float64) float64 { return sgdOfPyTorch(s) }
	}
	adam := func(o Moments, decay float64, decoupled bool) func() func(int, float64, float64, float64) float64 {
		return func() func(int, float64, float64, float64) float64 { return adamOfPyTorch(o, decay, decoupled) }
	}
	seen := map[string]bool{}
	for _, c := range []struct {
		optimizer Optimizer
		clip      float64
		formula   func() func(t int, x, g, rate float64) float64
	}{
		{SGD{WeightDecay: 0.1}, 0, sgd(SGD{WeightDecay: 0.1})},
		{SGD{Clipping: Clipping{2}}, 2, sgd(SGD{})},
		{SGD{Momentum: 0.9}, 0, sgd(SGD{Momentum: 0.9})},
		{SGD{Momentum: 0.9, Nesterov: true}, 0, sgd(SGD{Momentum: 0.9, Nesterov: true})},
		{SGD{Momentum: 0.75, Nesterov: true, WeightDecay: 0.1, Clipping: Clipping{2}}, 2, sgd(SGD{Momentum: 0.75, Nesterov: true, WeightDecay: 0.1})},
		{Adam{Moments: standard}, 0, adam(standard, 0, false)},
		{Adam{Moments: quick, WeightDecay: 0.1, Clipping: Clipping{2}}, 2, adam(quick, 0.1, false)},
		{AdamW{Moments: standard}, 0, adam(standard, 0, false)},
		{AdamW{Moments: quick, WeightDecay: 0.5, Clipping: Clipping{2}}, 2, adam(quick, 0.5, true)},
	} {
		name := Optimizers.Text(c.optimizer)
		seen[Optimizers.NameOf(c.optimizer)] = true
		start := []float32{1.5, -0.25, 0.75, 0, 3, -2, 0.125}
		stepper := c.optimizer.Stepper(len(start))
		for task := range 2 {
			params, want := slices.Clone(start), make([]float64, len(start))
			formulas := make([]func(int, float64, float64, float64) float64, len(start))
			for i, x := range start {
				want[i], formulas[i] = float64(x), c.formula()
			}
			stepper.Start()
			for step, exact := range gradientsOf(6) {
				gradient := make([]float32, len(exact))
				for i, g := range exact {
					gradient[i] = float32(g)
					exact[i] = float64(gradient[i])
				}
				rate := 0.1 / float64(1+step)
				stepper.Step(params, gradient, float32(rate))
				exact = clipped(exact, c.clip)
				for i, g := range exact {
					want[i] = formulas[i](step+1, want[i], g, float64(float32(rate)))
					if d := math.Abs(float64(params[i]) - want[i]); !(d <= 1e-6*max(1, math.Abs(want[i]))) {
						t.Errorf("%s, task %d, step %d: parameter %d is %g, the formula gives %g", name, task+1, step+1, i, params[i], want[i])
					}
				}
			}
		}
		text, err := Optimizers.Encode(c.optimizer) // as messages have it
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Optimizers.Decode(text); err != nil || again != c.optimizer {
			t.Errorf("%s is read as %+v, %v", text, again, err)
		}
	}
	if diff := cmp.Diff(len(Optimizers.Names()), len(seen)); diff != "" {
		t.Errorf("of %v only %v are worked out", Optimizers.Names(), seen)
	}
}

// A gradient within the bound stays as it is, to the bit; one beyond it comes to its
// length, and one that is not finite stays not finite.
func TestClipping_Gradients(t *testing.T) {
	c := Clipping{Clip: 5.001}
	short, long := []float32{3, 0, -4, 0, 0}, []float32{30, 0, -40, 0, 0}
	c.clip(short)
	c.clip(long)
	if diff := cmp.Diff([]float32{3, 0, -4, 0, 0}, short); diff != "" {
		t.Error(diff)
	}
	if n := norm(long); math.Abs(n-5.001) > 1e-5 || math.Abs(float64(long[0]/long[2])+0.75) > 1e-6 {
		t.Errorf("%v has the length %g", long, n)
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1)} {
		g := []float32{1, float32(bad), 2}
		c.clip(g)
		if x := float64(g[1]); x-x == 0 {
			t.Errorf("%g becomes %g", bad, x)
		}
	}
}

// SGD without options, and no optimizer at all, leave the steps to the workspace.
func TestOptimizers_PlainSteps(t *testing.T) {
	if !Plain(nil) || !Plain(SGD{}) || Plain(SGD{Momentum: 0.5}) || Plain(SGD{WeightDecay: 0.5}) || Plain(SGD{Clipping: Clipping{1}}) || Plain(Adam{}) || Plain(AdamW{}) {
		t.Error("what is plain is not what the options say")
	}
	if err := (SGD{Nesterov: true}).Validate(); err == nil || err.Error() != "nesterov: true needs a momentum (set momentum, e.g. 0.9)" {
		t.Error(err)
	}
}

// What the optimizers cost beside a plain step, in the same run.
func BenchmarkOptimizers(b *testing.B) {
	m := parse(b, "mlp:784,200,200,62")
	params := make([]float32, m.Params())
	m.Init(params, 1)
	batch := goldenBatch(m, 1, 32)
	for _, o := range []Optimizer{SGD{}, SGD{Clipping: Clipping{1}}, SGD{Momentum: 0.9}, Adam{Moments: Moments{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8}}} {
		b.Run(Optimizers.Text(o), func(b *testing.B) {
			w := on(m, 32, fastest())
			step := w.Step
			if !Plain(o) {
				step = stepsOf(o, w, m.Params())
			}
			for b.Loop() {
				if _, err := step(params, batch, 1e-4); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
