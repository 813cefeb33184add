package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// maxPool writes the kernel of MaxPool. For each vector of a row the kernel compares the four maps one after the
// other, and keeps the larger values and the numbers of their maps.
func maxPool(s simd) {
	function("maxPool"+s.name, "func(rows int, x *float32, lx, right, down int, dst *float32, ld int, code "+
		"*int32, whole bool)",
		": see MaxPool; distances are in bytes. Without whole it works on half of each row.")
	rows := load("rows")
	x := load("x")
	lx := load("lx")
	right := load("right")
	// low points to the lower two maps.
	low := load("down")
	ADDQ(x, low)
	// The maps are at 0, right, down and right+down.
	maps := []Mem{{Base: x}, {Base: x, Index: right, Scale: 1}, {Base: low}, {Base: low, Index: right, Scale: 1}}
	dst := load("dst")
	ld := load("ld")
	code := load("code")
	var winners [4]reg.VecVirtual
	for j := 1; j < 4; j++ {
		winners[j] = s.vec()
		VMOVUPS(bits(uint32(j)), winners[j])
	}
	halves(rows, func(bytes int) {
		for off := 0; off < bytes; off += s.bytes {
			best := s.vec()
			v := s.vec()
			c := s.vec()
			// position is the address of the present vector in map j.
			position := func(j int) Mem {
				m := maps[j]
				m.Disp = off
				return m
			}
			// Map 0 wins unless another has a larger value.
			VMOVUPS(position(0), best)
			s.zero(c)
			for j := 1; j < 4; j++ {
				VMOVUPS(position(j), v)
				if s.wide() {
					k := K()
					// The mask is set where best < v.
					VCMPPS(Imm(0x11), v, best, k)
					VMOVAPS(v, k, best)
					VMOVDQA32(winners[j], k, c)
				} else {
					k := s.vec()
					VCMPPS(Imm(0x11), v, best, k)
					VBLENDVPS(k, v, best, best)
					VBLENDVPS(k, winners[j], c, c)
				}
			}
			VMOVUPS(best, Mem{Base: dst, Disp: off})
			VMOVUPS(c, Mem{Base: code, Disp: off})
		}
		// The pointers move on to the next row.
		ADDQ(ld, dst)
		ADDQ(lx, x)
		ADDQ(lx, low)
		advance(blockRow, code)
	})
}

// maxUnpool writes the kernel of MaxUnpool. The kernel writes a gradient to the one of the four maps of dst that its
// code names, and 0 to the others. The maps lie at dst, right of it, down from it, and both.
func maxUnpool(s simd) {
	function("maxUnpool"+s.name, "func(rows int, gradient *float32, ld int, code *int32, dst *float32, right, "+
		"down int, whole bool)",
		": see MaxUnpool; ld, right and down are in bytes. Without whole it works on half of each row.")
	rows := load("rows")
	g := load("gradient")
	ld := load("ld")
	code := load("code")
	dst := load("dst")
	right := load("right")
	down := load("down")
	low := GP64()
	// low is the address of the lower two maps.
	LEAQ(Mem{Base: dst, Index: down, Scale: 1}, low)
	// A vector of each map's number is compared with the codes.
	var winners [4]reg.VecVirtual
	for j := range winners {
		winners[j] = s.vec()
		VMOVUPS(bits(uint32(j)), winners[j])
	}
	halves(rows, func(bytes int) {
		for off := 0; off < bytes; off += s.bytes {
			v := s.vec()
			c := s.vec()
			VMOVUPS(Mem{Base: g, Disp: off}, v)
			VMOVUPS(Mem{Base: code, Disp: off}, c)
			for j, m := range []Mem{
				{Base: dst},
				{Base: dst, Index: right, Scale: 1},
				{Base: low},
				{Base: low, Index: right, Scale: 1},
			} {
				m.Disp = off
				// The gradient stays in lanes whose code is this map's number.
				output := s.vec()
				if s.wide() {
					k := K()
					VPCMPEQD(winners[j], c, k)
					VMOVAPS_Z(v, k, output)
				} else {
					VPCMPEQD(winners[j], c, output)
					VANDPS(v, output, output)
				}
				VMOVUPS(output, m)
			}
		}
		// The pointers move on to the next row.
		ADDQ(ld, g)
		advance(blockRow, code, dst, low)
	})
}

// halves writes two loops over the rows of blocks and ends the function: one loop takes full rows, and
// the other the first half of each. body writes what is done to a row of some bytes.
func halves(rows reg.Register, body func(bytes int)) {
	fullBlock := GP8()
	Load(Param("whole"), fullBlock)
	CMPB(fullBlock, Imm(0))
	JEQ(LabelRef("half"))
	// The loop over full rows comes first, and the one over halves is the same with half the bytes.
	for i, label := range []string{"row", "half"} {
		Label(label)
		body(blockRow >> i)
		repeat(label, rows)
		done()
	}
}
