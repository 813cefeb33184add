package main

import (
	"math"
	"sync"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// exactMagic returns the place in the program's data of 1.5*2^52. Adding and taking it away rounds a float64.
var exactMagic = sync.OnceValue(func() Mem {
	m := GLOBL("exactMagic", 8|16) // RODATA|NOPTR
	DATA(0, U64(math.Float64bits(0x1.8p52)))
	return m
})

// spread broadcasts a float64 from memory to all elements of a register.
func spread(s simd, m Mem) reg.VecVirtual {
	v := s.vec()
	VBROADCASTSD(m, v)
	return v
}

// exactTerms holds what the kernels of exact sums compute terms with. A kernel looks at differences in float32
// before it adds any: where bit 30 of none is set, all are numbers below 2 in magnitude. Their terms are then
// below 2^51, and are rounded by adding 1.5*2^52 where there is no conversion to int64.
type exactTerms struct {
	s simd
	// weight is the factor of all terms; magic is 1.5*2^52, which is not needed with AVX-512.
	weight, magic reg.VecVirtual
}

// newExactTerms writes the loads of the constants of terms into registers. weight is where in memory the terms'
// weight is, a float64.
func newExactTerms(s simd, weight Mem) exactTerms {
	t := exactTerms{s: s, weight: spread(s, weight)}
	// Only AVX-512, which has masks, converts float64 to int64 itself.
	if !s.masks {
		t.magic = spread(s, exactMagic())
	}
	return t
}

// jumpIfLarge jumps to label unless all differences whose bits large joins by OR are below 2 in magnitude. A
// float32 has bit 30 set exactly if it is at least 2 in magnitude, or not a number.
func (t exactTerms) jumpIfLarge(large reg.VecVirtual, label string) {
	if bit30 := bits(1 << 30); t.s.masks {
		found := K()
		VPTESTMD(bit30, large, found)
		KTESTW(found, found)
	} else {
		VPTEST(bit30, large)
	}
	JNZ(LabelRef(label))
}

// add adds the terms of the values in x, which it overwrites, to the sums in memory. base has a float32 for each
// value.
func (t exactTerms) add(x reg.VecVirtual, base, sum Mem) {
	b := t.s.vec()
	VCVTPS2PD(base, b)
	VSUBPD(b, x, x)
	VMULPD(t.weight, x, x)
	if t.s.masks {
		VCVTPD2QQ(x, x)
	} else {
		// Adding and taking away 1.5·2^52 rounds a float64 to an integer, whose bits are then those of
		// an int64.
		VADDPD(t.magic, x, x)
		VPSUBQ(t.magic, x, x)
	}
	VPADDQ(sum, x, x)
	VMOVUPD(x, sum)
}

// addExact writes the kernel of AddExact or, with reset, of AddExactAndReset. A term is w·(x − base), rounded to an
// integer, which is added to the sum in dst. The kernel takes groups of 16, and looks at all 16 differences of a
// group before it adds any. With reset, x becomes base once the terms of the group have been computed.
func addExact(s simd, reset bool) {
	name := "addExact" + s.name
	if reset {
		name = "addExactAndReset" + s.name
	}
	function(name, "func(dst *int64, x, base *float32, groups int, w float64) int",
		" adds groups of 16 terms up to the first with a difference that may not be below 2, and returns how "+
			"many groups are left.")
	dst := load("dst")
	x := load("x")
	base := load("base")
	groups := load("groups")
	terms := newExactTerms(s, argument("w"))
	Label("group")
	// The bits of all 16 differences are joined by OR, so that one test sees bit 30 of any.
	large := YMM()
	loaded := [2]reg.VecVirtual{YMM(), YMM()}
	// The groups are read as two vectors of 8 floats.
	for half, b := range loaded {
		d := YMM()
		VMOVUPS(Mem{Base: base, Disp: 32 * half}, b)
		VMOVUPS(Mem{Base: x, Disp: 32 * half}, d)
		VSUBPS(b, d, d)
		if half == 0 {
			large = d
		} else {
			VORPS(d, large, large)
		}
	}
	// A group with a large difference ends the kernel before anything of it is added.
	terms.jumpIfLarge(large, "end")
	// The terms are computed in float64 and added as integers, as many at once as a vector has float64s.
	for part := 0; part < 16; part += s.bytes / 8 {
		d := s.vec()
		VCVTPS2PD(Mem{Base: x, Disp: 4 * part}, d)
		terms.add(d, Mem{Base: base, Disp: 4 * part}, Mem{Base: dst, Disp: 8 * part})
	}
	for half, b := range loaded {
		if reset {
			VMOVUPS(b, Mem{Base: x, Disp: 32 * half})
		}
	}
	// A group is 16 sums of 8 bytes, and 16 floats of 4 bytes.
	advance(128, dst)
	advance(64, x, base)
	repeat("group", groups)
	Label("end")
	Store(groups, ReturnIndex(0))
	done()
}

// addTransposed writes the kernel of AddTransposed for a strip of 8 columns of src, which is a cache line wide. A
// step takes 4 of its rows, as two tiles of 4×4.
func addTransposed() {
	function("addTransposed", "func(dst *int64, ldd int, src *int64, lds int, steps int)",
		" is AddTransposed for a strip of 8 columns of src, 4 rows in a step; strides are in bytes.")
	dst := load("dst")
	ldd := load("ldd")
	src := load("src")
	lds := load("lds")
	steps := load("steps")
	lds3 := GP64()
	ldd3 := GP64()
	LEAQ(Mem{Base: lds, Index: lds, Scale: 2}, lds3)
	LEAQ(Mem{Base: ldd, Index: ldd, Scale: 2}, ldd3)
	zero := YMM()
	VPXOR(zero, zero, zero)
	// rowsOf returns the places of 4 rows that begin at a pointer.
	rowsOf := func(base, stride, stride3 reg.Register, disp int) [4]Mem {
		return [4]Mem{
			{Base: base, Disp: disp},
			{Base: base, Index: stride, Scale: 1, Disp: disp},
			{Base: base, Index: stride, Scale: 2, Disp: disp},
			{Base: base, Index: stride3, Scale: 1, Disp: disp},
		}
	}
	Label("step")
	down := GP64()
	LEAQ(Mem{Base: dst, Index: ldd, Scale: 4}, down)
	for tile, to := range []reg.Register{dst, down} {
		var row, pair, column [4]reg.VecVirtual
		for i, m := range rowsOf(src, lds, lds3, 32*tile) {
			row[i] = YMM()
			pair[i] = YMM()
			column[i] = YMM()
			VMOVDQU(m, row[i])
			VMOVDQU(zero, m)
		}
		// Pairs of rows are interleaved, and then the halves of the pairs exchanged.
		for i := range 2 {
			VPUNPCKLQDQ(row[2*i+1], row[2*i], pair[2*i])
			VPUNPCKHQDQ(row[2*i+1], row[2*i], pair[2*i+1])
		}
		for i := range 2 {
			VPERM2I128(Imm(0x20), pair[2+i], pair[i], column[i])
			VPERM2I128(Imm(0x31), pair[2+i], pair[i], column[2+i])
		}
		for i, m := range rowsOf(to, ldd, ldd3, 0) {
			VPADDQ(m, column[i], column[i])
			VMOVDQU(column[i], m)
		}
	}
	advance(32, dst)
	LEAQ(Mem{Base: src, Index: lds, Scale: 4}, src)
	repeat("step", steps)
	done()
}
