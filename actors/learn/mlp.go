package learn

import (
	"fmt"
	"strings"

	"fedpace/actors/learn/internal/kernel"
)

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
	blocks := (maxBatch + kernel.Lanes - 1) / kernel.Lanes
	w := &mlpWork{m: m, max: maxBatch}
	offset := 0
	for l := range m.layers() {
		d := dense{class: c, in: m.widths[l], out: m.widths[l+1], offset: offset, relu: l+1 < m.layers()}
		offset += (d.in + 1) * d.out
		w.layers = append(w.layers, d)
		w.x = append(w.x, aligned(blocks*d.in*kernel.Lanes))
		w.dy = append(w.dy, aligned(blocks*d.out*kernel.Lanes))
		rows := []float32(nil) // layer 0 has the batch itself
		if l > 0 {
			rows = aligned(maxBatch * d.in)
		}
		w.rows = append(w.rows, rows)
	}
	w.head = head{class: c, classes: m.Classes()}
	return w
}

// mlpWork holds, for every layer and every block of the batch, what the backward
// pass needs again.
type mlpWork struct {
	m      *mlp
	max    int
	layers []dense
	x      [][]float32 // inputs of layer l, blocks feature-major
	rows   [][]float32 // the same sample by sample
	dy     [][]float32 // logits of the last layer; gradients of layer l's outputs
	head   head
}

func (w *mlpWork) check(params []float32, b *Batch) error {
	w.m.check(params)
	if err := checkBatch(b, w.max, w.m.Classes()); err != nil {
		return err
	}
	return checkDense(b, w.m.Features())
}

// forward runs block k, of n samples, up to the logits, which it returns.
func (w *mlpWork) forward(params []float32, b *Batch, k, n int) []float32 {
	first := w.layers[0]
	x := block(w.x[0], k, first.in)
	first.class.Transpose(kernel.Matrix{Data: x, LD: kernel.Lanes},
		kernel.Matrix{Data: b.X[k*kernel.Lanes*first.in:], LD: first.in}, n, first.in)
	for l := range w.layers {
		d := &w.layers[l]
		var y []float32
		if d.relu {
			y = block(w.x[l+1], k, d.out)
		} else {
			y = block(w.dy[l], k, d.out)
		}
		d.forward(y, params, x, n)
		x = y
	}
	return x
}

// backward runs the whole batch forward and back to the gradients of every
// layer's outputs, and returns the mean loss.
func (w *mlpWork) backward(params []float32, b *Batch) (loss float64) {
	for k, from := 0, 0; from < b.N; k, from = k+1, from+kernel.Lanes {
		n := min(kernel.Lanes, b.N-from)
		z := w.forward(params, b, k, n)
		loss += w.head.gradient(z, b.Labels[from:from+n], 1/float32(b.N))
		for l := len(w.layers) - 1; l > 0; l-- {
			d := &w.layers[l]
			x := block(w.x[l], k, d.in)
			d.backward(block(w.dy[l-1], k, d.in), params, block(w.dy[l], k, d.out), x, n)
			d.class.Transpose(kernel.Matrix{Data: w.rows[l][from*d.in:], LD: d.in},
				kernel.Matrix{Data: x, LD: kernel.Lanes}, d.in, n)
		}
	}
	return loss / float64(b.N)
}

// update adds alpha times the gradient to dst, or stores it.
func (w *mlpWork) update(dst []float32, b *Batch, op kernel.Op, alpha float32) {
	for l := range w.layers {
		d := &w.layers[l]
		rows := w.rows[l]
		if l == 0 {
			rows = b.X
		}
		op := op
		for k, from := 0, 0; from < b.N; k, from = k+1, from+kernel.Lanes {
			n := min(kernel.Lanes, b.N-from)
			d.update(dst, block(w.dy[l], k, d.out), rows[from*d.in:], n, op, alpha)
			op = kernel.Add
		}
	}
}

func (w *mlpWork) Step(params []float32, b *Batch, rate float32) (float64, error) {
	if err := w.check(params, b); err != nil {
		return 0, err
	}
	loss := w.backward(params, b)
	if !finite(loss) {
		return loss, ErrNotFinite
	}
	w.update(params, b, kernel.Add, -rate)
	return loss, nil
}

func (w *mlpWork) Gradient(grad, params []float32, b *Batch) (float64, error) {
	w.m.check(grad)
	if err := w.check(params, b); err != nil {
		return 0, err
	}
	loss := w.backward(params, b)
	if !finite(loss) {
		return loss, ErrNotFinite
	}
	w.update(grad, b, kernel.Store, 1)
	return loss, nil
}

func (w *mlpWork) Evaluate(params []float32, b *Batch) (loss float64, correct int, err error) {
	if err := w.check(params, b); err != nil {
		return 0, 0, err
	}
	for from := 0; from < b.N; from += kernel.Lanes {
		n := min(kernel.Lanes, b.N-from)
		z := w.forward(params, &Batch{X: b.X[from*w.m.Features():]}, 0, n)
		s, c := w.head.evaluate(z, b.Labels[from:from+n])
		loss += s
		correct += c
	}
	if !finite(loss) {
		return loss, 0, ErrNotFinite
	}
	return loss, correct, nil
}
