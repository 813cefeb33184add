package learn

import (
	"fmt"

	"fedpace/actors/learn/internal/kernel"
	"fedpace/internal/registry"
)

func init() { Models.Register("layers", "a list of layers, as a PyTorch Sequential", Sequential{}) }

// Sequential is a model built of layers, of which each reads what the one before makes.
// It ends in softmax cross-entropy for samples with labels and in the mean squared error
// for samples with targets. The sizes of its input are those of the samples.
type Sequential struct {
	Layers []Layer `key:"layers" is:"short" help:"the layers from the input to the output, e.g. [flatten, dense: 200, relu, dense]"`

	of Samples // of a model that a message names
}

// Limits of a list.
const (
	maxList        = 256     // layers
	maxNesting     = 8       // lists within each other
	maxActivations = 1 << 23 // values of a sample between all layers, and taps of its convolutions
)

// Validate finds layers that do not fit each other whatever the samples are.
func (a Sequential) Validate() error {
	if err := checkList(a.Layers, 1); err != nil {
		return registry.Errorf("", "%v", err)
	}
	if _, err := shapes(a.Layers, Shape{Unknown: true}); err != nil {
		return registry.Errorf("", "%v", err)
	}
	return nil
}

// checkList refuses lists that nest too deep, and dense layers without a width that are
// not the model's last layer.
func checkList(list []Layer, depth int) error {
	if depth > maxNesting {
		return fmt.Errorf("residual layers within each other over %d times", maxNesting)
	}
	for i, l := range list {
		switch l := l.(type) {
		case DenseLayer:
			if l.Width == 0 && (depth > 1 || i < len(list)-1) {
				return fmt.Errorf("layer %d (dense): only the model's last layer may leave its width open (write dense: 100)", i+1)
			}
		case ResidualLayer:
			if err := checkList(l.Layers, depth+1); err != nil {
				return fmt.Errorf("layer %d (residual): %w", i+1, err)
			}
		}
	}
	return nil
}

func (a Sequential) Model(of Samples) (Model, error) {
	if a.of != (Samples{}) {
		of = a.of
	}
	outputs := max(of.Classes, of.Targets)
	switch {
	case of.Features < 1 || of.Features > maxWidth:
		return nil, fmt.Errorf("%d features of a sample are not 1 to %d", of.Features, maxWidth)
	case outputs < 1 || outputs > maxWidth || of.Targets == 0 && of.Classes < 2:
		return nil, fmt.Errorf("%d classes and %d targets; a classifier needs at least 2 classes", of.Classes, of.Targets)
	case of.Input == Tokens && (of.Vocabulary < 2 || of.Vocabulary > 256):
		return nil, fmt.Errorf("a vocabulary of %d; a token is a byte, from 2 to 256", of.Vocabulary)
	case of.Image != [3]int{} && (of.Input != Dense || min(of.Image[0], of.Image[1], of.Image[2]) < 1 || product(of.Image[:]...) != int64(of.Features)):
		return nil, fmt.Errorf("an image of %v is not %d values", of.Image, of.Features)
	}
	if err := checkList(a.Layers, 1); err != nil {
		return nil, err
	}
	list := closed(a.Layers, outputs)
	in := shapeOf(of)
	out, err := shapes(list, in)
	if err != nil {
		return nil, err
	}
	if out != vector(outputs) {
		what := fmt.Sprintf("%d classes", of.Classes)
		if of.Targets > 0 {
			what = fmt.Sprintf("%d targets", of.Targets)
		}
		return nil, fmt.Errorf("the last layer makes %v; the samples have %s (end with dense)", out, what)
	}
	if volume(list, in) > maxActivations {
		return nil, fmt.Errorf("the layers make more than %d values of one sample", maxActivations)
	}
	if n := count(parametersOf(list, in)); n < 1 || n > MaxParams {
		return nil, fmt.Errorf("%d parameters; a model has 1 to %d", n, MaxParams)
	}
	spec, err := nameOf(of, list)
	if err != nil {
		return nil, err
	}
	return sequential(Sequential{list, of}, spec, of, list), nil
}

// closed gives the last layer the width that it leaves open.
func closed(list []Layer, outputs int) []Layer {
	last := len(list) - 1
	if last < 0 || list[last] != Layer(DenseLayer{}) {
		return list
	}
	return append(list[:last:last], DenseLayer{outputs})
}

// volume is how many values layers make of one sample, and how many taps convolutions
// have for all of their inputs. It stops counting beyond what is allowed.
func volume(list []Layer, in Shape) (n int64) {
	n = product(in.Height, in.Width, in.Channels)
	if in.Form == Text || in.Form == Words {
		n = 0
	}
	for _, l := range list {
		switch l := l.(type) {
		case ConvLayer:
			n += product(in.Height, in.Width, l.Size, l.Size)
		case ResidualLayer:
			n += volume(l.Layers, in)
		}
		in, _ = l.Shape(in)
		if n += product(in.Height, in.Width, in.Channels); n > maxActivations {
			break
		}
	}
	return n
}

// sequential makes the model of layers that fit each other and the samples. names are
// the layers' where their numbers would not do; their parameters go by them.
func sequential(of Architecture, spec string, samples Samples, list []Layer, names ...string) *model {
	m := &model{of: of, spec: spec, samples: samples, metrics: metricsOf(samples)}
	in := shapeOf(samples)
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
	m.arithmetic = func(maxBatch int, isa kernel.ISA) arithmetic {
		if len(list) == 1 && samples.Input == Sparse && samples.Targets == 0 {
			return &linearWork{newColumns(samples.Features, samples.Classes)}
		}
		return newNetwork(m, list, maxBatch, isa)
	}
	return m
}
