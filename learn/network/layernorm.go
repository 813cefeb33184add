package network

import (
	"fmt"
	"math"
)

func init() {
	Layers.Register(
		"layer_norm",
		"samples or steps set to mean 0 and variance 1 (PyTorch's LayerNorm)",
		LayerNormLayer{},
	)
}

// LayerNormLayer is layer normalisation (Ba et al. 2016, Eq. 4): within each sample, or each step of a
// sequence,
//
//	y = γ (x − μ)/sqrt(σ² + ε) + β,
//
// with the mean μ and the variance σ² of all its values, ε = 1e-5, and a γ and a β for each value. It is
// PyTorch's LayerNorm over the shape of a sample, or over the values of a step. As with [NormLayer], a
// batch has no part in it.
type LayerNormLayer struct {
	Freezing
}

// String describes the layer in messages, behind its name.
func (LayerNormLayer) String() string { return "" }

// Shape keeps the shape of the input. It refuses groups of a single value, which is always 0 after
// a normalisation.
func (LayerNormLayer) Shape(in Shape) (Shape, error) {
	if err := in.require("", Image, Vector, Sequence); err != nil {
		return in, err
	}
	if normedValues(in) == 1 {
		return in, fmt.Errorf("one value is always 0 then (leave it out)")
	}
	return in, nil
}

// normedValues returns how many values are normalised together: those of a step, or of a whole sample.
func normedValues(in Shape) int {
	if in.Form == Sequence {
		return in.Channels
	}
	return in.Size()
}

// Parameters returns a γ that starts at 1 and a β that starts at 0, for each value that is normalised.
func (LayerNormLayer) Parameters(in Shape) []Parameter {
	shape := []int{in.Channels}
	if in.Form == Image {
		shape = append(shape, in.Height, in.Width)
	}
	return []Parameter{
		{Name: "weight", Shape: shape, Init: constant(1)},
		{Name: "bias", Shape: shape},
	}
}

// Stage implements [Layer]: it returns what computes the layer at this place of a network, for one worker.
func (LayerNormLayer) Stage(place *Place) Stage { return &layerNormStage{Place: place} }

// layerNormStage is layer normalisation of a block. Values are walked by [Activation.Row], one row a value
// of all samples. All sums are in float64 and in the order of the values.
type layerNormStage struct {
	*Place
	// values is how many values are normalised together.
	values int
	// centred holds x − μ, a row for each value of a sample.
	centred []float32
	// inverse holds 1/sqrt(σ² + ε), a row for each group of values.
	inverse []float32
	// first and second are scratch space for two sums of each sample.
	first, second [Lanes]float64
}

// layOut allocates what depends on the size of a sample.
func (s *layerNormStage) layOut() {
	s.values = normedValues(s.X.Shape)
	s.centred = alignedFloats(s.X.Size() * Lanes)
	s.inverse = alignedFloats(s.X.Size() / s.values * Lanes)
}

// parameterIndex returns the index of the γ for value number i of a sample. Values are numbered with
// channels innermost, while PyTorch's parameters of an image have them outermost.
func (s *layerNormStage) parameterIndex(i int) int {
	channels := s.X.Channels
	if s.X.Form != Image {
		return i % channels
	}
	return i%channels*(s.X.Height*s.X.Width) + i/channels
}

// Forward finds each group's mean, the mean square of the differences from it, and then the outputs
// y = γ (x − μ)/sqrt(σ² + ε) + β. A group is s.values neighbouring values of a sample, and each sample
// has a mean and a variance of its own. All memory has rows of Lanes floats, one float for each sample of the
// block: s.centred a row for each value, and s.inverse a row for each group.
func (s *layerNormStage) Forward(pass *Pass) {
	for start := 0; start < s.X.Size(); start += s.values {
		s.centre(pass, start)
		inverse := s.inverse[start/s.values*Lanes:][:Lanes]
		for i := start; i < start+s.values; i++ {
			place := s.parameterIndex(i)
			weight := pass.Parameters[place]
			bias := pass.Parameters[s.values+place]
			centred := s.centred[i*Lanes:][:Lanes]
			for l, y := 0, s.Y.Row(pass, i); l < Lanes; l++ {
				y[l] = float32(float32(centred[l]*inverse[l])*weight) + bias
			}
		}
	}
}

// centre computes, for the group of values that begins at number start and for each sample: the differences
// from the group's mean, into s.centred, and 1/sqrt(σ² + ε), into s.inverse.
func (s *layerNormStage) centre(pass *Pass, start int) {
	count := float64(s.values)
	clear(s.first[:])
	for i := start; i < start+s.values; i++ {
		for l, x := range s.X.Row(pass, i) {
			s.first[l] += float64(x)
		}
	}
	// The variance takes a second pass over the values, as the mean must be known first.
	clear(s.second[:])
	for i := start; i < start+s.values; i++ {
		centred := s.centred[i*Lanes:][:Lanes]
		for l, x := range s.X.Row(pass, i) {
			difference := float64(x) - s.first[l]/count
			centred[l] = float32(difference)
			s.second[l] += float64(difference * difference)
		}
	}
	inverse := s.inverse[start/s.values*Lanes:][:Lanes]
	for l := range inverse {
		inverse[l] = float32(1 / math.Sqrt(s.second[l]/count+normEpsilon))
	}
}

// Backward follows from y = γ c/sqrt(σ² + ε) + β with c = x − μ: with the means over the values of a group,
//
//	dx = (γ dy − mean(γ dy) − c mean(γ dy c)/(σ² + ε)) / sqrt(σ² + ε).
//
// s.first and s.second add up γ dy and γ dy c over the group, for each sample by itself.
func (s *layerNormStage) Backward(pass *Pass) {
	for start := 0; start < s.X.Size(); start += s.values {
		inverse := s.inverse[start/s.values*Lanes:][:Lanes]
		clear(s.first[:])
		clear(s.second[:])
		for i := start; i < start+s.values; i++ {
			place := s.parameterIndex(i)
			weight := float64(pass.Parameters[place])
			centred := s.centred[i*Lanes:][:Lanes]
			total := 0.0
			dot := 0.0
			for l, g := range s.Y.GradientRow(pass, i) {
				dy := float64(g)
				if l < pass.Samples {
					total += dy
					dot += float64(dy * float64(float64(centred[l])*float64(inverse[l])))
				}
				s.first[l] += float64(weight * dy)
				s.second[l] += float64(float64(weight*dy) * float64(centred[l]))
			}
			pass.Gradient[place] += float32(dot)
			pass.Gradient[s.values+place] += float32(total)
		}
		// The first layer of a network needs no gradient of its inputs.
		if s.Gradient {
			s.inputGradient(pass, start)
		}
	}
}

// inputGradient writes the gradient of the inputs, dx, in the group of values that begins at number start, by the
// formula of [layerNormStage.Backward]. s.first and s.second hold the sums of γ dy and of γ dy c over the group.
func (s *layerNormStage) inputGradient(p *Pass, start int) {
	count := float64(s.values)
	inverse := s.inverse[start/s.values*Lanes:][:Lanes]
	for i := start; i < start+s.values; i++ {
		weight := float64(p.Parameters[s.parameterIndex(i)])
		centred := s.centred[i*Lanes:][:Lanes]
		dy := s.Y.GradientRow(p, i)
		for l, dx := 0, s.X.GradientRow(p, i); l < Lanes; l++ {
			scale := float64(inverse[l])
			// along is c mean(γ dy c)/(σ² + ε).
			along := float64(float64(float64(centred[l])*float64(scale*scale)) * (s.second[l] / count))
			dx[l] = float32((float64(weight*float64(dy[l])) - s.first[l]/count - along) * scale)
		}
	}
}
