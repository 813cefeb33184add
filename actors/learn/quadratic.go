package learn

import "fmt"

func init() { Models.Register("quadratic", "strongly convex quadratics", Quadratic{}) }

// Quadratic is strongly convex quadratics in so many dimensions. A sample's values
// are b, the eigenvalues of A, and the unit vector of the reflection that turns
// them.
type Quadratic struct {
	Dimension int `key:"dimension" range:"[1,349525]" help:"dimensions"`
}

// Model implements [Architecture].
func (a Quadratic) Model(Input, int, int) (Model, error) {
	if a.Dimension < 1 || a.Dimension > maxWidth/3 {
		return nil, fmt.Errorf("width %d is not a number from 1 to %d (DIMENSIONS)", a.Dimension, maxWidth/3)
	}
	return newQuadratic(a.Dimension), nil
}

// Parse implements [Architecture].
func (Quadratic) Parse(sizes string) (Architecture, error) {
	n, err := widths(sizes, "DIMENSIONS", 1)
	if err != nil {
		return nil, err
	}
	return Quadratic{n[0]}, nil
}

// quadratic is f(x; ξ) = ½ (x − b)ᵀ A (x − b) with A and b in the sample ξ: no
// network, but a strongly convex objective of which everything is known. A is
// H diag(a) H with the reflection H = I − 2vvᵀ, so that its eigenvalues are a's
// and those of different clients need not commute. A sample's 3·size values are
// b, a and v, a unit vector.
//
// There is one class and nothing to classify: Evaluate finds no sample right.
type quadratic struct {
	layout
	size int
}

func newQuadratic(size int) *quadratic {
	m := &quadratic{size: size}
	m.spec = fmt.Sprintf("quadratic:%d", size)
	m.add("x", 0, size)
	return m
}

func (m *quadratic) Input() Input  { return Dense }
func (m *quadratic) Features() int { return 3 * m.size }
func (m *quadratic) Classes() int  { return 1 }

// Init is the origin whatever the seed, so that runs with several seeds start at
// the same distance from the optimum.
func (m *quadratic) Init(params []float32, _ uint64) {
	m.check(params)
	clear(params)
}

func (m *quadratic) NewWorkspace(maxBatch int) Workspace {
	return &quadraticWork{m: m, max: maxBatch, u: make([]float64, m.size), sum: make([]float64, m.size)}
}

// quadraticWork calculates in float64, every product rounded by itself.
type quadraticWork struct {
	m   *quadratic
	max int
	u   []float64
	sum []float64 // gradient over the batch
}

func (w *quadraticWork) start(params []float32, b *Batch) error {
	w.m.check(params)
	if err := checkBatch(b, w.max, 1); err != nil {
		return err
	}
	clear(w.sum)
	return checkDense(b, 3*w.m.size)
}

// sample returns sample i's loss and adds its gradient to w.sum.
func (w *quadraticWork) sample(params []float32, b *Batch, i int) (loss float64) {
	n := w.m.size
	row := b.X[i*3*n:][:3*n]
	at, a, v := row[:n], row[n:2*n], row[2*n:]
	u, sum := w.u[:n], w.sum[:n]
	along := 0.0
	for j, x := range params[:n] {
		u[j] = float64(x) - float64(at[j])
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

// mean is the batch's mean loss, with the sum of gradients in w.sum.
func (w *quadraticWork) mean(params []float32, b *Batch) (loss float64) {
	for i := range b.N {
		loss += w.sample(params, b, i)
	}
	return loss / float64(b.N)
}

func (w *quadraticWork) Step(params []float32, b *Batch, rate float32) (float64, error) {
	if err := w.start(params, b); err != nil {
		return 0, err
	}
	loss := w.mean(params, b)
	for j, g := range w.sum {
		params[j] -= float32(rate * float32(g/float64(b.N)))
	}
	if !finite(loss) {
		return loss, ErrNotFinite
	}
	return loss, nil
}

func (w *quadraticWork) Gradient(grad, params []float32, b *Batch) (float64, error) {
	w.m.check(grad)
	if err := w.start(params, b); err != nil {
		return 0, err
	}
	loss := w.mean(params, b)
	for j, g := range w.sum {
		grad[j] = float32(g / float64(b.N))
	}
	if !finite(loss) {
		return loss, ErrNotFinite
	}
	return loss, nil
}

func (w *quadraticWork) Evaluate(params []float32, b *Batch) (loss float64, correct int, err error) {
	if err := w.start(params, b); err != nil {
		return 0, 0, err
	}
	for i := range b.N {
		loss += w.sample(params, b, i)
	}
	if !finite(loss) {
		return loss, 0, ErrNotFinite
	}
	return loss, 0, nil
}
