package kernel

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawn are an operation's sizes and values: the same for every instruction set.
type drawn struct {
	*rapid.T
	r    *rand.Rand
	kind int // of values
}

// The kinds of values: those of training, of any exponent, and what arithmetic is
// worst at.
const (
	ordinary = iota
	anyExponent
	special
)

func (d *drawn) size(name string, most int) int { return dimension(most).Draw(d.T, name) }

func (d *drawn) values(n int) []float32 {
	worst := []uint32{0, 1 << 31, 1, 1<<31 | 1, 0x7fffff, 0x800000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0x3f800000}
	x := fill(make([]float32, n), d.r)
	for i := range x {
		switch {
		case d.kind == anyExponent:
			x[i] = math.Float32frombits(d.r.Uint32())
		case d.kind == special && d.r.IntN(4) == 0:
			x[i] = math.Float32frombits(worst[d.r.IntN(len(worst))])
		}
	}
	return x
}

func (d *drawn) sums(n int) []int64 {
	x := make([]int64, n)
	for i := range x {
		x[i] = int64(d.r.Uint64())
	}
	return x
}

// bitsOf are the bits of several results. A NaN is a NaN: the model of a run that has one
// has diverged.
func bitsOf(results ...[]float32) (all []uint64) {
	for _, x := range results {
		for _, v := range x {
			if v != v {
				v = float32(math.NaN())
			}
			all = append(all, uint64(math.Float32bits(v)))
		}
	}
	return all
}

// passes is an operation on so many vectors of one length.
func passes(count int, run func(isa ISA, x [][]float32)) func(d *drawn) func(isa ISA) []uint64 {
	return func(d *drawn) func(isa ISA) []uint64 {
		n := 8 * d.size("groups of 8", 9)
		start := make([][]float32, count)
		for i := range start {
			start[i] = d.values(n)
		}
		return func(isa ISA) []uint64 {
			var x [][]float32
			for _, v := range start {
				x = append(x, slices.Clone(v))
			}
			run(isa, x)
			return bitsOf(x...)
		}
	}
}

// operations draw the operands of every routine and return how an instruction set
// runs it on them.
var operations = map[string]func(d *drawn) func(isa ISA) []uint64{
	"gemm": func(d *drawn) func(isa ISA) []uint64 {
		m, n, k := d.size("m", 70), d.size("n", 70), d.size("k", 70)
		op := Op(rapid.IntRange(int(Store), int(ReLUGrad)).Draw(d.T, "op"))
		ldb, ldc := n+d.r.IntN(4), n+d.r.IntN(4)
		alpha := rapid.SampledFrom([]float32{1, -0.3}).Draw(d.T, "alpha")
		segments := []Segment{{}}
		for range rapid.IntRange(0, 3).Draw(d.T, "segments") {
			segments = append(segments, Segment{d.r.IntN(40), d.r.IntN(40)})
		}
		a := Operand{d.values(40 + m*k), k, 1}
		if rapid.Bool().Draw(d.T, "transposed") {
			a.Row, a.Col = 1, m
		}
		b, aux, start := Matrix{d.values(40 + k*ldb), ldb}, d.values(m*ldc), d.values(m*ldc)
		rows, halves := rapid.Bool().Draw(d.T, "along rows"), rapid.Bool().Draw(d.T, "in halves")
		return func(isa ISA) []uint64 {
			defer walk(rows, halves)()
			c := slices.Clone(start)
			isa.GemmSum(m, n, k, segments, a, b, Matrix{c, ldc}, op, aux, alpha)
			return bitsOf(c)
		}
	},
	"transpose": func(d *drawn) func(isa ISA) []uint64 {
		rows, cols := d.size("rows", 70), d.size("cols", 70)
		x := d.values(rows * cols)
		return func(isa ISA) []uint64 {
			y := make([]float32, rows*cols)
			isa.Transpose(Matrix{y, rows}, Matrix{x, cols}, rows, cols)
			return bitsOf(y)
		}
	},
	"lookup": func(d *drawn) func(isa ISA) []uint64 {
		table, src := [256]float32(d.values(256)), make([]byte, d.size("n", 70))
		for i := range src {
			src[i] = byte(d.r.Uint32())
		}
		return func(isa ISA) []uint64 {
			y := make([]float32, len(src))
			isa.Lookup(y, src, &table)
			return bitsOf(y)
		}
	},
	"softmax": func(d *drawn) func(isa ISA) []uint64 {
		rows, n := d.size("rows", 70), rapid.IntRange(1, Lanes).Draw(d.T, "n")
		start, scale := d.values(rows*Lanes), 1/float32(d.r.IntN(40)+1)
		for i := range start {
			start[i] *= 30
		}
		return func(isa ISA) []uint64 {
			z := slices.Clone(start)
			var top, sum [Lanes]float32
			isa.Softmax(z, rows, n, scale, &top, &sum)
			return bitsOf(z, top[:], sum[:])
		}
	},
	"rowSums": func(d *drawn) func(isa ISA) []uint64 {
		rows, n := d.size("rows", 70), rapid.IntRange(1, Lanes).Draw(d.T, "n")
		op := rapid.SampledFrom([]Op{Store, Add}).Draw(d.T, "op")
		x, start := d.values(rows*Lanes), d.values(rows)
		return func(isa ISA) []uint64 {
			y := slices.Clone(start)
			isa.AddRowSums(y, x, n, op, -0.3)
			return bitsOf(y)
		}
	},
	"centre":          passes(4, func(isa ISA, x [][]float32) { isa.Centre(x[0], x[1], x[2], x[3]) }),
	"affine":          passes(4, func(isa ISA, x [][]float32) { isa.Affine(x[0], x[1], x[2], x[3], false) }),
	"affine and ReLU": passes(4, func(isa ISA, x [][]float32) { isa.Affine(x[0], x[1], x[2], x[3], true) }),
	"addDots":         passes(4, func(isa ISA, x [][]float32) { isa.AddDots(x[0], x[1], x[2], x[3]) }),
	"combine":         passes(6, func(isa ISA, x [][]float32) { isa.Combine(x[0], x[1], x[2], x[3], x[4], x[5]) }),
	"addReLU":         passes(2, func(isa ISA, x [][]float32) { isa.AddReLU(x[0], x[1]) }),
	"mask":            passes(2, func(isa ISA, x [][]float32) { isa.Mask(x[0], x[1]) }),
	"addScaled": func(d *drawn) func(isa ISA) []uint64 {
		n := d.size("n", 70)
		x, start := d.values(n), d.values(n)
		return func(isa ISA) []uint64 {
			y := slices.Clone(start)
			isa.AddScaled(y, -0.3, x)
			return bitsOf(y)
		}
	},
	"addTransposed": func(d *drawn) func(isa ISA) []uint64 {
		rows, cols := d.size("rows", 40), d.size("columns", 40)
		start, values := d.sums(rows*cols), d.sums(rows*cols)
		return func(isa ISA) (all []uint64) {
			dst, src := slices.Clone(start), slices.Clone(values)
			isa.AddTransposed(Sums{dst, rows}, Sums{src, cols}, rows, cols)
			for _, v := range slices.Concat(dst, src) {
				all = append(all, uint64(v))
			}
			return all
		}
	},
	"addExact":         exact(ISA.AddExact),
	"addExactAndReset": exact(ISA.AddExactAndReset),
	"gruForward": func(d *drawn) func(isa ISA) []uint64 {
		n := Vector * rapid.IntRange(1, 9).Draw(d.T, "vectors")
		in, state, h := d.values(3*n), d.values(3*n), d.values(n)
		return func(isa ISA) []uint64 {
			saved := make([]float32, 5*n)
			isa.GRUForward(n, in, state, h, saved)
			return bitsOf(saved)
		}
	},
	"gruBackward": func(d *drawn) func(isa ISA) []uint64 {
		n := Vector * rapid.IntRange(1, 9).Draw(d.T, "vectors")
		start, saved, h := d.values(n), d.values(4*n), d.values(n)
		return func(isa ISA) []uint64 {
			dh, da := slices.Clone(start), make([]float32, 4*n)
			isa.GRUBackward(n, dh, saved, h, da)
			return bitsOf(dh, da)
		}
	},
	"maxPool": func(d *drawn) func(isa ISA) []uint64 {
		rows, samples := d.size("rows", 20), rapid.IntRange(1, Lanes).Draw(d.T, "samples")
		n := rows * Lanes
		x, ld := d.values(4*n), Lanes*(1+d.r.IntN(3))
		return func(isa ISA) []uint64 {
			y, code := make([]float32, rows*ld), make([]int32, rows*Lanes)
			isa.MaxPool(rows, samples, x, Lanes, n, 2*n, y, ld, code)
			var all []uint64
			for i := range rows {
				all = append(all, bitsOf(y[i*ld:][:samples])...)
				for _, c := range code[i*Lanes:][:samples] {
					all = append(all, uint64(c))
				}
			}
			return all
		}
	},
	"maxUnpool": func(d *drawn) func(isa ISA) []uint64 {
		rows, samples := d.size("rows", 20), rapid.IntRange(1, Lanes).Draw(d.T, "samples")
		n := rows * Lanes
		g, ld, code := d.values(rows*3*Lanes), Lanes*(1+d.r.IntN(3)), make([]int32, n)
		for i := range code {
			code[i] = d.r.Int32N(4)
		}
		return func(isa ISA) []uint64 {
			y := make([]float32, 4*n)
			isa.MaxUnpool(rows, samples, g, ld, code, y, n, 2*n)
			var all []uint64
			for row := range slices.Chunk(y, Lanes) {
				all = append(all, bitsOf(row[:samples])...)
			}
			return all
		}
	},
	"nonZeros": func(d *drawn) func(isa ISA) []uint64 {
		x := d.values(d.size("n", 70))
		return func(isa ISA) (all []uint64) {
			mask := make([]uint16, (len(x)+15)/16)
			isa.NonZeros(mask, x)
			for _, word := range mask {
				all = append(all, uint64(word))
			}
			return all
		}
	},
	"present": func(d *drawn) func(isa ISA) []uint64 {
		masks, words := drawMasks(d, 2)
		return func(isa ISA) (all []uint64) {
			list := make([]int32, 16*words+PackedRoom)
			for _, i := range list[:isa.Present(list, masks[:words], masks[words:])] {
				all = append(all, uint64(i))
			}
			return all
		}
	},
	"columns": func(d *drawn) func(isa ISA) []uint64 {
		samples := rapid.IntRange(1, Lanes).Draw(d.T, "samples")
		masks, words := drawMasks(d, samples)
		return func(isa ISA) (all []uint64) {
			list := make([]Column, 16*words+PackedRoom)
			for _, c := range list[:isa.ListColumns(list, masks, words, samples)] {
				all = append(all, uint64(c.Input), uint64(c.Samples))
			}
			return all
		}
	},
	"sumPair": func(d *drawn) func(isa ISA) []uint64 {
		m := drawMostlyZero(d, Vector)
		return func(isa ISA) []uint64 {
			y := make([]float32, 2*m.outputs)
			isa.SumPair(y[:m.outputs], y[m.outputs:], m.index, m.w, m.x.Data, m.x.Data[m.x.LD:], m.bias, m.relu)
			return bitsOf(y)
		}
	},
	"addColumns": func(d *drawn) func(isa ISA) []uint64 {
		m := drawMostlyZero(d, HalfVector)
		return func(isa ISA) []uint64 {
			w := Matrix{slices.Clone(m.w.Data), m.w.LD}
			isa.AddColumns(w, m.columns, m.x, m.dy, m.outputs, -0.3)
			return bitsOf(w.Data)
		}
	},
	"addColumnsExact": func(d *drawn) func(isa ISA) []uint64 {
		m := drawMostlyZero(d, HalfVector)
		base := d.values(len(m.w.Data))
		return func(isa ISA) (all []uint64) {
			sum := make([]int64, len(base))
			if !isa.AddColumnsExact(ExactTarget{base, sum, 0.3}, m.w, m.columns, m.x, m.dy, m.outputs, -0.3) {
				return nil // then the sum is undefined
			}
			for _, v := range sum {
				all = append(all, uint64(v))
			}
			return all
		}
	},
}

func exact(add func(isa ISA, sum []int64, w float64, x, base []float32) int) func(d *drawn) func(isa ISA) []uint64 {
	return func(d *drawn) func(isa ISA) []uint64 {
		n, w := d.size("n", 70), 2*d.r.Float64()-1
		x, base := d.values(n), d.values(n)
		return func(isa ISA) (all []uint64) {
			sum, left := make([]int64, n), slices.Clone(x)
			bad := add(isa, sum, w, left, base)
			if bad >= 0 { // then the sum is undefined
				return append(bitsOf(left), uint64(bad))
			}
			for _, v := range sum {
				all = append(all, uint64(v))
			}
			return append(all, bitsOf(left)...)
		}
	}
}

// The instruction sets of a class give the same bits in every routine, for any sizes
// and any values.
func TestKernel_SameBitsInClass(t *testing.T) {
	routines := reflect.TypeFor[routine]()
	for i := range routines.NumField() {
		switch name := routines.Field(i).Name; name {
		case "lanes", "prefetch", "copyPieces": // compute nothing
		case "denseSteps": // TestDenseStep_EqualsGemm
		default:
			if operations[name] == nil {
				t.Errorf("nothing compares routine %s", name)
			}
		}
	}
	byClass := map[string][]ISA{}
	for _, isa := range slices.Concat(Available(), Named()) {
		byClass[isa.Class()] = append(byClass[isa.Class()], isa)
	}
	compared := false
	for class, list := range byClass {
		if len(list) == 1 {
			continue
		}
		compared = true
		for name, operation := range operations {
			t.Run(class+"/"+name, func(t *testing.T) {
				rapid.Check(t, func(rt *rapid.T) {
					d := &drawn{T: rt, r: rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))}
					d.kind = rapid.IntRange(ordinary, special).Draw(rt, "values")
					run := operation(d)
					want := run(list[0])
					for _, isa := range list[1:] {
						if got := run(isa); !slices.Equal(got, want) {
							rt.Fatalf("%v gives %x, %v %x", isa, got, list[0], want)
						}
					}
				})
			})
		}
	}
	if !compared {
		t.Skip("this machine has one instruction set of each class")
	}
}
