// Package device says how long a task takes a simulated client.
//
// Durations are pure functions of (seed, client, task): whichever host answers
// a task gives the same plan, in whatever order tasks arrive. Durations are
// whole nanoseconds of virtual time. A [Fleet] is read-only after [NewFleet]
// and may be shared.
//
// The package knows neither NATS nor training.
package device
