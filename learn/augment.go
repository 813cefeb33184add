package learn

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// Augment changes the images of a dense batch in place for training, as is usual for CIFAR: it mirrors them
// from left to right or not, and shifts them by up to padding rows and columns, with zeros where no value
// is left. All images of the batch are changed in the same way, by numbers drawn from r. A sample has
// channels × height × width values. It is an error if the batch or the padding does not fit these sizes.
func Augment(batch *Batch, channels, height, width, padding int, r *rand.Rand) error {
	if channels < 1 ||
		height < 1 ||
		width < 1 ||
		len(batch.X) != batch.N*channels*height*width {
		return fmt.Errorf(
			"batch of %d samples with %d values is not one of images of %d×%d×%d",
			batch.N,
			len(batch.X),
			channels,
			height,
			width,
		)
	}
	if padding < 0 || padding > min(height, width) {
		return fmt.Errorf("padding of %d; images of %d×%d take 0 to %d", padding, height, width, min(height, width))
	}
	// All images of the batch are changed in the same way.
	flip := r.IntN(2) == 1
	// The offsets of the cut from the image, between -padding and padding.
	dy := r.IntN(2*padding+1) - padding
	dx := r.IntN(2*padding+1) - padding
	// A plane holds one channel of one image.
	for plane := range slices.Chunk(batch.X, height*width) {
		if flip {
			for row := range slices.Chunk(plane, width) {
				slices.Reverse(row)
			}
		}
		// Moving by whole rows moves the plane as one run of memory.
		shiftValues(plane, dy*width)
		if dx != 0 {
			for row := range slices.Chunk(plane, width) {
				shiftValues(row, dx)
			}
		}
	}
	return nil
}

// shiftValues moves the values of x by n places towards its beginning, or by -n places towards its end, and
// fills the free places with zeros.
func shiftValues(x []float32, n int) {
	if n >= 0 {
		copy(x, x[n:])
		clear(x[len(x)-n:])
		return
	}
	copy(x[-n:], x)
	clear(x[:-n])
}
