package learn

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"fedpace/learn/internal/kernel"
)

// task is one of the paper's or a model from layers, with what the benchmarks measure it by.
type task struct {
	name, spec string
	batch      int
	flops      float64 // of a step, two a multiply-add of the matrix products
	turn       int     // steps that are timed together
}

var tasks = []task{
	{"sent140", "linear:5000,2", 8, 0, 5000},
	{"femnist", "mlp:784,200,200,62", 32, 2 * 32 * (2*(784*200+200*200+200*62) + 200*200 + 200*62), 20},
	// Only the positions that the poolings read: 28×28 of 30×30, 12×12 of 13×13.
	{"cifar100", "cnn:3x32x32,32,64,512,100", 32, 2 * 32 * (2*28*28*32*27 + 3*(12*12*64*288+2304*512+512*100)), 2},
	{"shakespeare", "gru:80,79,8,128,2", 32, 2 * 32 * (3*80*384*(8+3*128) + 3*128*79), 1},
	{"resnet8", "layers:image=3x32x32,classes=100;" + resnet8, 32,
		2 * 32 * (2*1024*16*27 + 3*(2*1024*16*144+256*32*(144+288+16)+64*64*(288+576+32)+64*100)), 1},
}

// resnet8 is a ResNet of eight layers with group norm.
const resnet8 = "conv(16,3,1,1),norm(8),relu," +
	"residual([conv(16,3,1,1),norm(8),relu,conv(16,3,1,1),norm(8)]),relu," +
	"residual([conv(32,3,1,2),norm(8),relu,conv(32,3,1,1),norm(8)]),relu," +
	"residual([conv(64,3,1,2),norm(8),relu,conv(64,3,1,1),norm(8)]),relu,average,flatten,dense(100)"

// instructions lists the instruction sets that are used where they are named, without what emulates them.
func instructions() []kernel.ISA { return slices.DeleteFunc(kernel.Named(), kernel.ISA.Emulated) }

// BenchmarkStep measures whole SGD steps on one core. GFLOP/s counts the matrix
// products alone.
func BenchmarkStep(b *testing.B) {
	for _, k := range tasks {
		for _, c := range slices.Concat(kernel.Available(), instructions()) {
			b.Run(k.name+"/"+c.String(), func(b *testing.B) {
				m := parse(b, k.spec)
				params := make([]float32, m.Params())
				m.Init(params, 1)
				r := rand.New(rand.NewPCG(1, 1))
				var batches []*Batch
				for range 16 {
					batches = append(batches, randomBatch(m, k.batch, r))
				}
				w := on(m, k.batch, c)
				b.ReportAllocs()
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				// The best turn counts, in processor time, whatever else the machine does.
				n, rate := 0, 0.0
				for b.Loop() {
					start := processorTime()
					for range k.turn {
						if _, err := w.Step(params, batches[n%len(batches)], 0.01); err != nil {
							b.Fatal(err)
						}
						n++
					}
					rate = max(rate, float64(k.turn)/(processorTime()-start).Seconds())
				}
				b.ReportMetric(b.Elapsed().Seconds()*1e6/float64(n), "µs/step")
				b.ReportMetric(1e6/rate, "best-µs/step")
				if k.flops > 0 {
					b.ReportMetric(rate*k.flops/1e9, "GFLOP/s")
				}
			})
		}
	}
}

// BenchmarkTiles compares steps by tiles with those of the fastest instructions of float32. All take turns, and
// beside the best turn of each stands the median of its ratios to the turn of float32 just before.
func BenchmarkTiles(b *testing.B) {
	few := tasks[2]
	few.name = "cifar100-10"
	few.batch = 10
	sets := append([]kernel.ISA{fastest()}, instructions()...)
	for _, k := range append(slices.Clone(tasks[1:4]), few) {
		b.Run(k.name, func(b *testing.B) {
			m := parse(b, k.spec)
			params, r := make([]float32, m.Params()), rand.New(rand.NewPCG(1, 1))
			m.Init(params, 1)
			batch := randomBatch(m, k.batch, r)
			works, times := make([]Workspace, len(sets)), make([][]float64, len(sets))
			for i, isa := range sets {
				works[i] = on(m, k.batch, isa)
			}
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for b.Loop() {
				for i, w := range works {
					start := processorTime()
					for range k.turn {
						if _, err := w.Step(params, batch, 1e-4); err != nil {
							b.Fatal(err)
						}
					}
					times[i] = append(times[i], (processorTime()-start).Seconds()*1e6/float64(k.turn))
				}
			}
			for i, isa := range sets {
				ratios := make([]float64, len(times[i]))
				for turn, took := range times[i] {
					ratios[turn] = times[0][turn] / took
				}
				slices.Sort(ratios)
				b.ReportMetric(slices.Min(times[i]), "best-µs-"+isa.String())
				b.ReportMetric(ratios[len(ratios)/2], "times-"+isa.String())
			}
		})
	}
}

// BenchmarkBatches reports what a sample costs in batches of other sizes than 32, in times
// of what it costs in one of 32. All take turns of some steps, as those of a run follow each
// other, and the best step of each counts, in processor time.
func BenchmarkBatches(b *testing.B) {
	const whole = 32
	for _, k := range []task{tasks[1], tasks[2], tasks[3],
		{name: "padded", spec: "layers:image=3x32x32,classes=10;conv(32,3,1,1),relu,pool(2),conv(64,3,1,1),relu,pool(2),flatten,dense(128),relu,dense(10)"}} {
		for _, c := range slices.Concat(kernel.Available(), instructions()) {
			b.Run(k.name+"/"+c.String(), func(b *testing.B) {
				m := parse(b, k.spec)
				params, r := make([]float32, m.Params()), rand.New(rand.NewPCG(1, 1))
				m.Init(params, 1)
				sizes := []int{1, 4, 8, 10, 16, 20, whole, 64}
				best := make([]time.Duration, len(sizes))
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				works, batches := make([]Workspace, len(sizes)), make([]*Batch, len(sizes))
				for i, n := range sizes {
					works[i], batches[i] = on(m, n, c), randomBatch(m, n, r)
				}
				for b.Loop() {
					for turn := range 5 * len(sizes) {
						i, start := turn/5, processorTime()
						if _, err := works[i].Step(params, batches[i], 1e-4); err != nil {
							b.Fatal(err)
						}
						if took := processorTime() - start; best[i] == 0 || took < best[i] {
							best[i] = took
						}
					}
				}
				b.ReportMetric(best[slices.Index(sizes, whole)].Seconds()*1e6, "best-µs/step")
				for i, n := range sizes {
					share := best[i].Seconds() / float64(n) / (best[slices.Index(sizes, whole)].Seconds() / whole)
					b.ReportMetric(share, fmt.Sprintf("%d/%d", n, whole))
				}
			})
		}
	}
}
