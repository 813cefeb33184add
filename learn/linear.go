package learn

import "fedpace/learn/network"

func init() { Models.Register("linear", "one layer, sized by the data", Linear{}) }

// Linear is one dense layer. On bags of words a step reads and writes only the columns of the batch's
// words; on dense rows it is an [MLP] of two widths, and for samples with targets a [Sequential] with one
// layer. Sizes that are 0 are those of the data.
type Linear struct{ Features, Classes int }

// Model returns a model for bags of words if a has sizes, as it has when the name of a model is read.
// Without sizes, it returns the model with one dense layer that fits the samples.
func (a Linear) Model(samples Samples) (Model, error) {
	if a == (Linear{}) {
		switch {
		case samples.Targets > 0:
			return Sequential{Layers: []network.Layer{network.DenseLayer{}}}.Model(samples)
		case samples.Input != Sparse:
			return MLP{[]int{samples.Features, samples.Classes}}.Model(samples)
		}
		a = Linear{samples.Features, samples.Classes}
	}
	bags := Samples{Input: Sparse, Features: a.Features, Classes: a.Classes}
	// Without a prefix the parameters are named weight and bias, as those of a single PyTorch Linear.
	return sequential(NameOf(a), bags, []network.Layer{network.DenseLayer{Width: a.Classes}}, "")
}
