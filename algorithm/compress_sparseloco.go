package algorithm

import (
	"cmp"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"fedpace/registry"
)

// init registers the compression under the name by which a configuration chooses it. The text is its line
// in the list of such components.
func init() {
	Compressions.Register(
		"sparseloco",
		"the largest values of each chunk in two bits (Sarfi et al. 2025)",
		SparseLoCo{},
	)
}

// SparseLoCo sends the k largest values of each chunk of an update, in two bits, and adds what
// it did not send to the next one, a little less of it each time (Sarfi et al. 2025, Algorithm 1,
// up to the sign of an update):
//
//	e_c ← β e_c + (x_c − x),  v = Q(top_k(e_c) of each chunk),  e_c ← e_c − v,  x ← x + α/R Σ v
//
// The decayed feedback stands for the momentum at the server: use it with fedavg, whose
// server_rate is α. Q is that of the authors' program: with the mean m and the deviation σ of the
// values that are sent (of n, over n − 1) a value is in bin round((v − m)/(1.5 σ)) + 2, held to 0
// to 3, and what is read is the mean of its bin. There each tensor has bins of its own; here the
// whole update has, of which compressions know no parts.
//
// A value takes 2 bits and its place in its chunk ceil(log2 chunk); the bins take 128.
type SparseLoCo struct {
	Share float64 `key:"share" default:"0.02" range:"(0,1]" help:"part of a chunk's values that is sent"`
	Chunk int     `key:"chunk" default:"4096" range:"[1,1000000000]" unit:"values" help:"values of a chunk"`
	Decay float64 `key:"decay" default:"0.95" range:"[0,1]" help:"part of the unsent added to the next update, β"`
}

// Needs says that a residual follows its client from task to task.
func (SparseLoCo) Needs() registry.Needs { return withFeedback(true) }

// Feedback implements [Decaying]: it is β.
func (s SparseLoCo) Feedback() float64 { return s.Decay }

// Bits implements [Compression]: for each value that is sent its bin and its place in its chunk, and once for the
// update the float32 mean of each of the four bins. The last chunk may be shorter.
func (s SparseLoCo) Bits(values int64) int64 {
	chunk := min(int64(s.Chunk), max(1, values))
	last := values % chunk
	sent := values / chunk * countSent(s.Share, chunk)
	if last > 0 {
		sent += countSent(s.Share, last)
	}
	const binBits = 2
	const meansBits = 4 * 32
	placeBits := bits.Len64(uint64(chunk - 1))
	return max(1, sent*int64(binBits+placeBits)+meansBits)
}

// Compressor implements [Compression].
func (s SparseLoCo) Compressor(int) Compressor {
	return &sparse{SparseLoCo: s, largest: largest{count: make([]int32, 1<<16)}}
}

// sparse is the compressor of [SparseLoCo]. It compresses one chunk after the other by largest, which keeps the k
// largest values of a chunk.
type sparse struct {
	SparseLoCo
	largest
}

// Compress implements [Compressor]: in each chunk it keeps the largest values and sets the others to 0. It
// then replaces each value that is left, in the whole update, by the mean of its bin among four. It uses no
// random numbers.
func (s *sparse) Compress(update []float32, draws *rand.PCG) {
	for chunk := range slices.Chunk(update, s.Chunk) {
		// largest keeps k values.
		s.largest.k = int(countSent(s.Share, int64(len(chunk))))
		s.largest.Compress(chunk, draws)
	}
	bin, levels := fourBins(update)
	for i, x := range update {
		if x != 0 {
			update[i] = levels[bin(x)]
		}
	}
}

// fourBins divides the values that are not 0 into four bins by the formula of [SparseLoCo]: by their distance from
// the mean, in units of one and a half standard deviations. bin returns the bin of a value, from 0 to 3, and means
// has the mean of each bin, 0 for an empty one.
func fourBins(values []float32) (bin func(float32) int, means [4]float32) {
	n := 0.
	sum := 0.
	for _, x := range values {
		if x != 0 {
			n = n + 1
			sum = sum + float64(x)
		}
	}
	mean := sum / max(1, n)
	squares := 0.
	for _, x := range values {
		if x != 0 {
			distance := float64(x) - mean
			squares += float64(distance * distance)
		}
	}
	// Equal values have no deviation, and any width serves.
	width := cmp.Or(float64(1.5*math.Sqrt(squares/max(1, n-1))), 1)
	bin = func(x float32) int {
		return int(min(3, max(0, math.RoundToEven(float64(float64(x)-mean)/width)+2)))
	}
	var count, sums [4]float64
	for _, x := range values {
		if x != 0 {
			count[bin(x)]++
			sums[bin(x)] += float64(x)
		}
	}
	for b := range means {
		means[b] = float32(sums[b] / max(1, count[b]))
	}
	return bin, means
}
