package learn

import (
	"unsafe"

	"fedpace/actors/learn/internal/kernel"
)

// dense is a layer y = W x + b, weight [out, in] at offset, its bias behind it.
// Its methods work on one block of n samples.
type dense struct {
	class   kernel.Class
	in, out int
	offset  int
	relu    bool // y = max(0, W x + b)
}

func (d *dense) weight(params []float32) []float32 { return params[d.offset:][:d.in*d.out] }
func (d *dense) bias(params []float32) []float32   { return params[d.offset+d.in*d.out:][:d.out] }

func (d *dense) forward(y, params, x []float32, n int) {
	op := kernel.Bias
	if d.relu {
		op = kernel.BiasReLU
	}
	d.class.Gemm(d.out, kernel.Filled(n), d.in,
		kernel.Operand{Data: d.weight(params), Row: d.in, Col: 1},
		kernel.Block(x), kernel.Block(y), op, d.bias(params), 0)
}

// backward computes dx = Wᵀ dy, and where x, a ReLU's output, is given, only
// where it is positive.
func (d *dense) backward(dx, params, dy, x []float32, n int) {
	op := kernel.Store
	if x != nil {
		op = kernel.ReLUGrad
	}
	d.class.Gemm(d.in, kernel.Filled(n), d.out,
		kernel.Operand{Data: d.weight(params), Row: 1, Col: d.in},
		kernel.Block(dy), kernel.Block(dx), op, x, 0)
}

// update adds alpha·dy·xᵀ to dst's weight and alpha·dy to its bias, or stores
// them. rows holds the inputs sample by sample.
func (d *dense) update(dst, dy, rows []float32, n int, op kernel.Op, alpha float32) {
	d.class.Gemm(d.out, d.in, n,
		kernel.Operand{Data: dy, Row: kernel.Lanes, Col: 1},
		kernel.Matrix{Data: rows, LD: d.in}, kernel.Matrix{Data: d.weight(dst), LD: d.in}, op, nil, alpha)
	d.class.AddRowSums(d.bias(dst), dy, n, op, alpha)
}

// head is softmax cross-entropy on a block of logits.
type head struct {
	class    kernel.Class
	classes  int
	top, sum [kernel.Lanes]float32
}

// softmax replaces the logits by their softmax times scale, and returns the sum of
// the samples' losses.
func (h *head) softmax(z []float32, labels []int32, scale float32) (loss float64) {
	var right [kernel.Lanes]float32
	for s, y := range labels {
		right[s] = z[int(y)*kernel.Lanes+s]
	}
	h.class.Softmax(z, h.classes, len(labels), scale, &h.top, &h.sum)
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
		for k := range h.classes {
			clear(z[k*kernel.Lanes:][n:kernel.Filled(n)])
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
	for k := 1; k < h.classes; k++ {
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

// block is block k of an array of blocks with the given features.
func block(x []float32, k, features int) []float32 {
	size := features * kernel.Lanes
	return x[k*size:][:size]
}

// aligned allocates n floats that start on a cache line.
func aligned(n int) []float32 {
	const line = 64 / 4
	s := make([]float32, n+line)
	off := (64 - int(uintptr(unsafe.Pointer(&s[0]))%64)) / 4 % line
	return s[off : off+n : off+n]
}
