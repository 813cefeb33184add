package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const gateLimit = 30

// parts spreads the parts of an array, each `size` bytes long, over addresses.
func parts(base, size reg.GPVirtual, count int) []Mem {
	list := []Mem{{Base: base}, {Base: base, Index: size, Scale: 1}, {Base: base, Index: size, Scale: 2}}
	if count > 3 {
		high := GP64()
		LEAQ(Mem{Base: base, Index: size, Scale: 2}, high)
		ADDQ(size, high)
		list = append(list, Mem{Base: high}, Mem{Base: high, Index: size, Scale: 1})
	}
	return list[:count]
}

// advance moves to the next vector of every part.
func advance(s simd, lists ...[]Mem) {
	seen := map[reg.Register]bool{}
	for _, list := range lists {
		for _, m := range list {
			if !seen[m.Base] {
				seen[m.Base] = true
				ADDQ(Imm(uint64(s.bytes)), m.Base)
			}
		}
	}
}

func gruForward(s simd) {
	TEXT("gruForward"+s.name, NOSPLIT, "func(n int, in, state, h, saved *float32)")
	Pragma("noescape")
	Doc("gruForward" + s.name + ": see GRUForward.")
	count := Load(Param("n"), GP64())
	size := GP64()
	MOVQ(count, size)
	SHLQ(Imm(2), size)
	in := parts(Load(Param("in"), GP64()).(reg.GPVirtual), size, 3)
	state := parts(Load(Param("state"), GP64()).(reg.GPVirtual), size, 3)
	h := parts(Load(Param("h"), GP64()).(reg.GPVirtual), size, 1)
	saved := parts(Load(Param("saved"), GP64()).(reg.GPVirtual), size, 5)
	one := s.vector(1)

	// denominator leaves 1 + exp(-x).
	denominator := func(x reg.VecVirtual) {
		VMINPS(x, bound(s, gateLimit), x)
		VMAXPS(x, bound(s, -gateLimit), x)
		negate(s, x)
		expInRange(s, x)
		VADDPS(one, x, x)
	}

	Label("gate")
	a, b := s.vec(), s.vec()
	VMOVUPS(in[0], a)
	VADDPS(state[0], a, a)
	denominator(a)
	VMOVUPS(in[1], b)
	VADDPS(state[1], b, b)
	denominator(b)
	inverse, r, z := s.vec(), s.vec(), s.vec()
	VMULPS(a, b, inverse)
	VMOVUPS(one, r)
	VDIVPS(inverse, r, inverse)
	VMULPS(b, inverse, r)
	VMULPS(a, inverse, z)
	VMOVUPS(r, saved[0])
	VMOVUPS(z, saved[1])
	g, x := s.vec(), s.vec()
	VMOVUPS(state[2], g)
	VMOVUPS(g, saved[3])
	VMOVUPS(in[2], x)
	VFMADD231PS(g, r, x)
	VMINPS(x, bound(s, gateLimit/2), x)
	VMAXPS(x, bound(s, -gateLimit/2), x)
	VMULPS(s.vector(-2), x, x)
	expInRange(s, x)
	m, d := s.vec(), s.vec()
	VMOVUPS(one, m)
	VADDPS(x, m, d)
	VSUBPS(x, m, m)
	VDIVPS(d, m, m)
	VMOVUPS(m, saved[2])
	VMOVUPS(h[0], x)
	VSUBPS(m, x, x)
	VFMADD213PS(m, z, x)
	VMOVUPS(x, saved[4])
	advance(s, in, state, h, saved)
	SUBQ(Imm(uint64(s.bytes/4)), count)
	JNZ(LabelRef("gate"))
	VZEROUPPER()
	RET()
}

// bound is a register that holds a limit, so that the comparison's operand order
// can keep a NaN of x.
func bound(s simd, v float32) reg.VecVirtual {
	l := s.vec()
	VMOVUPS(s.vector(v), l)
	return l
}

func negate(s simd, x reg.VecVirtual) { VXORPS(s.vector(float32(negativeZero)), x, x) }

func gruBackward(s simd) {
	TEXT("gruBackward"+s.name, NOSPLIT, "func(n int, dh, saved, h, da *float32)")
	Pragma("noescape")
	Doc("gruBackward" + s.name + ": see GRUBackward.")
	count := Load(Param("n"), GP64())
	size := GP64()
	MOVQ(count, size)
	SHLQ(Imm(2), size)
	dh := parts(Load(Param("dh"), GP64()).(reg.GPVirtual), size, 1)
	saved := parts(Load(Param("saved"), GP64()).(reg.GPVirtual), size, 4)
	h := parts(Load(Param("h"), GP64()).(reg.GPVirtual), size, 1)
	da := parts(Load(Param("da"), GP64()).(reg.GPVirtual), size, 4)
	one := s.vec()
	VMOVUPS(s.vector(1), one)

	Label("gate")
	r, z, m, d := s.vec(), s.vec(), s.vec(), s.vec()
	VMOVUPS(saved[0], r)
	VMOVUPS(saved[1], z)
	VMOVUPS(saved[2], m)
	VMOVUPS(dh[0], d)
	x, y, t := s.vec(), s.vec(), s.vec()
	VMOVUPS(h[0], x)
	VSUBPS(m, x, x)
	VMULPS(x, d, x) // dz
	VSUBPS(z, one, y)
	VMULPS(y, z, t) // z(1-z)
	VMULPS(t, x, x)
	VMOVUPS(x, da[1])
	VMULPS(y, d, y) // d(1-z)
	VMOVAPS(one, t)
	VFNMADD231PS(m, m, t)
	VMULPS(t, y, y) // dm
	VMOVUPS(y, da[3])
	VMULPS(z, d, d)
	VMOVUPS(d, dh[0])
	VMULPS(r, y, x)
	VMOVUPS(x, da[2])
	VSUBPS(r, one, t)
	VMULPS(t, r, r) // r(1-r)
	VMULPS(saved[3], y, y)
	VMULPS(r, y, y)
	VMOVUPS(y, da[0])
	advance(s, dh, saved, h, da)
	SUBQ(Imm(uint64(s.bytes/4)), count)
	JNZ(LabelRef("gate"))
	VZEROUPPER()
	RET()
}

// addScaled serves both classes.
func addScaled() {
	TEXT("addScaled", NOSPLIT, "func(dst, x *float32, groups int, alpha float32)")
	Pragma("noescape")
	Doc("addScaled adds alpha·x to groups of 8.")
	dst := Load(Param("dst"), GP64())
	x := Load(Param("x"), GP64())
	groups := Load(Param("groups"), GP64())
	a, v := YMM(), YMM()
	alpha, err := Param("alpha").Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSS(alpha.Addr, a)
	Label("group")
	VMOVUPS(Mem{Base: x}, v)
	VFMADD213PS(Mem{Base: dst}, a, v)
	VMOVUPS(v, Mem{Base: dst})
	ADDQ(Imm(32), x)
	ADDQ(Imm(32), dst)
	DECQ(groups)
	JNZ(LabelRef("group"))
	VZEROUPPER()
	RET()
}
