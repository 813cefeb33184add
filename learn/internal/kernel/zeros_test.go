package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// mostlyZero are the operands of a dense layer whose inputs are mostly 0.
type mostlyZero struct {
	inputs, outputs, samples int
	// x has a row of inputs for each sample, w a row of weights for each input, and dy one of gradients for
	// each sample.
	x, w, dy Matrix
	bias     []float32
	relu     bool
	// index lists the inputs that one of the first two samples has.
	index   []int32
	columns []Column
}

// drawMostlyZero draws the operands of two to 32 samples, whose outputs are a multiple of unit.
func drawMostlyZero(d *drawn, unit int) *mostlyZero {
	m := &mostlyZero{
		inputs:  d.size("inputs", 70),
		outputs: unit * rapid.IntRange(1, 480/unit).Draw(d.T, "outputs"),
		samples: rapid.IntRange(2, Lanes).Draw(d.T, "samples"),
		relu:    rapid.Bool().Draw(d.T, "relu"),
	}
	ld := m.outputs + d.r.IntN(4)
	m.x = Matrix{d.values(m.samples * m.inputs), m.inputs}
	m.w = Matrix{d.values(m.inputs * ld), ld}
	m.dy = Matrix{d.values(m.samples * ld), ld}
	m.bias = d.values(m.outputs)
	percent := rapid.SampledFrom([]int{0, 10, 60, 100}).Draw(d.T, "percent of values that are not 0")
	for i := range m.inputs {
		c := Column{Input: int32(i)}
		for s := range m.samples {
			if d.r.IntN(100) >= percent {
				m.x.Data[s*m.inputs+i] = 0
				continue
			}
			c.Samples |= 1 << s
		}
		if c.Samples != 0 {
			m.columns = append(m.columns, c)
		}
		if c.Samples&3 != 0 {
			m.index = append(m.index, c.Input)
		}
	}
	return m
}

// drawMasks draws masks of words words each, of which few bits, half or all are set.
func drawMasks(d *drawn, count int) (masks []uint16, words int) {
	words = d.size("words", 60)
	kind := rapid.IntRange(0, 3).Draw(d.T, "bits that are set")
	for range count * words {
		word := uint16(d.r.Uint32())
		switch kind {
		case 0:
			word = 0
		case 1:
			// A bit is set if it is in three draws: one of eight is.
			word &= uint16(d.r.Uint32())
			word &= uint16(d.r.Uint32())
		case 3:
			word = 1<<16 - 1
		}
		masks = append(masks, word)
	}
	return masks, words
}

// within returns a copy of a matrix that ends where no more may be read or written.
func within(t testing.TB, m Matrix) Matrix {
	data := guarded[float32](t, len(m.Data), false)
	copy(data, m.Data)
	return Matrix{data, m.LD}
}

// Without the inputs that are 0 the sums of two samples have the bits of the whole product.
func TestSumPair_EqualsGemm(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := drawMostlyZero(&drawn{T: rt, r: rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))}, Vector)
		scoped(t, func(t testing.TB) {
			w, x := within(t, m.w), within(t, Matrix{m.x.Data[:2*m.inputs], m.inputs})
			for _, c := range Available() {
				if !c.Arranges() {
					continue
				}
				y := within(t, Matrix{make([]float32, 2*m.outputs), m.outputs})
				c.SumPair(y.Data[:m.outputs], y.Data[m.outputs:], m.index, w, x.Data, x.Data[m.inputs:], m.bias, m.relu)
				inputs, want := Matrix{make([]float32, 2*m.inputs), 2}, make([]float32, 2*m.outputs)
				c.Transpose(inputs, x, 2, m.inputs)
				op := Bias
				if m.relu {
					op = BiasReLU
				}
				c.Gemm(m.outputs, 2, m.inputs, Operand{w.Data, 1, w.LD}, inputs, Matrix{want, 2}, op, m.bias, 0)
				for i, v := range want {
					if got := y.Data[i%2*m.outputs+i/2]; got != v {
						rt.Fatalf("%v: output %d of sample %d is %v, want %v", c, i/2, i%2, got, v)
					}
				}
			}
		})
	})
}

// Without the samples that lack an input the gradient of its weights has the bits of the whole product.
func TestAddColumns_EqualsGemm(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := drawMostlyZero(&drawn{T: rt, r: rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))}, HalfVector)
		scoped(t, func(t testing.TB) {
			x, dy := within(t, m.x), within(t, m.dy)
			for _, c := range Available() {
				if !c.Arranges() {
					continue
				}
				got, want := within(t, m.w), Matrix{slices.Clone(m.w.Data), m.w.LD}
				c.AddColumns(got, m.columns, x, dy, m.outputs, -0.3)
				c.Gemm(m.inputs, m.outputs, m.samples, Operand{x.Data, 1, x.LD}, dy, want, Add, nil, -0.3)
				for i, v := range want.Data {
					if got.Data[i] != v {
						rt.Fatalf("%v: weight %d of input %d is %v, want %v", c, i%want.LD, i/want.LD, got.Data[i], v)
					}
				}
			}
		})
	})
}

// The update that is added is that of AddColumns, whether differences are small, large or refused.
func TestAddColumnsExact_EqualsSteps(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := &drawn{T: rt, r: rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))}
		m := drawMostlyZero(d, HalfVector)
		alpha := rapid.SampledFrom([]float32{-0.3, -0.3, -30, -1e6}).Draw(rt, "alpha")
		base := d.values(len(m.w.Data))
		scoped(t, func(t testing.TB) {
			w, x, dy := within(t, m.w), within(t, m.x), within(t, m.dy)
			start := within(t, Matrix{base, m.w.LD})
			for _, c := range Available() {
				if !c.Arranges() {
					continue
				}
				stepped := slices.Clone(m.w.Data)
				c.AddColumns(Matrix{stepped, m.w.LD}, m.columns, x, dy, m.outputs, alpha)
				want, added := make([]int64, len(stepped)), true
				for _, column := range m.columns {
					row := int(column.Input) * m.w.LD
					bad := c.AddExact(want[row:][:m.outputs], 0.3, stepped[row:][:m.outputs], base[row:][:m.outputs])
					added = added && bad < 0
				}
				got := guarded[int64](t, len(want), false)
				clear(got)
				ok := c.AddColumnsExact(ExactTarget{start.Data, got, 0.3}, w, m.columns, x, dy, m.outputs, alpha)
				if ok != added {
					rt.Fatalf("%v: the update is added: %v, want %v", c, ok, added)
				}
				if ok && !slices.Equal(got, want) {
					rt.Fatalf("%v: another sum", c)
				}
				if !slices.Equal(bitsOf(w.Data), bitsOf(m.w.Data)) {
					rt.Fatalf("%v: the weights have changed", c)
				}
			}
		})
	})
}

func TestNonZeros_EveryISA(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := dimension(70).Draw(rt, "n")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		scoped(t, func(t testing.TB) {
			x := guarded[float32](t, n, false)
			for i := range x {
				x[i] = float32(r.IntN(3) - 1)
			}
			for _, c := range Available() {
				mask := guarded[uint16](t, (n+15)/16, false)
				c.NonZeros(mask, x)
				for i := range 16 * len(mask) {
					if want := i < n && x[i] != 0; mask[i/16]>>(i%16)&1 == 1 != want {
						rt.Fatalf("%v: value %d of %v is marked wrongly", c, i, x)
					}
				}
			}
		})
	})
}

// The lists are those that a walk over all bits makes.
func TestLists_EveryISA(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := &drawn{T: rt, r: rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))}
		samples := rapid.IntRange(1, Lanes).Draw(rt, "samples")
		drawn, words := drawMasks(d, samples)
		has := func(sample, input int) bool { return drawn[sample*words+input/16]>>(input%16)&1 == 1 }
		var wantPair []int32
		var wantColumns []Column
		last := samples - 1
		for i := range 16 * words {
			if has(0, i) || has(last, i) {
				wantPair = append(wantPair, int32(i))
			}
			c := Column{Input: int32(i)}
			for s := range samples {
				if has(s, i) {
					c.Samples |= 1 << s
				}
			}
			if c.Samples != 0 {
				wantColumns = append(wantColumns, c)
			}
		}
		scoped(t, func(t testing.TB) {
			masks := guarded[uint16](t, len(drawn), false)
			copy(masks, drawn)
			for _, c := range Available() {
				pair, columns := guarded[int32](t, 16*words+PackedRoom, false), guarded[Column](t, 16*words+PackedRoom, false)
				if n := c.Present(pair, masks[:words], masks[last*words:]); !slices.Equal(pair[:n], wantPair) {
					rt.Fatalf("%v lists %v, want %v", c, pair[:n], wantPair)
				}
				if n := c.ListColumns(columns, masks, words, samples); !slices.Equal(columns[:n], wantColumns) {
					rt.Fatalf("%v lists %v, want %v", c, columns[:n], wantColumns)
				}
			}
		})
	})
}

// BenchmarkZeros runs the first layer of FEMNIST's model forward and back on 32 samples, of whose inputs
// an eighth is not 0 as in the images, beside the products of all inputs.
func BenchmarkZeros(b *testing.B) {
	const inputs, outputs = 784, 208
	r := rand.New(rand.NewPCG(1, 1))
	x, w := Matrix{make([]float32, Lanes*inputs), inputs}, Matrix{fill(make([]float32, inputs*outputs), r), outputs}
	y, bias := fill(make([]float32, Lanes*outputs), r), make([]float32, outputs)
	base, sum := slices.Clone(w.Data), make([]int64, len(w.Data))
	var index [Lanes / 2][]int32
	var columns []Column
	for i := range inputs {
		c := Column{Input: int32(i)}
		for s := range Lanes {
			if r.IntN(8) == 0 {
				x.Data[s*inputs+i] = 1
				c.Samples |= 1 << s
			}
		}
		for pair := range index {
			if c.Samples>>(2*pair)&3 != 0 {
				index[pair] = append(index[pair], c.Input)
			}
		}
		columns = append(columns, c)
	}
	columns = slices.DeleteFunc(columns, func(c Column) bool { return c.Samples == 0 })
	for _, c := range Available() {
		if !c.Arranges() {
			continue
		}
		for name, run := range map[string]func(){
			"forward": func() {
				for pair, list := range index {
					rows, samples := y[2*pair*outputs:], x.Data[2*pair*inputs:]
					c.SumPair(rows[:outputs], rows[outputs:2*outputs], list, w, samples[:inputs], samples[inputs:], bias, true)
				}
			},
			"update": func() { c.AddColumns(w, columns, x, Matrix{y, outputs}, outputs, -1e-9) },
			"update and sum": func() {
				c.AddColumns(w, columns, x, Matrix{y, outputs}, outputs, -1e-9)
				c.AddExactAndReset(sum, 0.1, w.Data, base)
			},
			"update in sum": func() {
				c.AddColumnsExact(ExactTarget{w.Data, sum, 0.1}, w, columns, x, Matrix{y, outputs}, outputs, -1e-9)
			},
			"product": func() {
				c.Gemm(inputs, outputs, Lanes, Operand{x.Data, 1, inputs}, Matrix{y, outputs}, w, Add, nil, -1e-9)
			},
		} {
			b.Run(name+"/"+c.String(), func(b *testing.B) {
				for b.Loop() {
					run()
				}
			})
		}
	}
}
