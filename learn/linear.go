package learn

import "fedpace/learn/network"

func init() { Models.Register("linear", "one layer, sized by the data", Linear{}) }

// Linear is one dense layer. On bags of words a step reads and writes only the columns of the batch's
// words; on dense rows it is an [MLP] of two widths, and for samples with targets a [Sequential] with one
// layer. Sizes that are 0 are those of the data.
type Linear struct{ Features, Classes int }

// Model makes the model with its own sizes, or with those of the samples where it has none. The empty
// prefix of names makes the parameters "weight" and "bias", as of a single PyTorch Linear.
func (a Linear) Model(samples Samples) (Model, error) {
	switch {
	case a != Linear{}:
	case samples.Targets > 0:
		return Sequential{Layers: []network.Layer{network.DenseLayer{}}}.Model(samples)
	case samples.Input != Sparse:
		return MLP{[]int{samples.Features, samples.Classes}}.Model(samples)
	default:
		a = Linear{samples.Features, samples.Classes}
	}
	bags := Samples{Input: Sparse, Features: a.Features, Classes: a.Classes}
	return sequential(NameOf(a), bags, []network.Layer{network.DenseLayer{Width: a.Classes}}, "")
}
