package network

import (
	"fmt"

	"fedpace/internal/keyed"
)

func init() {
	Layers.Register("dropout", "zeroes values in training (PyTorch's Dropout)", DropoutLayer{})
}

// DropoutLayer is PyTorch's Dropout: in training a value is zero with the probability of
// the rate, and else divided by one less the rate. Which ones follows from the batch's
// seed alone.
type DropoutLayer struct {
	Rate float64 `key:"rate" is:"short" default:"0.5" range:"[0,0.99]" help:"probability that a value is zero"`
}

// String describes the layer in messages, behind its name.
func (l DropoutLayer) String() string { return fmt.Sprintf(": %g", l.Rate) }

// Shape keeps the shape.
func (DropoutLayer) Shape(in Shape) (Shape, error) {
	return in, in.require("", Vector, Image, Sequence)
}

// Parameters implements [Layer]: the layer has none.
func (DropoutLayer) Parameters(Shape) []Parameter { return nil }

// Stage implements [Layer]: it returns what computes the layer at this place of a network. The number of the layer
// among the network's dropouts keeps their draws apart.
func (l DropoutLayer) Stage(place *Place) Stage {
	place.network.dropouts++
	return &dropoutStage{Place: place, number: uint64(place.network.dropouts), rate: l.Rate}
}

// dropoutStage multiplies every value by its factor, forward and backward.
type dropoutStage struct {
	*Place
	// number among the network's dropouts, from 1
	number uint64
	rate   float64
	// factor holds the factor of every value of the block: 0 for values that are dropped.
	factor []float32
}

// layOut allocates the factors.
func (s *dropoutStage) layOut() { s.factor = alignedFloats(s.X.Size() * Lanes) }

// draw sets the factors of a block's values: 0 with the probability of the rate, else 1/(1 − rate).
// Each follows from the batch's seed, the layer's number, and the value's index in the batch, so that
// blocks do not matter. s.factor has a row of Lanes floats for each value, one float for each sample of the block.
func (s *dropoutStage) draw(pass *Pass) {
	key := keyed.Hash(pass.batch.Seed, keyed.DropValues, s.number)
	limit := uint64(s.rate * (1 << 32))
	keep := float32(1 / (1 - s.rate))
	size := s.X.Size()
	for i := range size {
		row := s.factor[i*Lanes:][:pass.Samples]
		for l := range row {
			row[l] = keep
			if keyed.Nth(key, uint64((pass.batch.first+pass.first+l)*size+i))>>32 < limit {
				row[l] = 0
			}
		}
	}
}

// Forward multiplies each value by a factor that it draws, 0 or 1/(1 − rate), in training. In an evaluation it copies
// the values. s.factor has a row of Lanes floats for each value, one float for each sample of the block.
func (s *dropoutStage) Forward(pass *Pass) {
	if pass.Training {
		s.draw(pass)
	}
	for i := range s.X.Size() {
		y := s.Y.Row(pass, i)
		factor := s.factor[i*Lanes:][:Lanes]
		copy(y, s.X.Row(pass, i))
		if pass.Training {
			for l := range y {
				y[l] *= factor[l]
			}
		}
	}
}

// Backward multiplies the gradient by the factors that the last Forward has drawn, so that dropped
// values have none.
func (s *dropoutStage) Backward(p *Pass) {
	for i := range s.X.Size() {
		dx := s.X.GradientRow(p, i)
		factor := s.factor[i*Lanes:][:Lanes]
		for l, g := range s.Y.GradientRow(p, i) {
			dx[l] = float32(g * factor[l])
		}
	}
}
