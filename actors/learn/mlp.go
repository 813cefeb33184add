package learn

import (
	"fmt"
	"strings"

	"fedpace/actors/learn/internal/kernel"
)

func init() { Models.Register("mlp", "dense layers with ReLU between them", MLP{}) }

// MLP is dense layers with ReLU between them (FEMNIST's is 784,200,200,62). Two
// widths are a dense linear model.
type MLP struct {
	Layers []int `key:"layers" range:"[1,1048576]" help:"widths from the input to the classes"`
}

// Model implements [Architecture].
func (a MLP) Model(Input, int, int) (Model, error) {
	n := a.Layers
	if len(n) < 2 {
		return nil, fmt.Errorf("%d widths, want FEATURES,HIDDEN,...,CLASSES", len(n))
	}
	if err := checkSizes(denseParams(n), n[len(n)-1], n...); err != nil {
		return nil, err
	}
	return newMLP(n), nil
}

// Parse implements [Architecture].
func (MLP) Parse(sizes string) (Architecture, error) {
	n, err := widths(sizes, "FEATURES,HIDDEN,...,CLASSES", 0)
	return MLP{n}, err
}

// mlp is dense layers with ReLU between them.
type mlp struct {
	layout
	widths []int
}

func newMLP(widths []int) *mlp {
	m := &mlp{widths: widths}
	var s []string
	for _, w := range widths {
		s = append(s, fmt.Sprint(w))
	}
	m.spec = "mlp:" + strings.Join(s, ",")
	for l := range m.layers() {
		in, out := widths[l], widths[l+1]
		// As in a PyTorch Sequential, where every other module is a ReLU.
		m.add(fmt.Sprintf("%d.weight", 2*l), fanIn(in), out, in)
		m.add(fmt.Sprintf("%d.bias", 2*l), fanIn(in), out)
	}
	return m
}

func (m *mlp) Input() Input  { return Dense }
func (m *mlp) Features() int { return m.widths[0] }
func (m *mlp) Classes() int  { return m.widths[len(m.widths)-1] }
func (m *mlp) layers() int   { return len(m.widths) - 1 }

func (m *mlp) NewWorkspace(maxBatch int) Workspace { return m.workspace(maxBatch, class()) }

func (m *mlp) workspace(maxBatch int, c kernel.Class) *mlpWork {
	return &mlpWork{m: m, max: maxBatch, stack: newStack(c, m.widths, 0, maxBatch)}
}

type mlpWork struct {
	*stack
	m   *mlp
	max int
}

func (w *mlpWork) check(params []float32, b *Batch) error {
	w.m.check(params)
	if err := checkBatch(b, w.max, w.m.Classes()); err != nil {
		return err
	}
	return checkDense(b, w.m.Features())
}

// load writes n samples, row by row in x, into block k of the input.
func (w *mlpWork) load(k int, x []float32, n int) {
	d := &w.layers[0]
	d.class.Transpose(kernel.Matrix{Data: w.input(k), LD: kernel.Lanes}, kernel.Matrix{Data: x, LD: d.in}, n, d.in)
}

// gradients runs the batch forward and back, and returns the mean loss.
func (w *mlpWork) gradients(params []float32, b *Batch) (loss float64) {
	for k, from := 0, 0; from < b.N; k, from = k+1, from+kernel.Lanes {
		n := min(kernel.Lanes, b.N-from)
		w.load(k, b.X[from*w.m.Features():], n)
		w.forward(params, k, n)
		loss += w.backward(params, k, b.Labels[from:from+n], 1/float32(b.N))
	}
	w.rows[0] = b.X
	return loss / float64(b.N)
}

func (w *mlpWork) Step(params []float32, b *Batch, rate float32) (float64, error) {
	if err := w.check(params, b); err != nil {
		return 0, err
	}
	loss := w.gradients(params, b)
	if !finite(loss) {
		return loss, ErrNotFinite
	}
	w.update(params, b.N, kernel.Add, -rate)
	return loss, nil
}

func (w *mlpWork) Gradient(grad, params []float32, b *Batch) (float64, error) {
	w.m.check(grad)
	if err := w.check(params, b); err != nil {
		return 0, err
	}
	loss := w.gradients(params, b)
	if !finite(loss) {
		return loss, ErrNotFinite
	}
	w.update(grad, b.N, kernel.Store, 1)
	return loss, nil
}

func (w *mlpWork) Evaluate(params []float32, b *Batch) (loss float64, correct int, err error) {
	if err := w.check(params, b); err != nil {
		return 0, 0, err
	}
	for from := 0; from < b.N; from += kernel.Lanes {
		n := min(kernel.Lanes, b.N-from)
		w.load(0, b.X[from*w.m.Features():], n)
		s, c := w.head.evaluate(w.forward(params, 0, n), b.Labels[from:from+n])
		loss += s
		correct += c
	}
	if !finite(loss) {
		return loss, 0, ErrNotFinite
	}
	return loss, correct, nil
}
