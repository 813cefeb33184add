package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const exactSignature = "func(dst *int64, x, base *float32, groups int, w float64) bool"

// double is a float64 in the program's data.
func double(name string, x float64) Mem {
	m := GLOBL(name, 8|16) // RODATA|NOPTR
	DATA(0, U64(math.Float64bits(x)))
	return m
}

// spread broadcasts a float64.
func spread(s simd, m Mem) reg.VecVirtual {
	v := s.vec()
	VBROADCASTSD(m, v)
	return v
}

// returnIfZero ends a function that reports whether the last test found nothing.
func returnIfZero() {
	ok := GP8()
	SETEQ(ok)
	Store(ok, ReturnIndex(0))
	RET()
}

var limit, sign Mem

func addExact512() {
	limit = double("exactLimit", 1<<17)
	sign = double("exactMagnitude", math.Float64frombits(1<<63-1))
	function("addExact512", exactSignature,
		" adds groups of 8 terms and reports whether every difference was in range.")
	dst, x, base, groups := load("dst"), load("x"), load("base"), load("groups")
	w, most, magnitude := spread(avx512, argument("w")), spread(avx512, limit), spread(avx512, sign)
	bad := K()
	KXORB(bad, bad, bad)
	Label("group")
	d, b, size := ZMM(), ZMM(), ZMM()
	VCVTPS2PD(Mem{Base: x}, d)
	VCVTPS2PD(Mem{Base: base}, b)
	VSUBPD(b, d, d)
	VANDPD(magnitude, d, size)
	over := K()
	VCMPPD(Imm(0x15), most, size, over) // not less, or not a number
	KORB(over, bad, bad)
	VMULPD(w, d, d)
	VCVTPD2QQ(d, d)
	VPADDQ(Mem{Base: dst}, d, d)
	VMOVDQU64(d, Mem{Base: dst})
	advance(64, dst)
	advance(32, x, base)
	repeat("group", groups)
	VZEROUPPER()
	KTESTB(bad, bad)
	returnIfZero()
}

// addExact2 has no conversion to int64: a rounded value splits exactly into a
// multiple of 2^32 and a rest of at most 2^31, and each is read from the low bits
// of its sum with 1.5·2^52.
func addExact2() {
	down := double("exactDown", 0x1p-32)
	up := double("exactUp", 0x1p32)
	magic := double("exactMagic", 0x1.8p52)
	function("addExact256", exactSignature,
		" adds groups of 8 terms and reports whether every difference was in range.")
	dst, x, base, groups := load("dst"), load("x"), load("base"), load("groups")
	w, most, magnitude := spread(avx2, argument("w")), spread(avx2, limit), spread(avx2, sign)
	d32, u32, mg := spread(avx2, down), spread(avx2, up), spread(avx2, magic)
	bad := YMM()
	VXORPD(bad, bad, bad)
	Label("group")
	for half := range 2 {
		d, b := YMM(), YMM()
		VCVTPS2PD(Mem{Base: x, Disp: 16 * half}, d)
		VCVTPS2PD(Mem{Base: base, Disp: 16 * half}, b)
		VSUBPD(b, d, d)
		VANDPD(magnitude, d, b)
		VCMPPD(Imm(0x15), most, b, b)
		VORPD(b, bad, bad)
		VMULPD(w, d, d)
		VROUNDPD(Imm(8), d, d)
		high := YMM()
		VMULPD(d32, d, high)
		VROUNDPD(Imm(8), high, high)
		VFNMADD231PD(u32, high, d) // the rest
		VADDPD(mg, high, high)
		VADDPD(mg, d, d)
		VPSUBQ(mg, high, high)
		VPSUBQ(mg, d, d)
		VPSLLQ(Imm(32), high, high)
		VPADDQ(high, d, d)
		VPADDQ(Mem{Base: dst, Disp: 32 * half}, d, d)
		VMOVDQU(d, Mem{Base: dst, Disp: 32 * half})
	}
	advance(64, dst)
	advance(32, x, base)
	repeat("group", groups)
	any := GP32()
	VMOVMSKPD(bad, any)
	VZEROUPPER()
	TESTL(any, any)
	returnIfZero()
}
