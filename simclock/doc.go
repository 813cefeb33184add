// Package simclock is the discrete-event clock that a run lives on.
//
// A [Clock] holds pending events and hands them out in the total order (time,
// priority, sequence). Time is a whole number of nanoseconds of virtual time
// since the run's start, so it neither drifts nor rounds. The order of equal
// events comes from the sequence numbers, which the caller gives: the order in
// which events are scheduled, and how they are batched, changes nothing.
//
// Every event that is handed out enters a running hash, the fingerprint: equal
// fingerprints mean equal histories.
//
// A Clock is a plain value machine: no goroutine, no wall clock, no lock; one
// owner at a time. A [Pacer] is the only place where virtual time meets wall
// time. The package uses only the standard library and knows nothing of what
// its events mean.
//
// # How events are kept
//
// Events that are due soon (the near tier) are in a small heap. All others lie
// unsorted in slots of a radix wheel: level l, slot d holds the events that
// agree with the wheel's base in all base-64 digits of their time above l and
// have digit d there. When the near tier runs dry, the first slot that is not
// empty is either moved there, when it holds few events, or spread over lower
// levels. An event is so moved a few times through memory that is read and
// written in order, where one big heap would miss the cache at every level.
// The idea combines the radix heap (Ahuja, Mehlhorn, Orlin, Tarjan, 1990) with
// the ladder queue's small sorted bottom (Tang, Goh, Thng, 2005).
package simclock
