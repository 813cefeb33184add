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
//	event.go, effects.go  what happens, and what follows from it
//	config.go, devices.go the configuration of a machine; validate.go: what it refuses
//	machine.go            the machine, its parts and phases
//	dispatch.go           an event to what handles it; which need not wait for a plan
//	round.go              a round from its opening to its report, in that order
//	slots.go              clients are given tasks, or waited for
//	outcomes.go           tasks end; those of earlier rounds
//	sites.go              sites that add up before they send
//	secure.go             the stages of secure aggregation; secure_sites.go, secure_devices.go
//	overlap.go            clients that work on while updates are sent
//
// The parts of a machine know nothing of it:
//
//	step.go               the time of a step, its timers and effects
//	tasks.go              the tasks under way, and the models that they start from
//	clients.go            which clients can be given a task, what is known of devices; batteries.go
//	sampling.go           which clients the selection chooses, and for how many local steps
//	candidates.go         clients that are asked for their losses before
//	transfers.go          transfers that share the server's bandwidth
//	losses.go             the losses that the schedules see; how long a round waits for its slowest client
//	state.go              all that a machine remembers; restore.go puts it back
package round
