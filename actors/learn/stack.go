package learn

import (
	"slices"
	"unsafe"

	"fedpace/actors/learn/internal/kernel"
)

// dense is a layer y = W x + b, weight [out, in] at offset, its bias behind it. It
// keeps, for every block of the batch, what the backward pass needs again.
type dense struct {
	isa     kernel.ISA
	in, out int
	offset  int
	x       []float32 // inputs, blocks feature-major
	rows    []float32 // the same sample by sample; its owner sets the first layer's
	dy      []float32 // gradients of the outputs; before, the last layer's logits
}

func (d *dense) weight(params []float32) []float32 { return params[d.offset:][:d.in*d.out] }
func (d *dense) bias(params []float32) []float32   { return params[d.offset+d.in*d.out:][:d.out] }

// input and output are block k of x and of dy.
func (d *dense) input(k int) []float32  { return d.x[k*d.in*kernel.Lanes:][:d.in*kernel.Lanes] }
func (d *dense) output(k int) []float32 { return d.dy[k*d.out*kernel.Lanes:][:d.out*kernel.Lanes] }

// keep writes block k of the inputs, of n samples, sample by sample.
func (d *dense) keep(k, n int) {
	d.isa.Transpose(kernel.Matrix{Data: d.rows[k*kernel.Lanes*d.in:], LD: d.in}, kernel.Block(d.input(k)), d.in, n)
}

// backward computes dx = Wᵀ dy of block k, and where the input is a ReLU's output,
// relu, only where that is positive.
func (d *dense) backward(dx, params []float32, k, n int, relu bool) {
	op, x := kernel.Store, []float32(nil)
	if relu {
		op, x = kernel.ReLUGrad, d.input(k)
	}
	d.isa.Gemm(d.in, kernel.Filled(n), d.out,
		kernel.Operand{Data: d.weight(params), Row: 1, Col: d.in},
		kernel.Block(d.output(k)), kernel.Block(dx), op, x, 0)
}

// stack is dense layers with ReLU between them and softmax cross-entropy behind:
// all of an mlp, the end of the other networks.
type stack struct {
	layers []dense
	head   head
}

// newStack takes the layers' widths and the offset of the first one's weight.
func newStack(isa kernel.ISA, widths []int, offset, maxBatch int) *stack {
	blocks := (maxBatch + kernel.Lanes - 1) / kernel.Lanes
	s := &stack{head: head{isa: isa}}
	for l, in := range widths[:len(widths)-1] {
		out := widths[l+1]
		d := dense{isa: isa, in: in, out: out, offset: offset, x: aligned(blocks * in * kernel.Lanes), dy: aligned(blocks * out * kernel.Lanes)}
		if l > 0 {
			d.rows = aligned(maxBatch * in)
		}
		offset += (in + 1) * out
		s.layers = append(s.layers, d)
	}
	return s
}

// forward runs block k, of n samples, from the first layer's input to the logits.
func (s *stack) forward(params []float32, k, n int) []float32 {
	for l := range s.layers {
		d, op := &s.layers[l], kernel.Bias
		y := d.output(k)
		if l+1 < len(s.layers) {
			y, op = s.layers[l+1].input(k), kernel.BiasReLU
		}
		d.isa.Gemm(d.out, kernel.Filled(n), d.in,
			kernel.Operand{Data: d.weight(params), Row: d.in, Col: 1},
			kernel.Block(d.input(k)), kernel.Block(y), op, d.bias(params), 0)
	}
	return s.layers[len(s.layers)-1].output(k)
}

// backward goes on from the logits of block k, of n samples from `from` on, to the
// gradients of every layer's outputs, and returns the sum of the samples' losses.
func (s *stack) backward(params []float32, b *Batch, k, from, n int) (loss float64) {
	last := len(s.layers) - 1
	loss = s.head.gradient(s.layers[last].output(k), b.Labels[from:from+n], 1/float32(b.N))
	for l := last; l > 0; l-- {
		s.layers[l].backward(s.layers[l-1].output(k), params, k, n, true)
		s.layers[l].keep(k, n)
	}
	return loss
}

// update adds alpha times the gradient of the whole batch, dy·xᵀ and dy, to dst's
// weights and biases, or stores it.
func (s *stack) update(dst []float32, samples int, op kernel.Op, alpha float32) {
	for l := range s.layers {
		d, op := &s.layers[l], op
		for k, from := 0, 0; from < samples; k, from = k+1, from+kernel.Lanes {
			n := min(kernel.Lanes, samples-from)
			d.isa.Gemm(d.out, d.in, n,
				kernel.Operand{Data: d.output(k), Row: kernel.Lanes, Col: 1},
				kernel.Matrix{Data: d.rows[from*d.in:], LD: d.in}, kernel.Matrix{Data: d.weight(dst), LD: d.in}, op, nil, alpha)
			d.isa.AddRowSums(d.bias(dst), d.output(k), n, op, alpha)
			op = kernel.Add
		}
	}
}

// head is softmax cross-entropy on a block of logits.
type head struct {
	isa      kernel.ISA
	top, sum [kernel.Lanes]float32
}

// softmax replaces the logits by their softmax times scale, and returns the sum of
// the samples' losses.
func (h *head) softmax(z []float32, labels []int32, scale float32) (loss float64) {
	var right [kernel.Lanes]float32
	for s, y := range labels {
		right[s] = z[int(y)*kernel.Lanes+s]
	}
	h.isa.Softmax(z, len(z)/kernel.Lanes, len(labels), scale, &h.top, &h.sum)
	for s := range labels {
		loss += kernel.Log(float64(h.sum[s])) - (float64(right[s]) - float64(h.top[s]))
	}
	return loss
}

// gradient replaces the logits by the gradient of the cross-entropy times scale,
// zero in the lanes beside the samples, and returns the sum of the samples' losses.
func (h *head) gradient(z []float32, labels []int32, scale float32) (loss float64) {
	loss = h.softmax(z, labels, scale)
	for s, y := range labels {
		z[int(y)*kernel.Lanes+s] -= scale
	}
	if n := len(labels); n%kernel.Vector != 0 {
		for row := range slices.Chunk(z, kernel.Lanes) {
			clear(row[n:kernel.Filled(n)])
		}
	}
	return loss
}

// evaluate returns the sum of the samples' losses and how many have their label
// as the first largest logit. It overwrites the logits.
func (h *head) evaluate(z []float32, labels []int32) (loss float64, correct int) {
	var best [kernel.Lanes]int32
	n := len(labels)
	most := h.top[:n]
	copy(most, z)
	for k := 1; k < len(z)/kernel.Lanes; k++ {
		row := z[k*kernel.Lanes:][:n]
		for s, v := range row {
			if v > most[s] {
				most[s], best[s] = v, int32(k)
			}
		}
	}
	for s, y := range labels {
		if best[s] == y {
			correct++
		}
	}
	return h.softmax(z, labels, 1), correct
}

// aligned allocates n floats that start on a cache line.
func aligned(n int) []float32 {
	const line = 64 / 4
	s := make([]float32, n+line)
	off := (64 - int(uintptr(unsafe.Pointer(&s[0]))%64)) / 4 % line
	return s[off : off+n : off+n]
}
