package learn

import (
	"math/rand/v2"
	"testing"
	"time"

	"fedpace/actors/learn/internal/kernel"
)

// task is one of the paper's, with what the benchmarks measure it by.
type task struct {
	name, spec string
	batch      int
	flops      float64 // of a step, two a multiply-add of the matrix products
}

var tasks = []task{
	{"sent140", "linear:5000,2", 8, 0},
	{"femnist", "mlp:784,200,200,62", 32, 2 * 32 * (2*(784*200+200*200+200*62) + 200*200 + 200*62)},
}

// BenchmarkStep measures whole SGD steps on one core. GFLOP/s counts the matrix
// products alone; %peak is their ratio to a loop of nothing but fused
// multiply-adds on registers that runs in the same benchmark.
func BenchmarkStep(b *testing.B) {
	for _, k := range tasks {
		for _, c := range kernel.Classes() {
			b.Run(k.name+"/"+c.String(), func(b *testing.B) {
				m := parse(b, k.spec)
				params := make([]float32, m.Params())
				m.Init(params, 1)
				r := rand.New(rand.NewPCG(1, 1))
				var batches []*Batch
				for range 16 {
					batches = append(batches, randomBatch(m, k.batch, r))
				}
				w := onClass(m, k.batch, c)
				b.ReportAllocs()
				n := 0
				// Peak and steps take turns, so that a neighbour slows both.
				var peakFlops float64
				var peakTime time.Duration
				for b.Loop() {
					if n%1000 == 0 && k.flops > 0 {
						b.StopTimer()
						start := time.Now()
						peakFlops += c.Peak(100_000)
						peakTime += time.Since(start)
						b.StartTimer()
					}
					if _, err := w.Step(params, batches[n%len(batches)], 0.01); err != nil {
						b.Fatal(err)
					}
					n++
				}
				if k.flops > 0 {
					rate := k.flops * float64(b.N) / b.Elapsed().Seconds() / 1e9
					b.ReportMetric(rate, "GFLOP/s")
					if peakFlops > 0 {
						peak := peakFlops / peakTime.Seconds() / 1e9
						b.ReportMetric(peak, "peak-GFLOP/s")
						b.ReportMetric(100*rate/peak, "%peak")
					}
				}
			})
		}
	}
}
