// Package actors is the clients' side of a run: simulated actors and the
// trainers that stand in for them.
//
// A simulated actor is not a goroutine but a function: a [Host] subscribes once
// for all of them, and answers each task at once with its plan, which the
// device model draws from (seed, client, task). Idle clients cost nothing.
// Training comes later and only for updates that count: the coordinator puts
// jobs on a work queue, and each of the host's workers, a [Trainer], takes one
// at a time and returns one exact partial sum for it. Since a simulated client
// is a pure function of its task, any host can do any job, again if need be.
//
// The package knows the bus, the data and the models, and nothing of rounds,
// schedules or the clock.
package actors
