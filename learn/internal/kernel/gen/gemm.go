package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Values of kernel.Op.
const (
	opStore = iota
	opAdd
	opBias
	opBiasReLU
	opReLUGrad
)

// rowAt spreads up to 14 rows over four pointers: x86 addresses a pointer plus 0,
// 1, 2, 4 or 8 times a stride, and the pointers stand at rows 0, 3, 5 and 10.
var rowAt = [14]struct{ pointer, scale int }{
	{0, 0}, {0, 1}, {0, 2}, {1, 0}, {0, 4}, {2, 0}, {2, 1}, {2, 2}, {0, 8}, {2, 4},
	{3, 0}, {3, 1}, {3, 2}, {2, 8},
}

// pointerAt holds the rows at which the four pointers stand.
var pointerAt = [4]int{0, 3, 5, 10}

// gemm writes the kernel of a product for tiles of mr rows by nr vectors of columns. The kernel
// walks down tiles of rows with one panel of B, which stays in the first-level cache. All its
// strides are in bytes.
func gemm(s simd, mr, nr int) {
	name := fmt.Sprintf("gemm%sx%dx%d", s.name, mr, nr)
	function(name, "func(tiles, k, segments int, segment *int, a *float32, ars, acs int, b *float32, ldb int, c "+
		"*float32, ldc int, aux *float32, alpha float32, op int, mask *int32, astep, bstep, cstep, auxstep int)",
		fmt.Sprintf(" computes tiles of %d rows by %d vectors; strides are in bytes.", mr, nr))

	a := load("a")
	ars := load("ars")
	acs := load("acs")
	ldb := load("ldb")
	c := load("c")
	ldc := load("ldc")

	// The last vector of columns is masked: by AVX-512 always, by AVX2 where it is the
	// only one.
	masked := func(v int) bool { return v == nr-1 && (s.masks || nr == 1) }
	kmask := K()
	vmask := YMM()
	p := load("mask")
	if s.masks {
		low := GP32()
		MOVL(Mem{Base: p}, low)
		KMOVW(low, kmask)
	} else if nr == 1 {
		VMOVUPS(Mem{Base: p}, vmask)
	}

	// Each row of the tile has nr accumulators, which stay in registers.
	acc := make([][]reg.VecVirtual, mr)
	for i := range acc {
		for range nr {
			acc[i] = append(acc[i], s.vec())
		}
	}

	Label("tile")
	// Rows of C that will be read and written come near while the product runs.
	op := GP64()
	Load(Param("op"), op)
	CMPQ(op, Imm(opAdd))
	JNE(LabelRef("start"))
	p = GP64()
	MOVQ(c, p)
	for i := range mr {
		for off := 0; off < nr*s.bytes; off += 64 {
			PREFETCHT0(Mem{Base: p, Disp: off})
		}
		if i < mr-1 {
			ADDQ(ldc, p)
		}
	}
	Label("start")
	for i := range mr {
		for v := range nr {
			s.zero(acc[i][v])
		}
	}
	// The sum goes over all segments, and within each over k.
	segment := load("segment")
	segments := load("segments")

	Label("segment")
	// A row of the tile is addressed by one of up to four pointers into A ([rowAt]), which begin at the segment's place:
	// at row 0, and at the rows of pointerAt that the tile has.
	pointers := []reg.GPVirtual{GP64()}
	MOVQ(Mem{Base: segment}, pointers[0])
	LEAQ(Mem{Base: a, Index: pointers[0], Scale: 4}, pointers[0])
	for g := 1; g < len(pointerAt) && pointerAt[g] < mr; g++ {
		p := GP64()
		// The steps between the pointers are 3, 2 and 5 rows.
		step := pointerAt[g] - pointerAt[g-1]
		LEAQ(Mem{Base: pointers[g-1], Index: ars, Scale: uint8(step &^ 1)}, p)
		if step%2 == 1 {
			ADDQ(ars, p)
		}
		pointers = append(pointers, p)
	}
	b := GP64()
	k := GP64()
	MOVQ(Mem{Base: segment, Disp: 8}, k)
	Load(Param("b"), b)
	LEAQ(Mem{Base: b, Index: k, Scale: 4}, b)
	Load(Param("k"), k)

	Label("loop")
	// Each pass loads one row of the panel of B, and one value of A for each row of the tile.
	bv := make([]reg.VecVirtual, nr)
	for v := range bv {
		bv[v] = s.vec()
		m := Mem{Base: b, Disp: v * s.bytes}
		switch {
		// A vector without a mask is read whole. A mask leaves out columns behind the last one.
		case !masked(v):
			VMOVUPS(m, bv[v])
		case s.masks:
			VMOVUPS_Z(m, kmask, bv[v])
		default:
			VMASKMOVPS(m, vmask, bv[v])
		}
	}
	// B moves on to its next row.
	ADDQ(ldb, b)
	// One register is enough for all rows, because the processor renames it.
	x := s.vec()
	for i := range mr {
		r := rowAt[i]
		m := Mem{Base: pointers[r.pointer]}
		if r.scale > 0 {
			m.Index = ars
			m.Scale = uint8(r.scale)
		}
		VBROADCASTSS(m, x)
		for v := range nr {
			VFMADD231PS(bv[v], x, acc[i][v])
		}
	}
	if s.masks {
		// Where A is read along its columns every k is in another page, which no
		// hardware prefetches; elsewhere this asks for the next line, or for nothing.
		PREFETCHT0(Mem{
			Base:  pointers[0],
			Index: acs,
			Scale: 8,
			Disp:  4 * (mr - 1),
		})
	}
	// A moves on to its next column.
	for _, p := range pointers {
		ADDQ(acs, p)
	}
	repeat("loop", k)
	advance(16, segment)
	repeat("segment", segments)

	// What becomes of the tile.
	aux := load("aux")
	Load(Param("op"), op)
	for _, o := range []struct {
		op    int
		label string
	}{{opAdd, "add"}, {opBias, "bias"}, {opBiasReLU, "biasrelu"}, {opReLUGrad, "relugrad"}} {
		CMPQ(op, Imm(uint64(o.op)))
		JEQ(LabelRef(o.label))
	}

	// store writes a vector to C, without the columns behind the last one.
	store := func(v int, r reg.Register, m Mem) {
		switch {
		case !masked(v):
			VMOVUPS(r, m)
		case s.masks:
			VMOVUPS(r, kmask, m)
		default:
			VMASKMOVPS(r, vmask, m)
		}
	}
	// each runs f on every vector of the tile, with its place in C and in an
	// aux laid out as C, then stores it.
	each := func(perRow func(i int), f func(i, v int, c, aux Mem)) {
		for i := range mr {
			perRow(i)
			for v := range nr {
				m := Mem{Base: c, Disp: v * s.bytes}
				f(i, v, m, Mem{Base: aux, Disp: v * s.bytes})
				store(v, acc[i][v], m)
			}
			ADDQ(ldc, c)
		}
		JMP(LabelRef("next"))
	}

	Comment("Store")
	nothing := func(int) {}
	each(nothing, func(int, int, Mem, Mem) {})

	Label("add")
	// Add computes C + alpha·P with one rounding.
	alpha := s.vec()
	VBROADCASTSS(argument("alpha"), alpha)
	each(nothing, func(i, v int, m, _ Mem) {
		switch {
		case !masked(v):
			VFMADD213PS(m, alpha, acc[i][v])
		case s.masks:
			VFMADD213PS(m, alpha, kmask, acc[i][v])
		default:
			old := s.vec()
			VMASKMOVPS(m, vmask, old)
			VFMADD213PS(old, alpha, acc[i][v])
		}
	})

	// The bias of a row is the same for all columns.
	bias := s.vec()
	spreadBias := func(i int) { VBROADCASTSS(Mem{Base: aux, Disp: 4 * i}, bias) }
	Label("bias")
	each(spreadBias, func(i, v int, _, _ Mem) { VADDPS(bias, acc[i][v], acc[i][v]) })

	Label("biasrelu")
	zero := s.vec()
	s.zero(zero)
	each(spreadBias, func(i, v int, _, _ Mem) {
		VADDPS(bias, acc[i][v], acc[i][v])
		// Of two operands of which one is NaN, the first written here stays.
		VMAXPS(acc[i][v], zero, acc[i][v])
	})

	Label("relugrad")
	zero = s.vec()
	s.zero(zero)
	// less is the predicate "less than" that is false for a NaN and raises no exception.
	const less = 0x11
	each(func(i int) {
		if i > 0 {
			ADDQ(ldc, aux)
		}
	}, func(i, v int, _, m Mem) {
		switch {
		case s.masks:
			on := K()
			operands := []Op{Imm(less), m, zero, on}
			if masked(v) {
				operands = []Op{Imm(less), m, zero, kmask, on}
			}
			VCMPPS(operands...)
			VMOVAPS_Z(acc[i][v], on, acc[i][v])
		default:
			on := s.vec()
			source := Op(m)
			if masked(v) {
				VMASKMOVPS(m, vmask, on)
				source = on
			}
			VCMPPS(Imm(less), source, zero, on)
			VANDPS(on, acc[i][v], acc[i][v])
		}
	})

	Label("next")
	// The steps lead to the next tile, down the rows or along the columns.
	ADDQ(argument("astep"), a)
	for _, name := range []string{"b", "c", "aux"} {
		step := GP64()
		Load(Param(name+"step"), step)
		ADDQ(step, argument(name))
	}
	Load(Param("c"), c)
	repeat("tile", argument("tiles"))
	done()
}
