// Package combine makes one update of the single updates of a round, so that a few
// clients that lie do not decide what becomes of the model.
//
// It stands between the clients and the algorithm of package algorithm. First a [Clip] shortens
// updates that are longer than a bound. Then a [Rule] combines them, where the algorithm's
// weighted sum would otherwise add them up. The server half of any algorithm makes the next
// model of what comes out: FedProx, FedAdam and the others are robust without a line of
// their own. Each clip and each rule is one file.
//
// # Single updates
//
// A rule sees every accepted update by itself, as the exact sum of weight 1 that package
// algorithm defines, in units of 2^-44. So each accepted task is a job of its own, and the
// coordinator holds all of them at once: 8 bytes for each parameter of each update
// ([Setup.Bytes]), which is checked before a run. Clipping the updates of real devices
// alone costs nothing of that: they are at the coordinator already.
//
// # The same bits everywhere
//
// Updates come in the order of their tasks, whoever computed them. A rule works in integers,
// or in float64 in a fixed order with every product rounded by itself. Work is divided among
// cores by parameter or by pair of updates, never within a sum. Norms and distances are over
// the trained values, which are all that a rule is given. Buffers (a batch norm's running
// means) are averaged beside it, with the shares that it returns, or combined by it where it works
// value by value ([ByValue]).
//
// # What goes together
//
// A rule replaces the weighted sum. So it goes with no algorithm that gives updates a
// second vector (SCAFFOLD), multiplies the sum (FedNova) or weighs stale updates by what
// they say (REFL), and not with votes. A rule that works parameter by parameter takes whole
// updates: of those that compression has thinned out the median is 0. [Setup.Check] refuses
// what does not fit. With late updates and rounds that overlap the algorithm's weights
// decide how far the model moves (the weights' sum), and in the rules that average also what
// a stale update counts. The other rules count each update once.
//
// Clipping multiplies an update by a factor, so it goes with any weights. A bound that is
// [Fixed] is known before a round, and is the sensitivity that differential privacy asks
// for; so is that of [Quantile].
package combine
