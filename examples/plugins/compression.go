package plugins

import (
	"math"
	"math/rand/v2"

	"fedpace/algorithm"
)

func init() {
	algorithm.Compressions.Register("short_floats", "floats with fewer bits of their fraction", ShortFloats{})
}

// ShortFloats cuts the fraction of each value of an update; with 7 bits of it the
// values are bfloat16.
type ShortFloats struct {
	Fraction int `key:"fraction" default:"7" range:"[0,23]" help:"bits of the fraction that are kept"`
}

// Bits is the size of an update: a sign, 8 bits of the exponent, and the fraction.
func (s ShortFloats) Bits(values int64) int64 { return values * int64(9+s.Fraction) }

// Compressor makes the memory of one worker, of which this compression needs none.
func (s ShortFloats) Compressor(int) algorithm.Compressor { return s }

// Compress sets the last bits of each value's fraction, which has 23 in a float32, to 0, so that Fraction bits
// remain. It needs no random numbers.
func (s ShortFloats) Compress(update []float32, _ *rand.PCG) {
	cutBits := uint32(1)<<(23-s.Fraction) - 1
	for i, x := range update {
		update[i] = math.Float32frombits(math.Float32bits(x) &^ cutBits)
	}
}
