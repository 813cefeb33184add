package kernel

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

// shapes are products of the models: A is read along its rows or, in a backward
// pass, along its columns.
var shapes = []struct {
	name       string
	m, n, k    int
	transposed bool
	op         Op
}{
	{"forward-200x784x32", 200, 32, 784, false, BiasReLU},
	{"backward-784x200x32", 784, 32, 200, true, ReLUGrad},
	{"update-200x32x784", 200, 784, 32, false, Add},
	{"forward-512x2304x32", 512, 32, 2304, false, BiasReLU},
	{"backward-2304x512x32", 2304, 32, 512, true, ReLUGrad},
	{"update-512x32x2304", 512, 2304, 32, false, Add},
}

// BenchmarkGemm reports the best turn's rate, in processor time.
func BenchmarkGemm(b *testing.B) {
	for _, s := range shapes {
		for _, c := range slices.Concat(Available()[1:], slices.DeleteFunc(Named(), ISA.Emulated)) {
			b.Run(s.name+"/"+c.String(), func(b *testing.B) {
				r := rand.New(rand.NewPCG(1, 1))
				a := Operand{fill(make([]float32, s.m*s.k), r), s.k, 1}
				if s.transposed {
					a.Row, a.Col = 1, s.m
				}
				x := Matrix{fill(make([]float32, s.k*s.n), r), s.n}
				y := Matrix{fill(make([]float32, s.m*s.n), r), s.n}
				aux := fill(make([]float32, s.m*s.n), r)
				flops := 2 * float64(s.m) * float64(s.n) * float64(s.k)
				turn := int(4e8/flops) + 1
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				rate := 0.0
				for b.Loop() {
					start := processorTime()
					for range turn {
						c.Gemm(s.m, s.n, s.k, a, x, y, s.op, aux, 1e-9)
					}
					rate = max(rate, flops*float64(turn)/(processorTime()-start).Seconds())
				}
				b.ReportMetric(rate/1e9, "GFLOP/s")
			})
		}
	}
}

func BenchmarkAddExact(b *testing.B) {
	const n = 209_662
	r := rand.New(rand.NewPCG(1, 1))
	x, base, dst := fill(make([]float32, n), r), fill(make([]float32, n), r), make([]int64, n)
	for _, c := range Available() {
		b.Run(c.String(), func(b *testing.B) {
			b.SetBytes(16 * n)
			for b.Loop() {
				if bad := c.AddExact(dst, 1.0/60, x, base); bad >= 0 {
					b.Fatal(bad)
				}
			}
		})
	}
}

// BenchmarkLookup decodes a minibatch of FEMNIST's images.
func BenchmarkLookup(b *testing.B) {
	const n = 32 * 784
	r := rand.New(rand.NewPCG(1, 1))
	src, dst, table := make([]byte, n), make([]float32, n), new([256]float32)
	for i := range src {
		src[i] = byte(r.Uint32())
	}
	fill(table[:], r)
	for _, c := range Available() {
		b.Run(c.String(), func(b *testing.B) {
			b.SetBytes(n)
			for b.Loop() {
				c.Lookup(dst, src, table)
			}
		})
	}
}

// BenchmarkAddTransposed moves the sum of the first layer of FEMNIST's model.
func BenchmarkAddTransposed(b *testing.B) {
	const inputs, outputs, padded = 784, 200, 208
	src, dst := Sums{make([]int64, inputs*padded), padded}, Sums{make([]int64, inputs*outputs), inputs}
	for _, c := range Available() {
		b.Run(c.String(), func(b *testing.B) {
			for b.Loop() {
				c.AddTransposed(dst, src, inputs, outputs)
			}
		})
	}
}
