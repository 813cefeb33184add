package kernel

// ISA is a set of instructions that the operations are written for.
type ISA uint8

// The instruction sets. [Available] lists those that this machine can run.
const (
	// Go is the reference in plain Go.
	Go ISA = iota
	// NEON has matrix products in arm64 assembly and the rest in plain Go.
	NEON
	// AVX2 needs an amd64 processor with AVX2 and FMA.
	AVX2
	// AVX512 needs an amd64 processor with AVX-512 F, BW, DQ and VL.
	AVX512
	// AMXEmulated computes what AMX does, slowly, on an amd64 processor with AVX2 and FMA.
	AMXEmulated
	// AMX needs an amd64 processor with AVX-512 and tiles for bfloat16, and a system that permits tiles.
	// Products round their operands to bfloat16.
	AMX
	// AMX3Emulated computes what AMX3 does, as AMXEmulated.
	AMX3Emulated
	// AMX3 needs what AMX needs. Products split each operand into two values of bfloat16.
	AMX3
	isas
)

// named is the first of the instruction sets that no machine chooses by itself: they round what they
// multiply.
const named = AMXEmulated

var (
	// names are those of the environment and of messages; classes name the sets that give the same
	// bits.
	names   = [isas]string{"go", "neon", "avx2", "avx512", "amx-emulated", "amx", "amx3-emulated", "amx3"}
	classes = [isas]string{"go", "neon", "avx", "avx", "amx", "amx", "amx3", "amx3"}
)

// String names the instruction set as messages do.
func (isa ISA) String() string { return names[isa] }

// Class names what decides the bits of a model: the instruction sets of a class give
// the same.
func (isa ISA) Class() string { return classes[isa] }

// routine is what an instruction set has in assembly on this machine: nothing, the products alone or,
// where lanes is not 0, everything. Strides are in bytes. What each computes is said at the method of
// [ISA] that calls it.
type routine struct {
	// gemm computes a product. It is nil where this machine lacks the instructions.
	gemm func(isa ISA, m, n, k int, segments []Segment, a Operand, b, dst Matrix, op Op, aux []float32, alpha float32)

	// lanes is the number of float32 values in a vector register.
	lanes int
	// transpose moves tiles of 8×8, down×right of them.
	transpose func(dst *float32, ldd int, src *float32, lds int, down, right int)
	// copyPieces copies whole vectors of each piece.
	copyPieces func(dst *float32, toRow, toStep int, src *float32, fromRow, fromStep, rows, pieces, chunks int)
	// lookup decodes groups of 16 bytes.
	lookup func(dst *float32, src *uint8, table *float32, groups int)
	// prefetch asks for cache lines.
	prefetch func(src *uint8, lines int)
	// denseSteps holds the kernels of a dense layer's step, by the number of samples less one.
	denseSteps []denseStep
	// softmax works on columns of a block of logits.
	softmax func(z *float32, rows, vectors int, scale float32, top, sum *float32)
	// rowSums sums the rows of a block; mask selects the lanes that count, and minus is -0 in the
	// others.
	rowSums func(dst, x *float32, rows int, alpha float32, mode int, mask, minus *int32)
	// addScaled works on groups of 8 values.
	addScaled func(dst, x *float32, groups int, alpha float32)
	// gruForward and gruBackward work on gates of n values each, whole vectors.
	gruForward  func(n int, in, state, h, saved *float32)
	gruBackward func(n int, dh, saved, h, da *float32)
	// maxPool and maxUnpool work on whole rows if fullBlock is set, and otherwise on their first
	// halves.
	maxPool   func(rows int, x *float32, lx, right, down int, dst *float32, ld int, code *int32, fullBlock bool)
	maxUnpool func(rows int, gradient *float32, ld int, code *int32, dst *float32, right, down int, fullBlock bool)

	// addTransposed works on strips of 8 columns, 4 rows in a step.
	addTransposed func(dst *int64, ldd int, src *int64, lds int, steps int)
	// addExact and addExactAndReset work on groups of 16 values, and return the number of groups
	// that are left.
	addExact, addExactAndReset func(dst *int64, x, base *float32, groups int, w float64) int

	// nonZeros works on groups of 16 values. sumPair, addColumns and addColumnsExact have a kernel for each
	// number of vectors of outputs less one.
	nonZeros        func(bits *uint16, x *float32, groups int)
	sumPair         []sumPair
	addColumns      []addColumns
	addColumnsExact []addColumnsExact
	// present and columns work on words of 16 bits. They are nil where the instructions cannot pack.
	present func(list *int32, first, second *uint16, words int) (n int)
	columns func(list *int32, mask *uint16, words, samples int) (n int)

	// centre and the routines below work on groups of 8 values.
	centre        func(dst, x, mean, squares *float32, groups int)
	affine        func(dst, x, scale, shift *float32, groups int, lowerBound float32)
	addDots       func(sum, dot, y, x *float32, groups int)
	combine       func(dst, x, a, y, b, c *float32, groups int)
	addReLU, mask func(dst, x *float32, groups int)
}

// denseStep computes DenseStep for strips of columns (gen/dense.go).
type denseStep func(strips, outputs int, w *float32, ldw int, dy, x *float32, ldx int, dx *float32, lddx int,
	alpha float32, mask bool, strip *float32)

// sumPair computes SumPair for vectors of outputs, addColumns AddColumns, and addColumnsExact AddColumnsExact
// (gen/zeros.go).
type (
	sumPair func(n int, index *int32, w *float32, ldw int, x0, x1, y0, y1, bias *float32, relu bool)

	addColumns func(n int, column *int32, x *float32, ldx int, dy *float32, lddy int, alpha float32, w *float32,
		ldw int)

	addColumnsExact func(n int, column *int32, x *float32, ldx int, dy *float32, lddy int, alpha float32, w *float32,
		ldw int, base *float32, sum *int64, weight float64) int
)

// vectors returns the routines of the instruction set, or nil for one that has only some of its routines, or none, in
// assembly (lanes is 0): the caller then computes in plain Go.
func (isa ISA) vectors() *routine {
	if r := &routines[isa]; r.lanes > 0 {
		return r
	}
	return nil
}

// Tiles reports whether products are computed by the arithmetic of AMX (tiles.go).
func (isa ISA) Tiles() bool { return isa >= named }

// Emulated reports whether plain Go computes what the instructions of the class do. No machine chooses
// that unless it is named.
func (isa ISA) Emulated() bool { return isa == AMXEmulated || isa == AMX3Emulated }

// Named lists the instruction sets that this machine can run beside those of [Available], and that it uses
// only where they are named. The first call asks the system for the permission to use tiles.
func Named() []ISA {
	var list []ISA
	for isa := named; isa < isas; isa++ {
		if routines[isa].gemm != nil && (isa.Emulated() || tilesPermitted()) {
			list = append(list, isa)
		}
	}
	return list
}

// Available lists the instruction sets of float32 that this machine can run, plain Go first and the fastest
// last. [Named] lists those that are used only where a configuration names them.
func Available() []ISA {
	var list []ISA
	for isa := range named {
		// An instruction set without products cannot be run on this machine.
		if isa == Go || routines[isa].gemm != nil {
			list = append(list, isa)
		}
	}
	return list
}
