package network

import (
	"fmt"
	"math"
	"math/rand/v2"

	"fedpace/learn/internal/kernel"
)

func init() {
	Layers.Register("embedding", "a vector for each token of a text (PyTorch's Embedding)", EmbeddingLayer{})
}

// EmbeddingLayer turns tokens into a sequence of vectors, the rows of its weight.
type EmbeddingLayer struct {
	Width int `key:"width" is:"short" range:"[1,1048576]" help:"width of a token's vector"`
	Freezing
}

// String describes the layer in messages, behind its name.
func (l EmbeddingLayer) String() string { return fmt.Sprintf(": %d", l.Width) }

// Shape returns a sequence with a vector of Width values for each token of a text. Other inputs are an
// error.
func (l EmbeddingLayer) Shape(in Shape) (Shape, error) {
	err := in.require("", Text)
	return Shape{
		Form:     Sequence,
		Height:   in.Height,
		Width:    1,
		Channels: l.Width,
	}, err
}

// Parameters is one row for each token of the vocabulary, drawn from N(0, 1) as in PyTorch.
func (l EmbeddingLayer) Parameters(in Shape) []Parameter {
	return []Parameter{{Name: "weight", Shape: []int{in.Channels, l.Width}, Init: normal}}
}

// Stage implements [Layer]: it returns what computes the layer at this place of a network, for one worker.
func (l EmbeddingLayer) Stage(place *Place) Stage { return embeddingStage{place} }

// embeddingStage copies rows of the weight, and adds gradients to them.
type embeddingStage struct{ *Place }

// Forward copies, for each sample and each of its tokens, the row of the weight that belongs to the
// token. The tokens of a sample are neighbours in the batch. In the output each token has a row of Lanes samples for
// each value of its vector.
func (s embeddingStage) Forward(pass *Pass) {
	length := s.Y.Height
	e := s.Y.Channels
	tokens := pass.batch.Tokens[pass.first*length:]
	x := s.Y.values(pass)
	for t := range length {
		xOfToken := x[t*e*Lanes:][:e*Lanes]
		for l := range pass.Samples {
			// A token is the index of its row in the weight.
			token := int(tokens[l*length+t])
			row := pass.Parameters[token*e:][:e]
			for i, v := range row {
				xOfToken[i*Lanes+l] = v
			}
		}
	}
}

// Backward adds each output's gradient to the row of its token in the weight's gradient. Several samples may share a
// row, so the order of samples and of places in the text decides the bits. The layouts are those of Forward: the
// gradient of the outputs has a row of Lanes samples for each value of each token's vector.
func (s embeddingStage) Backward(p *Pass) {
	length := s.Y.Height
	e := s.Y.Channels
	tokens := p.batch.Tokens[p.first*length:]
	dy := s.Y.gradient(p)
	for t := length - 1; t >= 0; t-- {
		// These are the gradients of token number t of every sample.
		dyOfToken := dy[t*e*Lanes:][:e*Lanes]
		for l := range p.Samples {
			token := int(tokens[l*length+t])
			row := p.Gradient[token*e:][:e]
			for i := range row {
				row[i] += dyOfToken[i*Lanes+l]
			}
		}
	}
}

// normal draws from N(0, 1) by Marsaglia's polar method (Marsaglia and Bray 1964): of points in the
// square those within the unit circle give two normal numbers each.
func normal(part []float32, r *rand.Rand) {
	for i := 0; i < len(part); {
		u := float64(2*float64(r.Float64())) - 1
		v := float64(2*float64(r.Float64())) - 1
		s := float64(u*u) + float64(v*v)
		// Points outside the unit circle are drawn again, and so are those too close to its centre.
		if s >= 1 || s < 1e-300 {
			continue
		}
		f := math.Sqrt(-2 * kernel.Log(s) / s)
		part[i] = float32(u * f)
		// The second number of the last pair may have no place.
		if i+1 < len(part) {
			part[i+1] = float32(v * f)
		}
		i += 2
	}
}
