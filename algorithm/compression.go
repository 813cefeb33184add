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
	// Compress replaces the values of an update, in place, by those that the server decodes from its
	// compressed form. draws is a random stream for this task alone. The caller has checked that all
	// values are finite, since a compression could drop one that is not, so that nobody notices.
	Compress(update []float32, draws *rand.PCG)
}

// Decaying is a compression whose clients add to an update only a part of the residual that the updates
// before have left.
type Decaying interface {
	Compression
	// Feedback returns that part, 0 to 1.
	Feedback() float64
}

// Voting is a compression whose sum says of each parameter which way it moves, and
// not how far.
type Voting interface {
	Compression
	// Decide replaces the exact sum of the votes by the exact sum that they decide.
	Decide(sum []int64)
}

// CheckCompression returns a [*registry.OptionError] if an algorithm does not take updates that are
// compressed in this way; nil compresses nothing. Updates of two vectors cannot be compressed. Nor can the
// votes of a [Voting] compression be used by an algorithm that multiplies the sum, as [FedNova] does, or
// adds to it, as [Rebase] does, since votes fix how far the model moves.
func CheckCompression(algorithm Algorithm, compression Compression) error {
	if compression == nil {
		return nil
	}
	_, votes := compression.(Voting)
	// A trial with unequal steps and staleness shows whether the algorithm scales the sum.
	_, scale := algorithm.Weigh(Equal(2), []int{1, 2}, []int{0, 1})
	switch {
	case HasControlVariates(algorithm):
		return registry.Errorf(
			"compress",
			"%q is for updates of one vector, and those of %s are two (remove it, or use another algorithm)",
			Compressions.NameOf(compression),
			Algorithms.NameOf(algorithm),
		)
	case votes && (registry.NeedsOf(algorithm).NewestModel || scale != 1):
		return registry.Errorf(
			"compress",
			"%q decides how far parameters move, which %s changes (use another method, or another algorithm)",
			Compressions.NameOf(compression),
			Algorithms.NameOf(algorithm),
		)
	}
	return nil
}

// countSent returns the number of values that are sent: values times share, rounded up, at least one. share
// counts as the decimal number that it was written as, so that 0.07 of 100 values are 7, although the
// float64 is a little more than 0.07.
func countSent(share float64, values int64) int64 {
	n, _ := new(big.Rat).SetString(strconv.FormatFloat(share, 'g', -1, 64))
	n.Mul(n, new(big.Rat).SetInt64(values))
	quotient, remainder := new(big.Int).QuoRem(n.Num(), n.Denom(), new(big.Int))
	return min(max(1, quotient.Int64()+int64(remainder.Sign())), max(1, values))
}

// withFeedback returns the needs of a compression that leaves values out. With error feedback each client
// keeps a residual from task to task, and rounds must not overlap.
func withFeedback(feedback bool) registry.Needs {
	return registry.Needs{ClientState: feedback, Rounds: feedback}
}
