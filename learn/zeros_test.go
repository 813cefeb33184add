package learn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"fedpace/learn/internal/kernel"
)

// Features that are 0 in a whole block are left out four by four where their number can be
// divided by four. A model of one feature more, always 0, leaves out none, and is led to the same bits.
func TestDense_ZerosLeftOutToBit(t *testing.T) {
	const features, width, classes, most = 96, 20, 5, 70
	for _, c := range kernel.Available() {
		t.Run(c.String(), func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 1))
			less, more := parse(t, fmt.Sprintf("mlp:%d,%d,%d", features, width, classes)), parse(t, fmt.Sprintf("mlp:%d,%d,%d", features+1, width, classes))
			params := make([]float32, less.Params())
			less.Init(params, 1)
			wider := spread(params, features, width)
			of, beside := on(less, most, c), on(more, most, c)
			for _, n := range []int{1, 3, 8, 32, 33, most} {
				for _, part := range []int{2, 10, 90, 100} { // percent of the features that are 0 in a block
					batch := randomBatch(less, n, r)
					for i := range batch.X {
						if hide := rand.New(rand.NewPCG(uint64(i/features/32), uint64(i%features/3))); hide.IntN(100) < part || r.IntN(9) == 0 {
							batch.X[i] = 0
						}
					}
					same := *batch
					same.X = spread(batch.X, features, n)
					scores := [2][]Score{make([]Score, len(less.Metrics())), make([]Score, len(less.Metrics()))}
					first, _ := of.Evaluate(params, batch, scores[0])
					second, err := beside.Evaluate(wider, &same, scores[1])
					if err != nil || first != second || !slices.Equal(scores[0], scores[1]) {
						t.Fatalf("%d samples, %d %% zeros: loss %v with %v, want %v with %v (%v)", n, part, first, scores[0], second, scores[1], err)
					}
					grad, widerGrad := slices.Repeat([]float32{7}, len(params)), make([]float32, len(wider))
					first, _ = of.Gradient(grad, params, batch)
					second, err = beside.Gradient(widerGrad, wider, &same)
					if want := spread(grad, features, width); err != nil || first != second || !slices.Equal(want, widerGrad) {
						t.Fatalf("%d samples, %d %% zeros: another gradient (%v)", n, part, err)
					}
					first, _ = of.Step(params, batch, 0.3)
					second, err = beside.Step(wider, &same, 0.3)
					if want := spread(params, features, width); err != nil || first != second || !slices.Equal(want, wider) {
						t.Fatalf("%d samples, %d %% zeros: a step leads elsewhere (%v)", n, part, err)
					}
				}
			}
		})
	}
}

// spread puts a 0 behind each of the first rows.
func spread(x []float32, row, rows int) (wider []float32) {
	for i := range rows {
		wider = append(append(wider, x[i*row:(i+1)*row]...), 0)
	}
	return append(wider, x[row*rows:]...)
}

// A step leaves out the samples in which a ReLU has stopped the gradient of an output. The gradient that is
// stored sums them all, and leads to the same bits.
func TestDense_StoppedGradients(t *testing.T) {
	for _, spec := range []string{"mlp:20,50,40,5", "mlp:20,16,64,5", "mlp:20,15,30,5"} {
		everyISA(t, func(t *testing.T, isa kernel.ISA) {
			m := parse(t, spec)
			r := rand.New(rand.NewPCG(1, 1))
			params, grad := make([]float32, m.Params()), make([]float32, m.Params())
			m.Init(params, 1)
			w := on(m, 70, isa)
			for _, n := range []int{25, 29, 32} {
				batch := randomBatch(m, n, r)
				if _, err := w.Gradient(grad, params, batch); err != nil {
					t.Fatal(err)
				}
				want := make([]float32, len(params))
				for i, g := range grad {
					// Plain Go rounds the product before it is added; assembly does not.
					want[i] = params[i] + float32(-0.3*g)
					if isa != kernel.Go {
						want[i] = float32(math.FMA(float64(float32(-0.3)), float64(g), float64(params[i])))
					}
				}
				if _, err := w.Step(params, batch, 0.3); err != nil {
					t.Fatal(err)
				}
				weights := m.Tensors()[2]
				if !slices.Equal(params[weights.Offset:][:weights.Len()], want[weights.Offset:][:weights.Len()]) {
					t.Fatalf("%s, %d samples: a step leads elsewhere than the gradient", spec, n)
				}
			}
		})
	}
}
