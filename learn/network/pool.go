package network

import "fmt"

func init() {
	Layers.Register("pool", "the largest of each square of positions (PyTorch's MaxPool2d)", PoolLayer{})
}

// PoolLayer is max pooling of squares that do not overlap. Rows and columns that fill no
// square are left out. A pooling of two behind a convolution and a ReLU is part of that
// stage.
type PoolLayer struct {
	Size int `key:"size" is:"short" default:"2" range:"[2,64]" help:"height and width of the squares"`
}

// String describes the layer in messages, behind its name.
func (l PoolLayer) String() string { return fmt.Sprintf(": %d", l.Size) }

// Shape divides height and width of an image by the size of the windows. Rows and columns at the
// end that do not fill a window are left out.
func (l PoolLayer) Shape(in Shape) (Shape, error) {
	if err := in.require("", Image); err != nil {
		return in, err
	}
	if in.Height > 0 && in.Height < l.Size ||
		in.Width > 0 && in.Width < l.Size {
		return in, fmt.Errorf(
			"%d×%d cannot be pooled by %d (pool less before it, or leave it out)",
			in.Height,
			in.Width,
			l.Size,
		)
	}
	return Shape{
		Form:     Image,
		Height:   in.Height / l.Size,
		Width:    in.Width / l.Size,
		Channels: in.Channels,
	}, nil
}

// Parameters implements [Layer]: the layer has none.
func (PoolLayer) Parameters(Shape) []Parameter { return nil }

// Stage implements [Layer]: it returns what computes the layer at this place of a network, for one worker.
func (l PoolLayer) Stage(place *Place) Stage {
	return &poolStage{Place: place, size: l.Size}
}

// poolStage remembers which value of each window was the largest.
type poolStage struct {
	*Place
	// size is the height and the width of a window.
	size int
	// part holds the four positions of a square of two by two: 4 × channels × lanes values.
	part []float32
	// code says for each output which position of its window had the largest value, for the way back: 0 is the
	// first of the window, row by row.
	code []int32
}

// layOut allocates a code for each value of the output.
func (s *poolStage) layOut() {
	s.code = make([]int32, s.Y.Size()*Lanes)
	s.part = alignedFloats(4 * s.X.Channels * Lanes)
}

// Forward writes the largest value of each window, and notes which it was. Windows of 2×2 are
// computed by the kernel.
func (s *poolStage) Forward(pass *Pass) {
	inFirst, inRow, inColumn, _ := s.X.strides()
	outFirst, outRow, outColumn, outChannel := s.Y.strides()
	input := s.X.values(pass)
	output := s.Y.values(pass)
	positionSize := s.X.Channels * Lanes
	for position := range s.Y.Height * s.Y.Width {
		y := position / s.Y.Width
		x := position % s.Y.Width
		window := input[inFirst+y*s.size*inRow+x*s.size*inColumn:]
		dst := output[outFirst+y*outRow+x*outColumn:]
		code := s.code[position*positionSize:][:positionSize]
		// Windows of other sizes are rare and computed in plain Go.
		if s.size != 2 {
			s.poolWindow(window, inRow, inColumn, dst, outChannel, code)
			continue
		}
		// The two rows of the window are copied side by side, where the kernel reads its four
		// positions.
		copy(s.part[:2*positionSize], window)
		copy(s.part[2*positionSize:], window[inRow:][:2*positionSize])
		right := positionSize
		down := 2 * positionSize
		s.network.isa.MaxPool(s.X.Channels, pass.Samples, s.part, Lanes, right, down, dst, outChannel, code)
	}
}

// poolWindow pools the window of one output position: for each channel and sample it writes the largest
// value to dst, and that value's index within the window to code. row and column are the distances between
// neighbours in source, and channel is that between channels in dst.
func (s *poolStage) poolWindow(source []float32, row, column int, dst []float32, channel int, code []int32) {
	for c := range s.X.Channels {
		maxima := dst[c*channel:][:Lanes]
		winners := code[c*Lanes:][:Lanes]
		copy(maxima, source[c*Lanes:])
		clear(winners)
		// The first value of the window is the largest so far, with code 0.
		for k := 1; k < s.size*s.size; k++ {
			inWindow := k/s.size*row + k%s.size*column
			for l, v := range source[inWindow+c*Lanes:][:Lanes] {
				if v > maxima[l] {
					maxima[l] = v
					winners[l] = int32(k)
				}
			}
		}
	}
}

// Backward gives each output's gradient to the value that was the largest of its window, and 0 to all
// others. s.code has, for each position of the outputs, each channel and each sample, the index of that value
// within the window: row by row, from 0.
func (s *poolStage) Backward(pass *Pass) {
	dxRow, dxColumn, _ := s.X.gradientStrides()
	dyRow, dyColumn, dyChannel := s.Y.gradientStrides()
	dx := s.X.gradient(pass)
	dy := s.Y.gradient(pass)
	positionSize := s.X.Channels * Lanes
	// The kernel for windows of 2×2 writes all four values, zeros included. Other windows get only the
	// gradient of the largest, and rows and columns that no window covers get nothing.
	coversAll := s.X.Height%2 == 0 && s.X.Width%2 == 0
	if s.size != 2 || !coversAll {
		clear(dx)
	}
	for position := range s.Y.Height * s.Y.Width {
		y := position / s.Y.Width
		x := position % s.Y.Width
		gradient := dy[y*dyRow+x*dyColumn:]
		code := s.code[position*positionSize:][:positionSize]
		window := dx[y*s.size*dxRow+x*s.size*dxColumn:]
		if s.size == 2 {
			s.network.isa.MaxUnpool(s.X.Channels, pass.Samples, gradient, dyChannel, code, window, dxColumn, dxRow)
			continue
		}
		// Entry i is that of channel i/Lanes and sample i%Lanes.
		for i, winner := range code {
			windowRow := int(winner) / s.size
			windowColumn := int(winner) % s.size
			window[windowRow*dxRow+windowColumn*dxColumn+i] = gradient[i/Lanes*dyChannel+i%Lanes]
		}
	}
}
