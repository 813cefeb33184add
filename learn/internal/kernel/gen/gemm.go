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

// gemmKernel holds the registers of the kernel that gemm writes.
type gemmKernel struct {
	s simd
	// rows and vectors are the size of a tile: vectors of columns.
	rows, vectors int
	// a points to the tile's first row of A, whose rows and columns lie aRow and aColumn bytes apart.
	a, aRow, aColumn reg.GPVirtual
	// bRow is the distance between rows of B.
	bRow reg.GPVirtual
	// c points to the present row of the tile in C, whose rows lie cRow bytes apart, and aux to what the
	// operation reads.
	c, cRow, aux reg.GPVirtual
	// opmask and laneMask select the columns of the last vector, with the instructions of AVX-512 and of AVX2.
	opmask   reg.OpmaskVirtual
	laneMask reg.VecVirtual
	// sums has a register for each row and vector of the tile.
	sums [][]reg.VecVirtual
}

// newGemmKernel emits the instructions that load the arguments which stay in registers, and returns these registers.
func newGemmKernel(s simd, rows, vectors int) *gemmKernel {
	k := &gemmKernel{
		s:        s,
		rows:     rows,
		vectors:  vectors,
		a:        load("a"),
		aRow:     load("ars"),
		aColumn:  load("acs"),
		bRow:     load("ldb"),
		c:        load("c"),
		cRow:     load("ldc"),
		opmask:   K(),
		laneMask: YMM(),
	}
	mask := load("mask")
	// With AVX2 only a tile of one vector is masked (isMasked).
	if s.masks {
		low := GP32()
		MOVL(Mem{Base: mask}, low)
		KMOVW(low, k.opmask)
	} else if vectors == 1 {
		VMOVUPS(Mem{Base: mask}, k.laneMask)
	}
	// Each row of the tile has a sum for each vector, which stays in a register.
	k.sums = make([][]reg.VecVirtual, rows)
	for i := range k.sums {
		for range vectors {
			k.sums[i] = append(k.sums[i], s.vec())
		}
	}
	return k
}

// isMasked reports whether only some columns of vector v may belong to C. That is the last vector: with AVX-512 always,
// with AVX2 where it is the only one.
func (k *gemmKernel) isMasked(v int) bool { return v == k.vectors-1 && (k.s.masks || k.vectors == 1) }

// loadVector writes how the columns that vector v has at m are loaded.
func (k *gemmKernel) loadVector(v int, m Mem, into reg.VecVirtual) {
	switch {
	// A vector without a mask is read whole. A mask leaves out columns behind the last one.
	case !k.isMasked(v):
		VMOVUPS(m, into)
	case k.s.masks:
		VMOVUPS_Z(m, k.opmask, into)
	default:
		VMASKMOVPS(m, k.laneMask, into)
	}
}

// storeVector writes how vector v is stored at m, without the columns behind the last one.
func (k *gemmKernel) storeVector(v int, from reg.Register, m Mem) {
	switch {
	case !k.isMasked(v):
		VMOVUPS(from, m)
	case k.s.masks:
		VMOVUPS(from, k.opmask, m)
	default:
		VMASKMOVPS(from, k.laneMask, m)
	}
}

// gemm writes the kernel of a product for tiles of this many rows by this many vectors of columns. The kernel
// walks down tiles of rows with one panel of B, which stays in the first-level cache. All its
// strides are in bytes.
func gemm(s simd, rows, vectors int) {
	name := fmt.Sprintf("gemm%sx%dx%d", s.name, rows, vectors)
	function(name, "func(tiles, k, segments int, segment *int, a *float32, ars, acs int, b *float32, ldb int, c "+
		"*float32, ldc int, aux *float32, alpha float32, op int, mask *int32, astep, bstep, cstep, auxstep int)",
		fmt.Sprintf(" computes tiles of %d rows by %d vectors; strides are in bytes.", rows, vectors))
	k := newGemmKernel(s, rows, vectors)

	Label("tile")
	// Rows of C that will be read and written come near while the product runs.
	op := GP64()
	Load(Param("op"), op)
	CMPQ(op, Imm(opAdd))
	JNE(LabelRef("start"))
	k.prefetchC()
	Label("start")
	for i := range rows {
		for v := range vectors {
			s.zero(k.sums[i][v])
		}
	}
	// The sum goes over all segments, and within each over k.
	segment := load("segment")
	segments := load("segments")
	Label("segment")
	k.addSegment(segment)
	advance(16, segment)
	repeat("segment", segments)

	// What becomes of the tile.
	k.aux = load("aux")
	Load(Param("op"), op)
	for _, o := range []struct {
		op    int
		label string
	}{{opAdd, "add"}, {opBias, "bias"}, {opBiasReLU, "biasrelu"}, {opReLUGrad, "relugrad"}} {
		CMPQ(op, Imm(uint64(o.op)))
		JEQ(LabelRef(o.label))
	}
	Comment("Store")
	k.finish(func(int) {}, func(int, int, Mem, Mem) {})
	k.finishAdd()
	k.finishBias()
	k.finishReLUGrad()

	Label("next")
	// The steps lead to the next tile, down the rows or along the columns.
	ADDQ(argument("astep"), k.a)
	for _, name := range []string{"b", "c", "aux"} {
		step := GP64()
		Load(Param(name+"step"), step)
		ADDQ(step, argument(name))
	}
	Load(Param("c"), k.c)
	repeat("tile", argument("tiles"))
	done()
}

// prefetchC writes how the tile's rows of C are fetched into the cache.
func (k *gemmKernel) prefetchC() {
	row := GP64()
	MOVQ(k.c, row)
	for i := range k.rows {
		for off := 0; off < k.vectors*k.s.bytes; off += 64 {
			PREFETCHT0(Mem{Base: row, Disp: off})
		}
		if i < k.rows-1 {
			ADDQ(k.cRow, row)
		}
	}
}

// addSegment writes how the product of one segment is added to the sums. segment points to the places in A and B, in
// floats, at which the segment begins.
func (k *gemmKernel) addSegment(segment reg.GPVirtual) {
	// A row of the tile is addressed by one of up to four pointers into A ([rowAt]), which begin at the
	// segment's place: at row 0, and at the rows of pointerAt that the tile has.
	pointers := []reg.GPVirtual{GP64()}
	MOVQ(Mem{Base: segment}, pointers[0])
	LEAQ(Mem{Base: k.a, Index: pointers[0], Scale: 4}, pointers[0])
	for g := 1; g < len(pointerAt) && pointerAt[g] < k.rows; g++ {
		p := GP64()
		// The steps between the pointers are 3, 2 and 5 rows.
		step := pointerAt[g] - pointerAt[g-1]
		LEAQ(Mem{Base: pointers[g-1], Index: k.aRow, Scale: uint8(step &^ 1)}, p)
		if step%2 == 1 {
			ADDQ(k.aRow, p)
		}
		pointers = append(pointers, p)
	}
	b := GP64()
	depth := GP64()
	MOVQ(Mem{Base: segment, Disp: 8}, depth)
	Load(Param("b"), b)
	LEAQ(Mem{Base: b, Index: depth, Scale: 4}, b)
	Load(Param("k"), depth)

	Label("loop")
	// Each pass loads one row of the panel of B, and one value of A for each row of the tile.
	rowOfB := make([]reg.VecVirtual, k.vectors)
	for v := range rowOfB {
		rowOfB[v] = k.s.vec()
		k.loadVector(v, Mem{Base: b, Disp: v * k.s.bytes}, rowOfB[v])
	}
	// B moves on to its next row.
	ADDQ(k.bRow, b)
	// One register is enough for all rows, because the processor renames it.
	x := k.s.vec()
	for i := range k.rows {
		r := rowAt[i]
		m := Mem{Base: pointers[r.pointer]}
		if r.scale > 0 {
			m.Index = k.aRow
			m.Scale = uint8(r.scale)
		}
		VBROADCASTSS(m, x)
		for v := range k.vectors {
			VFMADD231PS(rowOfB[v], x, k.sums[i][v])
		}
	}
	if k.s.masks {
		// Where A is read along its columns every k is in another page, which no
		// hardware prefetches; elsewhere this asks for the next line, or for nothing.
		PREFETCHT0(Mem{
			Base:  pointers[0],
			Index: k.aColumn,
			Scale: 8,
			Disp:  4 * (k.rows - 1),
		})
	}
	// A moves on to its next column.
	for _, p := range pointers {
		ADDQ(k.aColumn, p)
	}
	repeat("loop", depth)
}

// finish writes one operation: perRow what is loaded for row i, and change what is done to its sums of vector v before
// they are stored. c is their place in C, and aux that in an aux which is laid out as C.
func (k *gemmKernel) finish(perRow func(i int), change func(i, v int, c, aux Mem)) {
	for i := range k.rows {
		perRow(i)
		for v := range k.vectors {
			m := Mem{Base: k.c, Disp: v * k.s.bytes}
			change(i, v, m, Mem{Base: k.aux, Disp: v * k.s.bytes})
			k.storeVector(v, k.sums[i][v], m)
		}
		ADDQ(k.cRow, k.c)
	}
	JMP(LabelRef("next"))
}

// finishAdd writes the operation Add, C + alpha·P for the product P, with one rounding.
func (k *gemmKernel) finishAdd() {
	Label("add")
	alpha := k.s.vec()
	VBROADCASTSS(argument("alpha"), alpha)
	k.finish(func(int) {}, func(i, v int, c, _ Mem) {
		switch {
		case !k.isMasked(v):
			VFMADD213PS(c, alpha, k.sums[i][v])
		case k.s.masks:
			VFMADD213PS(c, alpha, k.opmask, k.sums[i][v])
		default:
			old := k.s.vec()
			VMASKMOVPS(c, k.laneMask, old)
			VFMADD213PS(old, alpha, k.sums[i][v])
		}
	})
}

// finishBias writes the operations Bias and BiasReLU. The bias of a row is the same for all columns.
func (k *gemmKernel) finishBias() {
	bias := k.s.vec()
	spreadBias := func(i int) { VBROADCASTSS(Mem{Base: k.aux, Disp: 4 * i}, bias) }
	Label("bias")
	k.finish(spreadBias, func(i, v int, _, _ Mem) { VADDPS(bias, k.sums[i][v], k.sums[i][v]) })

	Label("biasrelu")
	zero := k.s.vec()
	k.s.zero(zero)
	k.finish(spreadBias, func(i, v int, _, _ Mem) {
		VADDPS(bias, k.sums[i][v], k.sums[i][v])
		// Of two operands of which one is NaN, the first written here stays.
		VMAXPS(k.sums[i][v], zero, k.sums[i][v])
	})
}

// finishReLUGrad writes the operation ReLUGrad, which stores 0 where aux is not above 0.
func (k *gemmKernel) finishReLUGrad() {
	Label("relugrad")
	zero := k.s.vec()
	k.s.zero(zero)
	// less is the predicate "less than" that is false for a NaN and raises no exception.
	const less = 0x11
	// aux moves on to the row.
	nextRow := func(i int) {
		if i > 0 {
			ADDQ(k.cRow, k.aux)
		}
	}
	k.finish(nextRow, func(i, v int, _, aux Mem) {
		if k.s.masks {
			positive := K()
			operands := []Op{Imm(less), aux, zero, positive}
			if k.isMasked(v) {
				operands = []Op{Imm(less), aux, zero, k.opmask, positive}
			}
			VCMPPS(operands...)
			VMOVAPS_Z(k.sums[i][v], positive, k.sums[i][v])
			return
		}
		positive := k.s.vec()
		source := Op(aux)
		if k.isMasked(v) {
			VMASKMOVPS(aux, k.laneMask, positive)
			source = positive
		}
		VCMPPS(Imm(less), source, zero, positive)
		VANDPS(positive, k.sums[i][v], k.sums[i][v])
	})
}
