package learn

import (
	"fmt"

	"fedpace/learn/network"
	"fedpace/registry"
)

func init() { Models.Register("mlp", "dense layers with ReLU between them", MLP{}) }

// MLP is dense layers with ReLU between them (FEMNIST's is 784,200,200,62). Two
// widths are a dense linear model.
type MLP struct {
	Layers []int `key:"mlp" range:"[1,1048576]" help:"widths from inputs to classes, e.g. [784, 200, 62]"`
}

// Validate refuses widths of which no model can be made.
func (a MLP) Validate() error {
	_, err := a.Model(Samples{})
	return registry.Below("mlp", err)
}

// Model returns the model. Layers has all of its sizes, so the samples are not used.
func (a MLP) Model(Samples) (Model, error) {
	n := a.Layers
	last := len(n) - 1
	if last < 1 {
		return nil, fmt.Errorf("%d widths, want FEATURES,HIDDEN,...,CLASSES", len(n))
	}
	var list []network.Layer
	for l, width := range n[1:] {
		if l > 0 {
			list = append(list, network.ReLULayer{})
		}
		list = append(list, network.DenseLayer{Width: width})
	}
	return sequential(NameOf(a), Samples{Input: Dense, Features: n[0], Classes: n[last]}, list)
}
