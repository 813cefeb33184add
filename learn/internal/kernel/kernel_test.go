package kernel

import (
	"math"
	"slices"
	"testing"

	"math/rand/v2"

	"pgregory.net/rapid"

	_ "fedpace/internal/testkit/testseed"
)

// assembly lists the instruction sets that are compared with the reference.
func assembly(t testing.TB) []ISA {
	list := Available()[1:]
	if len(list) == 0 {
		t.Skip("this machine runs no assembly")
	}
	return list
}

func fill(x []float32, r *rand.Rand) []float32 {
	for i := range x {
		x[i] = r.Float32()*2 - 1
	}
	return x
}

// dimension favours the sizes where tiles, vectors and panels begin and end.
func dimension(most int) *rapid.Generator[int] {
	edges := []int{1, 2, 3, 7, 8, 9, 13, 14, 15, 16, 17, 28, 29, 31, 32, 33, 48, 63, 64, 65}
	edges = slices.DeleteFunc(edges, func(e int) bool { return e > most })
	return rapid.OneOf(rapid.SampledFrom(edges), rapid.IntRange(1, most))
}

// Every instruction set equals the reference within the rounding of its sums, and
// those in assembly equal each other bit for bit. All operands lie against pages
// that must not be touched, at their ends and at their beginnings.
func TestGemm_EveryISA(t *testing.T) {
	list := assembly(t)
	rapid.Check(t, func(rt *rapid.T) {
		m, n, k := dimension(70).Draw(rt, "m"), dimension(70).Draw(rt, "n"), dimension(70).Draw(rt, "k")
		op := Op(rapid.IntRange(int(Store), int(ReLUGrad)).Draw(rt, "op"))
		transposed := rapid.Bool().Draw(rt, "transposed")
		ldb := n + rapid.IntRange(0, 3).Draw(rt, "ldb")
		ldc := n + rapid.IntRange(0, 3).Draw(rt, "ldc")
		atStart := rapid.Bool().Draw(rt, "at start")
		defer walk(rapid.Bool().Draw(rt, "along rows"), rapid.Bool().Draw(rt, "in halves"))()
		alpha := rapid.SampledFrom([]float32{1, -0.3}).Draw(rt, "alpha")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		// The furthest segments reach to the ends of A and B, the first to their beginnings.
		segments := []Segment{{}}
		var lastA, lastB int
		for range rapid.IntRange(0, 3).Draw(rt, "segments") {
			s := Segment{r.IntN(40), r.IntN(40)}
			segments = append(segments, s)
			lastA, lastB = max(lastA, s.A), max(lastB, s.B)
		}
		check := func(t testing.TB) {
			a := Operand{fill(guarded[float32](t, lastA+m*k, atStart), r), k, 1}
			if transposed {
				a.Row, a.Col = 1, m
			}
			b := Matrix{fill(guarded[float32](t, lastB+(k-1)*ldb+n, atStart), r), ldb}
			aux := fill(guarded[float32](t, max(m, (m-1)*ldc+n), atStart), r)
			if op == Bias || op == BiasReLU {
				aux = fill(guarded[float32](t, m, atStart), r)
			}
			start := fill(make([]float32, (m-1)*ldc+n), r)
			want := slices.Clone(start)
			Go.GemmSum(m, n, k, segments, a, b, Matrix{want, ldc}, op, aux, alpha)
			var before []float32
			for _, c := range list {
				got := guarded[float32](t, len(start), atStart)
				copy(got, start)
				c.GemmSum(m, n, k, segments, a, b, Matrix{got, ldc}, op, aux, alpha)
				for i := range got {
					row, col := i/ldc, i%ldc
					if col >= n {
						if got[i] != start[i] {
							rt.Fatalf("%v wrote between the rows, at (%d, %d)", c, row, col)
						}
						continue
					}
					var size float64
					for _, s := range segments {
						for p := range k {
							size += math.Abs(float64(a.Data[s.A+row*a.Row+p*a.Col]) * float64(b.Data[s.B+p*ldb+col]))
						}
					}
					// Both sums are within k roundings of the true one.
					if d := math.Abs(float64(got[i]) - float64(want[i])); d > 0x1p-23*(float64(k*len(segments))*size+2) {
						rt.Fatalf("%v: (%d, %d) is %v, want %v", c, row, col, got[i], want[i])
					}
				}
				if before != nil && !slices.Equal(got, before) {
					rt.Fatalf("%v and the one before it differ", c)
				}
				before = got
			}
		}
		scoped(t, check)
	})
}

// scoped frees what a check maps when the check ends.
func scoped(t *testing.T, check func(t testing.TB)) {
	s := &scope{TB: t}
	defer func() {
		for _, f := range s.cleanup {
			f()
		}
	}()
	check(s)
}

type scope struct {
	testing.TB
	cleanup []func()
}

func (s *scope) Cleanup(f func()) { s.cleanup = append(s.cleanup, f) }

// A step of a dense layer has the bits of its two products.
func TestDenseStep_EqualsGemm(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		out, in, n := dimension(70).Draw(rt, "out"), rapid.IntRange(1, 100).Draw(rt, "in"), rapid.IntRange(1, 26).Draw(rt, "samples")
		mask := rapid.Bool().Draw(rt, "mask")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		scoped(t, func(t testing.TB) {
			start := fill(make([]float32, out*in), r)
			dy, x := fill(guarded[float32](t, (out-1)*Lanes+n, false), r), fill(guarded[float32](t, n*in, false), r)
			for _, c := range Available() {
				w, dx := guarded[float32](t, out*in, false), guarded[float32](t, n*in, false)
				copy(w, start)
				columns := c.DenseStep(out, in, n, w, dy, x, dx, -0.3, mask)
				width, most := map[ISA]int{AVX2: 8, AVX512: 16}[c], map[ISA]int{AVX2: 12, AVX512: 24}[c]
				if c == AVX512 && n <= 12 {
					width = 32
				}
				if takes := n <= most && in >= width && (n <= 12 || out%2 == 0); takes != (columns > 0) {
					rt.Fatalf("%v: it takes %d columns of %d for %d samples", c, columns, in, n)
				}
				if columns == 0 {
					continue
				}
				want, wantDX := slices.Clone(start), make([]float32, in*n)
				c.Gemm(in, n, out, Operand{start, 1, in}, Matrix{dy, Lanes}, Matrix{wantDX, n}, Store, nil, 0)
				c.Gemm(out, in, n, Operand{dy, Lanes, 1}, Matrix{x, in}, Matrix{want, in}, Add, nil, -0.3)
				for i := range in {
					for o := range out {
						if v := w[o*in+i]; i < columns && v != want[o*in+i] || i >= columns && v != start[o*in+i] {
							rt.Fatalf("%v: weight %d, %d is %v, want %v", c, o, i, v, want[o*in+i])
						}
					}
					for s := range n {
						v := wantDX[i*n+s]
						if mask && !(x[s*in+i] > 0) {
							v = 0
						}
						if i < columns && dx[s*in+i] != v {
							rt.Fatalf("%v: the gradient of input %d of sample %d is %v, want %v", c, i, s, dx[s*in+i], v)
						}
					}
				}
			}
		})
	})
}

func TestGemm_KeepsNaN(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range Available() {
		for _, op := range []Op{Store, Add, Bias, BiasReLU} {
			a := Operand{[]float32{nan}, 1, 1}
			x := make([]float32, 40)
			c.Gemm(1, 40, 1, a, Matrix{make([]float32, 40), 40}, Matrix{x, 40}, op, []float32{0}, 1)
			for i, v := range x {
				if v == v {
					t.Errorf("%v, op %d: element %d is %v", c, op, i, v)
				}
			}
		}
	}
}

func TestTranspose_EveryISA(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rows, cols := dimension(70).Draw(rt, "rows"), dimension(70).Draw(rt, "cols")
		lds, ldd := cols+rapid.IntRange(0, 3).Draw(rt, "lds"), rows+rapid.IntRange(0, 3).Draw(rt, "ldd")
		atStart := rapid.Bool().Draw(rt, "at start")
		scoped(t, func(t testing.TB) {
			src := guarded[float32](t, (rows-1)*lds+cols, atStart)
			for i := range src {
				src[i] = float32(i)
			}
			for _, c := range Available() {
				dst := guarded[float32](t, (cols-1)*ldd+rows, atStart)
				for i := range dst {
					dst[i] = -1
				}
				c.Transpose(Matrix{dst, ldd}, Matrix{src, lds}, rows, cols)
				for i, v := range dst {
					want := float32(-1)
					if i%ldd < rows {
						want = float32(i%ldd*lds + i/ldd)
					}
					if v != want {
						rt.Fatalf("%v: element %d is %v, want %v", c, i, v, want)
					}
				}
			}
		})
	})
}

func TestCopyPieces_EveryISA(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rows, pieces, n := rapid.IntRange(1, 20).Draw(rt, "rows"), rapid.IntRange(1, 9).Draw(rt, "pieces"), rapid.IntRange(1, Lanes).Draw(rt, "n")
		ld := pieces*n + rapid.IntRange(0, 9).Draw(rt, "gap")
		more := (n+7)/8*8 - n // floats that may be copied behind a piece
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		scoped(t, func(t testing.TB) {
			x := fill(guarded[float32](t, (rows-1)*Lanes+(pieces-1)*rows*Lanes+n+more, false), r)
			for _, c := range Available() {
				y, z := guarded[float32](t, (rows-1)*ld+pieces*n+more, false), guarded[float32](t, len(x), false)
				c.CopyPieces(Pieces{y, ld, n}, Pieces{x, Lanes, rows * Lanes}, rows, pieces, n)
				c.CopyPieces(Pieces{z, Lanes, rows * Lanes}, Pieces{y, ld, n}, rows, pieces, n)
				for i := range rows {
					for j := range pieces {
						want, at := x[i*Lanes+j*rows*Lanes:][:n], i*Lanes+j*rows*Lanes
						if !slices.Equal(y[i*ld+j*n:][:n], want) || !slices.Equal(z[at:][:n], want) {
							rt.Fatalf("%v: row %d, piece %d is %v, and %v when copied back, want %v", c, i, j, y[i*ld+j*n:][:n], z[at:][:n], want)
						}
					}
				}
			}
		})
	})
}

func TestLookup_EveryISA(t *testing.T) {
	var table [256]float32
	for i := range table {
		table[i] = float32(i*i) / 3
	}
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.OneOf(dimension(70), rapid.IntRange(0, 2)).Draw(rt, "n")
		atStart := rapid.Bool().Draw(rt, "at start")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		scoped(t, func(t testing.TB) {
			src := guarded[byte](t, n, atStart)
			for i := range src {
				src[i] = byte(r.Uint32())
			}
			values := guarded[float32](t, len(table), atStart)
			copy(values, table[:])
			for _, c := range Available() {
				dst := guarded[float32](t, n, atStart)
				c.Prefetch(src) // beyond a page's end it does no harm
				c.Lookup(dst, src, (*[256]float32)(values))
				for i, v := range dst {
					if want := table[src[i]]; v != want {
						rt.Fatalf("%v: element %d is %v, want %v", c, i, v, want)
					}
				}
			}
		})
	})
}

func TestSoftmax_EveryISA(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rows, n := dimension(70).Draw(rt, "rows"), rapid.IntRange(1, Lanes).Draw(rt, "n")
		scale := rapid.SampledFrom([]float32{1, 1.0 / 32}).Draw(rt, "scale")
		spread := rapid.SampledFrom([]float32{1, 20, 200}).Draw(rt, "spread")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		w := Filled(n)
		start := fill(make([]float32, (rows-1)*Lanes+w), r)
		for i := range start {
			start[i] *= spread
		}
		scoped(t, func(t testing.TB) {
			var before []float32
			for _, c := range Available() {
				z := guarded[float32](t, len(start), false)
				copy(z, start)
				var top, sum [Lanes]float32
				c.Softmax(z, rows, n, scale, &top, &sum)
				for l := range n {
					most := math.Inf(-1)
					var total float64
					for i := range rows {
						most = max(most, float64(start[i*Lanes+l]))
					}
					for i := range rows {
						total += math.Exp(float64(start[i*Lanes+l]) - most)
					}
					if float64(top[l]) != most || math.Abs(float64(sum[l])/total-1) > 1e-5 {
						rt.Fatalf("%v: lane %d has top %v and sum %v, want %v and %v", c, l, top[l], sum[l], most, total)
					}
					for i := range rows {
						want := float64(scale) * math.Exp(float64(start[i*Lanes+l])-most) / total
						if d := math.Abs(float64(z[i*Lanes+l]) - want); d > 1e-5*want+2e-28 {
							rt.Fatalf("%v: row %d, lane %d is %v, want %v", c, i, l, z[i*Lanes+l], want)
						}
					}
				}
				if c > AVX2 && !slices.Equal(z, before) {
					rt.Fatalf("%v and the one before it differ", c)
				}
				before = z
			}
		})
	})
}

func TestAddRowSums_EveryISA(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rows, n := dimension(70).Draw(rt, "rows"), rapid.IntRange(1, Lanes).Draw(rt, "n")
		op := rapid.SampledFrom([]Op{Store, Add}).Draw(rt, "op")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		scoped(t, func(t testing.TB) {
			x := fill(guarded[float32](t, (rows-1)*Lanes+n, false), r)
			start := fill(make([]float32, rows), r)
			for _, c := range Available() {
				got := guarded[float32](t, rows, false)
				copy(got, start)
				c.AddRowSums(got, x, n, op, -0.5)
				for i, v := range got {
					var want float64
					for _, y := range x[i*Lanes:][:n] {
						want += float64(y)
					}
					if op == Add {
						want = float64(start[i]) - 0.5*want
					}
					if math.Abs(float64(v)-want) > 1e-5 {
						rt.Fatalf("%v: row %d is %v, want %v", c, i, v, want)
					}
				}
			}
		})
	})
}

// An exact sum has one right answer: all instruction sets give it.
func TestAddExact_Terms(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := dimension(70).Draw(rt, "n")
		w := rapid.OneOf(rapid.SampledFrom([]float64{1, -1, 0, 0.5, 1.0 / 3}), rapid.Float64Range(-1, 1)).Draw(rt, "w")
		atStart := rapid.Bool().Draw(rt, "at start")
		value := rapid.OneOf(
			rapid.Float32Range(-65536, 65535),
			rapid.Float32Range(-1e-12, 1e-12),
			rapid.SampledFrom([]float32{0, 1, 65535.996, 0x1p-45, 0x1.8p-44, 0x1p-150}),
			rapid.Float32(),
		)
		scoped(t, func(t testing.TB) {
			x, base := guarded[float32](t, n, atStart), guarded[float32](t, n, atStart)
			want, bad := make([]int64, n), -1
			for i := range x {
				x[i], base[i] = value.Draw(rt, "x"), value.Draw(rt, "base")
				d := float64(x[i]) - float64(base[i])
				want[i] = int64(i)
				if math.Abs(d) < 1<<17 {
					want[i] += int64(math.RoundToEven(w * 0x1p44 * d))
				} else if bad < 0 {
					bad = i
				}
			}
			for _, c := range Available() {
				got := guarded[int64](t, n, atStart)
				for i := range got {
					got[i] = int64(i)
				}
				if b := c.AddExact(got, w, x, base); b != bad {
					rt.Fatalf("%v refuses element %d, want %d", c, b, bad)
				}
				if bad < 0 && !slices.Equal(got, want) {
					rt.Fatalf("%v gives %v, want %v", c, got, want)
				}
			}
		})
	})
}

// It is AddExact and then a copy, as far as every element is taken.
func TestAddExactAndReset_Terms(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := dimension(1000).Draw(rt, "n")
		bad := rapid.OneOf(rapid.Just(-1), rapid.IntRange(0, n-1)).Draw(rt, "refused")
		atStart := rapid.Bool().Draw(rt, "at start")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		scoped(t, func(t testing.TB) {
			x, base := fill(guarded[float32](t, n, atStart), r), fill(guarded[float32](t, n, atStart), r)
			for range r.IntN(1 + n/20) { // differences around that from which on they are added one by one
				i := r.IntN(n)
				x[i] = base[i] + []float32{-1.9999, 1.9999, 2, -2, 3, 100_000}[r.IntN(6)]
			}
			if bad >= 0 {
				x[bad] = float32(math.Inf(1))
			}
			want := make([]int64, n)
			Go.AddExact(want, 0.25, x, base)
			for _, c := range Available() {
				got, reset := guarded[int64](t, n, atStart), guarded[float32](t, n, atStart)
				copy(reset, x)
				if b := c.AddExactAndReset(got, 0.25, reset, base); b != bad {
					rt.Fatalf("%v refuses element %d, want %d", c, b, bad)
				}
				if bad < 0 && (!slices.Equal(got, want) || !slices.Equal(reset, base)) {
					rt.Fatalf("%v gives %v and leaves %v, want %v and %v", c, got, reset, want, base)
				}
				if bad >= 0 && (!slices.Equal(reset[:bad], base[:bad]) || !slices.Equal(reset[bad:], x[bad:])) {
					rt.Fatalf("%v leaves %v, want %v and from %d on %v", c, reset, base, bad, x)
				}
			}
		})
	})
}

// Each sum goes to its place, and nothing beside the rows and columns is read or written.
func TestAddTransposed_Places(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := &drawn{T: rt, r: rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))}
		rows, cols := d.size("rows", 40), d.size("columns", 40)
		src, dst := Sums{LD: cols + d.r.IntN(4)}, Sums{LD: rows + d.r.IntN(4)}
		values, start := d.sums(rows*src.LD), d.sums(cols*dst.LD)
		scoped(t, func(t testing.TB) {
			for _, c := range Available() {
				src.Data, dst.Data = guarded[int64](t, len(values), false), guarded[int64](t, len(start), false)
				copy(src.Data, values)
				copy(dst.Data, start)
				c.AddTransposed(dst, src, rows, cols)
				for i, v := range values {
					want := v
					if i%src.LD < cols {
						want = 0
					}
					if src.Data[i] != want {
						rt.Fatalf("%v leaves %d in row %d, column %d", c, src.Data[i], i/src.LD, i%src.LD)
					}
				}
				for i, v := range start {
					want := v
					if i%dst.LD < rows {
						want += values[i%dst.LD*src.LD+i/dst.LD]
					}
					if dst.Data[i] != want {
						rt.Fatalf("%v gives %d for row %d, column %d, want %d", c, dst.Data[i], i%dst.LD, i/dst.LD, want)
					}
				}
			}
		})
	})
}

func TestMath_ExpAndLog(t *testing.T) {
	for x := float32(0); x > -64; x -= 0.0137 {
		if got, want := float64(Exp(x)), math.Exp(float64(x)); math.Abs(got/want-1) > 3e-7 {
			t.Errorf("Exp(%v) = %v, want %v", x, got, want)
		}
	}
	if Exp(-1000) != Exp(-64) || Exp(-64) > 2e-28 || Exp(0) != 1 {
		t.Errorf("Exp(-1000) = %v, Exp(0) = %v", Exp(-1000), Exp(0))
	}
	for x := 1e-30; x < 1e30; x *= 1.0371 {
		if got, want := Log(x), math.Log(x); math.Abs(got-want) > 4e-16*max(1, math.Abs(want)) {
			t.Errorf("Log(%v) = %v, want %v", x, got, want)
		}
	}
	if Log(1) != 0 {
		t.Errorf("Log(1) = %v", Log(1))
	}
	nan := math.NaN()
	if Log(nan) == Log(nan) || !math.IsInf(Log(math.Inf(1)), 1) || Exp(float32(nan)) == Exp(float32(nan)) {
		t.Error("what is not a number does not stay so")
	}
}

func TestGRU_Gates(t *testing.T) {
	sigma := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	rapid.Check(t, func(rt *rapid.T) {
		n := Lanes * rapid.IntRange(1, 9).Draw(rt, "hidden")
		spread := rapid.SampledFrom([]float32{0.01, 1, 10, 100}).Draw(rt, "spread")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		scoped(t, func(t testing.TB) {
			in, state, h := guarded[float32](t, 3*n, true), guarded[float32](t, 3*n, false), guarded[float32](t, n, false)
			for _, x := range [][]float32{in, state} {
				for i := range fill(x, r) {
					x[i] *= spread
				}
			}
			fill(h, r)
			gradient := fill(make([]float32, n), r)
			tolerance := float64(max(1, spread)) // the arguments' own rounding
			var before [][]float32
			for _, c := range Available() {
				saved, da, dh := guarded[float32](t, 5*n, false), guarded[float32](t, 4*n, false), guarded[float32](t, n, false)
				copy(dh, gradient)
				c.GRUForward(n, in, state, h, saved)
				c.GRUBackward(n, dh, saved[:4*n], h, da)
				for i := range n {
					x := func(s []float32, part int) float64 { return float64(s[part*n+i]) }
					rr, z := sigma(x(in, 0)+x(state, 0)), sigma(x(in, 1)+x(state, 1))
					m := math.Tanh(x(in, 2) + rr*x(state, 2))
					for part, want := range []float64{rr, z, m, x(state, 2), (1-z)*m + z*x(h, 0)} {
						if math.Abs(x(saved, part)-want) > 2e-6*tolerance {
							rt.Fatalf("%v: part %d of element %d is %v, want %v", c, part, i, x(saved, part), want)
						}
					}
					d := float64(gradient[i])
					dm := d * (1 - z) * (1 - m*m)
					for part, want := range []float64{dm * x(state, 2) * rr * (1 - rr), d * (x(h, 0) - m) * z * (1 - z), dm * rr, dm} {
						if math.Abs(x(da, part)-want) > 5e-6*tolerance*tolerance {
							rt.Fatalf("%v: gradient %d of element %d is %v, want %v", c, part, i, x(da, part), want)
						}
					}
					if math.Abs(x(dh, 0)-d*z) > 1e-6*tolerance {
						rt.Fatalf("%v: what reaches h directly in element %d is %v, want %v", c, i, x(dh, 0), d*z)
					}
				}
				now := [][]float32{saved, da, dh}
				if c > AVX2 {
					for i := range now {
						if !slices.Equal(now[i], before[i]) {
							rt.Fatalf("%v and the one before it differ", c)
						}
					}
				}
				before = now
			}
		})
	})
}

func TestAddScaled_EveryISA(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := dimension(70).Draw(rt, "n")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		scoped(t, func(t testing.TB) {
			x := fill(guarded[float32](t, n, false), r)
			start := fill(make([]float32, n), r)
			for _, c := range Available() {
				got := guarded[float32](t, n, false)
				copy(got, start)
				c.AddScaled(got, -0.3, x)
				for i, v := range got {
					if want := float64(start[i]) - 0.3*float64(x[i]); math.Abs(float64(v)-want) > 1e-6 {
						rt.Fatalf("%v: element %d is %v, want %v", c, i, v, want)
					}
				}
			}
		})
	})
}

func TestMaxPool_EveryISA(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rows := rapid.IntRange(1, 20).Draw(rt, "rows")
		ld := Lanes + rapid.IntRange(0, 40).Draw(rt, "ld")
		right := rows*Lanes + rapid.IntRange(0, 20).Draw(rt, "right")
		down := right + rows*Lanes + rapid.IntRange(0, 20).Draw(rt, "down")
		values := rapid.IntRange(1, 50).Draw(rt, "values") // few: ties are common
		samples := rapid.IntRange(1, Lanes).Draw(rt, "samples")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		scoped(t, func(t testing.TB) {
			n := rows * Lanes
			x := guarded[float32](t, 4*n, true)
			for i := range x {
				x[i] = float32(r.IntN(values))
			}
			g := fill(guarded[float32](t, (rows-1)*ld+Lanes, false), r)
			for _, c := range Available() {
				dst, code := guarded[float32](t, (rows-1)*ld+Lanes, false), guarded[int32](t, n, false)
				c.MaxPool(rows, samples, x, Lanes, n, 2*n, dst, ld, code)
				back := guarded[float32](t, right+down+n, false)
				c.MaxUnpool(rows, samples, g, ld, code, back, right, down)
				for i := range n {
					if i%Lanes >= samples {
						continue
					}
					four := []float32{x[i], x[n+i], x[2*n+i], x[3*n+i]}
					at := i/Lanes*ld + i%Lanes
					want := slices.Index(four, slices.Max(four))
					if dst[at] != four[want] || code[i] != int32(want) {
						rt.Fatalf("%v: the largest of %v is %v, number %d", c, four, dst[at], code[i])
					}
					for j, from := range []int{0, right, down, right + down} {
						v := float32(0)
						if j == want {
							v = g[at]
						}
						if back[from+i] != v {
							rt.Fatalf("%v: gradient of map %d is %v, want %v", c, j, back[from+i], v)
						}
					}
				}
			}
		})
	})
}

// The passes of a normalisation and of a ReLU are what they are said to be.
func TestPasses_EveryISA(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range Available() {
		r := rand.New(rand.NewPCG(1, 2))
		const n = 72
		var x [6][]float32
		for i := range x {
			x[i] = fill(make([]float32, n), r)
		}
		for _, pass := range []struct {
			name string
			run  func(x [6][]float32)
			want func(x [6]float64) [2]float64 // of the first two
		}{
			{"Centre", func(x [6][]float32) { c.Centre(x[0], x[1], x[2], x[3]) },
				func(x [6]float64) [2]float64 { return [2]float64{x[1] - x[2], x[1]} }},
			{"Centre's squares", func(x [6][]float32) { c.Centre(x[3], x[1], x[2], x[0]) },
				func(x [6]float64) [2]float64 { return [2]float64{x[0] + (x[1]-x[2])*(x[1]-x[2]), x[1]} }},
			{"Affine", func(x [6][]float32) { c.Affine(x[0], x[1], x[2], x[3], false) },
				func(x [6]float64) [2]float64 { return [2]float64{x[1]*x[2] + x[3], x[1]} }},
			{"Affine and ReLU", func(x [6][]float32) { c.Affine(x[0], x[1], x[2], x[3], true) },
				func(x [6]float64) [2]float64 { return [2]float64{max(0, x[1]*x[2]+x[3]), x[1]} }},
			{"AddDots", func(x [6][]float32) { c.AddDots(x[0], x[1], x[2], x[3]) },
				func(x [6]float64) [2]float64 { return [2]float64{x[0] + x[2], x[1] + x[2]*x[3]} }},
			{"Combine", func(x [6][]float32) { c.Combine(x[0], x[1], x[2], x[3], x[4], x[5]) },
				func(x [6]float64) [2]float64 { return [2]float64{x[1]*x[2] + x[3]*x[4] + x[5], x[1]} }},
			{"AddReLU", func(x [6][]float32) { c.AddReLU(x[0], x[1]) },
				func(x [6]float64) [2]float64 { return [2]float64{max(0, x[0]+x[1]), x[1]} }},
			{"Mask", func(x [6][]float32) { c.Mask(x[0], x[1]) },
				func(x [6]float64) [2]float64 {
					if x[1] > 0 {
						return [2]float64{x[0], x[1]}
					}
					return [2]float64{0, x[1]}
				}},
		} {
			var y [6][]float32
			for i := range x {
				y[i] = slices.Clone(x[i])
			}
			pass.run(y)
			for i := range n {
				var v [6]float64
				for j := range x {
					v[j] = float64(x[j][i])
				}
				for j, want := range pass.want(v) {
					if got := float64(y[j][i]); math.Abs(got-want) > 1e-6*(1+math.Abs(want)) {
						t.Errorf("%v: %s gives %v at %d of vector %d, want %v", c, pass.name, got, i, j, want)
					}
				}
			}
		}
		dx := []float32{1, 1, 1, 1, 1, 1, 1, 1}
		c.Mask(dx, []float32{0, float32(math.Copysign(0, -1)), -1, 1, inf, -inf, 1e-45, -1e-45})
		if want := []float32{0, 0, 0, 1, 1, 0, 1, 0}; !slices.Equal(dx, want) {
			t.Errorf("%v: Mask leaves %v, want %v", c, dx, want)
		}
	}
}
