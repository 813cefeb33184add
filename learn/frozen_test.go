package learn

import (
	"math"
	"slices"
	"strings"
	"testing"

	"fedpace/learn/internal/kernel"
)

// frozenLayers are names of models with frozen layers.
var frozenLayers = []string{
	"values=12,classes=5;dense(9,frozen),relu,dense(7),relu,dense(5)",
	"values=12,classes=5;dense(9),relu,dense(7,frozen),relu,norm(1,frozen),dense(5)",
	"values=12,classes=5;dense(9),relu,dense(7),relu,dense(5,frozen)",
	"image=2x8x8,classes=5;conv(4,3,1,1,frozen),norm(2,frozen),relu,residual([conv(6,3,1,2),relu,norm(3,frozen),conv(6,3,1,1,frozen)]),relu,flatten,dense(5)",
	"image=2x8x8,classes=5;conv(4,3,1,1),relu,pool(2),residual([norm(2),conv(6,3,1,1)],frozen),average,flatten,dense(5)",
	"image=2x8x8,classes=5;conv(4,3,1,1,frozen),relu,pool(2),conv(6,3,1,1),flatten,dense(5)",
	"tokens=7x11,classes=11;embedding(6,frozen),gru(5,2,all),gru(5,1,last,frozen),dense(11)",
	"words=60,classes=3;dense(8,frozen),relu,dense(6),relu,dense(3)",
}

// A model with frozen layers is the model without, whose parameters stand in another order: the
// same initial values, the same gradients of what trains, within rounding, and steps that leave
// alone what is frozen, whatever takes them.
func TestFrozen_LayersStay(t *testing.T) {
	everyISA(t, func(t *testing.T, isa kernel.ISA) {
		for _, text := range frozenLayers {
			m, whole := parse(t, "layers:"+text), parse(t, "layers:"+strings.ReplaceAll(text, ",frozen", ""))
			n := m.Trainable()
			if n >= m.Params() || Communicated(m) != n || m.Params() != whole.Params() || Communicated(whole) != whole.Trainable() {
				t.Errorf("%s: %d of %d parameters train, %d travel", m, n, m.Params(), Communicated(m))
			}
			from := map[string]int{} // in the whole model
			for _, x := range whole.Tensors() {
				from[x.Name] = x.Offset
			}
			ordered := func(x []float32) []float32 {
				y := make([]float32, len(x))
				for _, part := range m.Tensors() {
					copy(y[part.Offset:][:part.Len()], x[from[part.Name]:])
				}
				return y
			}
			params, all := make([]float32, m.Params()), make([]float32, m.Params())
			m.Init(params, 3)
			whole.Init(all, 3)
			if !slices.Equal(params, ordered(all)) {
				t.Errorf("%s begins with other values", m)
			}
			for _, samples := range []int{3, 40} {
				b := layeredBatch(m, samples)
				got, want := make([]float32, m.Params()), make([]float32, m.Params())
				w := on(m, 40, isa)
				loss, err := w.Gradient(got, params, b)
				if err != nil {
					t.Fatal(err)
				}
				wholeLoss, err := on(whole, 40, isa).Gradient(want, all, b)
				if err != nil || loss != wholeLoss {
					t.Fatalf("%s: losses %v and %v, %v", m, loss, wholeLoss, err)
				}
				want = ordered(want)
				stepped := slices.Clone(params)
				if _, err := w.Step(stepped, b, 0.5); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(stepped[n:], params[n:]) {
					t.Errorf("%s: a step on %d samples moves what is frozen", m, samples)
				}
				for i, g := range want[:n] {
					if d := math.Abs(float64(got[i] - g)); d > 1e-6 {
						t.Fatalf("%s: the gradient of parameter %d is %g off", m, i, d)
					}
					if d := math.Abs(float64(stepped[i]-params[i]) + 0.5*float64(g)); d > 1e-6 {
						t.Fatalf("%s: a step moves parameter %d by %g, want %g", m, i, stepped[i]-params[i], -0.5*g)
					}
				}
			}
		}
	})
	for _, text := range []string{"values=3,classes=2;dense(2,frozen)", "values=3,classes=2;residual([dense(3)],frozen),dense(2,frozen)"} {
		if _, err := Parse("layers:" + text); err == nil || !strings.Contains(err.Error(), "at least one layer trains") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
