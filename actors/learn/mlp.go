package learn

import (
	"fmt"
	"strings"

	"fedpace/actors/learn/network"
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
		params += network.Product(n[l]+1, n[l+1])
	}
	if err := checkSizes(params, n[last], n...); err != nil {
		return nil, err
	}
	spec := "mlp:" + strings.ReplaceAll(strings.Trim(fmt.Sprint(n), "[]"), " ", ",")
	var list []network.Layer
	for l, width := range n[1:] {
		if l > 0 {
			list = append(list, network.ReLULayer{})
		}
		list = append(list, network.DenseLayer{Width: width})
	}
	return sequential(a, spec, Samples{Input: Dense, Features: n[0], Classes: n[last]}, list), nil
}

func (MLP) Parse(sizes string) (Architecture, error) {
	var a MLP
	err := scan(sizes, "FEATURES,HIDDEN,...,CLASSES", &a.Layers)
	return a, err
}
