package network

func init() {
	Layers.Register("average", "the mean of all positions or steps", AverageLayer{})
}

// AverageLayer is PyTorch's AdaptiveAvgPool2d(1) on an image, which stays one of 1×1, and
// the mean over time on a sequence, which becomes a vector.
type AverageLayer struct{}

// Shape keeps the channels and drops the positions: an image becomes one of 1×1, and a sequence a
// vector. Other inputs are an error.
func (AverageLayer) Shape(in Shape) (Shape, error) {
	if err := in.require("", Image, Sequence); err != nil {
		return in, err
	}
	output := Shape{
		Form:     Image,
		Height:   1,
		Width:    1,
		Channels: in.Channels,
	}
	if in.Form == Sequence {
		output.Form = Vector
	}
	return output, nil
}

// Parameters implements [Layer]: the layer has none.
func (AverageLayer) Parameters(Shape) []Parameter { return nil }

// Stage implements [Layer]: it returns what computes the layer at this place of a network, for one worker.
func (AverageLayer) Stage(place *Place) Stage {
	return &averageStage{place, alignedFloats(place.X.Channels * Lanes)}
}

// averageStage adds up whole positions, all channels and samples at once.
type averageStage struct {
	*Place
	// part is scratch space of channels × lanes values.
	part []float32
}

// Forward writes the mean over all positions for each channel and sample: it adds the positions in
// their order, and multiplies by one over their number. s.part is one position: a row of Lanes floats for each
// channel, one float for each sample of the block.
func (s *averageStage) Forward(pass *Pass) {
	clear(s.part)
	first, row, column, _ := s.X.strides()
	x := s.X.values(pass)
	for y := range s.X.Height {
		for c := range s.X.Width {
			s.network.isa.AddScaled(s.part, 1, x[first+y*row+c*column:][:len(s.part)])
		}
	}
	scale := 1 / float32(s.X.Height*s.X.Width)
	for i, v := range s.part {
		s.part[i] = float32(scale * v)
	}
	for c := range s.X.Channels {
		copy(s.Y.Row(pass, c), s.part[c*Lanes:][:Lanes])
	}
}

// Backward gives each position the same share of the output's gradient, as each has the same weight
// in the mean. s.part is one position: a row of Lanes floats for each channel, one float for each sample.
func (s *averageStage) Backward(pass *Pass) {
	scale := 1 / float32(s.X.Height*s.X.Width)
	for c := range s.X.Channels {
		part := s.part[c*Lanes:][:Lanes]
		for i, v := range s.Y.GradientRow(pass, c) {
			part[i] = float32(scale * v)
		}
	}
	// The share of all channels is prepared once, and copied to every position.
	row, column, _ := s.X.gradientStrides()
	dx := s.X.gradient(pass)
	for y := range s.X.Height {
		for c := range s.X.Width {
			copy(dx[y*row+c*column:], s.part)
		}
	}
}
