// Package closing says when a round of federated learning closes, and what becomes of
// the tasks that are under way then.
//
// [Rules] are the closing rules by name and [Lates] the treatments of late updates. Both
// are pure functions: the round machine (package round) passes the state of a round to a
// rule, which returns its decision.
package closing
