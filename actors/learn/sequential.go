package learn

import (
	"fmt"

	"fedpace/actors/learn/internal/kernel"
	"fedpace/actors/learn/network"
	"fedpace/internal/registry"
)

func init() { Models.Register("layers", "a list of layers, as a PyTorch Sequential", Sequential{}) }

// Sequential is a model built of layers, of which each reads what the one before makes.
// It ends in softmax cross-entropy for samples with labels and in the mean squared error
// for samples with targets. The sizes of its input are those of the samples.
type Sequential struct {
	Layers []network.Layer `key:"layers" is:"short" help:"the layers from the input to the output, e.g. [flatten, dense: 200, relu, dense]"`

	of Samples // of a model that a message names
}

// Validate finds layers that do not fit each other whatever the samples are.
func (a Sequential) Validate() error {
	if err := network.Check(a.Layers); err != nil {
		return registry.Errorf("", "%v", err)
	}
	return nil
}

func (a Sequential) Model(of Samples) (Model, error) {
	if a.of != (Samples{}) {
		of = a.of
	}
	list, err := network.Fit(a.Layers, of)
	if err != nil {
		return nil, err
	}
	spec, err := nameOf(of, list)
	if err != nil {
		return nil, err
	}
	return sequential(Sequential{list, of}, spec, of, list), nil
}

// sequential makes the model of layers that fit each other and the samples. names are
// the layers' where their numbers would not do; their parameters go by them.
func sequential(of Architecture, spec string, samples Samples, list []network.Layer, names ...string) *model {
	m := &model{of: of, spec: spec, samples: samples, metrics: network.MetricsOf(samples)}
	in := network.ShapeOf(samples)
	for i, l := range list {
		prefix := fmt.Sprintf("%d.", i)
		if names != nil {
			prefix = names[i]
		}
		for _, p := range l.Parameters(in) {
			m.add(prefix+p.Name, p.Init, p.Shape...)
		}
		in, _ = l.Shape(in)
	}
	m.arithmetic = func(maxBatch int, isa kernel.ISA) network.Arithmetic {
		return network.New(list, samples, m.params, maxBatch, isa)
	}
	return m
}
