package actors

import (
	"fmt"
	"slices"
	"testing"

	"fedpace/algorithm"
	"fedpace/internal/vector"
	"fedpace/learn"
)

// What a device sends and keeps, task after task, is what a job adds up and a simulated client keeps,
// to the bit: with an optimizer that goes on, and with compression, whose updates take no more
// bytes than they should when they are packed.
func TestDevice_SendsSumsOfJobs(t *testing.T) {
	model, set, base := world(t)
	for _, o := range []learn.Optimizer{nil, adamW} {
		for method, most := range map[algorithm.Compression]float64{
			nil: 0, algorithm.FourBit{Format: "e3m0", Block: 1024}: 4.6, algorithm.SparseLoCo{Share: 0.02, Chunk: 4096, Decay: 0.95}: 0.7, algorithm.QSGD{Levels: 3}: 4, algorithm.Sign{Step: 0.01}: 2,
		} {
			p := Problem{Model: model, Set: set, Seed: 1, Batch: 32, Augment: NoAugment, Algorithm: algorithm.Default, Optimizer: o, Compression: method, Kernel: fastest(t)}
			zero := base
			if method != nil {
				zero = make([]float32, len(base))
			}
			job, err := NewTrainer(p)
			if err != nil {
				t.Fatal(err)
			}
			device, err := NewTrainer(p)
			if err != nil {
				t.Fatal(err)
			}
			var shared *Shared
			if job.StateLength() > 0 {
				shared = &Shared{Residuals: true}
			}
			work := Assignment{Client: 5, LocalSteps: 4, Rate: 0.01, Weight: 0.5}
			for work.Task = 1; work.Task <= 3; work.Task++ {
				name := fmt.Sprintf("%T, %T, task %d", o, method, work.Task)
				want, got := make([]int64, len(base)), make([]int64, len(base))
				out, err := job.Train(t.Context(), base, shared, []Assignment{work}, want)
				if err != nil {
					t.Fatal(name, err)
				}
				values, kept, loss, err := device.Local(t.Context(), base, work)
				if err != nil {
					t.Fatal(name, err)
				}
				if bad := learn.AddExact(got, work.Weight, values, zero); bad >= 0 || !slices.Equal(got, want) || loss != out[0].FirstStepLoss {
					t.Errorf("%s: a device's update is not that of the job", name)
				}
				if !slices.Equal(kept, out[0].State) || len(kept) != job.StateLength() {
					t.Errorf("%s: a device keeps %d values, others than a simulated client (%d)", name, len(kept), len(out[0].State))
				}
				if bits := 8 * float64(len(vector.Pack(values))) / float64(len(values)); method != nil && bits > most {
					t.Errorf("%s: a value takes %.2f bits, at most %g are wanted", name, bits, most)
				}
				work.State, work.StepsDone = kept, work.StepsDone+4
			}
		}
	}
}
