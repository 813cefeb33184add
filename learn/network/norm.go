package network

import (
	"fmt"
	"math"
)

func init() {
	Layers.Register("norm", "groups of channels set to mean 0 and variance 1 (PyTorch's GroupNorm)", NormLayer{})
}

// NormLayer is group normalisation (Wu and He 2018, Eq. 1 and 7): within each sample and
// group of channels,
//
//	y = γ (x − μ)/sqrt(σ² + ε) + β,
//
// with the mean μ and the variance σ² of the group's values at all positions, ε = 1e-5,
// and a γ and a β for each channel. A batch has no part in it, so that clients' models can
// be averaged and one sample's output does not depend on the others.
type NormLayer struct {
	Groups int `key:"groups" is:"short" default:"1" range:"[1,1048576]" help:"groups of channels"`
	Freezing
}

// normEpsilon is added to the variance, so that equal values are not divided by zero. It is
// PyTorch's default.
const normEpsilon = 1e-5

// String describes the layer in messages, behind its name.
func (l NormLayer) String() string { return fmt.Sprintf(": %d groups", l.Groups) }

// Shape keeps the shape. It refuses channels that cannot be divided into l.Groups equal groups, and groups of a single
// value: normalised by itself, that would always be 0.
func (l NormLayer) Shape(in Shape) (Shape, error) {
	if err := in.require("", Image, Vector); err != nil {
		return in, err
	}
	if in.Channels%l.Groups != 0 {
		return in, fmt.Errorf("%d channels are not %d equal groups", in.Channels, l.Groups)
	}
	if in.Channels == l.Groups && in.Height*in.Width == 1 {
		return in, fmt.Errorf("groups of one value are always 0 then (use fewer groups)")
	}
	return in, nil
}

// Parameters returns a γ that starts at 1 and a β that starts at 0, for each channel.
func (l NormLayer) Parameters(in Shape) []Parameter {
	return []Parameter{
		{Name: "weight", Shape: []int{in.Channels}, Init: constant(1)},
		{Name: "bias", Shape: []int{in.Channels}},
	}
}

// Stage allocates the arithmetic of the layer for one worker: the sums and factors for each channel
// and sample.
func (l NormLayer) Stage(place *Place) Stage {
	n := place.X.Channels * Lanes
	s := &normStage{Place: place, groups: l.Groups}
	for _, part := range []*[]float32{&s.mean, &s.inverse, &s.scale, &s.shift, &s.sum, &s.dot} {
		*part = alignedFloats(n)
	}
	return s
}

// normStage is group normalisation of a block. It keeps the differences from the mean for the way back.
// What is one number for a group and sample is stored for each channel and sample, so that a position's
// values and theirs are walked together.
type normStage struct {
	*Place
	groups int
	// centred holds x − μ, one position after the other.
	centred []float32
	// mean holds μ, and inverse holds 1/sqrt(σ² + ε).
	mean, inverse []float32
	// scale holds γ/sqrt(σ² + ε), and shift holds β.
	scale, shift []float32
	// sum and dot are Backward's sums over positions, of dy and of dy (x − μ).
	sum, dot []float32
}

// layOut allocates what depends on the number of positions, which may have been trimmed.
func (s *normStage) layOut() { s.centred = alignedFloats(s.X.Size() * Lanes) }

// eachPosition calls f for each position of the image, row by row, with the position's number, its row y
// and its column x.
func (s *normStage) eachPosition(f func(position, y, x int)) {
	for y := range s.X.Height {
		for x := range s.X.Width {
			f(y*s.X.Width+x, y, x)
		}
	}
}

// sumGroups replaces the numbers in part, which has a row of Lanes numbers for each channel, one for each sample.
// For each sample by itself, the numbers of all channels of a group become what replace returns for their sum.
func (s *normStage) sumGroups(part []float32, replace func(sum float64) float64) {
	size := s.X.Channels / s.groups * Lanes
	for g := range s.groups {
		group := part[g*size:][:size]
		// Each sample of the block has sums of its own.
		for lane := range Lanes {
			sum := 0.0
			for i := lane; i < size; i += Lanes {
				sum += float64(group[i])
			}
			result := float32(replace(sum))
			for i := lane; i < size; i += Lanes {
				group[i] = result
			}
		}
	}
}

// Forward finds each group's mean, the mean square of the differences from it, and then the outputs
// y = γ (x − μ)/sqrt(σ² + ε) + β. The values of a position are a row of Lanes samples for each channel, and s.mean,
// s.inverse, s.scale and s.shift have a number for each of these.
func (s *normStage) Forward(pass *Pass) {
	isa := s.network.isa
	positionSize := s.X.Channels * Lanes
	input := s.X.values(pass)
	output := s.Y.values(pass)
	first, row, column, _ := s.X.strides()
	count := float64(s.X.Size() / s.groups)

	// The first pass over the positions sums the values, for the mean.
	clear(s.mean)
	s.eachPosition(func(_, y, x int) { isa.AddScaled(s.mean, 1, input[first+y*row+x*column:][:positionSize]) })
	s.sumGroups(s.mean, func(sum float64) float64 { return sum / count })
	// The second pass sums the squared differences from the mean, for the variance. s.inverse holds the sums
	// until they are replaced by 1/sqrt(σ² + ε).
	clear(s.inverse)
	s.eachPosition(func(position, y, x int) {
		isa.Centre(s.centred[position*positionSize:][:positionSize], input[first+y*row+x*column:], s.mean, s.inverse)
	})
	s.sumGroups(s.inverse, func(sum float64) float64 { return 1 / math.Sqrt(sum/count+normEpsilon) })
	// The weight and the division become one factor for each channel and sample.
	for c := range s.X.Channels {
		weight := pass.Parameters[c]
		bias := pass.Parameters[s.X.Channels+c]
		for index := c * Lanes; index < (c+1)*Lanes; index++ {
			s.scale[index] = float32(weight * s.inverse[index])
			s.shift[index] = bias
		}
	}
	outFirst, outRow, outColumn, outChannel := s.Y.strides()
	s.eachPosition(func(position, y, x int) {
		dst := output[outFirst+y*outRow+x*outColumn:]
		centred := s.centred[position*positionSize:]
		// The channels of a position are one run of memory.
		if outChannel == Lanes {
			isa.Affine(dst[:positionSize], centred, s.scale, s.shift, s.Y.relu)
			return
		}
		for c := range s.X.Channels {
			at := c * Lanes
			isa.Affine(dst[c*outChannel:][:Lanes], centred[at:], s.scale[at:], s.shift[at:], s.Y.relu)
		}
	})
}

// Backward follows from y = γ c/sqrt(σ² + ε) + β with c = x − μ: with the means over the
// group's values,
//
//	dx = (γ dy − mean(γ dy) − c mean(γ dy c)/(σ² + ε)) / sqrt(σ² + ε).
//
// s.sum and s.dot are sums over the positions, of dy and of dy c, for each channel and sample.
func (s *normStage) Backward(pass *Pass) {
	isa := s.network.isa
	positionSize := s.X.Channels * Lanes
	channels := s.X.Channels
	dy := s.Y.gradient(pass)
	row, column, channel := s.Y.gradientStrides()
	clear(s.sum)
	clear(s.dot)
	// pieces calls f for each piece of dy, g, that is contiguous memory: all channels of a position or, where the
	// channels of dy lie apart, one. start is where the piece's first channel stands in the numbers that there are
	// for each channel and sample, such as s.sum, and offset where it stands in s.centred.
	pieces := func(f func(start int, g []float32, offset int)) {
		s.eachPosition(func(position, py, px int) {
			g := dy[py*row+px*column:]
			if channel == Lanes {
				f(0, g[:positionSize], position*positionSize)
				return
			}
			for start := 0; start < positionSize; start += Lanes {
				c := start / Lanes
				f(start, g[c*channel:][:Lanes], position*positionSize+start)
			}
		})
	}
	pieces(func(start int, g []float32, offset int) {
		isa.AddDots(s.sum[start:], s.dot[start:], g, s.centred[offset:])
	})
	// The gradients of γ and β are sums over the samples of the block.
	for c := range channels {
		total := 0.0
		dot := 0.0
		for index := c * Lanes; index < c*Lanes+pass.Samples; index++ {
			total += float64(s.sum[index])
			dot += float64(float64(s.dot[index]) * float64(s.inverse[index]))
		}
		pass.Gradient[c] += float32(dot)
		pass.Gradient[channels+c] += float32(total)
	}
	// Nobody needs the gradient of the inputs.
	if !s.Gradient {
		return
	}
	// From here on, sum and dot are those of γ dy.
	for c := range channels {
		weight := pass.Parameters[c]
		for index := c * Lanes; index < (c+1)*Lanes; index++ {
			s.sum[index] *= weight
			s.dot[index] *= weight
		}
	}
	count := float64(s.X.Size() / s.groups)
	s.sumGroups(s.sum, func(sum float64) float64 { return sum / count })
	s.sumGroups(s.dot, func(sum float64) float64 { return sum / count })
	// The factors of the formula above are prepared for each channel and sample.
	for i, inverse := range s.inverse {
		s.sum[i] = -float32(s.sum[i] * inverse)
		s.dot[i] = -float32(float32(s.dot[i]*inverse) * float32(inverse*inverse))
	}
	// s.scale is γ/sqrt(σ² + ε), from Forward.
	dx := s.X.gradient(pass)
	pieces(func(start int, g []float32, offset int) {
		isa.Combine(dx[offset:][:len(g)], g, s.scale[start:], s.centred[offset:], s.dot[start:], s.sum[start:])
	})
}
