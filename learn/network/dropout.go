package network

import (
	"fmt"

	"fedpace/internal/keyed"
)

func init() {
	Layers.Register("dropout", "in training, some values are zero and the others larger", DropoutLayer{})
}

// DropoutLayer is PyTorch's Dropout: in training a value is zero with the probability of
// the rate, and else divided by one less the rate. Which ones follows from the batch's
// seed alone.
type DropoutLayer struct {
	Rate float64 `key:"rate" is:"short" default:"0.5" range:"[0,0.99]" help:"probability that a value is zero"`
}

func (l DropoutLayer) String() string { return fmt.Sprintf(": %g", l.Rate) }

func (DropoutLayer) Shape(in Shape) (Shape, error) {
	return in, in.require("", Vector, Image, Sequence)
}
func (DropoutLayer) Parameters(Shape) []Parameter { return nil }

func (l DropoutLayer) Stage(place *Place) Stage {
	place.network.dropouts++
	return &dropoutStage{Place: place, number: uint64(place.network.dropouts), rate: l.Rate}
}

type dropoutStage struct {
	*Place
	number uint64 // of the network's dropouts, from 1
	rate   float64
	factor []float32 // of every value of the block
}

func (s *dropoutStage) lay() { s.factor = aligned(s.X.Size() * Lanes) }

// draw sets the factors of a block's values: 0 or 1/(1 − rate).
func (s *dropoutStage) draw(p *Pass) {
	key := keyed.Hash(p.batch.Seed, keyed.DropValues, s.number)
	limit := uint64(s.rate * (1 << 32))
	keep := float32(1 / (1 - s.rate))
	size := s.X.Size()
	for i := range size {
		row := s.factor[i*Lanes:][:p.Samples]
		for l := range row {
			row[l] = keep
			if keyed.Nth(key, uint64((p.first+l)*size+i))>>32 < limit {
				row[l] = 0
			}
		}
	}
}

func (s *dropoutStage) Forward(p *Pass) {
	if p.Training {
		s.draw(p)
	}
	for i := range s.X.Size() {
		y := s.Y.Row(p, i)
		factor := s.factor[i*Lanes:][:Lanes]
		copy(y, s.X.Row(p, i))
		if p.Training {
			for l := range y {
				y[l] *= factor[l]
			}
		}
	}
}

func (s *dropoutStage) Backward(p *Pass) {
	for i := range s.X.Size() {
		dx := s.X.GradientRow(p, i)
		factor := s.factor[i*Lanes:][:Lanes]
		for l, g := range s.Y.GradientRow(p, i) {
			dx[l] = float32(g * factor[l])
		}
	}
}
