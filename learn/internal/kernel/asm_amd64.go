package kernel

import "golang.org/x/sys/cpu"

// routines holds what this processor can run, found out once from its features.
var routines = func() (r [isas]routine) {
	x := &cpu.X86
	if !x.HasAVX2 || !x.HasFMA {
		return r
	}
	v := routine{
		gemm:          gemmAsm,
		transpose:     transpose8,
		addTransposed: addTransposed,
		rowSums:       rowSums,
		addScaled:     addScaled,
		prefetch:      prefetch,
		copyPieces:    copyPieces,
	}
	v.lanes = 8
	v.softmax = softmax256
	v.lookup = lookup256
	v.addExact = addExact256
	v.addExactAndReset = addExactAndReset256
	v.gruForward = gruForward256
	v.gruBackward = gruBackward256
	v.maxPool = maxPool256
	v.maxUnpool = maxUnpool256
	v.centre = centre
	v.affine = affine
	v.addDots = addDots
	v.combine = combine
	v.addReLU = addReLU
	v.mask = mask
	v.denseSteps = denseSteps256[:]
	v.nonZeros = nonZeros256
	v.sumPair = sumPairs256[:]
	v.addColumns = addColumnsOf256[:]
	v.addColumnsExact = addColumnsExactOf256[:]
	r[AVX2] = v
	if x.HasAVX512F &&
		x.HasAVX512BW &&
		x.HasAVX512DQ &&
		x.HasAVX512VL {
		v.lanes = 16
		v.softmax = softmax512
		v.lookup = lookup512
		v.addExact = addExact512
		v.addExactAndReset = addExactAndReset512
		v.gruForward = gruForward512
		v.gruBackward = gruBackward512
		v.maxPool = maxPool512
		v.maxUnpool = maxUnpool512
		v.denseSteps = denseSteps512[:]
		v.nonZeros = nonZeros512
		v.sumPair = sumPairs512[:]
		v.addColumns = addColumnsOf512[:]
		v.addColumnsExact = addColumnsExactOf512[:]
		v.present = present512
		v.columns = columns512
		r[AVX512] = v
	}
	// All but the products is that of the class avx. Steps of dense layers are products in one, so they
	// are left out.
	v.denseSteps = nil
	v.gemm = gemmEmulated
	r[AMXEmulated] = v
	r[AMX3Emulated] = v
	if r[AVX512].lanes > 0 &&
		x.HasAVX512BF16 &&
		x.HasBMI2 &&
		x.HasAMXTile &&
		x.HasAMXBF16 {
		v.gemm = gemmTiles
		r[AMX] = v
		r[AMX3] = v
	}
	return r
}()

// tileRoutines holds the routines of instruction sets with tiles.
var tileRoutines = [isas]tileRoutine{
	AMX: {
		packRows:        packRows,
		packPairs:       packPairs,
		transpose:       transposeTiles,
		multiply:        tileProducts,
		multiplySwapped: tileProducts,
		multiplyRows:    rowProducts,
	},
	AMX3: {
		packRows:        packRows3,
		packPairs:       packPairs3,
		transpose:       transposeTiles,
		multiply:        tileProducts3,
		multiplySwapped: tileProducts3Swapped,
		multiplyRows:    rowProducts3,
	},
}

// inHalves says that the processor computes a vector of 512 bits in two steps, as AMD's
// Zen 4 does. Two vectors of 256 bits then cost as much as one of 512, so a product takes only as many of
// them as its columns need.
var inHalves = func() bool {
	_, b, c, d := cpuid(0)
	signature, _, _, _ := cpuid(1)
	// zen4 is the number of the processor's family: the base family plus the extended one. Zen 3
	// has the same.
	const zen4 = 0xf + 0xa
	// The three words spell AuthenticAMD, the name of the vendor.
	amd := b == 0x68747541 && d == 0x69746e65 && c == 0x444d4163
	return amd && signature>>8&0xf+signature>>20&0xff == zen4
}()

// tile computes tiles of some rows by one panel of columns (gen/gemm.go).
type tile func(tiles, k, segments int, segment *int, a *float32, ars, acs int, b *float32, ldb int, c *float32,
	ldc int, aux *float32, alpha float32, op int, mask *int32, astep, bstep, cstep, auxstep int)

// Kernels of products by the number of rows of a tile less 1. Those of broad panels compute two vectors of columns,
// those of narrow ones one vector: of 512 bits, of 256 bits, or of 256 bits with the instructions and masks of
// AVX-512 (half).
var (
	narrow512 = [...]tile{
		gemm512x1x1, gemm512x2x1, gemm512x3x1, gemm512x4x1, gemm512x5x1, gemm512x6x1, gemm512x7x1,
		gemm512x8x1, gemm512x9x1, gemm512x10x1, gemm512x11x1, gemm512x12x1, gemm512x13x1, gemm512x14x1,
	}
	broad512 = [...]tile{
		gemm512x1x2, gemm512x2x2, gemm512x3x2, gemm512x4x2, gemm512x5x2, gemm512x6x2, gemm512x7x2,
		gemm512x8x2, gemm512x9x2, gemm512x10x2, gemm512x11x2, gemm512x12x2, gemm512x13x2, gemm512x14x2,
	}
	narrowHalf = [...]tile{
		gemmHalfx1x1, gemmHalfx2x1, gemmHalfx3x1, gemmHalfx4x1, gemmHalfx5x1, gemmHalfx6x1, gemmHalfx7x1,
		gemmHalfx8x1, gemmHalfx9x1, gemmHalfx10x1, gemmHalfx11x1, gemmHalfx12x1, gemmHalfx13x1,
		gemmHalfx14x1,
	}
	broadHalf = [...]tile{
		gemmHalfx1x2, gemmHalfx2x2, gemmHalfx3x2, gemmHalfx4x2, gemmHalfx5x2, gemmHalfx6x2,
	}
	narrow256 = [...]tile{
		gemm256x1x1, gemm256x2x1, gemm256x3x1, gemm256x4x1, gemm256x5x1, gemm256x6x1, gemm256x7x1,
		gemm256x8x1, gemm256x9x1, gemm256x10x1, gemm256x11x1, gemm256x12x1,
	}
	broad256 = [...]tile{
		gemm256x1x2, gemm256x2x2, gemm256x3x2, gemm256x4x2, gemm256x5x2, gemm256x6x2,
	}
)

// Steps of dense layers by samples-1.
var (
	denseSteps512 = [...]denseStep{
		denseStep512x1, denseStep512x2, denseStep512x3, denseStep512x4, denseStep512x5, denseStep512x6,
		denseStep512x7, denseStep512x8, denseStep512x9, denseStep512x10, denseStep512x11, denseStep512x12,
		denseStep512x13, denseStep512x14, denseStep512x15, denseStep512x16, denseStep512x17,
		denseStep512x18, denseStep512x19, denseStep512x20, denseStep512x21, denseStep512x22,
		denseStep512x23, denseStep512x24,
	}
	denseSteps256 = [...]denseStep{
		denseStep256x1, denseStep256x2, denseStep256x3, denseStep256x4, denseStep256x5, denseStep256x6,
		denseStep256x7, denseStep256x8, denseStep256x9, denseStep256x10, denseStep256x11, denseStep256x12,
	}
)

// Kernels for inputs that are mostly zero, by vectors of outputs less one.
var (
	sumPairs512 = [...]sumPair{
		sumPair512x1, sumPair512x2, sumPair512x3, sumPair512x4, sumPair512x5, sumPair512x6, sumPair512x7,
		sumPair512x8, sumPair512x9, sumPair512x10, sumPair512x11, sumPair512x12, sumPair512x13,
	}
	sumPairs256 = [...]sumPair{
		sumPair256x1, sumPair256x2, sumPair256x3, sumPair256x4, sumPair256x5, sumPair256x6,
	}
	addColumnsOf512 = [...]addColumns{
		addColumns512x1, addColumns512x2, addColumns512x3, addColumns512x4, addColumns512x5,
		addColumns512x6, addColumns512x7, addColumns512x8, addColumns512x9, addColumns512x10,
		addColumns512x11, addColumns512x12, addColumns512x13,
	}
	addColumnsExactOf512 = [...]addColumnsExact{
		addColumnsExact512x1, addColumnsExact512x2, addColumnsExact512x3, addColumnsExact512x4,
		addColumnsExact512x5, addColumnsExact512x6, addColumnsExact512x7, addColumnsExact512x8,
		addColumnsExact512x9, addColumnsExact512x10, addColumnsExact512x11, addColumnsExact512x12,
		addColumnsExact512x13,
	}
	addColumnsExactOf256 = [...]addColumnsExact{
		addColumnsExact256x1, addColumnsExact256x2, addColumnsExact256x3, addColumnsExact256x4,
		addColumnsExact256x5, addColumnsExact256x6,
	}
	addColumnsOf256 = [...]addColumns{
		addColumns256x1, addColumns256x2, addColumns256x3, addColumns256x4, addColumns256x5,
		addColumns256x6,
	}
)

// mask512[w] has w bits set; mask256[8-w:] starts with w lanes set.
var (
	mask512 = func() (m [17]int32) {
		for w := range m {
			m[w] = 1<<w - 1
		}
		return m
	}()
	mask256 = [16]int32{-1, -1, -1, -1, -1, -1, -1, -1}
)

// alongRows is the number of elements of C from which on it is computed along its rows: the processor can
// then prefetch what it will read and write, although B is read from the second-level cache for each tile
// of rows. A smaller C is computed down its columns, panel by panel of B.
var alongRows = 1 << 17

// choosePanel returns how the first columns of those that remain of C are computed as one panel: by kernels[rows-1]
// for a tile of this many rows, with width columns. mask selects the columns of the panel's last vector. isFull says
// that the panel has two whole vectors.
func choosePanel(isa ISA, remaining int) (kernels []tile, width int, mask *int32, isFull bool) {
	if isa == AVX2 {
		const lanes = 8
		if remaining >= 2*lanes {
			return broad256[:], 2 * lanes, &mask512[16], true
		}
		width = min(remaining, lanes)
		return narrow256[:], width, &mask256[lanes-width], false
	}
	const lanes = 16
	switch {
	case remaining >= 2*lanes:
		return broad512[:], 2 * lanes, &mask512[lanes], true
	// The second vector is partly used, and the mask selects its columns.
	case remaining > lanes && (remaining > 24 || !inHalves):
		return broad512[:], remaining, &mask512[remaining-lanes], false
	// Two vectors of 256 bits waste fewer columns here. These kernels have at most 6 rows; more take registers that
	// slow them down.
	case remaining > 8 && inHalves:
		width = min(remaining, 16)
		return broadHalf[:], width, &mask512[width-8], false
	// One vector of 256 bits is enough for the remaining columns.
	case remaining <= 8:
		return narrowHalf[:], remaining, &mask512[remaining], false
	}
	return narrow512[:], remaining, &mask512[remaining], false
}

// gemmAsm is GemmSum in AVX2 or AVX-512 assembly. It divides the n columns of C into panels of two
// vectors, of which the last ones may be narrower ([choosePanel]), and the m rows into tiles: as few as possible,
// and of heights that differ by at most one row. Each kernel computes one tile of one panel;
// strides for kernels are in bytes.
func gemmAsm(
	isa ISA,
	m, n, k int,
	segments []Segment,
	a Operand,
	b, dst Matrix,
	op Op,
	aux []float32,
	alpha float32,
) {
	// auxRow and auxCol are the distances in aux from one row and column of C to the next: bias has
	// one value for each row, and ReLUGrad reads a matrix like C.
	auxRow := 0
	auxCol := 0
	switch op {
	case Bias, BiasReLU:
		auxRow = 1
	case ReLUGrad:
		auxRow = dst.LD
		auxCol = 1
	}
	// Each pass of the loop computes the next panel, or several panels, from column j on.
	for j := 0; j < n; {
		kernels, width, mask, isFull := choosePanel(isa, n-j)
		panels := 1
		// A large product goes along the rows: one call computes all full panels of a tile.
		if isFull && m*n >= alongRows {
			panels = (n - j) / width
		}
		tiles := (m + len(kernels) - 1) / len(kernels)
		// The first tiles, tall of them, have one row more than the others.
		tall := m % tiles
		for i := 0; i < m; {
			// The next count tiles have this many rows each.
			rows := m / tiles
			count := tiles - tall
			if i < tall*(rows+1) {
				rows = rows + 1
				count = tall
			}
			// Store and Add do not read aux, which may be nil for them.
			var x *float32
			if op >= Bias {
				x = &aux[i*auxRow+j*auxCol]
			}
			// The kernel repeats itself calls times. step says how far A, B, C and aux move from
			// one tile to the next: down the rows, or along the columns where several panels go
			// together.
			calls := count
			step := [4]int{4 * rows * a.Row, 0, 4 * rows * dst.LD, 4 * rows * auxRow}
			if panels > 1 {
				count = 1
				calls = panels
				step = [4]int{0, 4 * width, 4 * width, 4 * width * auxCol}
			}
			kernels[rows-1](
				calls,
				k,
				len(segments),
				&segments[0].A,
				&a.Data[i*a.Row],
				4*a.Row,
				4*a.Col,
				&b.Data[j],
				4*b.LD,
				&dst.Data[i*dst.LD+j],
				4*dst.LD,
				x,
				alpha,
				int(op),
				mask,
				step[0],
				step[1],
				step[2],
				step[3],
			)
			i += count * rows
		}
		j += panels * width
	}
}
