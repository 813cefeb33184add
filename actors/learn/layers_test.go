package learn

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"fedpace/actors/learn/internal/kernel"
)

// layered is what testdata/layers.py says of a network.
type layered struct {
	Name    string
	Tensors []string
	Batches []struct {
		N        int
		Loss     float64
		Gradient goldenSummary
	}
}

func layeredNetworks(t testing.TB) (list []layered) {
	raw, err := os.ReadFile("testdata/layers.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// layeredWeights are as layers.py has them.
func layeredWeights(m Model, scales func(tensor string) bool) []float32 {
	params := make([]float32, m.Params())
	for i, t := range m.Tensors() {
		fan := 16
		if len(t.Shape) > 1 {
			fan = t.Len() / t.Shape[0]
		}
		bound := float32(1 / math.Sqrt(float64(fan)))
		for j := range t.Len() {
			params[t.Offset+j] = goldenUniform(1000+i, j) * bound
			if scales(t.Name) {
				params[t.Offset+j]++
			}
		}
	}
	return params
}

// isScale reports whether a tensor is the weight of a norm: one of a single dimension.
func isScale(m Model) func(string) bool {
	return func(name string) bool {
		i := slices.IndexFunc(m.Tensors(), func(t Tensor) bool { return t.Name == name })
		return strings.HasSuffix(name, "weight") && len(m.Tensors()[i].Shape) == 1
	}
}

// layeredBatch is as layers.py has it.
func layeredBatch(m Model, n int) *Batch {
	of, b := m.Samples(), &Batch{N: n}
	for s := range n {
		if of.Targets == 0 {
			b.Labels = append(b.Labels, int32(goldenHash(2003, s)%uint64(of.Classes)))
		}
	}
	for i := range n * of.Targets {
		b.Targets = append(b.Targets, goldenUniform(2003, i))
	}
	switch of.Input {
	case Dense:
		for i := range n * of.Features {
			b.X = append(b.X, goldenUniform(2001, i))
		}
	case Tokens:
		for i := range n * of.Features {
			b.Tokens = append(b.Tokens, uint8(goldenHash(2001, i)%uint64(of.Vocabulary)))
		}
	case Sparse:
		b.RowStart = append(b.RowStart, 0)
		for s := range n {
			for w := range 3 {
				b.Index = append(b.Index, int32(goldenHash(2001, s)%20)+int32(20*w))
				b.Value = append(b.Value, float32(math.Abs(float64(goldenUniform(2002, 3*s+w)))))
			}
			b.RowStart = append(b.RowStart, int32(len(b.Index)))
		}
	}
	return b
}

// Every layer, alone and in networks, has PyTorch's gradient within a part in 100,000,
// and the names of its state_dict, by every instruction set.
func TestLayersHaveTheGradientsOfPyTorch(t *testing.T) {
	everyISA(t, func(t *testing.T, isa kernel.ISA) {
		for _, l := range layeredNetworks(t) {
			m := parse(t, l.Name)
			var names []string
			for _, part := range m.Tensors() {
				names = append(names, part.Name)
			}
			if !slices.Equal(names, l.Tensors) {
				t.Errorf("%s: tensors %v, PyTorch's are %v", l.Name, names, l.Tensors)
				continue
			}
			params, gradient := layeredWeights(m, isScale(m)), make([]float32, m.Params())
			w := on(m, 40, isa)
			for _, want := range l.Batches {
				if isa == kernel.Go && want.N > 32 && m.Params() > 50_000 && os.Getenv("FEDPACE_LONG") == "" {
					continue
				}
				b := layeredBatch(m, want.N)
				loss, err := w.Gradient(gradient, params, b)
				if err != nil {
					t.Fatal(err)
				}
				if math.Abs(loss-want.Loss) > 1e-5*want.Loss {
					t.Errorf("%s, %d samples: loss %v, PyTorch %v", l.Name, want.N, loss, want.Loss)
				}
				if d := want.Gradient.distance(gradient) / want.Gradient.Norm; d > 1e-5 {
					t.Errorf("%s, %d samples: the gradient is %.2g from PyTorch's", l.Name, want.N, d)
				}
				scores := make([]Score, 1)
				if sum, err := w.Evaluate(params, b, scores); err != nil || math.Abs(sum/float64(want.N)-want.Loss) > 1e-5*want.Loss || scores[0].Weight != float64(want.N) {
					t.Errorf("%s, %d samples: evaluation %v with weight %g, %v", l.Name, want.N, sum/float64(want.N), scores[0].Weight, err)
				}
			}
		}
	})
}

