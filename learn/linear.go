package learn

import "fedpace/learn/network"

func init() { Models.Register("linear", "one layer, sized by the data", Linear{}) }

// Linear is one layer: on bags of words, of which only the columns of a batch's words
// are read and written, or on dense rows. Sizes that are 0 are those of the data. On
// samples with targets it is the list [dense].
type Linear struct{ Features, Classes int }

// Model makes the model with its own sizes, or with those of the samples where it has none. The empty
// prefix of names makes the parameters "weight" and "bias", as of a single PyTorch Linear.
func (a Linear) Model(of Samples) (Model, error) {
	switch {
	case a != Linear{}:
	case of.Targets > 0:
		return Sequential{Layers: []network.Layer{network.DenseLayer{}}}.Model(of)
	case of.Input != Sparse:
		return MLP{[]int{of.Features, of.Classes}}.Model(of)
	default:
		a = Linear{of.Features, of.Classes}
	}
	samples := Samples{Input: Sparse, Features: a.Features, Classes: a.Classes}
	return sequential(NameOf(a), samples, []network.Layer{network.DenseLayer{Width: a.Classes}}, "")
}
