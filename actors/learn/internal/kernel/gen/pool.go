package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// integer is a whole vector of the int32 i in the program's data.
func (s simd) integer(i int32) Mem { return bits(uint32(i)) }

func maxPool(s simd) {
	TEXT("maxPool"+s.name, NOSPLIT, "func(rows int, x *float32, part int, dst *float32, ld int, code *int32)")
	Pragma("noescape")
	Doc("maxPool" + s.name + ": see MaxPool; part and ld are in bytes.")
	rows := Load(Param("rows"), GP64())
	part := Load(Param("part"), GP64()).(reg.GPVirtual)
	maps := parts(Load(Param("x"), GP64()).(reg.GPVirtual), part, 4)
	dst := Load(Param("dst"), GP64())
	ld := Load(Param("ld"), GP64())
	code := Load(Param("code"), GP64())
	var which [4]reg.VecVirtual
	for j := 1; j < 4; j++ {
		which[j] = s.vec()
		VMOVUPS(s.integer(int32(j)), which[j])
	}
	Label("row")
	for off := 0; off < blockRow; off += s.bytes {
		best, v, c := s.vec(), s.vec(), s.vec()
		at := func(j int) Mem { m := maps[j]; m.Disp = off; return m }
		VMOVUPS(at(0), best)
		s.zero(c)
		for j := 1; j < 4; j++ {
			VMOVUPS(at(j), v)
			if s.wide() {
				k := K()
				VCMPPS(Imm(0x11), v, best, k) // best < v
				VMOVAPS(v, k, best)
				VMOVDQA32(which[j], k, c)
			} else {
				k := s.vec()
				VCMPPS(Imm(0x11), v, best, k)
				VBLENDVPS(k, v, best, best)
				VBLENDVPS(k, which[j], c, c)
			}
		}
		VMOVUPS(best, Mem{Base: dst, Disp: off})
		VMOVUPS(c, Mem{Base: code, Disp: off})
	}
	ADDQ(ld, dst)
	ADDQ(Imm(blockRow), code)
	moved := map[reg.Register]bool{}
	for _, m := range maps {
		if !moved[m.Base] {
			moved[m.Base] = true
			ADDQ(Imm(blockRow), m.Base)
		}
	}
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

func maxUnpool(s simd) {
	TEXT("maxUnpool"+s.name, NOSPLIT, "func(rows int, gradient *float32, ld int, code *int32, dst *float32, right, down int)")
	Pragma("noescape")
	Doc("maxUnpool" + s.name + ": see MaxUnpool; ld, right and down are in bytes.")
	rows := Load(Param("rows"), GP64())
	g := Load(Param("gradient"), GP64())
	ld := Load(Param("ld"), GP64())
	code := Load(Param("code"), GP64())
	dst := Load(Param("dst"), GP64())
	right := Load(Param("right"), GP64())
	down := Load(Param("down"), GP64())
	low := GP64()
	LEAQ(Mem{Base: dst, Index: down, Scale: 1}, low)
	var which [4]reg.VecVirtual
	for j := range which {
		which[j] = s.vec()
		VMOVUPS(s.integer(int32(j)), which[j])
	}
	Label("row")
	for off := 0; off < blockRow; off += s.bytes {
		v, c := s.vec(), s.vec()
		VMOVUPS(Mem{Base: g, Disp: off}, v)
		VMOVUPS(Mem{Base: code, Disp: off}, c)
		for j, m := range []Mem{{Base: dst}, {Base: dst, Index: right, Scale: 1}, {Base: low}, {Base: low, Index: right, Scale: 1}} {
			m.Disp = off
			out := s.vec()
			if s.wide() {
				k := K()
				VPCMPEQD(which[j], c, k)
				VMOVAPS_Z(v, k, out)
			} else {
				VPCMPEQD(which[j], c, out)
				VANDPS(v, out, out)
			}
			VMOVUPS(out, m)
		}
	}
	ADDQ(ld, g)
	ADDQ(Imm(blockRow), code)
	ADDQ(Imm(blockRow), dst)
	ADDQ(Imm(blockRow), low)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}
