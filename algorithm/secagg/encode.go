package secagg

import (
	"fmt"
	"math"

	"fedpace/algorithm"
)

// Encode writes a member's weighted update into words: for every parameter
//
//	roundToEven(2^44 · share · (after − before))
//
// as a number modulo 2^64, rounded as [algorithm.Add] does. share is the member's weight by [Share].
// A value that is not finite is refused here: under masks nobody else would see it. A difference beyond
// [algorithm.MaxDifference] is clamped to that. What is converted to int64 is finite and below 2^62 in
// magnitude, since Go leaves other conversions to the machine (uint64 of a negative float64 differs
// between amd64 and arm64); from int64 to uint64 the bits stay.
//
// The shares of a round add up to at most 1, so every partial sum stays within 2^61 and a rounding
// of each member: below 2^63. It panics if lengths differ or share is not in 0 to 1.
func Encode(words []uint64, share float64, after, before []float32) error {
	if len(words) != len(after) || len(after) != len(before) {
		panic("secagg: Encode of slices of different lengths")
	}
	if !(share >= 0 && share <= 1) {
		panic("secagg: Encode with a share outside 0 to 1")
	}
	scale := algorithm.Unit * share
	for i := range words {
		difference := float64(after[i]) - float64(before[i])
		if math.IsNaN(difference) || math.IsInf(difference, 0) {
			return fmt.Errorf("secagg: parameter %d is %v where the model has %v: want a finite difference",
				i, after[i], before[i])
		}
		// The clamp keeps the product within the range that int64 can hold.
		difference = max(-algorithm.MaxDifference, min(algorithm.MaxDifference, difference))
		words[i] = uint64(int64(math.RoundToEven(float64(scale * difference))))
	}
	return nil
}
