package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// lookup gathers a whole vector of the table at a time.
func lookup(s simd) {
	TEXT("lookup"+s.name, NOSPLIT, "func(dst *float32, src *uint8, table *float32, groups int)")
	Pragma("noescape")
	Doc("lookup" + s.name + " decodes groups of 16 bytes; see Lookup.")
	dst := Load(Param("dst"), GP64())
	src := Load(Param("src"), GP64())
	table := Load(Param("table"), GP64())
	groups := Load(Param("groups"), GP64())
	if s.wide() {
		index, value, all := ZMM(), ZMM(), K()
		Label("group")
		VPMOVZXBD(Mem{Base: src}, index)
		KXNORW(all, all, all) // a gather clears its mask
		// Without its clearing a gather would wait for the one before it.
		s.zero(value)
		VGATHERDPS(Mem{Base: table, Index: index, Scale: 4}, all, value)
		VMOVUPS(value, Mem{Base: dst})
	} else {
		Label("group")
		for half := range 2 {
			index, value, all := YMM(), YMM(), YMM()
			VPMOVZXBD(Mem{Base: src, Disp: 8 * half}, index)
			VPCMPEQD(all, all, all)
			s.zero(value)
			VGATHERDPS(all, Mem{Base: table, Index: index, Scale: 4}, value)
			VMOVUPS(value, Mem{Base: dst, Disp: 32 * half})
		}
	}
	ADDQ(Imm(16), src)
	ADDQ(Imm(64), dst)
	DECQ(groups)
	JNZ(LabelRef("group"))
	VZEROUPPER()
	RET()
}

// prefetch serves both classes.
func prefetch() {
	TEXT("prefetch", NOSPLIT, "func(src *uint8, lines int)")
	Pragma("noescape")
	Doc("prefetch asks for cache lines of 64 bytes.")
	src := Load(Param("src"), GP64())
	lines := Load(Param("lines"), GP64())
	Label("line")
	PREFETCHT0(Mem{Base: src})
	ADDQ(Imm(64), src)
	DECQ(lines)
	JNZ(LabelRef("line"))
	RET()
}
