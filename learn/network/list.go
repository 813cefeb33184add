package network

import (
	"fmt"
	"slices"
)

// Limits of a list: what a mistyped number may at most ask for.
const (
	// MaxWidth bounds the outputs of a layer, and the values of a sample.
	MaxWidth = 1 << 20
	// MaxParams bounds the parameters of a model.
	MaxParams = 1 << 28
	// MaxNesting bounds how deeply lists lie within each other.
	MaxNesting = 8
	// maxList bounds the layers of one list.
	maxList = 256
	// maxActivations bounds the values of one sample between all layers, together with the taps of
	// its convolutions.
	maxActivations = 1 << 23
)

// Check returns an error for layers that cannot follow each other, whatever samples the model is
// given.
func Check(list []Layer) error {
	if err := checkList(list, 1); err != nil {
		return err
	}
	_, err := outputShape(list, Shape{Unknown: true})
	return err
}

// Fit checks the layers for samples of the given kind. It returns an error for samples or layers
// that are beyond the limits, or that do not fit each other. Otherwise it returns the list, in
// which the last dense layer has the width that the samples' classes or targets need if its own was
// open.
func Fit(list []Layer, samples Samples) ([]Layer, error) {
	outputs := max(samples.Classes, samples.Targets)
	switch {
	case samples.Features < 1 || samples.Features > MaxWidth:
		return nil, fmt.Errorf("%d features of a sample are not 1 to %d", samples.Features, MaxWidth)
	case outputs < 1 ||
		outputs > MaxWidth ||
		samples.Targets == 0 && samples.Classes < 2:
		return nil, fmt.Errorf(
			"%d classes and %d targets; a classifier needs at least 2 classes",
			samples.Classes,
			samples.Targets,
		)
	case samples.Input == Tokens && (samples.Vocabulary < 2 || samples.Vocabulary > 256):
		return nil, fmt.Errorf("a vocabulary of %d; a token is a byte, from 2 to 256", samples.Vocabulary)
	case samples.Image != [3]int{} &&
		(samples.Input != Dense ||
			min(samples.Image[0], samples.Image[1], samples.Image[2]) < 1 ||
			Product(samples.Image[:]...) != int64(samples.Features)):
		return nil, fmt.Errorf("an image of %v is not %d values", samples.Image, samples.Features)
	}
	if err := checkList(list, 1); err != nil {
		return nil, err
	}
	// The width of the last layer follows from the samples, so that shapes can be computed.
	list = withOpenWidth(list, outputs)
	in := ShapeOf(samples)
	output, err := outputShape(list, in)
	if err != nil {
		return nil, err
	}
	// The outputs are the logits of the classes, or the predictions of the targets.
	if output != vector(outputs) {
		wanted := fmt.Sprintf("%d classes", samples.Classes)
		if samples.Targets > 0 {
			wanted = fmt.Sprintf("%d targets", samples.Targets)
		}
		return nil, fmt.Errorf("the last layer makes %v; the samples have %s (end with dense)", output, wanted)
	}
	if activationVolume(list, in) > maxActivations {
		return nil, fmt.Errorf("the layers make more than %d values of one sample", maxActivations)
	}
	// A model has parameters, some of which train.
	parameters := ParametersOf(list, in)
	switch n := countValues(parameters); {
	case n < 1:
		return nil, fmt.Errorf("0 parameters; a model has at least 1")
	case !trains(parameters):
		return nil, fmt.Errorf("all parameters are frozen; at least one layer trains (leave frozen out of it)")
	case n > MaxParams:
		return nil, fmt.Errorf("more than %d parameters", MaxParams)
	}
	return list, nil
}

// checkList returns an error for lists that nest deeper than MaxNesting, and for a dense layer without a
// width that is not the model's last layer. depth is the number of lists around the layers, this one
// included.
func checkList(list []Layer, depth int) error {
	if depth > MaxNesting {
		return fmt.Errorf("residual layers within each other over %d times", MaxNesting)
	}
	for i, l := range list {
		switch l := l.(type) {
		// The width of an open layer follows from the classes, which only the model's outputs
		// match.
		case DenseLayer:
			if l.Width == 0 && (depth > 1 || i < len(list)-1) {
				return fmt.Errorf(
					"layer %d (dense): only the model's last layer may leave its width open (write dense: 100)",
					i+1,
				)
			}
		case ResidualLayer:
			if err := checkList(l.Layers, depth+1); err != nil {
				return fmt.Errorf("layer %d (residual): %w", i+1, err)
			}
		}
	}
	return nil
}

// withOpenWidth returns the list with outputs as the width of a last dense layer that leaves it open.
func withOpenWidth(list []Layer, outputs int) []Layer {
	last := len(list) - 1
	if last < 0 {
		return list
	}
	d, ok := list[last].(DenseLayer)
	if !ok || d.Width > 0 {
		return list
	}
	d.Width = outputs
	return append(list[:last:last], d)
}

// activationVolume returns how many values the layers hold for one sample: those between layers, the gates
// and states of all steps of a GRU, and for a convolution one for each tap at each position of its input, as
// its lists of runs have. It stops counting beyond maxActivations.
func activationVolume(list []Layer, in Shape) (n int64) {
	n = Product(in.Height, in.Width, in.Channels)
	// Tokens and words are read from the batch in place, so they take no memory of their own.
	if in.Form == Text || in.Form == Words {
		n = 0
	}
	for _, layer := range list {
		switch l := layer.(type) {
		case ConvLayer:
			n += Product(in.Height, in.Width, l.Size, l.Size)
		// Each step of a GRU keeps five values of each unit: its gates and states.
		case GRULayer:
			n += 5 * Product(in.Height, l.Width, l.Layers)
		case ResidualLayer:
			n += activationVolume(l.Layers, in)
		}
		in, _ = layer.Shape(in)
		n += Product(in.Height, in.Width, in.Channels)
		// More would not change the answer, and the sum must not overflow.
		if n > maxActivations {
			break
		}
	}
	return n
}

// layerName returns the name of a layer for messages: its registered name and, of a layer with options, these as its
// String gives them, as in "dense: 64".
func layerName(l Layer) string {
	text := Layers.NameOf(l)
	if d, ok := l.(fmt.Stringer); ok {
		text += d.String()
	}
	return text
}

// outputShape returns the shape of the outputs of a list of layers for inputs of shape in. The error names
// the first layer that does not fit. in is unknown (Shape.Unknown) if a configuration is checked before its samples
// are read; then so is the output, up to the first layer whose output does not depend on its input.
func outputShape(list []Layer, in Shape) (Shape, error) {
	if len(list) == 0 {
		return in, fmt.Errorf("a list without layers")
	}
	if len(list) > maxList {
		return in, fmt.Errorf("%d layers are more than %d", len(list), maxList)
	}
	for i, layer := range list {
		output, err := layer.Shape(in)
		if err != nil {
			return in, fmt.Errorf("layer %d (%s): %w", i+1, layerName(layer), err)
		}
		// Tokens and words are not values: only a layer that turns them into values can read them.
		if _, dense := layer.(DenseLayer); output.Form != Sequence &&
			!dense &&
			(in.Form == Text || in.Form == Words) {
			return in, fmt.Errorf(
				"layer %d (%s): it is given %v (put embedding or dense before it)",
				i+1,
				layerName(layer),
				in,
			)
		}
		for _, n := range []int{output.Height, output.Width, output.Channels} {
			if n < 0 || n > MaxWidth {
				return in, fmt.Errorf("layer %d (%s): %v is more than %d wide", i+1, layerName(layer), output, MaxWidth)
			}
		}
		// Each layer reads what the layer before it makes.
		in = output
	}
	return in, nil
}

// ParametersOf returns the parameters of a list whose shapes are known to fit. A parameter is named by the
// layer's number, as in PyTorch's Sequential, or by the prefix in names for its layer.
func ParametersOf(list []Layer, in Shape, names ...string) (all []Parameter) {
	for i, layer := range list {
		prefix := fmt.Sprintf("%d.", i)
		if names != nil {
			prefix = names[i]
		}
		for _, p := range parametersOf(layer, in) {
			p.Name = prefix + p.Name
			all = append(all, p)
		}
		in, _ = layer.Shape(in)
	}
	return all
}

// trains reports whether any of the parameters has a gradient.
func trains(parameters []Parameter) bool {
	return slices.ContainsFunc(parameters, func(p Parameter) bool { return p.Region() == Trained })
}

// countValues returns the total number of values of the parameters, or MaxParams + 1 if there are more than
// MaxParams.
func countValues(parameters []Parameter) (n int64) {
	for _, p := range parameters {
		n = min(n+Product(p.Shape...), MaxParams+1)
	}
	return n
}

// Product multiplies sizes. What is above MaxParams becomes MaxParams + 1, so that products
// of sizes that are too large do not overflow.
func Product(factors ...int) int64 {
	p := int64(1)
	for _, f := range factors {
		// The division avoids an overflow of the product.
		if f > 0 && p > MaxParams/int64(f) {
			return MaxParams + 1
		}
		p *= int64(f)
	}
	return p
}
