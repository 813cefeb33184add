package kernel

import (
	"iter"
	"math"
	"math/bits"
	"slices"
)

// Column is an input that some samples of a block have: its number, and a bit for each such sample.
type Column struct {
	Input   int32
	Samples uint32
}

// Arranges reports whether SumPair and AddColumns give the bits of Gemm with these instructions.
func (isa ISA) Arranges() bool { return isa == Go || isa.vectors() != nil && !isa.Tiles() }

// Padded rounds a number of outputs up to what SumPair and AddColumns take: whole vectors.
func Padded(outputs int) int { return (outputs + Vector - 1) &^ (Vector - 1) }

// divideVectors yields parts of n vectors, of nearly equal size and of at most maxSize vectors each: each
// part is from its first index to before its second.
func divideVectors(n, maxSize int) iter.Seq2[int, int] {
	return func(yield func(start, end int) bool) {
		count := (n + maxSize - 1) / maxSize
		for i := range count {
			if !yield(i*n/count, (i+1)*n/count) {
				return
			}
		}
	}
}

// HalfVector is the granularity in outputs of AddColumns and AddColumnsExact.
const HalfVector = 8

// columnPart is a part of a column that one call of a kernel computes: some vectors of a routine, from output first
// on.
type columnPart struct {
	routine        *routine
	first, vectors int
}

// width returns the number of outputs.
func (p columnPart) width() int { return p.vectors * p.routine.lanes }

// columnParts divides a column, the weights of one input to all outputs, into the parts that one call of a kernel
// computes. The kernel addColumns[n-1] of a routine takes n vectors. The number of outputs is a multiple of
// HalfVector; half a vector of AVX-512 at the end is a vector of AVX2, whose kernels give the same bits. The
// instruction set must have everything in assembly.
func (isa ISA) columnParts(outputs int) iter.Seq[columnPart] {
	return func(yield func(columnPart) bool) {
		routine := isa.vectors()
		whole := outputs / routine.lanes
		maxVectors := len(routine.addColumns)
		for start, end := range divideVectors(whole, maxVectors) {
			if !yield(columnPart{routine, start * routine.lanes, end - start}) {
				return
			}
		}
		if done := whole * routine.lanes; done < outputs {
			yield(columnPart{&routines[AVX2], done, 1})
		}
	}
}

// NonZeros sets bit i of the words in mask where x[i] is not 0, and clears it elsewhere. A negative zero
// counts as not 0. mask has a bit for each value, at least.
func (isa ISA) NonZeros(mask []uint16, x []float32) {
	groups := len(x) / 16
	_ = mask[(len(x)+15)/16-1]
	if v := isa.vectors(); v != nil && groups > 0 {
		v.nonZeros(&mask[0], &x[0], groups)
		nonZerosGo(mask[groups:], x[16*groups:])
		return
	}
	nonZerosGo(mask, x)
}

// nonZerosGo is [ISA.NonZeros] in plain Go: a word of mask for 16 values, with the first one in the lowest bit. It
// tests the bits of a value, so that a negative zero is not 0.
func nonZerosGo(mask []uint16, x []float32) {
	for first := 0; first < len(x); first += 16 {
		word := uint16(0)
		for i, v := range x[first:min(first+16, len(x))] {
			if math.Float32bits(v) != 0 {
				word |= 1 << i
			}
		}
		mask[first/16] = word
	}
}

// PackedRoom is how many elements behind its last one a list of Present or ListColumns has room for.
const PackedRoom = 16

// Present writes to list, in ascending order, the numbers of the bits that are set in at least one of two
// masks of equal length, and returns how many there are. list has room for them and for PackedRoom more.
func (isa ISA) Present(list []int32, first, second []uint16) (n int) {
	_ = second[len(first)-1]
	if v := isa.vectors(); v != nil && v.present != nil {
		_ = list[16*len(first)+PackedRoom-1]
		return v.present(&list[0], &first[0], &second[0], len(first))
	}
	for i, word := range first {
		for left := word | second[i]; left != 0; left &= left - 1 {
			list[n] = int32(16*i + bits.TrailingZeros16(left))
			n++
		}
	}
	return n
}

// ListColumns writes to list, in ascending order, the inputs that are not 0 in some of up to 32 samples,
// each with these samples, and returns how many there are. mask has wordCount words of 16 bits for each sample, with a
// bit for each input. list has room for a column for each bit of a sample's words, and for PackedRoom more.
func (isa ISA) ListColumns(list []Column, mask []uint16, wordCount, samples int) (n int) {
	_ = mask[wordCount*samples-1]
	if v := isa.vectors(); v != nil && v.columns != nil {
		_ = list[16*wordCount+PackedRoom-1]
		return v.columns(&list[0].Input, &mask[0], wordCount, samples)
	}
	for i := range wordCount {
		// Every sample adds its bit to the inputs of the word that it has.
		var sets [16]uint32
		for s := range samples {
			for left := mask[s*wordCount+i]; left != 0; left &= left - 1 {
				sets[bits.TrailingZeros16(left)] |= 1 << s
			}
		}
		for input, set := range sets {
			if set != 0 {
				list[n] = Column{int32(16*i + input), set}
				n++
			}
		}
	}
	return n
}

// SumPair computes the outputs y0 and y1 of a dense layer for two samples, x0 and x1, of which only the
// inputs in index count, which must ascend: all others are 0 in both. w has a row for each input, with a
// weight for each output. The bias is added to the sum and, if relu is set, what is below 0 becomes 0.
//
// Every output is the sum of its inputs in order from zero, as in Gemm, which adds a product with 0 for
// each input that is left out here: no sum of finite numbers changes by that. y0, y1 and bias have one
// length, a multiple of 16.
func (isa ISA) SumPair(y0, y1 []float32, index []int32, w Matrix, x0, x1, bias []float32, relu bool) {
	outputs := len(y0)
	if len(y1) != outputs || len(bias) != outputs || outputs == 0 || outputs%Vector != 0 {
		panic("kernel: SumPair of slices of different lengths, or of no whole vectors")
	}
	routine := isa.vectors()
	if routine == nil {
		sumGo(y0, index, w, x0, bias, relu)
		sumGo(y1, index, w, x1, bias, relu)
		return
	}
	// Assembly checks no bounds. The last index is the largest, and a negative one becomes too large.
	first := (*int32)(nil)
	if n := len(index); n > 0 {
		last := uint(uint32(index[n-1]))
		_ = w.Data[last*uint(w.LD):][outputs-1]
		_ = x0[last]
		_ = x1[last]
		first = &index[0]
	}
	// sumPair has a kernel for each number of vectors, from 1 on. One call computes the vectors from start to before
	// end, and so the outputs from number o on.
	for start, end := range divideVectors(outputs/routine.lanes, len(routine.sumPair)) {
		o := start * routine.lanes
		vectors := end - start
		routine.sumPair[vectors-1](
			len(index),
			first,
			&w.Data[o],
			4*w.LD,
			&x0[0],
			&x1[0],
			&y0[o],
			&y1[o],
			&bias[o],
			relu,
		)
	}
}

// sumGo computes the outputs y of one sample of SumPair in plain Go. Every product is rounded before it
// is added.
func sumGo(y []float32, index []int32, w Matrix, x, bias []float32, hasReLU bool) {
	clear(y)
	for _, f := range index {
		value := x[f]
		for i, weight := range w.Data[int(f)*w.LD:][:len(y)] {
			y[i] += float32(value * weight)
		}
	}
	for i, b := range bias {
		y[i] += b
		if hasReLU {
			y[i] = relu(y[i])
		}
	}
}

// AddColumns adds alpha times the gradient of a dense layer's weights to w, where most inputs are 0. w has a row
// for each input, with a weight for each output. Only the rows of the inputs that columns lists are read and
// written; the weights of all other inputs have no gradient. The inputs of columns must ascend, and each must have
// at least one sample. x has a row of inputs for each sample, and dy a row of the gradients of outputs, whose
// number is a multiple of HalfVector.
//
// A gradient is the sum over its column's samples in order. It has the bits of that of Gemm, which adds a product
// with 0 for each other sample.
func (isa ISA) AddColumns(w Matrix, columns []Column, x, dy Matrix, outputs int, alpha float32) {
	if len(columns) == 0 {
		return
	}
	if outputs <= 0 || outputs%HalfVector != 0 {
		panic("kernel: AddColumns of no whole half vectors")
	}
	if isa.vectors() == nil {
		addColumnsGo(w, columns, x, dy, outputs, alpha)
		return
	}
	checkColumns(w, columns, x, dy, outputs)
	for part := range isa.columnParts(outputs) {
		add := part.routine.addColumns[part.vectors-1]
		add(len(columns), &columns[0].Input, &x.Data[0], 4*x.LD, &dy.Data[part.first], 4*dy.LD, alpha,
			&w.Data[part.first], 4*w.LD)
	}
}

// checkColumns panics if AddColumns would read or write beyond the end of an operand: assembly checks no
// bounds. The last column is the largest, and some column has the last sample.
func checkColumns(w Matrix, columns []Column, x, dy Matrix, outputs int) {
	last := uint(uint32(columns[len(columns)-1].Input))
	samples := uint32(0)
	for _, c := range columns {
		samples |= c.Samples
	}
	sample := uint(31 - bits.LeadingZeros32(samples))
	_ = w.Data[last*uint(w.LD):][outputs-1]
	_ = x.Data[sample*uint(x.LD)+last]
	_ = dy.Data[sample*uint(dy.LD):][outputs-1]
}

// addColumnsGo is [ISA.AddColumns] in plain Go: it adds alpha times the gradient of the weights to w, of which it
// changes only the rows of the inputs in columns. Every product is rounded before it is added.
func addColumnsGo(w Matrix, columns []Column, x, dy Matrix, outputs int, alpha float32) {
	var gradient [HalfVector]float32
	for _, c := range columns {
		row := w.Data[int(c.Input)*w.LD:][:outputs]
		for first := 0; first < outputs; first += HalfVector {
			clear(gradient[:])
			// Each bit that is set in c.Samples is a sample in which the input is not 0.
			for left := c.Samples; left != 0; left &= left - 1 {
				s := bits.TrailingZeros32(left)
				value := x.Data[s*x.LD+int(c.Input)]
				for i, d := range dy.Data[s*dy.LD+first:][:HalfVector] {
					gradient[i] += float32(value * d)
				}
			}
			for i, g := range gradient {
				row[first+i] += float32(alpha * g)
			}
		}
	}
}

// ExactTarget is the sum to which AddColumnsExact adds, with what it needs for that. Base and Sum lie as the
// weights do, row by row in as many values.
type ExactTarget struct {
	// Base is the model from which a client's update is the difference.
	Base []float32
	// Sum is the exact sum of updates, and Weight the factor of the client's.
	Sum    []int64
	Weight float64
}

// AddColumnsExact takes the place of AddColumns in the last step of a client. It adds the client's update, the
// difference between the weights after that step and to.Base, to to.Sum, as AddExact does. The weights w are only
// read. Only the rows of the inputs of columns are added. It returns false, and leaves the sum undefined, if a
// difference is not finite or too large.
func (isa ISA) AddColumnsExact(
	to ExactTarget,
	w Matrix,
	columns []Column,
	x, dy Matrix,
	outputs int,
	alpha float32,
) bool {
	if len(columns) == 0 {
		return true
	}
	if outputs <= 0 || outputs%HalfVector != 0 {
		panic("kernel: AddColumnsExact of no whole half vectors")
	}
	if len(to.Base) != len(w.Data) || len(to.Sum) != len(w.Data) {
		panic("kernel: AddColumnsExact with a base or a sum of another length than the weights")
	}
	if isa.vectors() == nil {
		return addColumnsExactGo(to, w, columns, x, dy, outputs, alpha)
	}
	checkColumns(w, columns, x, dy, outputs)
	for part := range isa.columnParts(outputs) {
		if !part.addExact(isa, to, w, columns, x, Matrix{dy.Data[part.first:], dy.LD}, alpha) {
			return false
		}
	}
	return true
}

// addExact is AddColumnsExact for those outputs that the part has. dy begins with the part's first output. The part's
// routine has assembly for each number of vectors.
func (p columnPart) addExact(isa ISA, to ExactTarget, w Matrix, columns []Column, x, dy Matrix, alpha float32) bool {
	add := p.routine.addColumns[p.vectors-1]
	addExact := p.routine.addColumnsExact[p.vectors-1]
	// The sums count units of 1/exactUnit.
	weight := to.Weight * exactUnit
	for len(columns) > 0 {
		// left is the number of columns that the assembly has not added, 0 unless it has stopped early.
		left := addExact(len(columns), &columns[0].Input, &x.Data[0], 4*x.LD, &dy.Data[0], 4*dy.LD, alpha,
			&w.Data[p.first], 4*w.LD, &to.Base[p.first], &to.Sum[p.first], weight)
		if left == 0 {
			return true
		}
		// The assembly has stopped before a column with a large difference, of which a copy takes the step. With a
		// stride of 0 the copy is the row of every input.
		columns = columns[len(columns)-left:]
		row := int(columns[0].Input)*w.LD + p.first
		stepped := slices.Clone(w.Data[row:][:p.width()])
		add(1, &columns[0].Input, &x.Data[0], 4*x.LD, &dy.Data[0], 4*dy.LD, alpha, &stepped[0], 0)
		if !to.addRow(isa, row, stepped) {
			return false
		}
		columns = columns[1:]
	}
	return true
}

// addColumnsExactGo is [ISA.AddColumnsExact] in plain Go: for each column the step is taken on a copy of the input's
// row of weights, and the difference of the copy from the base is added to the sum. It returns false if a difference
// cannot be added.
func addColumnsExactGo(to ExactTarget, w Matrix, columns []Column, x, dy Matrix, outputs int, alpha float32) bool {
	stepped := make([]float32, outputs)
	for i, c := range columns {
		row := int(c.Input) * w.LD
		copy(stepped, w.Data[row:])
		// With a stride of 0 the copy is the row of every input.
		addColumnsGo(Matrix{stepped, 0}, columns[i:i+1], x, dy, outputs, alpha)
		if !to.addRow(Go, row, stepped) {
			return false
		}
	}
	return true
}

// addRow adds the update of a part of a row, which begins at index first: the difference of the values from the
// base. It returns false if that is not finite or too large for the sum.
func (to ExactTarget) addRow(isa ISA, first int, values []float32) bool {
	n := len(values)
	return isa.AddExact(to.Sum[first:][:n], to.Weight, values, to.Base[first:][:n]) < 0
}
