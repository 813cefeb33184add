package main

import (
	"slices"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// gateLimit is that of package kernel.
const gateLimit = 30

// parts returns the addresses of the parts of an array, each size bytes long, which lie one behind the
// other.
func parts(base, size reg.GPVirtual, count int) []Mem {
	list := []Mem{{Base: base}, {Base: base, Index: size, Scale: 1}, {Base: base, Index: size, Scale: 2}}
	// An address can have a factor of 0, 1, 2, 4 or 8, so parts 3 and 4 need a pointer of their
	// own.
	if count > 3 {
		high := GP64()
		LEAQ(Mem{Base: base, Index: size, Scale: 2}, high)
		ADDQ(size, high)
		list = append(list, Mem{Base: high}, Mem{Base: high, Index: size, Scale: 1})
	}
	return list[:count]
}

// advanceAll moves the parts of several arrays on by a number of bytes. Parts may share a base
// register, which is moved once.
func advanceAll(bytes int, lists ...[]Mem) {
	seen := map[reg.Register]bool{}
	for _, m := range slices.Concat(lists...) {
		if !seen[m.Base] {
			seen[m.Base] = true
			advance(bytes, m.Base)
		}
	}
}

// gruForward writes the kernel of GRUForward, which computes one vector of every gate at a time: with the input's
// shares i (in) and the state's shares g (state) of the three gates and the state h before the step,
//
//	r = σ(i_r + g_r), z = σ(i_z + g_z), m = tanh(i_n + r g_n), h' = m + z(h − m).
//
// It saves r, z, m, g_n and h'. Both sigmoids share one division: with σ(x) = 1/(1 + exp(−x)) they are 1/a and 1/b,
// which follow from 1/(ab).
func gruForward(s simd) {
	function("gruForward"+s.name, "func(n int, in, state, h, saved *float32)", ": see GRUForward.")
	count := load("n")
	// size is the length of one part, in bytes.
	size := GP64()
	MOVQ(count, size)
	SHLQ(Imm(2), size)
	in := parts(load("in"), size, 3)
	state := parts(load("state"), size, 3)
	h := parts(load("h"), size, 1)
	saved := parts(load("saved"), size, 5)
	ones := s.vector(1)

	// denominator replaces x by 1 + exp(−x), the denominator of σ(x).
	denominator := func(x reg.VecVirtual) {
		VMINPS(x, bound(s, gateLimit), x)
		VMAXPS(x, bound(s, -gateLimit), x)
		// The bit of the sign is flipped, which makes −x of x.
		VXORPS(bits(1<<31), x, x)
		expInRange(s, x)
		VADDPS(ones, x, x)
	}

	// a and b become the denominators of the gates r and z.
	Label("gate")
	a := s.vec()
	b := s.vec()
	VMOVUPS(in[0], a)
	VADDPS(state[0], a, a)
	denominator(a)
	VMOVUPS(in[1], b)
	VADDPS(state[1], b, b)
	denominator(b)
	// r = b/(ab) and z = a/(ab).
	inverse := s.vec()
	r := s.vec()
	z := s.vec()
	VMULPS(a, b, inverse)
	VMOVUPS(ones, r)
	VDIVPS(inverse, r, inverse)
	VMULPS(b, inverse, r)
	VMULPS(a, inverse, z)
	VMOVUPS(r, saved[0])
	VMOVUPS(z, saved[1])
	// x becomes the argument of the candidate's tangent, which is m = (1 − e)/(1 + e) with e = exp(−2x). d is 1 + e.
	g := s.vec()
	x := s.vec()
	VMOVUPS(state[2], g)
	VMOVUPS(g, saved[3])
	VMOVUPS(in[2], x)
	VFMADD231PS(g, r, x)
	VMINPS(x, bound(s, gateLimit/2), x)
	VMAXPS(x, bound(s, -gateLimit/2), x)
	VMULPS(s.vector(-2), x, x)
	expInRange(s, x)
	m := s.vec()
	d := s.vec()
	VMOVUPS(ones, m)
	VADDPS(x, m, d)
	VSUBPS(x, m, m)
	VDIVPS(d, m, m)
	VMOVUPS(m, saved[2])
	// The new state is m + z(h − m).
	VMOVUPS(h[0], x)
	VSUBPS(m, x, x)
	VFMADD213PS(m, z, x)
	VMOVUPS(x, saved[4])
	advanceAll(s.bytes, in, state, h, saved)
	// count is the number of values that are left.
	SUBQ(Imm(uint64(s.bytes/4)), count)
	JNZ(LabelRef("gate"))
	done()
}

// bound returns a register with v in all elements. A comparison keeps a NaN of x only if the limit is
// its first operand, which must be a register.
func bound(s simd, v float32) reg.VecVirtual {
	l := s.vec()
	VMOVUPS(s.vector(v), l)
	return l
}

// gruBackward writes the kernel of GRUBackward, which computes the gradients of one vector of every gate at a time,
// from d, that of the new state, and what gruForward has saved: r, z, m and g_n. The formulas are those of
// gruForward. Of the gates' sums it writes the gradients to da: of those of r and z (a_r and a_z), of the state's
// share of the candidate (g_n) and of the input's share of it (i_n), which is that of the tangent's argument.
func gruBackward(s simd) {
	function("gruBackward"+s.name, "func(n int, dh, saved, h, da *float32)", ": see GRUBackward.")
	count := load("n")
	// size is the length of one part, in bytes.
	size := GP64()
	MOVQ(count, size)
	SHLQ(Imm(2), size)
	dh := parts(load("dh"), size, 1)
	saved := parts(load("saved"), size, 4)
	h := parts(load("h"), size, 1)
	da := parts(load("da"), size, 4)
	ones := s.vec()
	VMOVUPS(s.vector(1), ones)

	Label("gate")
	// The registers hold the gates r and z, the candidate m, and the gradient d of the new state.
	r := s.vec()
	z := s.vec()
	m := s.vec()
	d := s.vec()
	VMOVUPS(saved[0], r)
	VMOVUPS(saved[1], z)
	VMOVUPS(saved[2], m)
	VMOVUPS(dh[0], d)
	x := s.vec()
	y := s.vec()
	t := s.vec()
	VMOVUPS(h[0], x)
	VSUBPS(m, x, x)
	// x is dz = d(h − m).
	VMULPS(x, d, x)
	VSUBPS(z, ones, y)
	// t is z(1 − z), the derivative of the sigmoid.
	VMULPS(y, z, t)
	VMULPS(t, x, x)
	VMOVUPS(x, da[1])
	// y is d(1 − z), the gradient of m.
	VMULPS(y, d, y)
	// The derivative of the tangent m is 1 − m².
	VMOVAPS(ones, t)
	VFNMADD231PS(m, m, t)
	// y is now the gradient of the tangent's argument.
	VMULPS(t, y, y)
	VMOVUPS(y, da[3])
	// What reaches the state before directly is d·z.
	VMULPS(z, d, d)
	VMOVUPS(d, dh[0])
	VMULPS(r, y, x)
	VMOVUPS(x, da[2])
	VSUBPS(r, ones, t)
	// r is replaced by r(1 − r), the derivative of the sigmoid.
	VMULPS(t, r, r)
	VMULPS(saved[3], y, y)
	VMULPS(r, y, y)
	// da receives the gradients of a_r, a_z, g_n and i_n in this order.
	VMOVUPS(y, da[0])
	advanceAll(s.bytes, dh, saved, h, da)
	// count is the number of values that are left.
	SUBQ(Imm(uint64(s.bytes/4)), count)
	JNZ(LabelRef("gate"))
	done()
}

// addScaled writes the kernel of AddScaled, which adds alpha·x to dst in groups of 8 floats. AVX2
// and AVX-512 share it.
func addScaled() {
	function("addScaled", "func(dst, x *float32, groups int, alpha float32)", " adds alpha·x to groups of 8.")
	dst := load("dst")
	x := load("x")
	groups := load("groups")
	a := YMM()
	v := YMM()
	// Each element of a is alpha.
	VBROADCASTSS(argument("alpha"), a)
	Label("group")
	VMOVUPS(Mem{Base: x}, v)
	VFMADD213PS(Mem{Base: dst}, a, v)
	VMOVUPS(v, Mem{Base: dst})
	advance(32, x, dst)
	repeat("group", groups)
	done()
}
