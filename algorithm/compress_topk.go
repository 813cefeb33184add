package algorithm

import (
	"math"
	"math/bits"
	"math/rand/v2"

	"fedpace/registry"
)

// init registers the compression under the name by which a configuration chooses it. The text is its line
// in the list of such components.
func init() {
	Compressions.Register("top_k", "the largest values of an update (Stich et al. 2018)", TopK{Feedback: true})
}

// TopK sends the k values of an update that are largest in magnitude; of equal ones
// the first. With error feedback a client adds what it did not send to its next update
// (Stich et al. 2018, Algorithm 1):
//
//	p = (x_c − x) + e_c,  v = top_k(p),  e_c ← p − v
//
// It is biased: ‖v − p‖² <= (1 − k/d) ‖p‖². A value takes 32 bits and its place
// ceil(log2 d); where that is more than all d values without places take, these are sent.
type TopK struct {
	Share    float64 `key:"share" default:"0.01" range:"(0,1]" help:"part of the values that is sent"`
	Feedback bool    `key:"error_feedback" default:"true" help:"add what was not sent to the next update"`
}

// Needs says that a residual follows its client from task to task.
func (t TopK) Needs() registry.Needs { return withFeedback(t.Feedback) }

// Bits implements [Compression]: 32 bits and a place for each value that is sent, or 32 bits for all values
// without places if that is less.
func (t TopK) Bits(values int64) int64 {
	placeBits := bits.Len64(uint64(max(0, values-1)))
	withPlaces := countSent(t.Share, values) * int64(32+placeBits)
	return min(withPlaces, 32*max(1, values))
}

// Compressor implements [Compression].
func (t TopK) Compressor(values int) Compressor {
	return &largest{k: int(countSent(t.Share, int64(values))), count: make([]int32, 1<<16)}
}

// largest finds the k-th largest magnitude by its bits, which are in the order of
// magnitudes: first by the upper 16, then by the lower ones.
type largest struct {
	// k is the number of values that are kept.
	k int
	// count is the number of values with each digit of 16 bits, while digit runs.
	count []int32
}

// Compress implements [Compressor]: it keeps the k values with the largest magnitudes and sets the others
// to 0. Of values as large as the k-th it keeps the first ones. It finds the k-th largest magnitude by the
// upper 16 bits and then by the lower ones.
func (l *largest) Compress(update []float32, _ *rand.PCG) {
	upperBits := func(b uint32) (digit int, ok bool) { return int(b >> 16), true }
	high, largerByHigh := l.kthDigit(update, l.k, upperBits)
	lowerBits := func(b uint32) (digit int, ok bool) { return int(b & 0xffff), int(b>>16) == high }
	low, largerByLow := l.kthDigit(update, l.k-largerByHigh, lowerBits)
	kthLargest := uint32(high)<<16 | uint32(low)
	// This many of the values that equal the k-th largest one are kept.
	keepEqual := l.k - largerByHigh - largerByLow
	for i, x := range update {
		switch b := magnitude(x); {
		case b > kthLargest:
		case b == kthLargest && keepEqual > 0:
			keepEqual--
		default:
			update[i] = 0
		}
	}
}

// kthDigit returns one digit, of 16 bits, of the k-th largest of some values, and how many of the values have a
// larger digit. Of a magnitude's bits, digitOf returns the digit, and false for a value that is left out: in the
// search for the lower digit, one whose upper digit differs.
func (l *largest) kthDigit(
	update []float32,
	k int,
	digitOf func(magnitude uint32) (digit int, ok bool),
) (digit, larger int) {
	clear(l.count)
	for _, x := range update {
		if d, ok := digitOf(magnitude(x)); ok {
			l.count[d]++
		}
	}
	// The digits are counted from the largest one down, until k values are passed.
	for digit = len(l.count) - 1; digit > 0 && larger+int(l.count[digit]) < k; digit-- {
		larger += int(l.count[digit])
	}
	return digit, larger
}

// magnitude returns the bits of |x|, which are in the order of the magnitudes. NaN is above all.
func magnitude(x float32) uint32 { return math.Float32bits(x) &^ (1 << 31) }
