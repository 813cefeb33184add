package learn

import (
	"fmt"

	"fedpace/learn/internal/kernel"
	"fedpace/learn/network"
)

func init() { Models.Register("quadratic", "strongly convex quadratics", Quadratic{}) }

// Quadratic is f(x; ξ) = ½ (x − b)ᵀ A (x − b) with A and b in the sample ξ: no
// network, but a strongly convex objective of which everything is known. A is
// H diag(a) H with the reflection H = I − 2vvᵀ, so that its eigenvalues are a's
// and those of different clients need not commute. A sample's 3·Dimension values are
// b, a and v, a unit vector.
//
// There is one class and nothing to classify, so there is no metric besides the loss.
type Quadratic struct {
	Dimension int `key:"dimension" range:"[1,349525]" help:"dimensions"`
}

// Convex is a strongly convex model in numbers, for those who calculate what
// theory says of it: a [Quadratic] or a [Logistic], nil for a model that is
// neither. Both start at the origin whatever the seed, so that runs with several
// seeds start at the same distance from the optimum.
func Convex(m Model) Architecture {
	if m, ok := m.(*model); ok {
		return m.convex
	}
	return nil
}

func (a Quadratic) Model(Samples) (Model, error) {
	n := a.Dimension
	if n < 1 || n > maxWidth/3 {
		return nil, fmt.Errorf("width %d is not a number from 1 to %d (DIMENSIONS)", n, maxWidth/3)
	}
	m := &model{name: NameOf(a), convex: a, samples: Samples{Input: Dense, Features: 3 * n, Classes: 1}}
	m.add(0, "x", nil, n)
	m.arithmetic = func(int, kernel.ISA) network.Arithmetic {
		return &quadraticWork{flat{kernel.Go, make([]float32, n)}, make([]float64, n), make([]float64, n)}
	}
	return m, nil
}

// quadraticWork calculates in float64, every product rounded by itself.
type quadraticWork struct {
	flat
	u   []float64
	sum []float64 // gradient over the batch
}

// sample returns sample i's loss and adds its gradient to w.sum.
func (w *quadraticWork) sample(params []float32, b *Batch, i int) (loss float64) {
	n := len(w.sum)
	row := b.X[i*3*n:][:3*n]
	centre := row[:n]
	a := row[n : 2*n]
	v := row[2*n:]
	u := w.u[:n]
	sum := w.sum[:n]
	along := 0.0
	for j, x := range params[:n] {
		u[j] = float64(x) - float64(centre[j])
		along += float64(float64(v[j]) * u[j])
	}
	back := 0.0
	for j := range u {
		reflected := u[j] - float64(2*along*float64(v[j]))
		u[j] = float64(float64(a[j]) * reflected)
		loss += float64(u[j] * reflected)
		back += float64(float64(v[j]) * u[j])
	}
	for j := range u {
		sum[j] += u[j] - float64(2*back*float64(v[j]))
	}
	return loss / 2
}

func (w *quadraticWork) Gradients(params []float32, b *Batch) (loss float64) {
	clear(w.sum)
	loss = w.Evaluate(params, b, nil)
	for j, g := range w.sum {
		w.grad[j] = float32(g / float64(b.N))
	}
	return loss / float64(b.N)
}

func (w *quadraticWork) Evaluate(params []float32, b *Batch, _ []Score) (loss float64) {
	for i := range b.N {
		loss += w.sample(params, b, i)
	}
	return loss
}
