package learn

import (
	"fmt"
	"strings"

	"fedpace/actors/learn/internal/kernel"
	"fedpace/internal/registry"
)

func init() { Models.Register("mlp", "dense layers with ReLU between them", MLP{}) }

// MLP is dense layers with ReLU between them (FEMNIST's is 784,200,200,62). Two
// widths are a dense linear model.
type MLP struct {
	Layers []int `key:"mlp" range:"[1,1048576]" help:"widths from the inputs to the classes, e.g. [784, 200, 62]"`
}

// Validate finds widths of which no model can be made.
func (a MLP) Validate() error {
	_, err := a.Model(Samples{})
	return registry.Below("mlp", err)
}

func (a MLP) Model(Samples) (Model, error) {
	n := a.Layers
	last := len(n) - 1
	if last < 1 {
		return nil, fmt.Errorf("%d widths, want FEATURES,HIDDEN,...,CLASSES", len(n))
	}
	params := int64(0)
	for l := range last {
		params += product(n[l]+1, n[l+1])
	}
	if err := checkSizes(params, n[last], n...); err != nil {
		return nil, err
	}
	spec := "mlp:" + strings.ReplaceAll(strings.Trim(fmt.Sprint(n), "[]"), " ", ",")
	m := &model{of: a, spec: spec, samples: Samples{Input: Dense, Features: n[0], Classes: n[last]}, metrics: accuracy}
	for l := range last {
		// As in a PyTorch Sequential, where every other module is a ReLU.
		m.addLayer(fmt.Sprintf("%d.", 2*l), fanIn(n[l]), n[l+1], n[l])
	}
	m.arithmetic = func(maxBatch int, isa kernel.ISA) arithmetic {
		s := newStack(isa, n, 0, maxBatch)
		return blockwise{mlpWork{s}, &s.head}
	}
	return m, nil
}

func (MLP) Parse(sizes string) (Architecture, error) {
	var a MLP
	err := scan(sizes, "FEATURES,HIDDEN,...,CLASSES", &a.Layers)
	return a, err
}

type mlpWork struct{ *stack }

func (w mlpWork) begin(_ []float32, b *Batch) { w.layers[0].rows = b.X }

func (w mlpWork) forward(params []float32, b *Batch, k, from, n int, _ bool) []float32 {
	d := &w.layers[0]
	d.isa.Transpose(kernel.Block(d.input(k)), kernel.Matrix{Data: b.X[from*d.in:], LD: d.in}, n, d.in)
	return w.stack.forward(params, k, n)
}

func (w mlpWork) update(dst []float32, b *Batch, op kernel.Op, alpha float32) {
	w.stack.update(dst, b.N, op, alpha)
}
