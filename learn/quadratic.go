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

// Convex returns the options of a strongly convex model, a [Quadratic] or a [Logistic], from which its
// constants can be calculated. It is nil for a model that is neither. Both start at the origin whatever
// the seed, so that runs with several seeds start at the same distance from the optimum.
func Convex(m Model) Architecture {
	if m, ok := m.(*model); ok {
		return m.convex
	}
	return nil
}

// Model makes the model with the dimension that its option gives. A sample is three vectors of that dimension, b, a
// and v (see [Quadratic]). The format of the data that Model is given does not matter, since the data are made for
// this model.
func (a Quadratic) Model(Samples) (Model, error) {
	n := a.Dimension
	if n < 1 || n > maxWidth/3 {
		return nil, fmt.Errorf("width %d is not a number from 1 to %d (DIMENSIONS)", n, maxWidth/3)
	}
	m := &model{name: NameOf(a), convex: a, samples: Samples{Input: Dense, Features: 3 * n, Classes: 1}}
	m.addTensor(0, "x", nil, n)
	m.arithmetic = func(int, kernel.ISA) network.Arithmetic {
		return &quadraticWork{
			flatGradient: flatGradient{kernel.Go, make([]float32, n)},
			u:            make([]float64, n),
			sum:          make([]float64, n),
		}
	}
	return m, nil
}

// quadraticWork computes a [Quadratic] in float64 with every product rounded by itself.
type quadraticWork struct {
	flatGradient
	// u is the vector A (x − b) before the second reflection.
	u []float64
	// sum is the gradient, summed over the batch.
	sum []float64
}

// sample returns the loss of sample i, and adds its gradient A (x − b) to w.sum. With H = I − 2vvᵀ
// the gradient is H (a ∘ (H (x − b))): reflect, multiply each coordinate by its eigenvalue, and reflect
// back.
func (w *quadraticWork) sample(params []float32, b *Batch, i int) (loss float64) {
	n := len(w.sum)
	row := b.X[i*3*n:][:3*n]
	centre := row[:n]
	a := row[n : 2*n]
	v := row[2*n:]
	u := w.u[:n]
	sum := w.sum[:n]
	// along is vᵀ(x − b), from which the first reflection follows.
	along := 0.0
	for j, x := range params[:n] {
		u[j] = float64(x) - float64(centre[j])
		along += float64(float64(v[j]) * u[j])
	}
	// back is vᵀu for the reflection back.
	back := 0.0
	// The loss needs no second reflection, because reflections keep scalar products.
	for j := range u {
		reflected := u[j] - float64(2*along*float64(v[j]))
		u[j] = float64(float64(a[j]) * reflected)
		loss += float64(u[j] * reflected)
		back += float64(float64(v[j]) * u[j])
	}
	// The second reflection gives the gradient.
	for j := range u {
		sum[j] += u[j] - float64(2*back*float64(v[j]))
	}
	return loss / 2
}

// Gradients returns the batch's mean loss and leaves its mean gradient in w.grad, rounded to float32
// once.
func (w *quadraticWork) Gradients(params []float32, b *Batch) (loss float64) {
	// For each sample, sample adds the gradient to w.sum.
	clear(w.sum)
	for i := range b.N {
		loss += w.sample(params, b, i)
	}
	// The sum is rounded only once, when it becomes the gradient.
	for j, g := range w.sum {
		w.grad[j] = float32(g / float64(b.N))
	}
	return loss / float64(b.N)
}

// Evaluate returns the sum of the samples' losses. There are no scores. The gradients that it adds to w.sum are not
// used: Gradients begins with zeros.
func (w *quadraticWork) Evaluate(params []float32, b *Batch, _ []Score) (loss float64) {
	for i := range b.N {
		loss += w.sample(params, b, i)
	}
	return loss
}
