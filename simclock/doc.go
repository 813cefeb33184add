// Package simclock is the discrete-event clock of a run.
//
// A [Clock] holds pending events and returns them in the total order (time,
// priority, sequence). Time is a whole number of nanoseconds of virtual time
// since the start of the run, so it neither drifts nor rounds. The caller gives
// the sequence numbers, which order equal events. The order in which events are
// scheduled changes nothing.
//
// Every event that is popped enters a running hash, the fingerprint: equal
// fingerprints mean equal histories.
//
// A Clock is a plain value machine with one owner at a time: no goroutine, no
// wall clock, no lock. Only a [Pacer] connects virtual time to wall time. The
// package uses only the standard library and does not know the meaning of its
// events.
//
// Events that are scheduled together in large numbers are sorted once; others wait in a
// heap of four branches. A cancelled event stays where it is until it is the first, or
// until there are more cancelled events than pending ones: which events are pending is
// known by their sequence numbers.
package simclock
