package network

func init() { Layers.Register("relu", "the larger of a value and 0", ReLULayer{}) }

// ReLULayer is max(0, x). Behind a dense layer, a convolution, a norm or a residual it is
// part of that stage.
type ReLULayer struct{}

// Shape keeps the shape.
func (ReLULayer) Shape(in Shape) (Shape, error) { return in, in.require("", Vector, Image, Sequence) }

// Parameters implements [Layer]: the layer has none.
func (ReLULayer) Parameters(in Shape) []Parameter { return nil }

// Stage implements [Layer]. It is for a ReLU that is no part of the stage before it; see [fuse].
func (ReLULayer) Stage(place *Place) Stage { return reluStage{place} }

// reluStage is a ReLU that is no part of the stage before it.
type reluStage struct{ *Place }

// Forward computes max(0, x) for all values of a block. Inputs and outputs may have different layouts, so it goes over
// the values in runs that are one piece of memory in both ([commonRuns]).
func (s reluStage) Forward(p *Pass) {
	count, length := commonRuns(s.X, s.Y)
	for i := range count {
		y := s.Y.run(p, i, count, length)
		for j, v := range s.X.run(p, i, count, length) {
			y[j] = max(v, 0)
		}
	}
}

// Backward passes the gradient on where the value is above 0, and writes zero where it is not.
func (s reluStage) Backward(p *Pass) {
	count, length := commonRuns(s.X, s.Y)
	for i := range count {
		dx := s.X.gradientRun(p, i, count, length)
		copy(dx, s.Y.gradientRun(p, i, count, length))
		s.network.isa.Mask(dx, s.X.run(p, i, count, length))
	}
}
