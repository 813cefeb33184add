package algorithm

import (
	"math"
	"math/rand/v2"
	"slices"
)

// init registers the compression under the name by which a configuration chooses it. The text is its line
// in the list of such components.
func init() {
	Compressions.Register(
		"four_bit",
		"four bits a value, by the largest of its block (Streaming DiLoCo, Douillard et al. 2025)",
		FourBit{},
	)
}

// FourBit sends a sign and three bits of each value, in units of the largest magnitude s of
// its block, which takes 32:
//
//	e3m0: 0 or s 2^-k, k = 0 to 6;  int4: s k/7, k = 0 to 7
//
// E3M0, a sign and an exponent without a mantissa, is what Streaming DiLoCo sends of outer
// gradients (Douillard et al. 2025, section 3.3); the sums have all their bits. The paper does
// not say by what values are scaled: blocks are our choice. A value goes to the nearest level,
// and from the middle to the larger one, so it is biased: |v − Q(v)| is at most |v|/3 of e3m0 for
// values of s/64 or more, and s/14 of int4.
type FourBit struct {
	Format string `key:"format" default:"e3m0" words:"e3m0,int4" help:"levels that double, or at equal distances"`
	Block  int    `key:"block" default:"1024" range:"[1,1000000000]" unit:"values" help:"values that share a scale"`
}

// Bits implements [Compression]: four bits a value, and 32 for the scale of each block.
func (f FourBit) Bits(values int64) int64 {
	block := int64(f.Block)
	return max(1, 4*values+32*((values+block-1)/block))
}

// Compressor implements [Compression]: it needs no memory.
func (f FourBit) Compressor(int) Compressor { return f }

// Compress implements [Compressor]: in each block it replaces the values, in place, by the nearest of the
// format's levels, which are in units of the block's largest magnitude. A block of zeros stays as it is.
func (f FourBit) Compress(update []float32, _ *rand.PCG) {
	level := powerLevel
	if f.Format == "int4" {
		level = equalLevel
	}
	for block := range slices.Chunk(update, f.Block) {
		largest := 0.0
		for _, x := range block {
			largest = max(largest, math.Abs(float64(x)))
		}
		if largest == 0 {
			continue
		}
		for i, x := range block {
			share := math.Abs(float64(x)) / largest
			magnitude := float64(largest * level(share))
			block[i] = float32(math.Copysign(magnitude, float64(x)))
		}
	}
}

// powerLevel returns the level of the format e3m0 that is nearest to share: one of 1, 1/2, ... 1/64 and 0.
// share is a magnitude divided by the largest magnitude of the block, so it is at most 1.
func powerLevel(share float64) float64 {
	// 1/128 is the middle between 0 and the smallest level.
	if share < 1./128 {
		return 0
	}
	// 0.75 level is the middle between a level and its half.
	level := 1.0
	for level > 1./64 && share < 0.75*level {
		level /= 2
	}
	return level
}

// equalLevel returns the level of the format int4 that is nearest to share: one of 0, 1/7, ... 1. share is
// a magnitude divided by the largest magnitude of the block, so it is at most 1.
func equalLevel(share float64) float64 { return math.Floor(float64(share*7)+0.5) / 7 }
