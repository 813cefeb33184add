package learn

import (
	"fmt"

	"fedpace/actors/learn/network"
)

func init() { Models.Register("linear", "one layer; its sizes are those of the data", Linear{}) }

// Linear is one layer: on bags of words, of which only the columns of a batch's words
// are read and written, or on dense rows. Sizes that are 0 are those of the data. On
// samples with targets it is the list [dense].
type Linear struct{ Features, Classes int }

func (a Linear) Model(of Samples) (Model, error) {
	if a == (Linear{}) && of.Targets > 0 {
		return Sequential{Layers: []network.Layer{network.DenseLayer{}}}.Model(of)
	}
	if a == (Linear{}) && of.Input != Sparse {
		return MLP{[]int{of.Features, of.Classes}}.Model(of)
	}
	if a == (Linear{}) {
		a = Linear{of.Features, of.Classes}
	}
	if err := checkSizes(network.Product(a.Features+1, a.Classes), a.Classes, a.Features, a.Classes); err != nil {
		return nil, err
	}
	samples := Samples{Input: Sparse, Features: a.Features, Classes: a.Classes}
	return sequential(a, fmt.Sprintf("linear:%d,%d", a.Features, a.Classes), samples, []network.Layer{network.DenseLayer{Width: a.Classes}}, ""), nil
}

func (Linear) Parse(sizes string) (Architecture, error) {
	var n [2]int
	err := scan(sizes, "FEATURES,CLASSES", &n)
	return Linear{n[0], n[1]}, err
}
