// Package round is the coordinator's core: a pure state machine that runs
// federated rounds.
//
// [Machine.Step] takes one event (a plan, a timer that fell due, the result of
// training) and returns effects (tasks to send, timers to set, what to train,
// a round's report). It draws no random number that is not a function of its
// key, reads no clock, starts no goroutine and touches no file or network, so
// a run is the list of its events: it can be written as a golden trace, fuzzed,
// and resumed from its [State]. The driver around it owns the bus, the clock
// and the files.
//
// What the machine promises:
//
//   - Timers are numbered in task order, never in the order in which plans
//     arrive, so the history does not depend on scheduling.
//   - While [Machine.Waiting] reports plans or results outstanding the driver
//     must not pop the clock: virtual time stands, but for what
//     [Machine.RunsAhead] lets pass.
//   - Every task ends in exactly one [Outcome].
//   - A client has at most one task at a time. When its task has an outcome it
//     is free: a client that is late or not needed stops, unless its task may
//     outlive its round ([closing.Use]).
//   - A task names the newest model of its time as its base. A model is kept
//     until nothing can be trained from it any more; then, and once, it is
//     released.
//   - A client is given a task only while it is available.
//
// A [closing.Rule] says when a round closes, a [selection.Rule] which clients are
// asked, and for how many local steps. Each is one file that registers itself
// in [closing.Rules] or [selection.Rules].
//
//	round.go      a round from its opening to its report, in that order
//	machine.go    the machine, its phases, events by kind; which need not wait for a plan
//	event.go      events and timers; effects.go: what follows from them
//	sampling.go   slots to clients, waiting for clients that are away
//	query.go      candidates and their losses
//	late.go       tasks that outlive their round
//	following.go  selections that follow what their clients do
//	needs.go      whether the closing rule and the selection fit the run
//	devices.go    real devices: which take part, and answers that cannot count
//	known.go      what devices told of their samples, and took for their tasks
//	task.go       the tasks under way, and the models they start from
//	battery.go    what tasks take of clients' batteries, and who waits to be charged
//	stragglers.go how long a round waits for its slowest client
//	transfers.go  transfers that share the server's bandwidth
//	state.go      all that a machine remembers; check.go: states that cannot be
package round
