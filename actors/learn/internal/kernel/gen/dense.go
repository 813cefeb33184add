package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// denseSamples is the most samples whose sums fit the registers.
const denseSamples = 12

// denseStep writes the kernel for so many samples. It walks down strips of the weight's
// columns, of one vector or, with 32 registers, of two, and meets every weight once: it adds
// to the sums of all samples, then becomes what the step makes of it.
func denseStep(s simd, samples int) {
	function(fmt.Sprintf("denseStep%sx%d", s.name, samples),
		"func(strips, out int, w *float32, ldw int, dy, x *float32, ldx int, dx *float32, lddx int, alpha float32, mask bool, strip *float32)",
		" is DenseStep for strips of columns; strides are in bytes, strip is for the inputs of one.")
	vectors := s.bytes / 32
	width := vectors * s.bytes
	w, ldw, x, ldx, dx, lddx, strip := load("w"), load("ldw"), load("x"), load("ldx"), load("dx"), load("lddx"), load("strip")
	alpha := s.vec()
	VBROADCASTSS(argument("alpha"), alpha)
	var sum [denseSamples][2]reg.VecVirtual
	for i := range samples {
		for v := range vectors {
			sum[i][v] = s.vec()
		}
	}
	input := func(i, v int) Mem { return Mem{Base: strip, Disp: i*width + v*s.bytes} }

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
	row, dy, out := GP64(), load("dy"), load("out")
	MOVQ(w, row)

	Label("row")
	var weight, gradient [2]reg.VecVirtual
	for v := range vectors {
		weight[v], gradient[v] = s.vec(), s.vec()
		VMOVUPS(Mem{Base: row, Disp: v * s.bytes}, weight[v])
		s.zero(gradient[v])
	}
	for off := 0; off < width; off += 64 { // every row is in another page
		PREFETCHT0(Mem{Base: row, Index: ldw, Scale: 8, Disp: off})
	}
	y := s.vec()
	for i := range samples {
		VBROADCASTSS(Mem{Base: dy, Disp: 4 * i}, y)
		for v := range vectors {
			VFMADD231PS(y, weight[v], sum[i][v])
			VFMADD231PS(input(i, v), y, gradient[v])
		}
	}
	for v := range vectors {
		VFMADD213PS(weight[v], alpha, gradient[v])
		VMOVUPS(gradient[v], Mem{Base: row, Disp: v * s.bytes})
	}
	ADDQ(ldw, row)
	advance(blockRow, dy)
	repeat("row", out)

	mask := GP8()
	Load(Param("mask"), mask)
	CMPB(mask, Imm(0))
	JEQ(LabelRef("store"))
	zero := y
	s.zero(zero)
	for i := range samples {
		for v := range vectors {
			const less = 0x11 // ordered, quiet
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
	Label("store")
	MOVQ(dx, p)
	for i := range samples {
		for v := range vectors {
			VMOVUPS(sum[i][v], Mem{Base: p, Disp: v * s.bytes})
		}
		ADDQ(lddx, p)
	}
	advance(width, w, x, dx)
	repeat("strip", argument("strips"))
	done()
}
