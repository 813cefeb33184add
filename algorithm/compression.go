package algorithm

import (
	"math/big"
	"math/rand/v2"
	"strconv"

	"fedpace/registry"
)

// Compression makes clients' updates smaller for their upload. It holds no state and
// may be shared. One whose clients keep what was left out of an update, and add it to
// the next, says so by [registry.Needs].ClientState: [ClientStates] keeps the residuals.
type Compression interface {
	// Bits returns the size in bits of a compressed update with this many values, at least 1.
	Bits(values int64) int64
	// Compressor makes the memory of one worker for updates with this many values.
	Compressor(values int) Compressor
}

// Compressions are those that a configuration can name.
var Compressions = registry.New[Compression]("compression", "method")

// Compressor compresses one update after the other.
type Compressor interface {
	// Compress replaces an update by what the server reads of its compressed form.
	// draws is a stream of the task's own. The caller has checked that all values are
	// finite: a compression may leave others out.
	Compress(update []float32, draws *rand.PCG)
}

// Decaying is a compression whose clients add a part of what they did not send.
type Decaying interface {
	Compression
	// Feedback is that part.
	Feedback() float64
}

// Voting is a compression whose sum says of each parameter which way it moves, and
// not how far.
type Voting interface {
	Compression
	// Decide replaces the exact sum of the votes by the exact sum that they decide.
	Decide(sum []int64)
}

// CheckCompression returns a [*registry.OptionError] if algorithm a does not take updates that are
// compressed by c; nil is no compression. Updates of two vectors are not compressed. Votes say how
// far a model moves, which an algorithm must not change by a factor, as [FedNova] does, or by
// adding to the sum, as [Rebase] does.
func CheckCompression(a Algorithm, c Compression) error {
	if c == nil {
		return nil
	}
	_, votes := c.(Voting)
	// A trial with unequal steps and staleness shows whether the algorithm scales the sum.
	_, scale := a.Weigh(Equal(2), []int{1, 2}, []int{0, 1})
	switch {
	case HasControlVariates(a):
		return registry.Errorf(
			"compress",
			"%q is for updates of one vector, and those of %s are two (remove it, or use another algorithm)",
			Compressions.NameOf(c),
			Algorithms.NameOf(a),
		)
	case votes && (registry.NeedsOf(a).NewestModel || scale != 1):
		return registry.Errorf(
			"compress",
			"%q decides how far parameters move, which %s changes (use another method, or another algorithm)",
			Compressions.NameOf(c),
			Algorithms.NameOf(a),
		)
	}
	return nil
}

// countSent is how many of some values a share of them is, rounded up: at least one. It takes
// the share as it is written in decimals, of which a float64 is a little more or less.
func countSent(share float64, values int64) int64 {
	n, _ := new(big.Rat).SetString(strconv.FormatFloat(share, 'g', -1, 64))
	n.Mul(n, new(big.Rat).SetInt64(values))
	quotient, remainder := new(big.Int).QuoRem(n.Num(), n.Denom(), new(big.Int))
	return min(max(1, quotient.Int64()+int64(remainder.Sign())), max(1, values))
}

// withFeedback is what a compression needs that leaves values out.
func withFeedback(feedback bool) registry.Needs {
	return registry.Needs{ClientState: feedback, Rounds: feedback}
}
