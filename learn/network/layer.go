package network

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"fedpace/learn/internal/kernel"
	"fedpace/registry"
)

// Layer is an entry of a model's list. It holds the options of the layer and says which shape its
// outputs have, which parameters it needs and how it computes. Layers are named and ordered as in a
// PyTorch Sequential, with flatten and dropout as layers of their own.
type Layer interface {
	// Shape returns the shape of the layer's outputs for inputs of the shape in. A size of 0 is not
	// known yet, as when a configuration is read before its data; so is the form of an Unknown
	// shape. The error for an input that does not fit says which shape would.
	Shape(in Shape) (Shape, error)
	// Parameters returns the layer's parameters in PyTorch's order, for an input whose sizes are
	// all known.
	Parameters(in Shape) []Parameter
	// Stage makes the computation of the layer for one worker, with its inputs and outputs at
	// place.
	Stage(place *Place) Stage
}

// Layers are those that a configuration and messages can name. In a list a layer is
// its name, or a map of its name to its options.
var Layers = registry.New[Layer]("layer", "")

// Parameter is one tensor of a layer.
type Parameter struct {
	// Name is the parameter's name within the layer, such as weight.
	Name string
	// Shape holds the tensor's sizes, the outermost dimension first.
	Shape []int
	// Init draws the initial values. If it is nil, they are zero.
	Init Init

	// Frozen says that the parameter does not change.
	Frozen bool
	// Buffer says that the parameter follows from the samples of steps and has no gradient, as the
	// running mean of a batch norm. Integer says that it is a buffer of whole numbers that count.
	Buffer, Integer bool
}

// Region is one of the parts of a model's flat parameters, which follow each other in this order.
type Region int

// The regions.
const (
	// Trained parameters have a gradient.
	Trained Region = iota
	// Buffers are numbers that follow from the samples of steps.
	Buffers
	// Counts are buffers of whole numbers.
	Counts
	// Frozen parameters and buffers never change.
	Frozen
	// Regions is the number of regions.
	Regions
)

// Region returns the region in which a parameter lies.
func (p Parameter) Region() Region {
	switch {
	case p.Frozen:
		return Frozen
	case p.Integer:
		return Counts
	case p.Buffer:
		return Buffers
	}
	return Trained
}

// regionSizes returns the number of values of the parameters in each region.
func regionSizes(parameters []Parameter) (sizes [Regions]int) {
	for _, p := range parameters {
		sizes[p.Region()] += int(Product(p.Shape...))
	}
	return sizes
}

// Freezing is the option of layers that have parameters: whether they train.
type Freezing struct {
	Frozen bool `key:"frozen" default:"false" help:"parameters are not trained, nor sent with tasks"`
}

// freezes marks a layer that can be frozen, and reports whether it is.
func (f Freezing) freezes() bool { return f.Frozen }

// freezes reports whether a layer says that its parameters do not train.
func freezes(l Layer) bool {
	f, ok := l.(interface{ freezes() bool })
	return ok && f.freezes()
}

// parametersOf returns a layer's parameters for an input of shape in, in PyTorch's order. They are
// marked as frozen where the layer is.
func parametersOf(l Layer, in Shape) []Parameter {
	list := l.Parameters(in)
	for i := range list {
		list[i].Frozen = list[i].Frozen || freezes(l)
	}
	return list
}

// Init draws a tensor's initial values.
type Init func(part []float32, r *rand.Rand)

// constant returns an initialisation that sets all values of a tensor to v. It draws no random
// numbers.
func constant(v float32) Init {
	return func(part []float32, _ *rand.Rand) {
		for i := range part {
			part[i] = v
		}
	}
}

// weightAndBias returns a weight of a shape and a bias for its first dimension, both drawn within PyTorch's
// default bound for fan inputs.
func weightAndBias(fan int, shape ...int) []Parameter {
	return []Parameter{
		{Name: "weight", Shape: shape, Init: fanIn(fan)},
		{Name: "bias", Shape: shape[:1], Init: fanIn(fan)},
	}
}

// fanIn returns PyTorch's default initialisation of linear and convolution layers with n inputs:
// uniform on ±1/sqrt(n).
func fanIn(n int) Init {
	bound := 1 / math.Sqrt(float64(n))
	return func(part []float32, r *rand.Rand) {
		for i := range part {
			part[i] = float32((float64(2*float64(r.Float64())) - 1) * bound)
		}
	}
}

// Form is what the values of a sample are between two layers.
type Form int

// The forms.
const (
	// Vector is a form with Channels values.
	Vector Form = iota
	// Image has Height × Width positions of Channels values each.
	Image
	// Sequence has Height steps of Channels values each.
	Sequence
	// Text has Height tokens, each below Channels. Only a model's input has this form.
	Text
	// Words is a bag of words, each below Channels. Only a model's input has this form.
	Words
)

// String names the form in messages.
func (f Form) String() string {
	return [...]string{"a vector", "an image", "a sequence", "a text of tokens", "a bag of words"}[f]
}

// Shape is the form and the sizes of a sample between two layers. A size is 0 where it
// is not known yet, and 1 where the form has no such size.
type Shape struct {
	// Form says what the values of the sample are.
	Form Form
	// Unknown says that not even the form is known. This ends at the first layer that reads only
	// one form.
	Unknown bool
	// Height, Width and Channels are the sizes of the form.
	Height, Width, Channels int
}

// Size returns the number of a sample's values, 0 if it is not known.
func (s Shape) Size() int { return int(Product(s.Height, s.Width, s.Channels)) }

// String describes the shape for people, as in "an image of 32×32 with 3 channels". A size that is
// not known yet is shown as a question mark.
func (s Shape) String() string {
	n := func(v int) string {
		if v == 0 {
			return "?"
		}
		return fmt.Sprint(v)
	}
	if s.Unknown {
		return "samples of any form"
	}
	switch s.Form {
	case Image:
		return fmt.Sprintf("an image of %s×%s with %s channels", n(s.Height), n(s.Width), n(s.Channels))
	case Sequence:
		return fmt.Sprintf("a sequence of %s steps of %s values", n(s.Height), n(s.Channels))
	case Text:
		return fmt.Sprintf("a text of %s tokens", n(s.Height))
	case Words:
		return fmt.Sprintf("a bag of words from %s", n(s.Channels))
	}
	return fmt.Sprintf("a vector of %s values", n(s.Channels))
}

// require returns an error unless the input's form is one of forms. A form that is not known yet
// becomes known where only one is possible. hint ends the message and says what would help.
func (s *Shape) require(hint string, forms ...Form) error {
	switch {
	case s.Unknown && len(forms) == 1:
		*s = Shape{Form: forms[0]}
		return nil
	case s.Unknown || slices.Contains(forms, s.Form):
		return nil
	}
	var names []string
	for _, f := range forms {
		names = append(names, f.String())
	}
	return fmt.Errorf("it reads %s, and is given %v%s", strings.Join(names, " or "), *s, hint)
}

// vector returns the shape of a vector of n values; n is 0 if the number is not known yet.
func vector(n int) Shape {
	return Shape{
		Form:     Vector,
		Height:   1,
		Width:    1,
		Channels: n,
	}
}

// ShapeOf returns the shape of samples as the first layer reads them. It is unknown if the number
// of features is.
func ShapeOf(samples Samples) Shape {
	switch {
	case samples.Features == 0:
		return Shape{Unknown: true}
	case samples.Input == Tokens:
		return Shape{
			Form:     Text,
			Height:   samples.Features,
			Width:    1,
			Channels: samples.Vocabulary,
		}
	case samples.Input == Sparse:
		return Shape{
			Form:     Words,
			Height:   1,
			Width:    1,
			Channels: samples.Features,
		}
	case samples.Image != [3]int{}:
		return Shape{
			Form:     Image,
			Channels: samples.Image[0],
			Height:   samples.Image[1],
			Width:    samples.Image[2],
		}
	}
	// Other dense samples are plain vectors.
	return vector(samples.Features)
}

// Place is where a layer stands in a network: what it reads and writes.
type Place struct {
	// X holds the layer's inputs and Y its outputs.
	X, Y *Activation
	// Gradient says that Backward must leave the gradient of X.
	Gradient bool

	network *network
	// starts holds, for each region, the index of the layer's first parameter there in those of the
	// network. offset is that of the first one that trains, or of the first one that is frozen.
	starts [Regions]int
	offset int
	// frozen says that the layer's parameters do not train.
	frozen bool
}

// Stage is a layer at work. It is given whole blocks of samples, first forward and, for training, back
// again.
type Stage interface {
	// Forward writes the outputs of a block of its inputs.
	Forward(p *Pass)
	// Backward takes the gradient of the outputs, adds that of the parameters to
	// p.Gradient, and writes that of the inputs where the place wants it. It is not called
	// where no parameter trains and the place wants none.
	Backward(p *Pass)
}

// Pass is one block of samples on its way through a network. The network fills it in before each stage.
type Pass struct {
	// Samples is the number of samples in the block, at most [Lanes].
	Samples int
	// Training says that Backward will follow.
	Training bool
	// Parameters are the parameters of the layer.
	Parameters []float32
	// Gradient is the gradient of the layer's parameters, to which Backward adds.
	Gradient []float32

	// batch is the batch of which this is a block.
	batch *Batch
	// block is the number of the block in the batch, counted from 0.
	block int
	// first is the index in the batch of the block's first sample.
	first int
	// all holds the parameters of all layers.
	all []float32
}

// Lanes is the number of samples of a block, and the distance from one value of a
// block to the next.
const Lanes = kernel.Lanes
