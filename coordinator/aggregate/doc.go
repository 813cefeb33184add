// Package aggregate adds clients' updates to the global model so that the
// result does not depend on their order, on how they are grouped, or on the
// machines that add them.
//
// Client c's update of a parameter enters as a whole number, the term
//
//	roundToEven(2^44 · w_c · (x_c − x))
//
// computed in float64, and terms are added in int64, where addition is
// associative. The weights w_c are not negative and sum to 1 over the accepted
// clients ([Equal], [BySamples]). Differences of 2^17 or more, or not finite,
// are refused. The new model is float32(x + S·2^-44), where S is the sum
// ([Apply]).
//
// # Why sums do not overflow
//
// A term is below 2^61·w_c in magnitude, plus 1/2 for rounding. So any partial
// sum over up to 2^32 clients stays below 2^61·(1 + 2^-52) + 2^31, which is less
// than [Limit]. [Merge] refuses partial sums beyond Limit, which are damaged or
// forged, and with them every sum that could wrap.
//
// The package is pure and knows nothing of messages, rounds or files.
package aggregate
