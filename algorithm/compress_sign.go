package algorithm

import (
	"math"
	"math/rand/v2"
)

// init registers the compression under the name by which a configuration chooses it. The text is its line
// in the list of such components.
func init() {
	Compressions.Register("sign", "the majority of the updates' signs decides (Bernstein et al. 2018)", Sign{})
}

// Sign sends the sign of each value, a bit, and moves every parameter by one step in
// the direction that most clients have (signSGD with majority vote, Bernstein et al.
// 2018, Algorithm 3):
//
//	x ← x + step · sign(Σ w_c sign(x_c − x))
//
// The weights are those of the algorithm. A value of 0 is no vote, and a tie moves
// nothing. It is biased. The algorithm's server takes the decided move for the mean
// update.
type Sign struct {
	Step float64 `key:"step" range:"(0,1e5]" help:"how far a round moves each parameter"`
}

// Bits implements [Compression]: one bit a value.
func (Sign) Bits(values int64) int64 { return max(1, values) }

// Compressor implements [Compression]: it needs no memory.
func (s Sign) Compressor(int) Compressor { return s }

// Compress implements [Compressor]: it replaces every value by its sign, in place. A value of 0 is
// an abstention and stays 0.
func (Sign) Compress(update []float32, _ *rand.PCG) {
	for i, x := range update {
		if x != 0 {
			update[i] = float32(math.Copysign(1, float64(x)))
		}
	}
}

// Decide implements [Voting]: it replaces each sum of weighted votes by one step in the direction
// of the majority, or by 0 if the votes are balanced.
func (s Sign) Decide(sum []int64) {
	step := int64(math.RoundToEven(float64(s.Step * Unit)))
	for i, votes := range sum {
		switch {
		case votes > 0:
			sum[i] = step
		case votes < 0:
			sum[i] = -step
		}
	}
}
