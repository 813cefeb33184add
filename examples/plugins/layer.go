package plugins

import "fedpace/learn/network"

func init() {
	network.Layers.Register("leaky", "a ReLU that lets a part of what is below 0 through", Leaky{})
}

// Leaky is PyTorch's LeakyReLU.
type Leaky struct {
	Slope float64 `key:"slope" is:"short" default:"0.01" range:"[0,1]" help:"part of a value below 0 that goes on"`
}

// Shape is that of the input: every value is by itself.
func (Leaky) Shape(in network.Shape) (network.Shape, error) { return in, nil }

// Parameters are none.
func (Leaky) Parameters(network.Shape) []network.Parameter { return nil }

// Stage makes the layer's arithmetic for one worker.
func (l Leaky) Stage(at *network.Place) network.Stage { return leaky{at, float32(l.Slope)} }

type leaky struct {
	*network.Place
	slope float32
}

// Forward writes the outputs, s.Y, of a block of samples from its inputs, s.X. Row i of either holds value number i
// of every sample of the block.
func (s leaky) Forward(p *network.Pass) {
	for i := range s.X.Size() {
		y := s.Y.Row(p, i)
		for sample, x := range s.X.Row(p, i) {
			y[sample] = max(x, s.slope*x)
		}
	}
}

// Backward writes the gradient of the inputs, given that of the outputs.
func (s leaky) Backward(p *network.Pass) {
	if !s.Gradient {
		return
	}
	for i := range s.X.Size() {
		x := s.X.Row(p, i)
		dx := s.X.GradientRow(p, i)
		for sample, dy := range s.Y.GradientRow(p, i) {
			dx[sample] = dy
			if x[sample] < 0 {
				dx[sample] = s.slope * dy
			}
		}
	}
}
