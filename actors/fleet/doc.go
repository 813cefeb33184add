// Package fleet says how long a task takes a simulated client, when the
// client can be asked at all, and whether it leaves before the task is done.
//
// Everything is a pure function of (seed, client, task, virtual time):
// whichever host answers a task gives the same plan, in whatever order tasks
// arrive, on whatever architecture. A quantity is one draw with a key of its
// own, through the quantile function of its distribution; no stream is shared
// and nothing is remembered, so that an idle client costs no memory. Durations
// and times are whole nanoseconds of virtual time.
//
// An [Availability] or a [Slowdown] that a configuration can choose by name is one file each;
// distributions.go has every [Distribution]. Their methods return a [*registry.OptionError] for
// options that do not fit each other; those outside their range have been refused
// before. A class may attack (package attack); here that is the time it takes on purpose.
//
// A [Fleet] is read-only after [NewFleet] and may be shared. Bandwidth that
// transfers share at the server needs the clock, and is the round machine's.
//
// The package knows neither NATS nor training.
package fleet
