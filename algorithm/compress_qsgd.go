package algorithm

import (
	"math"
	"math/bits"
	"math/rand/v2"

	"fedpace/internal/portable"
)

// init registers the compression under the name by which a configuration chooses it. The text is its line
// in the list of such components.
func init() {
	Compressions.Register(
		"qsgd",
		"random rounding to a few levels (Alistarh et al. 2017; FedPAQ, Reisizadeh et al. 2020)",
		QSGD{},
	)
}

// QSGD rounds each value v_i of an update at random to one of s levels of the
// update's norm (Alistarh et al. 2017, Eq. 4; Example 1 of FedPAQ, Reisizadeh et al.
// 2020):
//
//	Q(v_i) = ‖v‖ sign(v_i) ξ_i,  ξ_i = l/s or (l+1)/s,  l/s <= |v_i|/‖v‖ <= (l+1)/s
//
// with E ξ_i = |v_i|/‖v‖. So Q is unbiased, and E‖Q(v) − v‖² <= min(d/s², √d/s) ‖v‖²
// (Lemma 3.1). Buckets are parts of an update with a norm each (section 4), for which
// d is their size.
//
// A value takes its sign and its level, ceil(log2(s+1)) bits; a norm takes 32. The norm
// is rounded up to float32, so that no value is above it.
type QSGD struct {
	Levels int `key:"levels" default:"1" range:"[1,65535]" help:"levels beside 0, s"`
	Bucket int `key:"bucket" is:"null" range:"[1,1000000000]" unit:"values" help:"values that share a norm; null: the whole update"`
}

// bucket returns the number of values that share a norm, of an update of this many values: all of them if Bucket is
// 0, which stands for the whole update.
func (q QSGD) bucket(values int64) int64 {
	if q.Bucket == 0 {
		return values
	}
	return min(int64(q.Bucket), values)
}

// Bits implements [Compression]: a sign and a level for each value, and a norm for each bucket.
func (q QSGD) Bits(values int64) int64 {
	bucket := q.bucket(values)
	return values*int64(1+bits.Len(uint(q.Levels))) + 32*((values+bucket-1)/bucket)
}

// Compressor implements [Compression]: it needs no memory.
func (q QSGD) Compressor(int) Compressor { return q }

// Compress implements [Compressor]: it rounds the values of each bucket, in place, at random to one of the
// two nearest levels of the bucket's norm. draws has the random numbers.
func (q QSGD) Compress(update []float32, draws *rand.PCG) {
	bucket := int(q.bucket(int64(len(update))))
	for start := 0; start < len(update); start += bucket {
		q.quantise(update[start:min(start+bucket, len(update))], draws)
	}
}

// quantise rounds the values of one bucket, in place, at random to one of the two nearest levels of their
// norm, so that the mean of the result is the value. It draws one random number for each value, in order.
func (q QSGD) quantise(values []float32, draws *rand.PCG) {
	norm := normAbove(values)
	if norm == 0 {
		return
	}
	levels := float64(q.Levels)
	for i, x := range values {
		scaled := float64(math.Abs(float64(x)) / norm * levels)
		level := math.Floor(scaled)
		// The upper 53 bits make a number that is uniform in [0,1), so the level above is taken with the
		// probability of the fraction.
		uniform := float64(draws.Uint64()>>11) * 0x1p-53
		if uniform < scaled-level {
			level++
		}
		values[i] = float32(math.Copysign(float64(norm*level)/levels, float64(x)))
	}
}

// normAbove returns the Euclidean norm of v, rounded up to a float32, so that no value is larger than the
// norm that is sent.
func normAbove(v []float32) float64 {
	exact := math.Sqrt(portable.Square(v))
	norm := float32(exact)
	if float64(norm) < exact {
		norm = math.Nextafter32(norm, math.MaxFloat32)
	}
	return float64(norm)
}
