package algorithm

import (
	"math/rand/v2"

	"fedpace/internal/keyed"
	"fedpace/registry"
)

// init registers the compression under the name by which a configuration chooses it. The text is its line
// in the list of such components.
func init() {
	Compressions.Register(
		"random_k",
		"random values of an update (Stich et al. 2018)",
		RandomK{Feedback: true},
	)
}

// RandomK sends the values of an update at k places, each set of k equally likely.
// With error feedback (see [TopK]) they are sent as they are, and
// E‖v − p‖² = (1 − k/d) ‖p‖² (Stich et al. 2018, Lemma A.1). Without it they are
// multiplied by d/k, which is unbiased, and E‖v − p‖² = (d/k − 1) ‖p‖².
//
// A value takes 32 bits. Its place takes none: the server draws the same places.
type RandomK struct {
	Share    float64 `key:"share" default:"0.01" range:"(0,1]" help:"part of the values that is sent"`
	Feedback bool    `key:"error_feedback" default:"true" help:"add what was not sent to the next update"`
}

// Needs says that a residual follows its client from task to task.
func (r RandomK) Needs() registry.Needs { return withFeedback(r.Feedback) }

// Bits implements [Compression]: the values that are sent, without their places.
func (r RandomK) Bits(values int64) int64 { return 32 * countSent(r.Share, values) }

// Compressor implements [Compression] for updates of this many values. Without error feedback the
// values that are sent are multiplied by d/k, so that the update is right in the mean.
func (r RandomK) Compressor(values int) Compressor {
	k := uint64(countSent(r.Share, int64(values)))
	if r.Feedback {
		return randomPlaces{k, 1}
	}
	return randomPlaces{k, float64(values) / float64(k)}
}

// randomPlaces keeps k values by selection sampling (Knuth, The Art of Computer Programming,
// volume 2, Algorithm 3.4.2S).
type randomPlaces struct {
	k      uint64
	factor float64
}

// Compress implements [Compressor]: it sets all but k values, which are drawn at random, to 0 and
// multiplies those by factor. In selection sampling a value is kept with the probability open/n, where open
// of the n values that are left are still to be kept.
func (p randomPlaces) Compress(update []float32, draws *rand.PCG) {
	open := p.k
	for i, x := range update {
		left := uint64(len(update) - i)
		isKept := keyed.Below(draws.Uint64(), left) < open
		if !isKept {
			update[i] = 0
			continue
		}
		open--
		update[i] = float32(float64(x) * p.factor)
	}
}
