package learn

import (
	"fmt"

	"fedpace/learn/internal/kernel"
	"fedpace/learn/network"
	"fedpace/registry"
)

func init() { Models.Register("layers", "a list of layers, as a PyTorch Sequential", Sequential{}) }

// Sequential is a model built of layers, of which each reads what the one before makes.
// It ends in softmax cross-entropy for samples with labels and in the mean squared error
// for samples with targets. The sizes of its input are those of the samples.
type Sequential struct {
	Layers []network.Layer `key:"layers" is:"short" help:"layers from input to output, e.g. [flatten, dense: 200, relu, dense]"`
}

// Validate refuses layers that do not fit each other, whatever the samples are.
func (a Sequential) Validate() error {
	if err := network.Check(a.Layers); err != nil {
		return registry.Errorf("", "%v", err)
	}
	return nil
}

// Model makes the model for such samples. Its name holds the samples and the layers, so that [Parse]
// can make the same model without the data.
func (a Sequential) Model(samples Samples) (Model, error) {
	list, err := network.Fit(a.Layers, samples)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("layers:%s;%s", samplesText(samples), layersText(list))
	if len(name) > maxName {
		return nil, fmt.Errorf(
			"a list of layers whose name takes %d bytes is too long (at most %d)",
			len(name),
			maxName,
		)
	}
	return sequential(name, samples, list)
}

// sequential makes a model of layers, which must fit each other and the samples. names has a prefix for the
// names of each layer's parameters; without it that is the layer's number and a dot. The parameters lie
// region by region (see [network.Region]), and within a region in the order of the layers.
func sequential(name string, samples Samples, list []network.Layer, names ...string) (Model, error) {
	if _, err := network.Fit(list, samples); err != nil {
		return nil, err
	}
	model := newModel(name, samples)
	all := network.ParametersOf(list, network.ShapeOf(samples), names...)
	for region := network.Trained; region < network.Regions; region++ {
		before := model.params
		for i, p := range all {
			if p.Region() != region {
				continue
			}
			model.addTensor(i, p.Name, p.Init, p.Shape...)
			// Steps count batches, in whole numbers.
			if p.Integer {
				t := &model.tensors[len(model.tensors)-1]
				t.Type = "int64"
				t.Rule = Largest
			}
		}
		switch region {
		case network.Buffers, network.Counts:
			model.buffers += model.params - before
		case network.Frozen:
			model.frozen = model.params - before
		}
	}
	model.leastBatch = network.LeastBatch(list, samples)
	model.arithmetic = func(maxBatch int, isa kernel.ISA) network.Arithmetic {
		return network.New(list, samples, maxBatch, isa)
	}
	model.arranged = func(maxBatch int, isa kernel.ISA) *network.Arranged {
		return network.NewArranged(list, samples, maxBatch, isa)
	}
	return model, nil
}
