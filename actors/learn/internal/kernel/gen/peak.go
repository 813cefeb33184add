package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// peakSums is the number of independent sums of the peak loop: enough to cover
// the latency of a multiply-add on two ports.
const peakSums = 12

// peak is the loop that benchmarks measure beside the kernels: nothing but
// fused multiply-adds on registers.
func peak(s simd) {
	TEXT("peak"+s.name, NOSPLIT, "func(turns int)")
	Doc("peak" + s.name + " does 48 multiply-adds a turn.")
	turns := Load(Param("turns"), GP64())
	x := s.vec()
	s.zero(x)
	var sums []reg.VecVirtual
	for range peakSums {
		v := s.vec()
		s.zero(v)
		sums = append(sums, v)
	}
	Label("turn")
	for range 4 {
		for _, v := range sums {
			VFMADD231PS(x, x, v)
		}
	}
	DECQ(turns)
	JNZ(LabelRef("turn"))
	VZEROUPPER()
	RET()
}
