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

// split turns 32 values of float32 in the vectors low and high, times factor, into 32 of bfloat16 in parts. It
// overwrites low and high, and the vectors 28 and 29.
func split(low, high reg.VecPhysical, parts []reg.VecPhysical) {
	VMULPS(factor, low, low)
	VMULPS(factor, high, high)
	unscaled(low, high, parts)
}

// unscaled is split without a factor.
func unscaled(low, high reg.VecPhysical, parts []reg.VecPhysical) {
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

// packRows writes the kernel that makes the left tiles of a product from contiguous rows of values, which begin ld bytes
// apart. Zeros fill the last 32 values of a row; rows that the last tile lacks stay as dst has them. A tile has
// 16 rows of 32 values as bfloat16. Each value is divided into parts (one, or two that add up to it more closely),
// and the tiles of the parts lie one behind the other.
func packRows(suffix string, parts int) {
	function("packRows"+suffix, "func(dst *uint16, src *float32, ld, rows, k, span int, alpha float32)",
		" makes left tiles of rows of k values, times alpha: a tile for 16 rows and each 32 values, padded with zeros to whole "+
			"ones. The tiles of the next 16 rows lie span bytes behind.")
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
		" makes right tiles of k rows of n values, times alpha: a tile for 16 columns and each 32 rows, padded with zeros to "+
			"whole ones. The tiles of the next 16 columns lie span bytes behind.")
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

// tileProducts writes the kernel that multiplies left tiles with right tiles, two by two tiles at a time. The
// tiles of AMX are configured and released within the call: Go never preempts assembly, and the system saves
// the tiles of a thread that it interrupts, for a signal or another thread.
//
// Swapped kernels sum the products of parts in the order of the product with swapped operands.
func tileProducts(suffix string, parts int, swapped bool) {
	function("tileProducts"+suffix, "func(left, right *uint16, leftspan, rightspan int, list *int, chunks, m, n int, "+
		"c *float32, ldc int, aux *float32, auxrow, op, count, rightstep, cstep int, config *uint8, tails int, sums *float32)",
		" multiplies m rows of left tiles with n columns of right tiles; strides are in bytes, list has the "+
			"offsets of each chunk's left and right tiles, and sums has room for 32×32 values. It repeats itself "+
			"count times, with the right tiles and C moved on by a step. config has the shapes of the tiles and, "+
			"if tails is -1 and not 0, behind them those of the last columns, of the last rows and of both.")
	var (
		left        = reg.RAX
		right       = reg.RBX
		left2       = reg.R14
		right2      = reg.R15
		stride      = reg.RCX
		chunks      = reg.RDX
		list        = reg.RSI
		panel       = reg.RDI
		c           = reg.R8
		rowTiles    = reg.R9
		aux         = reg.R10
		leftSpan    = reg.R11
		sums        = reg.R12
		rightSpan   = reg.R13
		local       = AllocLocal(40)
		rowsLeft    = local
		columnsLeft = local.Offset(8)
		rowC        = local.Offset(16)
		rowAux      = local.Offset(24)
		shapes      = local.Offset(32)
		from        = reg.RAX
		to          = reg.RBX
		beside      = reg.R14
		rows        = reg.RDX
		op          = reg.R15
		ldc         = reg.RSI
		auxrow      = reg.RCX
		masks       = []reg.OpmaskPhysical{reg.K1, reg.K2}
		values      = []reg.VecPhysical{reg.Z0, reg.Z1}
		bias        = reg.Z4
		zero        = reg.Z30
		lefts       = [2]reg.GPPhysical{left, left2}
		rights      = [2]reg.GPPhysical{right, right2}
	)
	Load(Param("config"), left)
	emit(tileConfigure(number(left)), "LDTILECFG (AX)")
	MOVQ(left, shapes)
	Load(Param("leftspan"), leftSpan)
	Load(Param("rightspan"), rightSpan)
	Load(Param("sums"), sums)
	VPXORD(zero, zero, zero)

	Label("product")
	Load(Param("left"), rowTiles)
	Load(Param("m"), rows)
	MOVQ(rows, rowsLeft)
	Load(Param("c"), c)
	MOVQ(c, rowC)
	Load(Param("aux"), aux)
	MOVQ(aux, rowAux)

	Label("rows")
	MOVQ(rowC, c)
	MOVQ(rowAux, aux)
	Load(Param("right"), panel)
	Load(Param("n"), rows)
	MOVQ(rows, columnsLeft)

	Label("columns")
	// The last rows and columns may be no whole tiles, which then have other shapes.
	XORQ(left, left)
	XORQ(right, right)
	CMPQ(rowsLeft, Imm(32))
	SETLT(reg.AL)
	CMPQ(columnsLeft, Imm(32))
	SETLT(reg.BL)
	LEAQ(Mem{Base: right, Index: left, Scale: 2}, left)
	SHLQ(Imm(6), left)
	ANDQ(argument("tails"), left)
	ADDQ(argument("config"), left)
	CMPQ(left, shapes)
	JE(LabelRef("shaped"))
	MOVQ(left, shapes)
	emit(tileConfigure(number(left)), "LDTILECFG (AX)")
	Label("shaped")
	Load(Param("list"), list)
	Load(Param("chunks"), chunks)
	MOVQ(U32(tileRow), stride)
	CMPQ(rowsLeft, Imm(16))
	JLE(LabelRef("low"))
	CMPQ(columnsLeft, Imm(16))
	JLE(LabelRef("block21"))
	JMP(LabelRef("block22"))
	Label("low")
	CMPQ(columnsLeft, Imm(16))
	JLE(LabelRef("block11"))

	// Tiles 0 to 3 are sums, 4 and 5 left and 6 and 7 right.
	for _, size := range [][2]int{{1, 2}, {1, 1}, {2, 1}, {2, 2}} {
		name := fmt.Sprintf("block%d%d", size[0], size[1])
		Label(name)
		each := func(f func(sum, i, j int)) {
			for i := range size[0] {
				for j := range size[1] {
					f(2*i+j, i, j)
				}
			}
		}
		loadTiles := func(first, count int, base [2]reg.GPPhysical, part int) {
			for i := range count {
				at := part * tileBytes
				emit(tileLoad(first+i, number(base[i]), number(stride), at), "TILELOADD %d(%s)(CX*1), TMM%d",
					at, base[i].Asm(), first+i)
			}
		}
		products := func() {
			each(func(sum, i, j int) {
				emit(tileProduct(sum, 4+i, 6+j), "TDPBF16PS TMM%d, TMM%d, TMM%d", 6+j, 4+i, sum)
			})
		}
		// inC moves the sums from or to C itself: the address of the second 16 rows is in another register.
		inC := func(encode func(tile, base, index, displacement int) []byte, format string) {
			Load(Param("ldc"), stride)
			if size[0] > 1 {
				MOVQ(stride, right)
				SHLQ(Imm(4), right)
				ADDQ(c, right)
			}
			each(func(sum, i, j int) {
				base := [2]reg.GPPhysical{c, right}[i]
				emit(encode(sum, number(base), number(stride), j*tileRow), format, sum, j*tileRow, base.Asm())
			})
		}
		CMPQ(argument("op"), Imm(opAdd))
		JNE(LabelRef(name + "zero"))
		inC(tileLoad, "TILELOADD TMM%d, %d(%s)(CX*1)")
		MOVQ(U32(tileRow), stride)
		JMP(LabelRef(name + "chunk"))
		Label(name + "zero")
		each(func(sum, _, _ int) { emit(tileZero(sum), "TILEZERO TMM%d", sum) })
		Label(name + "chunk")
		MOVQ(Mem{Base: list}, left)
		MOVQ(Mem{Base: list, Disp: 8}, right)
		advance(16, list)
		ADDQ(rowTiles, left)
		ADDQ(panel, right)
		if size[0] > 1 {
			LEAQ(Mem{Base: left, Index: leftSpan, Scale: 1}, left2)
		}
		if size[1] > 1 {
			LEAQ(Mem{Base: right, Index: rightSpan, Scale: 1}, right2)
		}
		switch {
		case parts == 1:
			loadTiles(4, size[0], lefts, 0)
			loadTiles(6, size[1], rights, 0)
			products()
		// The product of what both roundings left is too small to count.
		case swapped:
			loadTiles(4, size[0], lefts, 1)
			loadTiles(6, size[1], rights, 0)
			products()
			loadTiles(4, size[0], lefts, 0)
			products()
			loadTiles(6, size[1], rights, 1)
			products()
		default:
			loadTiles(4, size[0], lefts, 0)
			loadTiles(6, size[1], rights, 1)
			products()
			loadTiles(6, size[1], rights, 0)
			products()
			loadTiles(4, size[0], lefts, 1)
			products()
		}
		repeat(name+"chunk", chunks)
		CMPQ(argument("op"), Imm(opBias))
		JGE(LabelRef(name + "sums"))
		inC(tileStore, "TILESTORED TMM%d, %d(%s)(CX*1)")
		JMP(LabelRef("next"))
		Label(name + "sums")
		MOVQ(U32(2*tileRow), stride)
		each(func(sum, i, j int) {
			at := i*16*2*tileRow + j*tileRow
			emit(tileStore(sum, number(sums), number(stride), at), "TILESTORED TMM%d, %d(R12)(CX*1)", sum, at)
		})
		if size != [2]int{2, 2} {
			JMP(LabelRef("finish"))
		}
	}

	// What becomes of the block: the masks select its columns.
	Label("finish")
	width := reg.RAX
	MOVQ(U32(32), width)
	CMPQ(width, columnsLeft)
	CMOVQGT(columnsLeft, width)
	ones := reg.EBX
	MOVL(I32(-1), ones)
	BZHIL(width.As32(), ones, ones)
	KMOVW(ones, masks[0])
	SHRL(Imm(16), ones)
	KMOVW(ones, masks[1])
	MOVQ(U32(32), rows)
	CMPQ(rows, rowsLeft)
	CMOVQGT(rowsLeft, rows)
	MOVQ(sums, from)
	MOVQ(c, to)
	MOVQ(aux, beside)
	Load(Param("ldc"), ldc)
	Load(Param("auxrow"), auxrow)
	Load(Param("op"), op)
	CMPQ(op, Imm(opBiasReLU))
	JEQ(LabelRef("biasrelu"))
	CMPQ(op, Imm(opReLUGrad))
	JEQ(LabelRef("relugrad"))
	// each makes the loop over the rows for an operation: f works on a vector of the product.
	each := func(label string, perRow func(), f func(v int)) {
		Label(label)
		for v, x := range values {
			VMOVUPS(Mem{Base: from, Disp: 64 * v}, x)
		}
		perRow()
		for v, x := range values {
			f(v)
			VMOVUPS(x, masks[v], Mem{Base: to, Disp: 64 * v})
		}
		advance(2*tileRow, from)
		ADDQ(ldc, to)
		ADDQ(auxrow, beside)
		repeat(label, rows)
		JMP(LabelRef("next"))
	}
	spreadBias := func() { VBROADCASTSS(Mem{Base: beside}, bias) }
	each("bias", spreadBias, func(v int) { VADDPS(bias, values[v], values[v]) })
	each("biasrelu", spreadBias, func(v int) {
		VADDPS(bias, values[v], values[v])
		// Of two operands of which one is NaN, the first written here stays.
		VMAXPS(values[v], zero, values[v])
	})
	each("relugrad", func() {}, func(v int) {
		// less is the predicate "less than" that is false for a NaN and raises no exception.
		const less = 0x11
		VCMPPS(Imm(less), Mem{Base: beside, Disp: 64 * v}, zero, masks[v], reg.K3)
		VMOVAPS_Z(values[v], reg.K3, values[v])
	})

	Label("next")
	advance(2*tileRow, c)
	// The matrix that ReLUGrad reads moves along with C.
	CMPQ(argument("op"), Imm(opReLUGrad))
	JNE(LabelRef("moved"))
	advance(2*tileRow, aux)
	Label("moved")
	LEAQ(Mem{Base: panel, Index: rightSpan, Scale: 2}, panel)
	SUBQ(Imm(32), columnsLeft)
	JG(LabelRef("columns"))

	// The next rows are 32 below.
	LEAQ(Mem{Base: rowTiles, Index: leftSpan, Scale: 2}, rowTiles)
	Load(Param("ldc"), ldc)
	SHLQ(Imm(5), ldc)
	ADDQ(ldc, rowC)
	Load(Param("auxrow"), auxrow)
	SHLQ(Imm(5), auxrow)
	ADDQ(auxrow, rowAux)
	SUBQ(Imm(32), rowsLeft)
	JG(LabelRef("rows"))

	Load(Param("rightstep"), left)
	ADDQ(left, argument("right"))
	Load(Param("cstep"), left)
	ADDQ(left, argument("c"))
	DECQ(argument("count"))
	JNZ(LabelRef("product"))
	emit(tileRelease(), "TILERELEASE")
	done()
}

// rowProducts writes the kernel of a product whose left operand is rows of float32 that are packed on the way:
// each 32 values of 32 rows are multiplied while the next are packed, in a near cache. What it does with the
// product is as in tileProducts.
func rowProducts(suffix string, parts int) {
	function("rowProducts"+suffix, "func(src *float32, ld int, right *uint16, rightspan, chunks, rest, m, n int, "+
		"c *float32, ldc int, aux *float32, auxrow, op int, config *uint8, tails int, sums *float32, tiles *uint16)",
		" multiplies m rows of values with up to 32 columns of right tiles. The last of the chunks of a row has "+
			"rest values. tiles has room for two chunks of left tiles.")
	var (
		row       = reg.RAX
		tile      = reg.RBX
		stride    = reg.RCX
		rows      = reg.RDX
		source    = reg.RSI
		right     = reg.RDI
		c         = reg.R8
		ld        = reg.R9
		aux       = reg.R10
		chunk     = reg.R11
		sums      = reg.R12
		rightSpan = reg.R13
		left      = reg.R14
		right2    = reg.R15
		local     = AllocLocal(40)
		rowsLeft  = local
		rowsHere  = local.Offset(8)
		parity    = local.Offset(16)
		rowSource = local.Offset(24)
		shapes    = local.Offset(32)
		low       = reg.Z0
		high      = reg.Z1
		values    = parted(parts)
		one       = reg.K1
		two       = reg.K2
		three     = reg.K3
	)
	Load(Param("config"), row)
	emit(tileConfigure(number(row)), "LDTILECFG (AX)")
	MOVQ(row, shapes)
	Load(Param("m"), rows)
	MOVQ(rows, rowsLeft)
	Load(Param("c"), c)
	Load(Param("aux"), aux)
	Load(Param("sums"), sums)
	Load(Param("rightspan"), rightSpan)
	Load(Param("ld"), ld)
	Load(Param("src"), source)
	MOVQ(source, rowSource)

	Label("rows")
	XORQ(row, row)
	XORQ(tile, tile)
	CMPQ(rowsLeft, Imm(32))
	SETLT(reg.AL)
	CMPQ(argument("n"), Imm(32))
	SETLT(reg.BL)
	LEAQ(Mem{Base: tile, Index: row, Scale: 2}, row)
	SHLQ(Imm(6), row)
	ANDQ(argument("tails"), row)
	ADDQ(argument("config"), row)
	CMPQ(row, shapes)
	JE(LabelRef("shaped"))
	MOVQ(row, shapes)
	emit(tileConfigure(number(row)), "LDTILECFG (AX)")
	Label("shaped")
	MOVQ(U32(32), rows)
	CMPQ(rows, rowsLeft)
	CMOVQGT(rowsLeft, rows)
	MOVQ(rows, rowsHere)
	MOVQ(rowSource, source)
	Load(Param("right"), right)
	Load(Param("chunks"), chunk)
	MOVQ(U32(tileRow), stride)
	MOVQ(U32(0), parity)
	for sum := range 4 {
		emit(tileZero(sum), "TILEZERO TMM%d", sum)
	}
	MOVL(I32(-1), reg.EAX)
	KMOVW(reg.EAX, one)
	KMOVW(reg.EAX, two)

	// Chunk by chunk: the rows are packed, and then the chunk before is multiplied.
	Label("chunk")
	TESTQ(chunk, chunk)
	JZ(LabelRef("packed"))
	CMPQ(chunk, Imm(1))
	JNE(LabelRef("whole"))
	Load(Param("rest"), row)
	MOVL(I32(-1), reg.EBX)
	BZHIL(reg.EAX, reg.EBX, reg.EBX)
	KMOVW(reg.EBX, one)
	SHRL(Imm(16), reg.EBX)
	KMOVW(reg.EBX, two)
	Label("whole")
	MOVQ(source, row)
	MOVQ(parity, tile)
	ADDQ(argument("tiles"), tile)
	MOVQ(rowsHere, rows)
	// The tiles of the second 16 rows lie behind all parts of the first.
	MOVQ(U32(16), left)
	Label("row")
	VMOVUPS_Z(Mem{Base: row}, one, low)
	VMOVUPS_Z(Mem{Base: row, Disp: 64}, two, high)
	PREFETCHT0(Mem{Base: row, Disp: 4 * 64})
	PREFETCHT0(Mem{Base: row, Disp: 5 * 64})
	unscaled(low, high, values)
	for i, v := range values {
		VMOVUPS(v, Mem{Base: tile, Disp: i * tileBytes})
	}
	ADDQ(ld, row)
	advance(tileRow, tile)
	if parts > 1 {
		DECQ(left)
		JNZ(LabelRef("next"))
		advance((parts-1)*tileBytes, tile)
		Label("next")
	}
	repeat("row", rows)
	Label("packed")
	Load(Param("chunks"), rows)
	CMPQ(chunk, rows)
	JE(LabelRef("multiplied"))

	// The chunk before is in the other half of the tiles.
	MOVQ(parity, left)
	XORQ(immediate(2*parts*tileBytes), left)
	ADDQ(argument("tiles"), left)
	LEAQ(Mem{Base: right, Index: rightSpan, Scale: 1}, right2)
	for _, size := range [][2]int{{1, 2}, {1, 1}, {2, 1}, {2, 2}} {
		name := fmt.Sprintf("multiply%d%d", size[0], size[1])
		if size == [2]int{1, 2} {
			CMPQ(rowsLeft, Imm(16))
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
				at := (i*parts + part) * tileBytes
				emit(tileLoad(4+i, number(left), number(stride), at), "TILELOADD %d(R14)(CX*1), TMM%d", at, 4+i)
			}
		}
		loadRight := func(part int) {
			for j := range size[1] {
				base := [2]reg.GPPhysical{right, right2}[j]
				at := part * tileBytes
				emit(tileLoad(6+j, number(base), number(stride), at), "TILELOADD %d(%s)(CX*1), TMM%d", at, base.Asm(), 6+j)
			}
		}
		products := func() {
			for i := range size[0] {
				for j := range size[1] {
					emit(tileProduct(2*i+j, 4+i, 6+j), "TDPBF16PS TMM%d, TMM%d, TMM%d", 6+j, 4+i, 2*i+j)
				}
			}
		}
		loadLeft(0)
		if parts > 1 {
			loadRight(1)
			products()
		}
		loadRight(0)
		products()
		if parts > 1 {
			loadLeft(1)
			products()
		}
		if size != [2]int{2, 2} {
			JMP(LabelRef("added"))
		}
	}
	Label("added")
	advance(parts*tileBytes, right)
	Label("multiplied")
	MOVQ(parity, row)
	XORQ(immediate(2*parts*tileBytes), row)
	MOVQ(row, parity)
	advance(128, source)
	DECQ(chunk)
	JNS(LabelRef("chunk"))

	MOVQ(U32(2*tileRow), stride)
	for sum := range 4 {
		at := sum/2*16*2*tileRow + sum%2*tileRow
		emit(tileStore(sum, number(sums), number(stride), at), "TILESTORED TMM%d, %d(R12)(CX*1)", sum, at)
	}
	// What becomes of the block.
	MOVL(I32(-1), reg.EBX)
	Load(Param("n"), row)
	BZHIL(reg.EAX, reg.EBX, reg.EBX)
	KMOVW(reg.EBX, one)
	SHRL(Imm(16), reg.EBX)
	KMOVW(reg.EBX, two)
	MOVQ(rowsHere, rows)
	from := reg.RAX
	to := reg.R8
	ldc := reg.RSI
	auxrow := reg.RCX
	op := reg.RBX
	MOVQ(sums, from)
	Load(Param("ldc"), ldc)
	Load(Param("auxrow"), auxrow)
	Load(Param("op"), op)
	sumsOf := []reg.VecPhysical{reg.Z0, reg.Z1}
	masks := []reg.OpmaskPhysical{one, two}
	zero := reg.Z30
	bias := reg.Z4
	VPXORD(zero, zero, zero)
	for _, o := range []struct {
		op    int
		label string
	}{{opBias, "bias"}, {opBiasReLU, "biasrelu"}, {opReLUGrad, "relugrad"}} {
		CMPQ(op, Imm(uint64(o.op)))
		JEQ(LabelRef(o.label))
	}
	each := func(label string, perRow func(), f func(v int)) {
		Label(label)
		for v, x := range sumsOf {
			VMOVUPS(Mem{Base: from, Disp: 64 * v}, x)
		}
		perRow()
		for v, x := range sumsOf {
			f(v)
			VMOVUPS(x, masks[v], Mem{Base: to, Disp: 64 * v})
		}
		advance(2*tileRow, from)
		ADDQ(ldc, to)
		ADDQ(auxrow, aux)
		repeat(label, rows)
		JMP(LabelRef("finished"))
	}
	each("store", func() {}, func(int) {})
	spreadBias := func() { VBROADCASTSS(Mem{Base: aux}, bias) }
	each("bias", spreadBias, func(v int) { VADDPS(bias, sumsOf[v], sumsOf[v]) })
	each("biasrelu", spreadBias, func(v int) {
		VADDPS(bias, sumsOf[v], sumsOf[v])
		// Of two operands of which one is NaN, the first written here stays.
		VMAXPS(sumsOf[v], zero, sumsOf[v])
	})
	each("relugrad", func() {}, func(v int) {
		// less is the predicate "less than" that is false for a NaN and raises no exception.
		const less = 0x11
		VCMPPS(Imm(less), Mem{Base: aux, Disp: 64 * v}, zero, masks[v], three)
		VMOVAPS_Z(sumsOf[v], three, sumsOf[v])
	})

	// C and aux have moved on to the next rows.
	Label("finished")
	MOVQ(ld, row)
	SHLQ(Imm(5), row)
	ADDQ(row, rowSource)
	SUBQ(Imm(32), rowsLeft)
	JG(LabelRef("rows"))
	emit(tileRelease(), "TILERELEASE")
	done()
}
