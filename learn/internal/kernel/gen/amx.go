package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const (
	// tileBytes is the size of a tile: 16 rows of 64 bytes.
	tileBytes = 1024
	// tileRow is the length in bytes of a tile's row: 32 values of bfloat16 or 16 of float32.
	tileRow = 64
)

// variants says how the values of products are split: one part is the value rounded to bfloat16, and of two
// the second is what the rounding left, rounded again.
var variants = []struct {
	suffix string
	parts  int
}{{"", 1}, {"3", 2}}

// amx writes the kernels of products by tiles.
func amx() {
	for _, v := range variants {
		packRows(v.suffix, v.parts)
		packPairs(v.suffix, v.parts)
		tileProducts(v.suffix, v.parts, false)
		rowProducts(v.suffix, v.parts)
	}
	tileProducts("3Swapped", 2, true)
	transposeTiles()
}

// factor is the vector by which packed values are multiplied.
var factor = reg.Z27

// split writes the code that turns 32 values of float32 in the vectors low and high, times factor, into 32 of bfloat16
// in parts: a vector of the values rounded to bfloat16 and, if there is a second part, one of what the rounding left,
// rounded likewise. The code overwrites low and high, and the vectors 28 and 29.
func split(low, high reg.VecPhysical, parts []reg.VecPhysical) {
	VMULPS(factor, low, low)
	VMULPS(factor, high, high)
	splitUnscaled(low, high, parts)
}

// splitUnscaled writes the same code as split, but without the multiplication by factor.
func splitUnscaled(low, high reg.VecPhysical, parts []reg.VecPhysical) {
	emit(toBF16(number(parts[0]), number(low), number(high)), "VCVTNE2PS2BF16 %s, %s, %s",
		low.Asm(), high.Asm(), parts[0].Asm())
	if len(parts) == 1 {
		return
	}
	// A value of bfloat16 is the upper half of one of float32. The differences are exact.
	VPMOVZXWD(parts[0].AsY(), reg.Z28)
	VEXTRACTI64X4(Imm(1), parts[0], reg.Y29)
	VPMOVZXWD(reg.Y29, reg.Z29)
	VPSLLD(Imm(16), reg.Z28, reg.Z28)
	VPSLLD(Imm(16), reg.Z29, reg.Z29)
	VSUBPS(reg.Z28, low, low)
	VSUBPS(reg.Z29, high, high)
	emit(toBF16(number(parts[1]), number(low), number(high)), "VCVTNE2PS2BF16 %s, %s, %s",
		low.Asm(), high.Asm(), parts[1].Asm())
}

// parted are the vectors that hold the parts of 32 values.
func parted(parts int) []reg.VecPhysical { return []reg.VecPhysical{reg.Z2, reg.Z3}[:parts] }

// lowBits sets the mask k to as many low bits as the register n says, at most 16.
func lowBits(n reg.GPVirtual, k reg.OpmaskVirtual) {
	bits := GP64()
	MOVQ(U32(16), bits)
	CMPQ(n, bits)
	CMOVQLT(n, bits)
	ones := GP32()
	MOVL(I32(-1), ones)
	BZHIL(bits.As32(), ones, ones)
	KMOVW(ones, k)
}

// packRows writes the kernel that makes the left tiles of a product from contiguous rows of values, which begin ld
// bytes apart. Zeros fill the last 32 values of a row; rows that the last tile lacks stay as dst has them. A tile has
// 16 rows of 32 values as bfloat16. Each value is divided into parts (one, or two that add up to it more closely),
// and the tiles of the parts lie one behind the other.
func packRows(suffix string, parts int) {
	function("packRows"+suffix, "func(dst *uint16, src *float32, ld, rows, k, span int, alpha float32)",
		" makes left tiles of rows of k values, times alpha: a tile for 16 rows and each 32 values, padded with "+
			"zeros to whole ones. The tiles of the next 16 rows lie span bytes behind.")
	dst := load("dst")
	src := load("src")
	ld := load("ld")
	rows := load("rows")
	span := load("span")
	// split multiplies by this vector.
	VBROADCASTSS(argument("alpha"), factor)
	// A row is divided into chunks of 32 values: whole = (k−1)/32 full ones, and a last one of rest = (k−1)%32 + 1
	// values, of which the masks first and second select those of each half.
	whole := GP64()
	rest := GP64()
	Load(Param("k"), whole)
	DECQ(whole)
	MOVQ(whole, rest)
	SHRQ(Imm(5), whole)
	ANDQ(Imm(31), rest)
	INCQ(rest)
	ones := GP32()
	MOVL(I32(-1), ones)
	BZHIL(rest.As32(), ones, ones)
	first, second := K(), K()
	KMOVW(ones, first)
	SHRL(Imm(16), ones)
	KMOVW(ones, second)
	inTile := GP64()
	MOVQ(U32(16), inTile)

	Label("row")
	from := GP64()
	to := GP64()
	chunks := GP64()
	MOVQ(src, from)
	MOVQ(dst, to)
	MOVQ(whole, chunks)
	low := reg.Z0
	high := reg.Z1
	values := parted(parts)
	store := func() {
		split(low, high, values)
		for i, v := range values {
			VMOVUPS(v, Mem{Base: to, Disp: i * tileBytes})
		}
	}
	TESTQ(chunks, chunks)
	JZ(LabelRef("rest"))

	Label("chunk")
	VMOVUPS(Mem{Base: from}, low)
	VMOVUPS(Mem{Base: from, Disp: 64}, high)
	store()
	advance(128, from)
	advance(parts*tileBytes, to)
	repeat("chunk", chunks)

	Label("rest")
	VMOVUPS_Z(Mem{Base: from}, first, low)
	VMOVUPS_Z(Mem{Base: from, Disp: 64}, second, high)
	store()

	ADDQ(ld, src)
	advance(tileRow, dst)
	DECQ(inTile)
	JNZ(LabelRef("next"))
	// The row after 16 is the first of the next tiles.
	MOVQ(U32(16), inTile)
	SUBQ(immediate(tileBytes), dst)
	ADDQ(span, dst)
	Label("next")
	repeat("row", rows)
	done()
}

// interleave writes the table of indices with which VPERMW lays two rows of 16 values of 16 bits side by side,
// pair by pair, and returns its place. The rows are values 0 to 15 and 16 to 31 of a register, so pair i has the
// indices i and 16 + i.
func interleave() Mem {
	const readOnly = 8
	const withoutPointers = 16
	m := GLOBL("interleave", readOnly|withoutPointers)
	for i := range 16 {
		// The lower half of a word of 32 bits is the first index of the pair.
		DATA(4*i, U32(uint32(16+i)<<16|uint32(i)))
	}
	return m
}

var interleaved *Mem

// packPairs writes the kernel that makes the right tiles of a product: each of a tile's rows holds the
// values of two neighbouring k, column by column.
func packPairs(suffix string, parts int) {
	if interleaved == nil {
		m := interleave()
		interleaved = &m
	}
	function("packPairs"+suffix, "func(dst *uint16, src *float32, ld, k, n, span int, alpha float32)",
		" makes right tiles of k rows of n values, times alpha: a tile for 16 columns and each 32 rows, padded "+
			"with zeros to whole ones. The tiles of the next 16 columns lie span bytes behind.")
	dst := load("dst")
	src := load("src")
	ld := load("ld")
	n := load("n")
	VBROADCASTSS(argument("alpha"), factor)
	order := reg.Z31
	VMOVUPS(*interleaved, order)
	low := reg.Z0
	high := reg.Z1
	values := parted(parts)

	Label("columns")
	mask := K()
	lowBits(n, mask)
	from := GP64()
	to := GP64()
	k := GP64()
	MOVQ(src, from)
	MOVQ(dst, to)
	Load(Param("k"), k)

	Label("chunk")
	pairs := GP64()
	MOVQ(U32(16), pairs)

	// A pair of rows is interleaved into one row of the tile. k is the number of rows that are left.
	Label("pair")
	CMPQ(k, Imm(1))
	JLE(LabelRef("end"))
	VMOVUPS_Z(Mem{Base: from}, mask, low)
	VMOVUPS_Z(Mem{Base: from, Index: ld, Scale: 1}, mask, high)
	LEAQ(Mem{Base: from, Index: ld, Scale: 2}, from)
	Label("store")
	split(low, high, values)
	for i, v := range values {
		VPERMW(v, order, v)
		VMOVUPS(v, Mem{Base: to, Disp: i * tileBytes})
	}
	advance(tileRow, to)
	SUBQ(Imm(2), k)
	repeat("pair", pairs)
	if parts > 1 {
		advance((parts-1)*tileBytes, to)
	}
	CMPQ(k, Imm(0))
	JG(LabelRef("chunk"))
	JMP(LabelRef("next"))

	// The last row of an odd number has no second, and behind the last row are zeros. The flags are still those of the
	// comparison of k with 1, so the jump is taken if no row is left.
	Label("end")
	VPXORD(low, low, low)
	VPXORD(high, high, high)
	JNE(LabelRef("store"))
	VMOVUPS_Z(Mem{Base: from}, mask, low)
	JMP(LabelRef("store"))

	Label("next")
	advance(64, src)
	ADDQ(argument("span"), dst)
	SUBQ(Imm(16), n)
	JG(LabelRef("columns"))
	done()
}

// transposeTiles writes the kernel that makes left tiles of a matrix from the right tiles of its transpose:
// both differ in the order of their 16×16 pairs alone.
func transposeTiles() {
	function("transposeTiles", "func(tile *uint16, count int)", " transposes tiles in place as 16×16 pairs of values.")
	tile := load("tile")
	count := load("count")
	z := func(i int) reg.VecPhysical {
		return []reg.VecPhysical{
			reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7,
			reg.Z8, reg.Z9, reg.Z10, reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z15,
			reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23,
			reg.Z24, reg.Z25, reg.Z26, reg.Z27, reg.Z28, reg.Z29, reg.Z30, reg.Z31,
		}[i]
	}
	Label("tile")
	for i := range 16 {
		VMOVUPS(Mem{Base: tile, Disp: tileRow * i}, z(i))
	}
	// Each of four passes exchanges one bit of the row's number with the same bit of the column's: bits 0
	// and 1 within 128 bits, and bits 2 and 3 by moving 128 bits.
	for i := 0; i < 16; i += 2 {
		VPUNPCKLDQ(z(i+1), z(i), z(16+i))
		VPUNPCKHDQ(z(i+1), z(i), z(17+i))
	}
	for i := 0; i < 16; i += 4 {
		VPUNPCKLQDQ(z(18+i), z(16+i), z(i))
		VPUNPCKHQDQ(z(18+i), z(16+i), z(i+1))
		VPUNPCKLQDQ(z(19+i), z(17+i), z(i+2))
		VPUNPCKHQDQ(z(19+i), z(17+i), z(i+3))
	}
	for c := range 4 {
		VSHUFI32X4(Imm(0x88), z(4+c), z(c), z(16+c))
		VSHUFI32X4(Imm(0xdd), z(4+c), z(c), z(20+c))
		VSHUFI32X4(Imm(0x88), z(12+c), z(8+c), z(24+c))
		VSHUFI32X4(Imm(0xdd), z(12+c), z(8+c), z(28+c))
	}
	for c := range 4 {
		VSHUFI32X4(Imm(0x88), z(24+c), z(16+c), z(c))
		VSHUFI32X4(Imm(0x88), z(28+c), z(20+c), z(4+c))
		VSHUFI32X4(Imm(0xdd), z(24+c), z(16+c), z(8+c))
		VSHUFI32X4(Imm(0xdd), z(28+c), z(20+c), z(12+c))
	}
	for i := range 16 {
		VMOVUPS(z(i), Mem{Base: tile, Disp: tileRow * i})
	}
	advance(tileBytes, tile)
	repeat("tile", count)
	done()
}

// tileKernel holds the registers and the local variables of the kernel that tileProducts writes. Distances are in
// bytes.
type tileKernel struct {
	// parts is the number of parts of a value. swapped says in which order their products are summed.
	parts   int
	swapped bool
	// rowTiles points to the left tiles of the present 32 rows, and columnTiles to the right tiles of the present 32
	// columns. The tiles of the next 16 rows and columns lie leftSpan and rightSpan behind.
	rowTiles, columnTiles, leftSpan, rightSpan reg.GPPhysical
	// lefts and rights point to the left and the right tiles of a chunk that are multiplied.
	lefts, rights [2]reg.GPPhysical
	// list points to the places of the next chunk's tiles, and chunks counts the chunks that are left.
	list, chunks reg.GPPhysical
	// stride is the distance between the rows of a tile, or of sums, in memory.
	stride reg.GPPhysical
	// c and aux point to the present block of C and to what the operation reads for it, and sums to memory for the sums
	// of a block.
	c, aux, sums reg.GPPhysical
	// rowsLeft and columnsLeft count the rows and columns of the product from the present block on.
	rowsLeft, columnsLeft Mem
	// rowC and rowAux are c and aux at the beginning of the present rows, and configured points to the shapes of the
	// tile registers.
	rowC, rowAux, configured Mem
	// rows counts rows, where chunks is not in use.
	rows reg.GPPhysical
	// finish has the registers for what becomes of a block.
	finish blockFinish
}

// newTileKernel assigns the registers and the local variables.
func newTileKernel(parts int, swapped bool) *tileKernel {
	local := AllocLocal(40)
	return &tileKernel{
		parts:       parts,
		swapped:     swapped,
		rowTiles:    reg.R9,
		columnTiles: reg.RDI,
		leftSpan:    reg.R11,
		rightSpan:   reg.R13,
		lefts:       [2]reg.GPPhysical{reg.RAX, reg.R14},
		rights:      [2]reg.GPPhysical{reg.RBX, reg.R15},
		list:        reg.RSI,
		chunks:      reg.RDX,
		stride:      reg.RCX,
		c:           reg.R8,
		aux:         reg.R10,
		sums:        reg.R12,
		rowsLeft:    local,
		columnsLeft: local.Offset(8),
		rowC:        local.Offset(16),
		rowAux:      local.Offset(24),
		configured:  local.Offset(32),
		rows:        reg.RDX,
		finish: blockFinish{
			from:     reg.RAX,
			to:       reg.RBX,
			aux:      reg.R14,
			ldc:      reg.RSI,
			auxRow:   reg.RCX,
			rows:     reg.RDX,
			masks:    [2]reg.OpmaskPhysical{reg.K1, reg.K2},
			positive: reg.K3,
			sums:     [2]reg.VecPhysical{reg.Z0, reg.Z1},
			bias:     reg.Z4,
			zero:     reg.Z30,
			end:      "next",
		},
	}
}

// tileProducts writes the kernel that multiplies left tiles with right tiles, two by two tiles at a time. The
// tiles of AMX are configured and released within the call: Go never preempts assembly, and the system saves
// the tiles of a thread that it interrupts, for a signal or another thread.
//
// Swapped kernels sum the products of parts in the order of the product with swapped operands.
func tileProducts(suffix string, parts int, swapped bool) {
	function("tileProducts"+suffix, "func(left, right *uint16, leftspan, rightspan int, list *int, "+
		"chunks, m, n int, c *float32, ldc int, aux *float32, auxrow, op, count, rightstep, cstep int, "+
		"config *uint8, tails int, sums *float32)",
		" multiplies m rows of left tiles with n columns of right tiles; strides are in bytes, list has the "+
			"offsets of each chunk's left and right tiles, and sums has room for 32×32 values. It repeats itself "+
			"count times, with the right tiles and C moved on by a step. config points to the shapes of the tiles: "+
			"of whole blocks alone if tails is 0; if it is -1, those of the blocks of the last columns, of the last "+
			"rows and of both follow.")
	k := newTileKernel(parts, swapped)
	scratch := k.lefts[0]
	Load(Param("config"), scratch)
	emit(tileConfigure(number(scratch)), "LDTILECFG (AX)")
	MOVQ(scratch, k.configured)
	Load(Param("leftspan"), k.leftSpan)
	Load(Param("rightspan"), k.rightSpan)
	Load(Param("sums"), k.sums)
	VPXORD(k.finish.zero, k.finish.zero, k.finish.zero)

	// Each pass computes one product. The argument count says how many there are.
	Label("product")
	Load(Param("left"), k.rowTiles)
	Load(Param("m"), k.rows)
	MOVQ(k.rows, k.rowsLeft)
	Load(Param("c"), k.c)
	MOVQ(k.c, k.rowC)
	Load(Param("aux"), k.aux)
	MOVQ(k.aux, k.rowAux)

	// Each pass computes up to 32 rows.
	Label("rows")
	MOVQ(k.rowC, k.c)
	MOVQ(k.rowAux, k.aux)
	Load(Param("right"), k.columnTiles)
	Load(Param("n"), k.rows)
	MOVQ(k.rows, k.columnsLeft)

	// Each pass computes a block, up to 32 columns of these rows.
	Label("columns")
	// The last rows and columns may be no whole tiles, which then have other shapes.
	selectShapes(k.rowsLeft, k.columnsLeft, k.configured)
	Load(Param("list"), k.list)
	Load(Param("chunks"), k.chunks)
	MOVQ(U32(tileRow), k.stride)
	CMPQ(k.rowsLeft, Imm(16))
	JLE(LabelRef("low"))
	CMPQ(k.columnsLeft, Imm(16))
	JLE(LabelRef("block21"))
	JMP(LabelRef("block22"))
	Label("low")
	CMPQ(k.columnsLeft, Imm(16))
	JLE(LabelRef("block11"))
	// There is code for each number of tiles of rows and of columns. Each goes on at finish or, where the sums are
	// stored in C as they are, at next.
	for _, size := range [][2]int{{1, 2}, {1, 1}, {2, 1}, {2, 2}} {
		k.multiplyBlock(size)
	}
	Label("finish")
	k.finishBlock()

	Label("next")
	advance(2*tileRow, k.c)
	// The matrix that ReLUGrad reads moves along with C.
	CMPQ(argument("op"), Imm(opReLUGrad))
	JNE(LabelRef("moved"))
	advance(2*tileRow, k.aux)
	Label("moved")
	LEAQ(Mem{Base: k.columnTiles, Index: k.rightSpan, Scale: 2}, k.columnTiles)
	SUBQ(Imm(32), k.columnsLeft)
	JG(LabelRef("columns"))

	// The next rows are 32 below.
	LEAQ(Mem{Base: k.rowTiles, Index: k.leftSpan, Scale: 2}, k.rowTiles)
	Load(Param("ldc"), k.finish.ldc)
	SHLQ(Imm(5), k.finish.ldc)
	ADDQ(k.finish.ldc, k.rowC)
	Load(Param("auxrow"), k.finish.auxRow)
	SHLQ(Imm(5), k.finish.auxRow)
	ADDQ(k.finish.auxRow, k.rowAux)
	SUBQ(Imm(32), k.rowsLeft)
	JG(LabelRef("rows"))

	Load(Param("rightstep"), scratch)
	ADDQ(scratch, argument("right"))
	Load(Param("cstep"), scratch)
	ADDQ(scratch, argument("c"))
	DECQ(argument("count"))
	JNZ(LabelRef("product"))
	emit(tileRelease(), "TILERELEASE")
	done()
}

// multiplyBlock writes the code for a block of size[0] by size[1] tiles of sums: it loads or clears the sums, adds the
// products of all chunks, and stores the sums, in C if nothing more is done to them, else in memory for sums. Tile
// registers 0 to 3 are sums, 4 and 5 left tiles, and 6 and 7 right ones.
func (k *tileKernel) multiplyBlock(size [2]int) {
	name := fmt.Sprintf("block%d%d", size[0], size[1])
	Label(name)
	// eachSum calls f for each tile of sums: its register, its row of tiles i and its column of tiles j.
	eachSum := func(f func(sum, i, j int)) {
		for i := range size[0] {
			for j := range size[1] {
				f(2*i+j, i, j)
			}
		}
	}
	// inC moves the sums from or to C itself: the address of the second 16 rows is in another register.
	inC := func(encode func(tile, base, index, displacement int) []byte, format string) {
		secondRows := k.rights[0]
		Load(Param("ldc"), k.stride)
		if size[0] > 1 {
			MOVQ(k.stride, secondRows)
			SHLQ(Imm(4), secondRows)
			ADDQ(k.c, secondRows)
		}
		eachSum(func(sum, i, j int) {
			base := [2]reg.GPPhysical{k.c, secondRows}[i]
			emit(encode(sum, number(base), number(k.stride), j*tileRow), format, sum, j*tileRow, base.Asm())
		})
	}
	CMPQ(argument("op"), Imm(opAdd))
	JNE(LabelRef(name + "zero"))
	inC(tileLoad, "TILELOADD TMM%d, %d(%s)(CX*1)")
	MOVQ(U32(tileRow), k.stride)
	JMP(LabelRef(name + "chunk"))
	Label(name + "zero")
	eachSum(func(sum, _, _ int) { emit(tileZero(sum), "TILEZERO TMM%d", sum) })

	Label(name + "chunk")
	MOVQ(Mem{Base: k.list}, k.lefts[0])
	MOVQ(Mem{Base: k.list, Disp: 8}, k.rights[0])
	advance(16, k.list)
	ADDQ(k.rowTiles, k.lefts[0])
	ADDQ(k.columnTiles, k.rights[0])
	if size[0] > 1 {
		LEAQ(Mem{Base: k.lefts[0], Index: k.leftSpan, Scale: 1}, k.lefts[1])
	}
	if size[1] > 1 {
		LEAQ(Mem{Base: k.rights[0], Index: k.rightSpan, Scale: 1}, k.rights[1])
	}
	k.multiplyChunk(size)
	repeat(name+"chunk", k.chunks)

	CMPQ(argument("op"), Imm(opBias))
	JGE(LabelRef(name + "sums"))
	inC(tileStore, "TILESTORED TMM%d, %d(%s)(CX*1)")
	JMP(LabelRef("next"))
	Label(name + "sums")
	MOVQ(U32(2*tileRow), k.stride)
	eachSum(func(sum, i, j int) {
		at := i*16*2*tileRow + j*tileRow
		emit(tileStore(sum, number(k.sums), number(k.stride), at), "TILESTORED TMM%d, %d(R12)(CX*1)", sum, at)
	})
	if size != [2]int{2, 2} {
		JMP(LabelRef("finish"))
	}
}

// multiplyChunk writes how the products of a chunk's left and right tiles are added to the sums of a block of size[0]
// by size[1] tiles. With two parts, these are the products of the first parts, and of each first part with the other
// operand's second one: that of what both roundings left is too small to count.
func (k *tileKernel) multiplyChunk(size [2]int) {
	load := func(first, count int, base [2]reg.GPPhysical, part int) {
		for i := range count {
			at := part * tileBytes
			emit(tileLoad(first+i, number(base[i]), number(k.stride), at), "TILELOADD %d(%s)(CX*1), TMM%d",
				at, base[i].Asm(), first+i)
		}
	}
	loadLeft := func(part int) { load(4, size[0], k.lefts, part) }
	loadRight := func(part int) { load(6, size[1], k.rights, part) }
	products := func() {
		for i := range size[0] {
			for j := range size[1] {
				sum := 2*i + j
				emit(tileProduct(sum, 4+i, 6+j), "TDPBF16PS TMM%d, TMM%d, TMM%d", 6+j, 4+i, sum)
			}
		}
	}
	switch {
	case k.parts == 1:
		loadLeft(0)
		loadRight(0)
		products()
	case k.swapped:
		loadLeft(1)
		loadRight(0)
		products()
		loadLeft(0)
		products()
		loadRight(1)
		products()
	default:
		loadLeft(0)
		loadRight(1)
		products()
		loadRight(0)
		products()
		loadLeft(1)
		products()
	}
}

// finishBlock writes what becomes of the sums of a block: the argument op, one that reads aux.
func (k *tileKernel) finishBlock() {
	f := &k.finish
	// The masks have as many bits set as the block has columns.
	width := reg.RAX
	MOVQ(U32(32), width)
	CMPQ(width, k.columnsLeft)
	CMOVQGT(k.columnsLeft, width)
	ones := reg.EBX
	MOVL(I32(-1), ones)
	BZHIL(width.As32(), ones, ones)
	KMOVW(ones, f.masks[0])
	SHRL(Imm(16), ones)
	KMOVW(ones, f.masks[1])
	MOVQ(U32(32), f.rows)
	CMPQ(f.rows, k.rowsLeft)
	CMOVQGT(k.rowsLeft, f.rows)
	MOVQ(k.sums, f.from)
	MOVQ(k.c, f.to)
	MOVQ(k.aux, f.aux)
	Load(Param("ldc"), f.ldc)
	Load(Param("auxrow"), f.auxRow)
	op := reg.R15
	Load(Param("op"), op)
	CMPQ(op, Imm(opBiasReLU))
	JEQ(LabelRef("biasrelu"))
	CMPQ(op, Imm(opReLUGrad))
	JEQ(LabelRef("relugrad"))
	f.others()
}

// selectShapes configures the tile registers for a block of up to 32×32 sums, if its tiles have other shapes than
// those that are configured. rowsLeft and columnsLeft are the rows and columns of the product from the block's first
// on: fewer than 32 of them end within the block. The argument config points to four shapes of 64 bytes: for whole
// blocks, for those of the last columns, for those of the last rows, and for the block of both. The argument tails is
// 0 if all blocks are whole, else -1. configured holds the address of the shapes that the registers have. The code
// uses RAX and RBX.
func selectShapes(rowsLeft, columnsLeft, configured Op) {
	place := reg.RAX
	endsColumns := reg.RBX
	XORQ(place, place)
	XORQ(endsColumns, endsColumns)
	CMPQ(rowsLeft, Imm(32))
	SETLT(reg.AL)
	CMPQ(columnsLeft, Imm(32))
	SETLT(reg.BL)
	// The shapes have the number 2·endsRows + endsColumns.
	LEAQ(Mem{Base: endsColumns, Index: place, Scale: 2}, place)
	SHLQ(Imm(6), place)
	ANDQ(argument("tails"), place)
	ADDQ(argument("config"), place)
	CMPQ(place, configured)
	JE(LabelRef("shaped"))
	MOVQ(place, configured)
	emit(tileConfigure(number(place)), "LDTILECFG (AX)")
	Label("shaped")
}

// blockFinish writes what becomes of the sums of a block, rows of 32 floats, in C. Its fields are the registers that
// the code uses.
type blockFinish struct {
	// from points to the sums of a row, to to the row's place in C, and aux to what the operation reads for it.
	from, to, aux reg.GPPhysical
	// ldc and auxRow are the distances in C and in aux from one row to the next, in bytes, and rows counts the rows
	// that are left.
	ldc, auxRow, rows reg.GPPhysical
	// masks select the columns of C in the two vectors of a row.
	masks [2]reg.OpmaskPhysical
	// positive selects the columns in which a ReLU lets the gradient pass.
	positive reg.OpmaskPhysical
	// sums are the two vectors of a row, and zero is 0 in each element.
	sums       [2]reg.VecPhysical
	bias, zero reg.VecPhysical
	// end is the label at which the code goes on.
	end string
}

// each writes, at a label, the loop over the rows for one operation: perRow writes what is loaded for a row, and change
// what is done to vector v of its sums before it is stored.
func (f *blockFinish) each(label string, perRow func(), change func(v int)) {
	Label(label)
	for v, x := range f.sums {
		VMOVUPS(Mem{Base: f.from, Disp: 64 * v}, x)
	}
	perRow()
	for v, x := range f.sums {
		change(v)
		VMOVUPS(x, f.masks[v], Mem{Base: f.to, Disp: 64 * v})
	}
	advance(2*tileRow, f.from)
	ADDQ(f.ldc, f.to)
	ADDQ(f.auxRow, f.aux)
	repeat(label, f.rows)
	JMP(LabelRef(f.end))
}

// store writes the operation Store, at the label store.
func (f *blockFinish) store() { f.each("store", func() {}, func(int) {}) }

// others write the operations Bias, BiasReLU and ReLUGrad, each at the label of its name.
func (f *blockFinish) others() {
	spreadBias := func() { VBROADCASTSS(Mem{Base: f.aux}, f.bias) }
	f.each("bias", spreadBias, func(v int) { VADDPS(f.bias, f.sums[v], f.sums[v]) })
	f.each("biasrelu", spreadBias, func(v int) {
		VADDPS(f.bias, f.sums[v], f.sums[v])
		// Of two operands of which one is NaN, the first written here stays.
		VMAXPS(f.sums[v], f.zero, f.sums[v])
	})
	f.each("relugrad", func() {}, func(v int) {
		// less is the predicate "less than" that is false for a NaN and raises no exception.
		const less = 0x11
		VCMPPS(Imm(less), Mem{Base: f.aux, Disp: 64 * v}, f.zero, f.masks[v], f.positive)
		VMOVAPS_Z(f.sums[v], f.positive, f.sums[v])
	})
}

// rowKernel holds the registers and the local variables of the kernel that rowProducts writes.
type rowKernel struct {
	// parts is the number of parts of a value.
	parts int
	// row and tile point to the row that is packed and to its place in the left tiles; row also serves as scratch.
	row, tile reg.GPPhysical
	// stride is the distance between the rows of a tile in memory, and rows counts the rows of a loop.
	stride, rows reg.GPPhysical
	// source points to the present chunk in the first of up to 32 rows of the left operand, which are ld bytes apart.
	source, ld reg.GPPhysical
	// right and right2 point to the right tiles of the first 16 columns and of those behind them, rightSpan bytes on.
	right, right2, rightSpan reg.GPPhysical
	// left points to the left tiles that are multiplied, and is scratch while rows are packed.
	left reg.GPPhysical
	// chunk counts the chunks of a row that are not packed yet.
	chunk reg.GPPhysical
	// c and aux point to the present rows of C and of what the operation reads, and sums to the sums of a block.
	c, aux, sums reg.GPPhysical
	// rowsLeft counts the rows of the product from the present ones on, and rowsHere the present ones, at most 32.
	rowsLeft, rowsHere Mem
	// half is where in the argument tiles the present chunk is packed, in bytes: two chunks take turns.
	half Mem
	// rowSource points to the first of the present rows, and configured to the shapes of the tile registers.
	rowSource, configured Mem
	// low and high are the two vectors of a chunk of a row, and values its packed parts.
	low, high reg.VecPhysical
	values    []reg.VecPhysical
	// lowMask and highMask select the values of a chunk in the vectors low and high.
	lowMask, highMask reg.OpmaskPhysical
}

// newRowKernel assigns the registers and the local variables.
func newRowKernel(parts int) *rowKernel {
	local := AllocLocal(40)
	return &rowKernel{
		parts:      parts,
		row:        reg.RAX,
		tile:       reg.RBX,
		stride:     reg.RCX,
		rows:       reg.RDX,
		source:     reg.RSI,
		ld:         reg.R9,
		right:      reg.RDI,
		right2:     reg.R15,
		rightSpan:  reg.R13,
		left:       reg.R14,
		chunk:      reg.R11,
		c:          reg.R8,
		aux:        reg.R10,
		sums:       reg.R12,
		rowsLeft:   local,
		rowsHere:   local.Offset(8),
		half:       local.Offset(16),
		rowSource:  local.Offset(24),
		configured: local.Offset(32),
		low:        reg.Z0,
		high:       reg.Z1,
		values:     parted(parts),
		lowMask:    reg.K1,
		highMask:   reg.K2,
	}
}

// rowProducts writes the kernel of a product whose left operand is rows of float32 that are packed on the way:
// each 32 values of 32 rows are multiplied while the next are packed, in a near cache. What it does with the
// product is as in tileProducts.
func rowProducts(suffix string, parts int) {
	function("rowProducts"+suffix, "func(src *float32, ld int, right *uint16, rightspan, chunks, rest, m, n int, "+
		"c *float32, ldc int, aux *float32, auxrow, op int, config *uint8, tails int, sums *float32, tiles *uint16)",
		" multiplies m rows of values with up to 32 columns of right tiles. The last of the chunks of a row has "+
			"rest values. tiles has room for two chunks of left tiles.")
	k := newRowKernel(parts)
	Load(Param("config"), k.row)
	emit(tileConfigure(number(k.row)), "LDTILECFG (AX)")
	MOVQ(k.row, k.configured)
	Load(Param("m"), k.rows)
	MOVQ(k.rows, k.rowsLeft)
	Load(Param("c"), k.c)
	Load(Param("aux"), k.aux)
	Load(Param("sums"), k.sums)
	Load(Param("rightspan"), k.rightSpan)
	Load(Param("ld"), k.ld)
	Load(Param("src"), k.source)
	MOVQ(k.source, k.rowSource)

	// Each pass computes up to 32 rows of the product.
	Label("rows")
	selectShapes(k.rowsLeft, argument("n"), k.configured)
	MOVQ(U32(32), k.rows)
	CMPQ(k.rows, k.rowsLeft)
	CMOVQGT(k.rowsLeft, k.rows)
	MOVQ(k.rows, k.rowsHere)
	MOVQ(k.rowSource, k.source)
	Load(Param("right"), k.right)
	Load(Param("chunks"), k.chunk)
	MOVQ(U32(tileRow), k.stride)
	MOVQ(U32(0), k.half)
	for sum := range 4 {
		emit(tileZero(sum), "TILEZERO TMM%d", sum)
	}
	// Both masks have all bits set: a chunk that is not the last is whole.
	MOVL(I32(-1), reg.EAX)
	KMOVW(reg.EAX, k.lowMask)
	KMOVW(reg.EAX, k.highMask)

	// In each pass a chunk of the rows is packed, and then the chunk before is multiplied. So there is one pass more
	// than there are chunks: nothing is multiplied in the first, and nothing packed in the last.
	Label("chunk")
	TESTQ(k.chunk, k.chunk)
	JZ(LabelRef("packed"))
	k.packChunk()
	Label("packed")
	Load(Param("chunks"), k.rows)
	CMPQ(k.chunk, k.rows)
	JE(LabelRef("multiplied"))
	k.multiplyChunk()
	Label("multiplied")
	// The next chunk is packed into the other half of the tiles.
	MOVQ(k.half, k.row)
	XORQ(immediate(2*parts*tileBytes), k.row)
	MOVQ(k.row, k.half)
	advance(128, k.source)
	DECQ(k.chunk)
	JNS(LabelRef("chunk"))

	MOVQ(U32(2*tileRow), k.stride)
	for sum := range 4 {
		at := sum/2*16*2*tileRow + sum%2*tileRow
		emit(tileStore(sum, number(k.sums), number(k.stride), at), "TILESTORED TMM%d, %d(R12)(CX*1)", sum, at)
	}
	k.finish()

	// C and aux have moved on to the next rows.
	Label("finished")
	MOVQ(k.ld, k.row)
	SHLQ(Imm(5), k.row)
	ADDQ(k.row, k.rowSource)
	SUBQ(Imm(32), k.rowsLeft)
	JG(LabelRef("rows"))
	emit(tileRelease(), "TILERELEASE")
	done()
}

// packChunk writes how the present chunk of the present rows is packed into its half of the tiles.
func (k *rowKernel) packChunk() {
	// The last chunk may have fewer than 32 values, the argument rest, which the masks select.
	CMPQ(k.chunk, Imm(1))
	JNE(LabelRef("whole"))
	Load(Param("rest"), k.row)
	MOVL(I32(-1), reg.EBX)
	BZHIL(reg.EAX, reg.EBX, reg.EBX)
	KMOVW(reg.EBX, k.lowMask)
	SHRL(Imm(16), reg.EBX)
	KMOVW(reg.EBX, k.highMask)
	Label("whole")
	MOVQ(k.source, k.row)
	MOVQ(k.half, k.tile)
	ADDQ(argument("tiles"), k.tile)
	MOVQ(k.rowsHere, k.rows)
	// The tiles of the second 16 rows lie behind all parts of the first.
	MOVQ(U32(16), k.left)
	Label("row")
	VMOVUPS_Z(Mem{Base: k.row}, k.lowMask, k.low)
	VMOVUPS_Z(Mem{Base: k.row, Disp: 64}, k.highMask, k.high)
	PREFETCHT0(Mem{Base: k.row, Disp: 4 * 64})
	PREFETCHT0(Mem{Base: k.row, Disp: 5 * 64})
	splitUnscaled(k.low, k.high, k.values)
	for i, v := range k.values {
		VMOVUPS(v, Mem{Base: k.tile, Disp: i * tileBytes})
	}
	ADDQ(k.ld, k.row)
	advance(tileRow, k.tile)
	if k.parts > 1 {
		DECQ(k.left)
		JNZ(LabelRef("next"))
		advance((k.parts-1)*tileBytes, k.tile)
		Label("next")
	}
	repeat("row", k.rows)
}

// multiplyChunk writes how the chunk before the present one, which is in the other half of the tiles, is multiplied
// with its right tiles, and added to the sums. There is code for each number of tiles of rows and of columns.
func (k *rowKernel) multiplyChunk() {
	MOVQ(k.half, k.left)
	XORQ(immediate(2*k.parts*tileBytes), k.left)
	ADDQ(argument("tiles"), k.left)
	LEAQ(Mem{Base: k.right, Index: k.rightSpan, Scale: 1}, k.right2)
	for _, size := range [][2]int{{1, 2}, {1, 1}, {2, 1}, {2, 2}} {
		name := fmt.Sprintf("multiply%d%d", size[0], size[1])
		// Before the first of them stands the choice of the one that is needed.
		if size == [2]int{1, 2} {
			CMPQ(k.rowsLeft, Imm(16))
			JLE(LabelRef("low"))
			CMPQ(argument("n"), Imm(16))
			JLE(LabelRef("multiply21"))
			JMP(LabelRef("multiply22"))
			Label("low")
			CMPQ(argument("n"), Imm(16))
			JLE(LabelRef("multiply11"))
		}
		Label(name)
		loadLeft := func(part int) {
			for i := range size[0] {
				at := (i*k.parts + part) * tileBytes
				emit(tileLoad(4+i, number(k.left), number(k.stride), at), "TILELOADD %d(R14)(CX*1), TMM%d", at, 4+i)
			}
		}
		loadRight := func(part int) {
			for j := range size[1] {
				base := [2]reg.GPPhysical{k.right, k.right2}[j]
				at := part * tileBytes
				emit(
					tileLoad(6+j, number(base), number(k.stride), at),
					"TILELOADD %d(%s)(CX*1), TMM%d",
					at,
					base.Asm(),
					6+j,
				)
			}
		}
		products := func() {
			for i := range size[0] {
				for j := range size[1] {
					emit(tileProduct(2*i+j, 4+i, 6+j), "TDPBF16PS TMM%d, TMM%d, TMM%d", 6+j, 4+i, 2*i+j)
				}
			}
		}
		// The product of what both roundings left is too small to count.
		loadLeft(0)
		if k.parts > 1 {
			loadRight(1)
			products()
		}
		loadRight(0)
		products()
		if k.parts > 1 {
			loadLeft(1)
			products()
		}
		if size != [2]int{2, 2} {
			JMP(LabelRef("added"))
		}
	}
	Label("added")
	advance(k.parts*tileBytes, k.right)
}

// finish writes what becomes of the sums of the present rows: the argument op, for the n columns of C.
func (k *rowKernel) finish() {
	f := blockFinish{
		from:     reg.RAX,
		to:       k.c,
		aux:      k.aux,
		ldc:      reg.RSI,
		auxRow:   reg.RCX,
		rows:     k.rows,
		masks:    [2]reg.OpmaskPhysical{reg.K1, reg.K2},
		positive: reg.K3,
		sums:     [2]reg.VecPhysical{reg.Z0, reg.Z1},
		bias:     reg.Z4,
		zero:     reg.Z30,
		end:      "finished",
	}
	op := reg.RBX
	// The masks have as many bits set as C has columns.
	MOVL(I32(-1), reg.EBX)
	Load(Param("n"), k.row)
	BZHIL(reg.EAX, reg.EBX, reg.EBX)
	KMOVW(reg.EBX, f.masks[0])
	SHRL(Imm(16), reg.EBX)
	KMOVW(reg.EBX, f.masks[1])
	MOVQ(k.rowsHere, f.rows)
	MOVQ(k.sums, f.from)
	Load(Param("ldc"), f.ldc)
	Load(Param("auxrow"), f.auxRow)
	Load(Param("op"), op)
	VPXORD(f.zero, f.zero, f.zero)
	for _, o := range []struct {
		op    int
		label string
	}{{opBias, "bias"}, {opBiasReLU, "biasrelu"}, {opReLUGrad, "relugrad"}} {
		CMPQ(op, Imm(uint64(o.op)))
		JEQ(LabelRef(o.label))
	}
	f.store()
	f.others()
}
