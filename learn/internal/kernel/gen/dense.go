package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// denseSamples is the most samples whose sums fit 16 registers, by vectors of 512 bits two of
// each; twice as many fit 32 registers.
const denseSamples = 12

// denseKernel holds the registers of the kernel that denseStep writes.
type denseKernel struct {
	s       simd
	samples int
	// rows is the number of rows of the weight that are taken together, and vectors that of the vectors of a strip: one
	// of them is 1. width is the width of a strip in bytes.
	rows, vectors, width int
	// w, x and dx point to the first row of the strip, and ldw, ldx and lddx are the distances between rows in bytes.
	w, ldw, x, ldx, dx, lddx reg.GPVirtual
	// strip points to memory for the inputs of a strip.
	strip reg.GPVirtual
	alpha reg.VecVirtual
	// sum has for each sample the gradient of its inputs in the strip, a register for each vector.
	sum [2 * denseSamples][2]reg.VecVirtual
}

// input returns the place of vector v of the inputs of sample i in the memory of a strip.
func (k *denseKernel) input(i, v int) Mem { return Mem{Base: k.strip, Disp: i*k.width + v*k.s.bytes} }

// denseStep writes the kernel of DenseStep for the given number of samples. The kernel walks down
// strips of the weight's columns and loads every weight once: it adds the weight's products to the
// sums of all samples, and then updates the weight. A strip has two vectors, or two rows go
// together, so that each value that is loaded serves two sums. The weight has a row for each output,
// and dy a row of blockRow bytes with the gradients of an output in all samples; x and dx have a row
// of inputs for each sample.
func denseStep(s simd, samples int) {
	function(fmt.Sprintf("denseStep%sx%d", s.name, samples),
		"func(strips, out int, w *float32, ldw int, dy, x *float32, ldx int, dx *float32, lddx int, alpha "+
			"float32, mask bool, strip *float32)",
		" is DenseStep for strips of columns; strides are in bytes, strip is for the inputs of one.")
	k := &denseKernel{s: s, samples: samples, rows: 1, vectors: 1}
	// Many samples leave registers for two rows of one vector; few leave them for two vectors.
	switch {
	case samples > denseSamples:
		k.rows = 2
	case s.wide():
		k.vectors = 2
	}
	k.width = k.vectors * s.bytes
	k.w = load("w")
	k.ldw = load("ldw")
	k.x = load("x")
	k.ldx = load("ldx")
	k.dx = load("dx")
	k.lddx = load("lddx")
	k.strip = load("strip")
	k.alpha = s.vec()
	VBROADCASTSS(argument("alpha"), k.alpha)
	// The sums of all samples stay in registers down the strip.
	for i := range samples {
		for v := range k.vectors {
			k.sum[i][v] = s.vec()
		}
	}

	// At the beginning of a strip its inputs are copied, and the sums are cleared.
	Label("strip")
	p := GP64()
	MOVQ(k.x, p)
	for i := range samples {
		for v := range k.vectors {
			VMOVUPS(Mem{Base: p, Disp: v * s.bytes}, k.sum[i][v])
			VMOVUPS(k.sum[i][v], k.input(i, v))
			s.zero(k.sum[i][v])
		}
		ADDQ(k.ldx, p)
	}
	row := GP64()
	dy := load("dy")
	outputs := load("out")
	MOVQ(k.w, row)
	// Two rows are taken in each pass.
	if k.rows == 2 {
		SHRQ(Imm(1), outputs)
	}
	Label("row")
	y := k.addRows(row, dy)
	// The pass ends with the next row of the weight and of dy.
	for range k.rows {
		ADDQ(k.ldw, row)
		advance(blockRow, dy)
	}
	repeat("row", outputs)

	// With the mask, the gradient is zero where the input is not above 0.
	mask := GP8()
	Load(Param("mask"), mask)
	CMPB(mask, Imm(0))
	JEQ(LabelRef("store"))
	k.maskSums(y)
	// The sums are the gradient of the strip's inputs.
	Label("store")
	MOVQ(k.dx, p)
	for i := range samples {
		for v := range k.vectors {
			VMOVUPS(k.sum[i][v], Mem{Base: p, Disp: v * s.bytes})
		}
		ADDQ(k.lddx, p)
	}
	// The next strip is width bytes to the right.
	advance(k.width, k.w, k.x, k.dx)
	repeat("strip", argument("strips"))
	done()
}

// addRows writes one pass: it loads the weights of one or two rows, of which row points to the first, adds their
// products with the gradients of their outputs, dy, to the sums of the samples, and updates them. It returns a
// register that is free after the pass.
func (k *denseKernel) addRows(row, dy reg.GPVirtual) (free reg.VecVirtual) {
	// weight and gradient are those of two vectors, or of two rows.
	var weight, gradient [2]reg.VecVirtual
	weights := []Mem{{Base: row}, {Base: row, Disp: k.s.bytes}}
	if k.rows == 2 {
		weights[1] = Mem{Base: row, Index: k.ldw, Scale: 1}
	}
	weights = weights[:k.vectors*k.rows]
	// A weight is loaded once for all samples.
	for i, m := range weights {
		weight[i] = k.s.vec()
		gradient[i] = k.s.vec()
		VMOVUPS(m, weight[i])
		k.s.zero(gradient[i])
	}
	// Every row is in another page, which the processor does not fetch by itself.
	for off := 0; off < k.width; off += 64 {
		PREFETCHT0(Mem{
			Base:  row,
			Index: k.ldw,
			Scale: 8,
			Disp:  off,
		})
	}
	y := k.s.vec()
	read := k.s.vec()
	if k.rows == 2 {
		// The second row of a pair is fetched early, too.
		next := GP64()
		LEAQ(Mem{Base: row, Index: k.ldw, Scale: 1}, next)
		PREFETCHT0(Mem{Base: next, Index: k.ldw, Scale: 8})
	}
	for i := range k.samples {
		if k.rows == 2 {
			VMOVUPS(k.input(i, 0), read)
		}
		for j := range weights {
			// y is the gradient of the output of row j in each element. Two vectors of one row share it.
			if j < k.rows {
				VBROADCASTSS(Mem{Base: dy, Disp: blockRow*j + 4*i}, y)
			}
			// Weight and gradient j belong to vector v of the strip.
			v := j % k.vectors
			VFMADD231PS(y, weight[j], k.sum[i][v])
			if k.rows == 2 {
				VFMADD231PS(read, y, gradient[j])
			} else {
				VFMADD231PS(k.input(i, v), y, gradient[j])
			}
		}
	}
	for i, m := range weights {
		VFMADD213PS(weight[i], k.alpha, gradient[i])
		VMOVUPS(gradient[i], m)
	}
	return y
}

// maskSums writes how the sums become zero where the input is not above 0. It uses the register zero.
func (k *denseKernel) maskSums(zero reg.VecVirtual) {
	k.s.zero(zero)
	for i := range k.samples {
		for v := range k.vectors {
			// less is the predicate "less than" that is false for a NaN and raises no exception.
			const less = 0x11
			if k.s.masks {
				positive := K()
				VCMPPS(Imm(less), k.input(i, v), zero, positive)
				VMOVAPS_Z(k.sum[i][v], positive, k.sum[i][v])
			} else {
				positive := k.s.vec()
				VCMPPS(Imm(less), k.input(i, v), zero, positive)
				VANDPS(positive, k.sum[i][v], k.sum[i][v])
			}
		}
	}
}
