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

// Bits implements [Compression]: values with their places, or all values without, whichever is less.
func (t TopK) Bits(values int64) int64 {
	return min(countSent(t.Share, values)*int64(32+bits.Len64(uint64(max(0, values-1)))), 32*max(1, values))
}

// Compressor implements [Compression].
func (t TopK) Compressor(values int) Compressor {
	return &largest{k: int(countSent(t.Share, int64(values))), count: make([]int32, 1<<16)}
}

// largest finds the k-th largest magnitude by its bits, which are in the order of
// magnitudes: first by the upper 16, then by the lower ones.
type largest struct {
	k     int
	count []int32
}

// Compress implements [Compressor]: it finds the k-th largest magnitude, sets all smaller values to 0, and
// of the equal ones keeps the first, so that k are left.
func (l *largest) Compress(update []float32, _ *rand.PCG) {
	high, above := l.digit(update, l.k, func(b uint32) (int, bool) { return int(b >> 16), true })
	low, more := l.digit(update, l.k-above, func(b uint32) (int, bool) { return int(b & 0xffff), int(b>>16) == high })
	smallest := uint32(high)<<16 | uint32(low)
	equal := l.k - above - more
	for i, x := range update {
		switch b := magnitude(x); {
		case b > smallest:
		case b == smallest && equal > 0:
			equal--
		default:
			update[i] = 0
		}
	}
}

// digit returns the k-th largest of the digits of 16 bits that digitOf takes from the values' magnitudes,
// and how many digits are larger. digitOf is false for a value that does not count.
func (l *largest) digit(update []float32, k int, digitOf func(magnitude uint32) (digit int, ok bool)) (digit, larger int) {
	clear(l.count)
	for _, x := range update {
		if d, ok := digitOf(magnitude(x)); ok {
			l.count[d]++
		}
	}
	for digit = len(l.count) - 1; digit > 0 && larger+int(l.count[digit]) < k; digit-- {
		larger += int(l.count[digit])
	}
	return digit, larger
}

// magnitude returns the bits of |x|, which are in the order of the magnitudes. NaN is above all.
func magnitude(x float32) uint32 { return math.Float32bits(x) &^ (1 << 31) }
