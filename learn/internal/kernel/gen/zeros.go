package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// mostVectors returns how many vectors of outputs the kernels for mostly zero inputs keep in registers, for
// two samples at once: 2·13 sums of 32 registers with AVX-512, and 2·6 of 16 with AVX2.
func mostVectors(s simd) int {
	if s.wide() {
		return 13
	}
	return 6
}

// nonZeros writes the kernel of NonZeros, which looks at 16 values at a time and stores a mask of 16 bits for
// them.
func nonZeros(s simd) {
	function("nonZeros"+s.name, "func(bits *uint16, x *float32, groups int)",
		" says which values of groups of 16 are not 0; see NonZeros.")
	bits := load("bits")
	x := load("x")
	groups := load("groups")
	mask := GP32()
	zero := YMM()
	s.zero(zero)
	Label("group")
	if s.masks {
		value := ZMM()
		found := K()
		VMOVUPS(Mem{Base: x}, value)
		VPTESTMD(value, value, found)
		KMOVW(found, mask)
	} else {
		high := GP32()
		low := YMM()
		up := YMM()
		VPCMPEQD(Mem{Base: x}, zero, low)
		VPCMPEQD(Mem{Base: x, Disp: 32}, zero, up)
		VMOVMSKPS(low, mask)
		VMOVMSKPS(up, high)
		SHLL(Imm(8), high)
		ORL(high, mask)
		// The comparison has found the zeros.
		NOTL(mask)
	}
	MOVW(mask.As16(), Mem{Base: bits})
	advance(64, x)
	advance(2, bits)
	repeat("group", groups)
	done()
}

// sumPair writes the kernel of SumPair for a number of vectors of outputs. The sums of both samples stay
// in registers, and each vector of weights is loaded once for both.
func sumPair(s simd, vectors int) {
	function(fmt.Sprintf("sumPair%sx%d", s.name, vectors),
		"func(n int, index *int32, w *float32, ldw int, x0, x1, y0, y1, bias *float32, relu bool)",
		" is SumPair for vectors of outputs; strides are in bytes.")
	n := load("n")
	index := load("index")
	w := load("w")
	ldw := load("ldw")
	x := []reg.GPVirtual{load("x0"), load("x1")}
	sum := make([][2]reg.VecVirtual, vectors)
	for v := range sum {
		for i := range sum[v] {
			sum[v][i] = s.vec()
			s.zero(sum[v][i])
		}
	}
	// A pair of samples may have no input but zeros.
	TESTQ(n, n)
	JEQ(LabelRef("end"))
	Label("input")
	f := GP64()
	MOVLQSX(Mem{Base: index}, f)
	value := [2]reg.VecVirtual{s.vec(), s.vec()}
	for i := range value {
		VBROADCASTSS(Mem{Base: x[i], Index: f, Scale: 4}, value[i])
	}
	IMULQ(ldw, f)
	ADDQ(w, f)
	weight := s.vec()
	for v := range sum {
		VMOVUPS(Mem{Base: f, Disp: v * s.bytes}, weight)
		for i := range value {
			VFMADD231PS(weight, value[i], sum[v][i])
		}
	}
	advance(4, index)
	repeat("input", n)

	Label("end")
	bias := load("bias")
	for v := range sum {
		VMOVUPS(Mem{Base: bias, Disp: v * s.bytes}, weight)
		for i := range value {
			VADDPS(weight, sum[v][i], sum[v][i])
		}
	}
	relu := GP8()
	Load(Param("relu"), relu)
	CMPB(relu, Imm(0))
	JEQ(LabelRef("store"))
	zero := weight
	s.zero(zero)
	for v := range sum {
		for i := range value {
			// Of two operands of which one is NaN, the first written here stays.
			VMAXPS(sum[v][i], zero, sum[v][i])
		}
	}
	Label("store")
	y := []reg.GPVirtual{load("y0"), load("y1")}
	for v := range sum {
		for i := range value {
			VMOVUPS(sum[v][i], Mem{Base: y[i], Disp: v * s.bytes})
		}
	}
	done()
}

// columnWalk holds the registers of a kernel that walks through columns (see kernel.Column), one after the other.
type columnWalk struct {
	s simd
	// n counts the columns that are left, and column points to the present one.
	n, column reg.GPVirtual
	// x and dy point to the first sample's inputs and gradients. ldx and lddy are the bytes from one sample to
	// the next.
	x, ldx, dy, lddy reg.GPVirtual
	// row is how far the weights of the present column's input lie behind the first weight, in bytes.
	row   reg.GPVirtual
	alpha reg.VecVirtual
	// gradient holds the gradient of the present column, a vector of outputs in each register.
	gradient []reg.VecVirtual
}

// columnArguments are the arguments of a kernel that walks through columns.
const columnArguments = "n int, column *int32, x *float32, ldx int, dy *float32, lddy int, alpha float32, " +
	"w *float32, ldw int"

// newColumnWalk writes how a kernel that walks through columns loads its arguments, which have the names of the fields
// of columnWalk, and returns their registers. There is a register for the gradient of each of this many vectors of
// outputs.
func newColumnWalk(s simd, vectors int) *columnWalk {
	walk := &columnWalk{
		s:      s,
		n:      load("n"),
		column: load("column"),
		x:      load("x"),
		ldx:    load("ldx"),
		dy:     load("dy"),
		lddy:   load("lddy"),
		row:    GP64(),
		alpha:  s.vec(),
	}
	VBROADCASTSS(argument("alpha"), walk.alpha)
	for range vectors {
		walk.gradient = append(walk.gradient, s.vec())
	}
	return walk
}

// sumSamples begins the walk through a column at the label "column". It computes the gradient of the column's
// weights, which stays in registers while the samples that have the input are walked through.
func (walk *columnWalk) sumSamples() {
	Label("column")
	input := GP64()
	samples := GP64()
	// A kernel.Column has the number of its input in four bytes, and a bit for each sample in the next four.
	MOVLQSX(Mem{Base: walk.column}, input)
	MOVL(Mem{Base: walk.column, Disp: 4}, samples.As32())
	MOVQ(input, walk.row)
	IMULQ(argument("ldw"), walk.row)
	// From here on input is the address of the input of the first sample.
	LEAQ(Mem{Base: walk.x, Index: input, Scale: 4}, input)
	for _, v := range walk.gradient {
		walk.s.zero(v)
	}
	Label("sample")
	sample := GP64()
	gradient := GP64()
	value := walk.s.vec()
	// The sample is the lowest bit that is set. Its value of the input is at input + sample·ldx, and its gradients
	// are at dy + sample·lddy.
	BSFQ(samples, sample)
	MOVQ(sample, gradient)
	IMULQ(walk.lddy, gradient)
	IMULQ(walk.ldx, sample)
	VBROADCASTSS(Mem{Base: input, Index: sample, Scale: 1}, value)
	ADDQ(walk.dy, gradient)
	for v := range walk.gradient {
		VFMADD231PS(Mem{Base: gradient, Disp: v * walk.s.bytes}, value, walk.gradient[v])
	}
	// The lowest bit that is set is taken away.
	less := GP64()
	LEAQ(Mem{Base: samples, Disp: -1}, less)
	ANDQ(less, samples)
	JNZ(LabelRef("sample"))
}

// next ends the walk through a column, and goes back for the next one.
func (walk *columnWalk) next() {
	advance(8, walk.column)
	repeat("column", walk.n)
}

// addColumns writes the kernel of AddColumns for outputs that fill this number of vectors. For each column it
// computes weight + alpha·gradient and stores that in the place of the weight.
func addColumns(s simd, vectors int) {
	function(fmt.Sprintf("addColumns%sx%d", s.name, vectors), "func("+columnArguments+")",
		" is AddColumns for vectors of outputs; strides are in bytes.")
	walk := newColumnWalk(s, vectors)
	w := load("w")
	walk.sumSamples()
	// From here on row is the address of the weights.
	ADDQ(w, walk.row)
	for v, gradient := range walk.gradient {
		weights := Mem{Base: walk.row, Disp: v * s.bytes}
		// gradient = alpha·gradient + weights
		VFMADD213PS(weights, walk.alpha, gradient)
		VMOVUPS(gradient, weights)
	}
	walk.next()
	done()
}

// addColumnsExact writes the kernel of AddColumnsExact for a number of vectors of outputs. As that of AddExact
// does, it looks at all differences of a column before it adds one, and stops before a column of which one may
// be 2 or more in magnitude.
func addColumnsExact(s simd, vectors int) {
	name := fmt.Sprintf("addColumnsExact%sx%d", s.name, vectors)
	function(name, "func("+columnArguments+", base *float32, sum *int64, weight float64) int",
		" is AddColumnsExact for vectors of outputs, and returns how many columns are left; strides are in bytes.")
	walk := newColumnWalk(s, vectors)
	terms := newExactTerms(s, argument("weight"))
	walk.sumSamples()
	w := load("w")
	base := load("base")
	sum := load("sum")
	ADDQ(walk.row, w)
	ADDQ(walk.row, base)
	// A sum has twice the bytes of its weight.
	LEAQ(Mem{Base: sum, Index: walk.row, Scale: 2}, sum)
	large := s.vec()
	for v, weights := range walk.gradient {
		// The gradient becomes the weights after the step.
		VFMADD213PS(Mem{Base: w, Disp: v * s.bytes}, walk.alpha, weights)
		difference := s.vec()
		VSUBPS(Mem{Base: base, Disp: v * s.bytes}, weights, difference)
		if v == 0 {
			large = difference
		} else {
			VORPS(difference, large, large)
		}
	}
	terms.jumpIfLarge(large, "end")
	for v, weights := range walk.gradient {
		for part := range 2 {
			half := weights
			if part == 1 {
				half = upperHalf(s, weights)
			}
			d := s.vec()
			VCVTPS2PD(lowerHalf(s, half), d)
			disp := (2*v + part) * s.bytes
			terms.add(d, Mem{Base: base, Disp: disp / 2}, Mem{Base: sum, Disp: disp})
		}
	}
	walk.next()
	Label("end")
	Store(walk.n, ReturnIndex(0))
	done()
}

// upperHalf returns a register whose lower half is the upper half of v.
func upperHalf(s simd, v reg.VecVirtual) reg.VecVirtual {
	upper := s.vec()
	if s.wide() {
		VEXTRACTF32X8(Imm(1), v, upper.AsY())
	} else {
		VEXTRACTF128(Imm(1), v, upper.AsX())
	}
	return upper
}

// lowerHalf returns the lower half of a register.
func lowerHalf(s simd, v reg.VecVirtual) reg.Register {
	if s.wide() {
		return v.AsY()
	}
	return v.AsX()
}

// words16 returns 64 bytes of the program's data that hold the values of f at 0 to 15.
func words16(name string, f func(i int) int) Mem {
	m := GLOBL(name, 8|16) // RODATA|NOPTR
	for i := range 16 {
		DATA(4*i, U32(f(i)))
	}
	return m
}

// present writes the kernel of Present for AVX-512, which packs the numbers of the bits that are set.
func present() {
	function("present512", "func(list *int32, first, second *uint16, words int) (n int)",
		" lists the bits that are set in one of two masks; see Present. It writes 16 numbers a word, of which "+
			"the next word's take the place of those that do not count.")
	list := load("list")
	first := load("first")
	second := load("second")
	words := load("words")
	number := ZMM()
	step := ZMM()
	VMOVDQU32(words16("numbers", func(i int) int { return i }), number)
	VMOVDQU32(bits(16), step)
	Label("word")
	either := GP32()
	other := GP32()
	MOVWLZX(Mem{Base: first}, either)
	MOVWLZX(Mem{Base: second}, other)
	ORL(other, either)
	chosen := K()
	packed := ZMM()
	KMOVW(either, chosen)
	VPCOMPRESSD_Z(number, chosen, packed)
	VMOVDQU32(packed, Mem{Base: list})
	count := GP64()
	POPCNTL(either, count.As32())
	LEAQ(Mem{Base: list, Index: count, Scale: 4}, list)
	VPADDD(step, number, number)
	advance(2, first, second)
	repeat("word", words)
	SUBQ(argument("list"), list)
	SHRQ(Imm(2), list)
	Store(list, ReturnIndex(0))
	done()
}

// columns writes the kernel of ListColumns for AVX-512: for 16 inputs at once, the bit of each sample is
// set where the sample's mask has the input.
func columns() {
	function("columns512", "func(list *int32, mask *uint16, words, samples int) (n int)",
		" lists the inputs of masks with the samples that have each; see ListColumns. It writes 16 columns a "+
			"word, of which the next word's take the place of those that do not count.")
	list := load("list")
	mask := load("mask")
	words := load("words")
	number := ZMM()
	step := ZMM()
	low := ZMM()
	high := ZMM()
	VMOVDQU32(words16("columnNumbers", func(i int) int { return i }), number)
	VMOVDQU32(bits(16), step)
	// Numbers and sets of samples are interleaved: those of the first eight columns, and of the others.
	VMOVDQU32(words16("columnsLow", func(i int) int { return i/2 + i%2*16 }), low)
	VMOVDQU32(words16("columnsHigh", func(i int) int { return 8 + i/2 + i%2*16 }), high)
	row := GP64()
	MOVQ(words, row)
	ADDQ(row, row)
	left := GP64()
	MOVQ(words, left)
	Label("word")
	set := ZMM()
	bit := ZMM()
	VPXORD(set, set, set)
	VMOVDQU32(bits(1), bit)
	p := GP64()
	samples := load("samples")
	MOVQ(mask, p)
	Label("sample")
	has := K()
	KMOVW(Mem{Base: p}, has)
	VPORD(bit, set, has, set)
	VPADDD(bit, bit, bit)
	ADDQ(row, p)
	repeat("sample", samples)
	hasAny := K()
	VPTESTMD(set, set, hasAny)
	inputs := ZMM()
	VPCOMPRESSD_Z(number, hasAny, inputs)
	VPCOMPRESSD_Z(set, hasAny, set)
	first := ZMM()
	VMOVDQA32(low, first)
	VPERMI2D(set, inputs, first)
	VMOVDQU32(first, Mem{Base: list})
	second := ZMM()
	VMOVDQA32(high, second)
	VPERMI2D(set, inputs, second)
	VMOVDQU32(second, Mem{Base: list, Disp: 64})
	count := GP32()
	KMOVW(hasAny, count)
	POPCNTL(count, count)
	LEAQ(Mem{Base: list, Index: count.As64(), Scale: 8}, list)
	VPADDD(step, number, number)
	advance(2, mask)
	repeat("word", left)
	SUBQ(argument("list"), list)
	SHRQ(Imm(3), list)
	Store(list, ReturnIndex(0))
	done()
}
