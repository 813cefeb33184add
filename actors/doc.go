// Package actors trains for clients, simulated and real.
//
// A simulated client is not a goroutine but a function of its task, so any host can do any
// job (package host), again if need be. Training comes after the task's plan, and only for
// updates that count: a [Trainer] takes the local steps of a job's tasks, in Go or in a
// process of the user's, and returns one exact partial sum. A real device takes its own
// steps with the same type.
//
// The package knows the bus's messages, the data and the models, and nothing of rounds,
// schedules or the clock.
package actors
