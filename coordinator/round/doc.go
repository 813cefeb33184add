// Package round is the coordinator's core: a pure state machine that runs
// federated rounds.
//
// [Machine.Step] takes one event (a plan, a timer that fell due, the result of
// training) and returns effects (tasks to send, timers to set, what to train,
// a round's report). It draws no random number that is not a function of its
// key, reads no clock, starts no goroutine and touches no file or network, so
// a run is the list of its events: it can be written as a golden trace, fuzzed,
// and resumed. The driver around it owns the bus, the clock and the files.
//
// What the machine promises:
//
//   - Timers are numbered in task order, never in the order in which plans
//     arrive, so the history does not depend on scheduling.
//   - While [Machine.Waiting] reports plans or results outstanding the driver
//     must not pop the clock: virtual time stands.
//   - Every task ends in exactly one [Outcome].
//   - A client has at most one task at a time.
//
// It imports the standard library and the project's pure packages keyed and
// coordinator/schedule, nothing else.
package round
