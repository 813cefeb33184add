package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const blockRow = 4 * 32 // bytes from a feature of a block to the next

// expInRange replaces -87 <= x <= 87 by exp(x), as kernel.Exp does but with fused
// operations. A NaN stays. The constants are read from memory: AVX2 has few registers.
func expInRange(s simd, x reg.VecVirtual) {
	n, p := s.vec(), s.vec()
	VMULPS(s.vector(1.44269504088896341), x, n)
	if s.wide() {
		VRNDSCALEPS(Imm(8), n, n) // to nearest, no exception
	} else {
		VROUNDPS(Imm(8), n, n)
	}
	VFNMADD231PS(s.vector(0.693359375), n, x)
	VFNMADD231PS(s.vector(-2.12194440e-4), n, x)
	VMOVUPS(s.vector(1.9875691500e-4), p)
	for _, c := range []float32{1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1} {
		VFMADD213PS(s.vector(c), x, p)
	}
	VMULPS(x, p, p)
	VFMADD213PS(x, x, p)
	VADDPS(s.vector(1), p, p)
	// 2^n from its exponent. 1.0 has the bias.
	VCVTPS2DQ(n, n)
	VPSLLD(Imm(23), n, n)
	VPADDD(s.vector(1), n, n)
	VMULPS(n, p, x)
}

func softmax(s simd) {
	TEXT("softmax"+s.name, NOSPLIT, "func(z *float32, rows, vectors int, scale float32, top, sum *float32)")
	Pragma("noescape")
	Doc("softmax" + s.name + " works down `vectors` vectors of lanes of a block of logits; see Softmax.")
	z := Load(Param("z"), GP64())
	rows := Load(Param("rows"), GP64())
	vectors := Load(Param("vectors"), GP64())
	top := Load(Param("top"), GP64())
	sum := Load(Param("sum"), GP64())
	// AVX2 has too few registers for every constant: the scale waits in memory.
	scale, err := Param("scale").Resolve()
	if err != nil {
		panic(err)
	}
	p, k := GP64(), GP64()

	Label("lanes")
	most := s.vec()
	MOVQ(z, p)
	MOVQ(rows, k)
	VMOVUPS(Mem{Base: p}, most)
	Label("max")
	VMAXPS(Mem{Base: p}, most, most)
	ADDQ(Imm(blockRow), p)
	DECQ(k)
	JNZ(LabelRef("max"))
	VMOVUPS(most, Mem{Base: top})

	least := s.constant(-64)
	total := s.vec()
	s.zero(total)
	MOVQ(z, p)
	MOVQ(rows, k)
	x := s.vec()
	Label("exp")
	VMOVUPS(Mem{Base: p}, x)
	VSUBPS(Mem{Base: top}, x, x)
	VMAXPS(x, least, x) // a NaN stays
	expInRange(s, x)
	VMOVUPS(x, Mem{Base: p})
	VADDPS(x, total, total)
	ADDQ(Imm(blockRow), p)
	DECQ(k)
	JNZ(LabelRef("exp"))
	VMOVUPS(total, Mem{Base: sum})

	f := s.vec()
	VBROADCASTSS(scale.Addr, f)
	VDIVPS(total, f, f)
	MOVQ(z, p)
	MOVQ(rows, k)
	Label("scale")
	VMULPS(Mem{Base: p}, f, x)
	VMOVUPS(x, Mem{Base: p})
	ADDQ(Imm(blockRow), p)
	DECQ(k)
	JNZ(LabelRef("scale"))

	ADDQ(Imm(uint64(s.bytes)), z)
	ADDQ(Imm(uint64(s.bytes)), top)
	ADDQ(Imm(uint64(s.bytes)), sum)
	DECQ(vectors)
	JNZ(LabelRef("lanes"))
	VZEROUPPER()
	RET()
}

// transpose moves 8×8 tiles: halves of rows i and i+4 share a register, so that
// what is left are shuffles within 128 bits.
func transpose() {
	TEXT("transpose8", NOSPLIT, "func(dst *float32, ldd int, src *float32, lds int, down, right int)")
	Pragma("noescape")
	Doc("transpose8 transposes down×right tiles of 8×8; strides are in bytes.")
	dst := Load(Param("dst"), GP64())
	ldd := Load(Param("ldd"), GP64())
	src := Load(Param("src"), GP64())
	lds := Load(Param("lds"), GP64())
	right := Load(Param("right"), GP64())
	lds3, ldd3, rows := GP64(), GP64(), GP64()
	LEAQ(Mem{Base: lds, Index: lds, Scale: 2}, lds3)
	LEAQ(Mem{Base: ldd, Index: ldd, Scale: 2}, ldd3)

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
	s, d := GP64(), GP64()
	MOVQ(src, s)
	MOVQ(dst, d)
	Load(Param("down"), rows)
	Label("tile")
	sLow, dLow := GP64(), GP64()
	LEAQ(Mem{Base: s, Index: lds, Scale: 4}, sLow)
	LEAQ(Mem{Base: d, Index: ldd, Scale: 4}, dLow)
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
	LEAQ(Mem{Base: s, Index: lds, Scale: 8}, s)
	ADDQ(Imm(32), d)
	DECQ(rows)
	JNZ(LabelRef("tile"))
	ADDQ(Imm(32), src)
	LEAQ(Mem{Base: dst, Index: ldd, Scale: 8}, dst)
	DECQ(right)
	JNZ(LabelRef("column"))
	VZEROUPPER()
	RET()
}

// rowSums serves both classes: its order of additions is fixed by AddRowSums.
func rowSums() {
	TEXT("rowSums", NOSPLIT, "func(dst, x *float32, rows int, alpha float32, add bool)")
	Pragma("noescape")
	Doc("rowSums sums whole rows of a block; see AddRowSums.")
	dst := Load(Param("dst"), GP64())
	x := Load(Param("x"), GP64())
	rows := Load(Param("rows"), GP64())
	alpha := Load(Param("alpha"), XMM())
	add := GP8()
	Load(Param("add"), add)
	Label("row")
	a, b := YMM(), YMM()
	VMOVUPS(Mem{Base: x}, a)
	VADDPS(Mem{Base: x, Disp: 64}, a, a)
	VMOVUPS(Mem{Base: x, Disp: 32}, b)
	VADDPS(Mem{Base: x, Disp: 96}, b, b)
	VADDPS(b, a, a)
	h, q := XMM(), a.AsX()
	VEXTRACTF128(Imm(1), a, h)
	VADDPS(h, q, q)
	VMOVHLPS(q, q, h)
	VADDPS(h, q, q)
	VMOVSHDUP(q, h)
	VADDSS(h, q, q)
	CMPB(add, Imm(0))
	JEQ(LabelRef("store"))
	VFMADD213SS(Mem{Base: dst}, alpha, q)
	Label("store")
	VMOVSS(q, Mem{Base: dst})
	ADDQ(Imm(4), dst)
	ADDQ(Imm(blockRow), x)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}
