package algorithm

import (
	"fmt"
	"math"
)

const (
	// Unit is the unit of sums: a weighted difference of 1.
	Unit = 1 << 44

	// MaxDifference is the smallest |x_c − x| that is refused.
	MaxDifference = 1 << 17

	// Limit is the largest magnitude of an element of a sum. Two such
	// elements can be added without overflow.
	Limit = 1<<62 - 1
)

// DifferenceError says that a client's parameter is too far from the global
// model's, or is not a number: training has diverged, or the update is not
// honest.
type DifferenceError struct {
	// Index is the index of the first such parameter.
	Index int
	// X is the client's value, and Model that of the global model.
	X, Model float32
}

// Error returns the message: which parameter the client moved too far from the global model, or to
// a value that is not finite.
func (e *DifferenceError) Error() string {
	return fmt.Sprintf(
		"algorithm: parameter %d is %v where the model has %v: want a difference below %d",
		e.Index,
		e.X,
		e.Model,
		MaxDifference,
	)
}

// Check returns a [*DifferenceError] for the first parameter that [Add]
// refuses, or nil. It panics when the lengths differ.
func Check(x, model []float32) error {
	if len(x) != len(model) {
		panic("algorithm: Check of slices of different lengths")
	}
	for i := range x {
		// The comparison fails for NaN, too.
		if d := float64(x[i]) - float64(model[i]); !(math.Abs(d) < MaxDifference) {
			return &DifferenceError{i, x[i], model[i]}
		}
	}
	return nil
}

// Add adds the terms of one client: its parameters x after training, which
// began from model, with the weight w. It returns a [*DifferenceError] and
// leaves dst as it was when a parameter is refused. It panics when the lengths
// differ or w is not in 0 to 1.
//
// It is the reference for every faster implementation.
func Add(dst []int64, w float64, x, model []float32) error {
	if len(dst) != len(x) {
		panic("algorithm: Add of slices of different lengths")
	}
	if !(w >= 0 && w <= 1) {
		panic("algorithm: Add with a weight outside 0 to 1")
	}
	if err := Check(x, model); err != nil {
		return err
	}
	// A term is rounded twice: the product to float64, then to a whole number. Scaling
	// by a power of two is exact, so its place in the product does not matter.
	for i := range dst {
		d := float64(x[i]) - float64(model[i])
		dst[i] += int64(math.RoundToEven(float64(float64(Unit*w) * d)))
	}
	return nil
}

// Merge adds a partial sum to dst. It is an error if an element, of the partial sum or of the result, is
// beyond [Limit]; dst is then undefined. It panics if the lengths differ.
func Merge(dst, partial []int64) error {
	if len(dst) != len(partial) {
		panic("algorithm: Merge of slices of different lengths")
	}
	// The first pass adds, and finds without a branch for each element whether all partial sums and results
	// are from -2^61 to 2^61-1, as they are in practice: such a number plus 2^61 is below 2^62 as an
	// unsigned number. The elements of dst were then within Limit, too. Otherwise a second pass checks each
	// element.
	const half = 1 << 61
	bits := uint64(0)
	for i, p := range partial {
		s := dst[i] + p
		dst[i] = s
		bits |= uint64(p+half) | uint64(s+half)
	}
	if bits < 2*half {
		return nil
	}
	for i, p := range partial {
		switch before := dst[i] - p; {
		case exceedsLimit(p):
			return fmt.Errorf("algorithm: parameter %d of a partial sum is %d, beyond the limit of 2^62", i, p)
		case exceedsLimit(before):
			return fmt.Errorf("algorithm: parameter %d of a sum is %d, beyond the limit of 2^62", i, before)
		case exceedsLimit(dst[i]):
			return fmt.Errorf("algorithm: parameter %d of a sum comes to %d, beyond the limit of 2^62", i, dst[i])
		}
	}
	return nil
}

// exceedsLimit reports whether an element of a sum is beyond [Limit].
func exceedsLimit(s int64) bool { return s > Limit || s < -Limit }
