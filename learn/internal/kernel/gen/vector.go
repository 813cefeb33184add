package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const blockRow = 4 * 32 // bytes from a feature of a block to the next

// expInRange replaces -87 <= x <= 87 by exp(x), as kernel.Exp does but with fused
// operations. A NaN stays. The constants are read from memory: AVX2 has few registers.
func expInRange(s simd, x reg.VecVirtual) {
	n := s.vec()
	p := s.vec()
	// n becomes x/ln 2, rounded to an integer.
	VMULPS(s.vector(1.44269504088896341), x, n)
	if s.wide() {
		// The immediate 8 rounds to the nearest integer and raises no exception.
		VRNDSCALEPS(Imm(8), n, n)
	} else {
		VROUNDPS(Imm(8), n, n)
	}
	// n · ln 2 is taken from x in two parts, so that no bit is lost.
	VFNMADD231PS(s.vector(0.693359375), n, x)
	VFNMADD231PS(s.vector(-2.12194440e-4), n, x)
	// The polynomial is computed by Horner's scheme.
	VMOVUPS(s.vector(1.9875691500e-4), p)
	for _, c := range []float32{1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1} {
		VFMADD213PS(s.vector(c), x, p)
	}
	VMULPS(x, p, p)
	VFMADD213PS(x, x, p)
	VADDPS(s.vector(1), p, p)
	// The bits of 2^n are those of 1.0, whose exponent is the bias alone, with n added to the exponent.
	VCVTPS2DQ(n, n)
	VPSLLD(Imm(23), n, n)
	VPADDD(s.vector(1), n, n)
	VMULPS(n, p, x)
}

// softmax writes the kernel of Softmax. Down each column of lanes the kernel finds the largest
// logit, then sums the exponentials, and then scales them.
func softmax(s simd) {
	function("softmax"+s.name, "func(z *float32, rows, vectors int, scale float32, top, sum *float32)",
		" works down `vectors` vectors of lanes of a block of logits; see Softmax.")
	z := load("z")
	rows := load("rows")
	vectors := load("vectors")
	top := load("top")
	sum := load("sum")
	p := GP64()
	k := GP64()

	// The first pass down the rows finds the largest logit.
	Label("lanes")
	maximum := s.vec()
	MOVQ(z, p)
	MOVQ(rows, k)
	VMOVUPS(Mem{Base: p}, maximum)
	Label("max")
	VMAXPS(Mem{Base: p}, maximum, maximum)
	advance(blockRow, p)
	repeat("max", k)
	VMOVUPS(maximum, Mem{Base: top})

	// The second pass replaces the logits by exponentials, and sums them.
	lowerBound := s.vec()
	total := s.vec()
	VBROADCASTSS(s.vector(-64), lowerBound)
	s.zero(total)
	MOVQ(z, p)
	MOVQ(rows, k)
	x := s.vec()
	Label("exp")
	VMOVUPS(Mem{Base: p}, x)
	VSUBPS(Mem{Base: top}, x, x)
	// The order of the operands lets a NaN stay.
	VMAXPS(x, lowerBound, x)
	expInRange(s, x)
	VMOVUPS(x, Mem{Base: p})
	VADDPS(x, total, total)
	advance(blockRow, p)
	repeat("exp", k)
	VMOVUPS(total, Mem{Base: sum})

	// The third pass multiplies by the scale over the sum.
	f := s.vec()
	// The scale is loaded only now, because AVX2 has too few registers to keep it.
	VBROADCASTSS(argument("scale"), f)
	VDIVPS(total, f, f)
	MOVQ(z, p)
	MOVQ(rows, k)
	Label("scale")
	VMULPS(Mem{Base: p}, f, x)
	VMOVUPS(x, Mem{Base: p})
	advance(blockRow, p)
	repeat("scale", k)

	// The next vector of lanes follows.
	advance(s.bytes, z, top, sum)
	repeat("lanes", vectors)
	done()
}

// transpose writes the kernel of Transpose, which moves tiles of 8×8. Halves of rows i and i+4
// share a register, so that only shuffles within 128 bits remain.
func transpose() {
	function("transpose8", "func(dst *float32, ldd int, src *float32, lds int, down, right int)",
		" transposes down×right tiles of 8×8; strides are in bytes.")
	dst := load("dst")
	ldd := load("ldd")
	src := load("src")
	lds := load("lds")
	right := load("right")
	// Three times a stride is no factor of an address, so it is computed once.
	lds3 := GP64()
	ldd3 := GP64()
	rows := GP64()
	LEAQ(Mem{Base: lds, Index: lds, Scale: 2}, lds3)
	LEAQ(Mem{Base: ldd, Index: ldd, Scale: 2}, ldd3)

	// row is the address of row i of a tile. p points to its row 0 and low to its row 4.
	row := func(p, low reg.GPVirtual, stride, stride3 reg.Register, i int) Mem {
		base := p
		if i >= 4 {
			base = low
		}
		switch i % 4 {
		case 1:
			return Mem{Base: base, Index: stride, Scale: 1}
		case 2:
			return Mem{Base: base, Index: stride, Scale: 2}
		case 3:
			return Mem{Base: base, Index: stride3, Scale: 1}
		}
		return Mem{Base: base}
	}

	Label("column")
	s := GP64()
	d := GP64()
	MOVQ(src, s)
	MOVQ(dst, d)
	Load(Param("down"), rows)
	Label("tile")
	sLow := GP64()
	dLow := GP64()
	LEAQ(Mem{Base: s, Index: lds, Scale: 4}, sLow)
	LEAQ(Mem{Base: d, Index: ldd, Scale: 4}, dLow)
	// The left half of the source tile becomes the upper half of the transposed one.
	for half := range 2 {
		var r [4]reg.VecVirtual
		for i := range r {
			r[i] = YMM()
			up := row(s, sLow, lds, lds3, i)
			up.Disp = 16 * half
			down := row(s, sLow, lds, lds3, i+4)
			down.Disp = 16 * half
			VMOVUPS(up, r[i].AsX())
			VINSERTF128(Imm(1), down, r[i], r[i])
		}
		// Two steps of shuffles transpose the 4×4 tiles in both halves of the registers.
		var t [4]reg.VecVirtual
		for i := range t {
			t[i] = YMM()
		}
		VUNPCKLPS(r[1], r[0], t[0])
		VUNPCKHPS(r[1], r[0], t[1])
		VUNPCKLPS(r[3], r[2], t[2])
		VUNPCKHPS(r[3], r[2], t[3])
		for i := range 4 {
			out := YMM()
			pick := uint64(0x44)
			if i%2 == 1 {
				pick = 0xee
			}
			VSHUFPS(Imm(pick), t[2+i/2], t[i/2], out)
			VMOVUPS(out, row(d, dLow, ldd, ldd3, 4*half+i))
		}
	}
	// The next tile is 8 rows below in the source, and 8 columns to the right in the result.
	LEAQ(Mem{Base: s, Index: lds, Scale: 8}, s)
	advance(32, d)
	repeat("tile", rows)
	advance(32, src)
	LEAQ(Mem{Base: dst, Index: ldd, Scale: 8}, dst)
	repeat("column", right)
	done()
}

// copyPieces writes the kernel of CopyPieces, which AVX2 and AVX-512 share. It copies whole
// vectors, even of a short piece.
func copyPieces() {
	function("copyPieces", "func(dst *float32, toRow, toStep int, src *float32, fromRow, fromStep, rows, "+
		"pieces, chunks int)",
		" copies pieces of 1 to 4 chunks of 8 floats; distances are in bytes. See CopyPieces.")
	dst := load("dst")
	toStep := load("toStep")
	src := load("src")
	fromStep := load("fromStep")
	rows := load("rows")
	chunks := load("chunks")
	d := GP64()
	s := GP64()
	pieces := GP64()
	Label("row")
	MOVQ(dst, d)
	MOVQ(src, s)
	Load(Param("pieces"), pieces)
	// There is a loop for each number of chunks, without a branch in it.
	for n := 1; n < 4; n++ {
		CMPQ(chunks, Imm(uint64(n)))
		JEQ(LabelRef(fmt.Sprint("copy", n)))
	}
	// Four chunks are the case that falls through the comparisons.
	for n := 4; n > 0; n-- {
		Label(fmt.Sprint("copy", n))
		for i := range n {
			v := YMM()
			VMOVUPS(Mem{Base: s, Disp: 32 * i}, v)
			VMOVUPS(v, Mem{Base: d, Disp: 32 * i})
		}
		ADDQ(fromStep, s)
		ADDQ(toStep, d)
		repeat(fmt.Sprint("copy", n), pieces)
		JMP(LabelRef("next"))
	}
	Label("next")
	ADDQ(argument("toRow"), dst)
	ADDQ(argument("fromRow"), src)
	repeat("row", rows)
	done()
}

// rowSums writes the kernel of AddRowSums, which AVX2 and AVX-512 share, because the order of
// additions is fixed.
func rowSums() {
	function("rowSums", "func(dst, x *float32, rows int, alpha float32, how int, mask, minus *int32)",
		" sums rows of a block, of which the lanes that mask selects count; minus is -0 in the others. See AddRowSums.")
	dst := load("dst")
	x := load("x")
	rows := load("rows")
	alpha := Load(Param("alpha"), XMM())
	mode := load("how")
	p := load("mask")
	minus := load("minus")
	var mask [4]reg.VecVirtual
	for i := range mask {
		mask[i] = YMM()
		VMOVUPS(Mem{Base: p, Disp: 32 * i}, mask[i])
	}
	Label("row")
	var part [4]reg.VecVirtual
	for i := range part {
		part[i] = YMM()
		VMASKMOVPS(Mem{Base: x, Disp: 32 * i}, mask[i], part[i])
	}
	// What is added to the first half must keep a -0 of it.
	for i := range 2 {
		VORPS(Mem{Base: minus, Disp: 64 + 32*i}, part[2+i], part[2+i])
		VADDPS(part[2+i], part[i], part[i])
	}
	// The lanes are added pairwise, halves first, until one is left.
	a := part[0]
	VADDPS(part[1], a, a)
	h := XMM()
	q := a.AsX()
	VEXTRACTF128(Imm(1), a, h)
	VADDPS(h, q, q)
	VMOVHLPS(q, q, h)
	VADDPS(h, q, q)
	VMOVSHDUP(q, h)
	VADDSS(h, q, q)
	// Mode 0 stores the sum, mode 1 rounds the product before it is added, and mode 2 adds it in
	// one step.
	CMPQ(mode, Imm(1))
	JB(LabelRef("store"))
	JEQ(LabelRef("round"))
	VFMADD213SS(Mem{Base: dst}, alpha, q)
	JMP(LabelRef("store"))
	Label("round")
	VMULSS(alpha, q, q)
	VADDSS(Mem{Base: dst}, q, q)
	Label("store")
	VMOVSS(q, Mem{Base: dst})
	advance(4, dst)
	advance(blockRow, x)
	repeat("row", rows)
	done()
}

// lookup writes the kernel of Lookup. AVX-512 holds the table in 16 registers: the lowest five bits of
// a byte choose among the 32 values of two registers, and its upper three bits among the eight that
// come out. AVX2 gathers from memory.
func lookup(s simd) {
	function("lookup"+s.name, "func(dst *float32, src *uint8, table *float32, groups int)",
		" decodes groups of 16 bytes; see Lookup.")
	dst := load("dst")
	src := load("src")
	table := load("table")
	groups := load("groups")
	if s.wide() {
		var values [16]reg.VecVirtual
		for i := range values {
			values[i] = ZMM()
			VMOVUPS(Mem{Base: table, Disp: 64 * i}, values[i])
		}
		Label("group")
		index := ZMM()
		VPMOVZXBD(Mem{Base: src}, index)
		// upper holds, for the bits from 5 on, the lanes in which the bit is set.
		var upper [3]reg.OpmaskVirtual
		for i := range upper {
			upper[i] = K()
			VPTESTMD(bits(32<<i), index, upper[i])
		}
		// chosen returns the value of each lane among those of 2^level registers, from a first one on. Two
		// registers are one permutation; of more, the bit that counts chooses one half.
		var chosen func(first, level int) reg.VecVirtual
		chosen = func(first, level int) reg.VecVirtual {
			if level == 1 {
				value := ZMM()
				VMOVDQA32(index, value)
				VPERMI2PS(values[first+1], values[first], value)
				return value
			}
			low := chosen(first, level-1)
			high := chosen(first+1<<(level-1), level-1)
			VMOVAPS(high, upper[level-2], low)
			return low
		}
		VMOVUPS(chosen(0, 4), Mem{Base: dst})
	} else {
		Label("group")
		for half := range 2 {
			index := YMM()
			value := YMM()
			all := YMM()
			VPMOVZXBD(Mem{Base: src, Disp: 8 * half}, index)
			VPCMPEQD(all, all, all)
			s.zero(value)
			VGATHERDPS(all, Mem{Base: table, Index: index, Scale: 4}, value)
			VMOVUPS(value, Mem{Base: dst, Disp: 32 * half})
		}
	}
	advance(16, src)
	advance(64, dst)
	repeat("group", groups)
	done()
}

// prefetch writes the kernel of Prefetch, which asks for cache lines one after the other. AVX2 and
// AVX-512 share it.
func prefetch() {
	function("prefetch", "func(src *uint8, lines int)", " asks for cache lines of 64 bytes.")
	src := load("src")
	lines := load("lines")
	Label("line")
	PREFETCHT0(Mem{Base: src})
	advance(64, src)
	repeat("line", lines)
	RET()
}

// cpuid writes a function that returns what the processor says of itself: the four registers of the
// instruction CPUID for a leaf, of which it asks for subleaf 0.
func cpuid() {
	function("cpuid", "func(leaf uint32) (a, b, c, d uint32)", " is the processor's description of itself.")
	Load(Param("leaf"), reg.EAX)
	XORL(reg.ECX, reg.ECX)
	CPUID()
	for i, r := range []reg.Register{reg.EAX, reg.EBX, reg.ECX, reg.EDX} {
		Store(r, ReturnIndex(i))
	}
	RET()
}
