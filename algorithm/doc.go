// Package algorithm makes the next global model of clients' updates so that
// the result does not depend on their order, on how they are grouped, or on the
// machines that add them.
//
// An [Algorithm] is one file, and adaptive.go has the three that share a server: FedAvg,
// FedAvgM, FedAdagrad, FedAdam, FedYogi, FedProx, SCAFFOLD, FedNova, FedExP, FedBuff, FedAsync and REFL,
// each with its options, the weights of updates, a [ServerOptimizer] that turns the exact sum
// into a model, and the [Client] half that trainers run. None depends on how many local steps a
// round has: every algorithm runs with every K schedule.
//
// A [Compression] is one file, too: QSGD, top-k, random-k and the majority of signs. It
// changes an update before the update is added, so sums stay exact.
//
// # Exact sums
//
// Client c's update of a parameter enters as a whole number, the term
//
//	roundToEven(2^44 · w_c · (x_c − x))
//
// computed in float64, and terms are added in int64, where addition is
// associative. The weights w_c are not negative and sum to at most 1 over the accepted
// clients. Differences of 2^17 or more, or not finite, are refused. FedAvg's new
// model is float32(x + S·2^-44), where S is the sum ([FedAvg]).
//
// # Why sums do not overflow
//
// A term is below 2^61·w_c in magnitude, plus 1/2 for rounding. Weights that were
// divided by their own sum come to at most 1 + n·2^-52 for n clients. So any
// partial sum over up to 2^32 clients stays below 2^61·(1 + 2^-20) + 2^31, which
// is less than [Limit]. [Merge] refuses partial sums beyond Limit, which are damaged or
// forged, and with them every sum that could wrap. [Rebase] adds terms whose weights
// come to at most 1 once more to a sum that is complete: that stays below 2^63.
//
// The package knows nothing of messages, rounds or files.
package algorithm
