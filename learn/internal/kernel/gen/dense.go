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
	// Many samples leave registers for two rows of one vector; few leave them for two vectors.
	vectors := 1
	rows := 1
	switch {
	case samples > denseSamples:
		rows = 2
	case s.wide():
		vectors = 2
	}
	width := vectors * s.bytes
	w := load("w")
	ldw := load("ldw")
	x := load("x")
	ldx := load("ldx")
	dx := load("dx")
	lddx := load("lddx")
	strip := load("strip")
	alpha := s.vec()
	VBROADCASTSS(argument("alpha"), alpha)
	// The sums of all samples stay in registers down the strip.
	var sum [2 * denseSamples][2]reg.VecVirtual
	for i := range samples {
		for v := range vectors {
			sum[i][v] = s.vec()
		}
	}
	// input is the address of vector v of sample i in the scratch space of a strip.
	input := func(i, v int) Mem { return Mem{Base: strip, Disp: i*width + v*s.bytes} }

	// At the beginning of a strip its inputs are copied, and the sums are cleared.
	Label("strip")
	p := GP64()
	MOVQ(x, p)
	for i := range samples {
		for v := range vectors {
			VMOVUPS(Mem{Base: p, Disp: v * s.bytes}, sum[i][v])
			VMOVUPS(sum[i][v], input(i, v))
			s.zero(sum[i][v])
		}
		ADDQ(ldx, p)
	}
	row := GP64()
	dy := load("dy")
	outputs := load("out")
	MOVQ(w, row)
	// Two rows are taken in each pass.
	if rows == 2 {
		SHRQ(Imm(1), outputs)
	}

	// Each pass loads the weights of one or two rows, and clears their gradients.
	Label("row")
	// weight and gradient are those of two vectors, or of two rows.
	var weight, gradient [2]reg.VecVirtual
	weights := []Mem{{Base: row}, {Base: row, Disp: s.bytes}}
	if rows == 2 {
		weights[1] = Mem{Base: row, Index: ldw, Scale: 1}
	}
	weights = weights[:vectors*rows]
	// A weight is loaded once for all samples.
	for i, m := range weights {
		weight[i] = s.vec()
		gradient[i] = s.vec()
		VMOVUPS(m, weight[i])
		s.zero(gradient[i])
	}
	// Every row is in another page, which the processor does not fetch by itself.
	for off := 0; off < width; off += 64 {
		PREFETCHT0(Mem{
			Base:  row,
			Index: ldw,
			Scale: 8,
			Disp:  off,
		})
	}
	y := s.vec()
	read := s.vec()
	if rows == 2 {
		// The second row of a pair is fetched early, too.
		next := GP64()
		LEAQ(Mem{Base: row, Index: ldw, Scale: 1}, next)
		PREFETCHT0(Mem{Base: next, Index: ldw, Scale: 8})
	}
	for i := range samples {
		if rows == 2 {
			VMOVUPS(input(i, 0), read)
		}
		for j := range weights {
			if j < rows {
				VBROADCASTSS(Mem{Base: dy, Disp: blockRow*j + 4*i}, y)
			}
			// Weight and gradient j belong to vector v of the strip.
			v := j % vectors
			VFMADD231PS(y, weight[j], sum[i][v])
			if rows == 2 {
				VFMADD231PS(read, y, gradient[j])
			} else {
				VFMADD231PS(input(i, v), y, gradient[j])
			}
		}
	}
	for i, m := range weights {
		VFMADD213PS(weight[i], alpha, gradient[i])
		VMOVUPS(gradient[i], m)
	}
	// The pass ends with the next row of the weight and of dy.
	for range rows {
		ADDQ(ldw, row)
		advance(blockRow, dy)
	}
	repeat("row", outputs)

	// With the mask, the gradient is zero where the input is not above 0.
	mask := GP8()
	Load(Param("mask"), mask)
	CMPB(mask, Imm(0))
	JEQ(LabelRef("store"))
	zero := y
	s.zero(zero)
	for i := range samples {
		for v := range vectors {
			// less is the predicate "less than" that is false for a NaN and raises no exception.
			const less = 0x11
			if s.masks {
				on := K()
				VCMPPS(Imm(less), input(i, v), zero, on)
				VMOVAPS_Z(sum[i][v], on, sum[i][v])
			} else {
				on := s.vec()
				VCMPPS(Imm(less), input(i, v), zero, on)
				VANDPS(on, sum[i][v], sum[i][v])
			}
		}
	}
	// The sums are the gradient of the strip's inputs.
	Label("store")
	MOVQ(dx, p)
	for i := range samples {
		for v := range vectors {
			VMOVUPS(sum[i][v], Mem{Base: p, Disp: v * s.bytes})
		}
		ADDQ(lddx, p)
	}
	// The next strip is width bytes to the right.
	advance(width, w, x, dx)
	repeat("strip", argument("strips"))
	done()
}
