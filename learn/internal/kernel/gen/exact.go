package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// double puts a float64 into the program's data and returns its place.
func double(name string, x float64) Mem {
	m := GLOBL(name, 8|16) // RODATA|NOPTR
	DATA(0, U64(math.Float64bits(x)))
	return m
}

// spread broadcasts a float64 from memory to all elements of a register.
func spread(s simd, m Mem) reg.VecVirtual {
	v := s.vec()
	VBROADCASTSD(m, v)
	return v
}

// addExact writes the kernel of AddExact or, with reset, of AddExactAndReset. The kernel looks at
// 16 differences in float32 before it changes anything: where bit 30 of none is set, all are
// numbers below 2 in magnitude. Their terms are then below 2^51, and are rounded by adding 1.5*2^52
// where there is no conversion to int64.
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
	w := spread(s, argument("w"))
	// Adding and taking away 1.5·2^52 rounds a float64 to an integer, whose bits are then those of
	// an int64.
	magic := spread(s, double(name+"Magic", 0x1.8p52))
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
	// A float32 has bit 30 set exactly if it is at least 2 in magnitude, or not a number.
	if bit30 := bits(1 << 30); s.masks {
		found := K()
		VPTESTMD(bit30, large, found)
		KTESTB(found, found)
	} else {
		VPTEST(bit30, large)
	}
	// A group with a large difference ends the kernel before anything of it is added.
	JNZ(LabelRef("end"))
	// The terms are computed in float64 and added as integers.
	for part := 0; part < 16; part += s.bytes / 8 {
		d := s.vec()
		b := s.vec()
		sum := Mem{Base: dst, Disp: 8 * part}
		VCVTPS2PD(Mem{Base: x, Disp: 4 * part}, d)
		VCVTPS2PD(Mem{Base: base, Disp: 4 * part}, b)
		VSUBPD(b, d, d)
		VMULPD(w, d, d)
		if s.masks {
			VCVTPD2QQ(d, d)
		} else {
			VADDPD(magic, d, d)
			VPSUBQ(magic, d, d)
		}
		VPADDQ(sum, d, d)
		VMOVUPD(d, sum)
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
