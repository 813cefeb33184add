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
// # How events are kept
//
// Events that are due soon (the near tier) are in a small heap. All others lie
// unsorted in the slots of a radix wheel. Slot d of level l holds the events
// whose time has digit d at place l, in base 64, and agrees with the wheel's base
// in all higher digits. When the near tier is empty, the first slot with events
// is moved to it if it has few of them, and spread over lower levels otherwise.
// An event is thus moved a few times through memory that is read and written in
// order, where one big heap would miss the cache at every level. The idea
// combines the radix heap (Ahuja, Mehlhorn, Orlin, Tarjan, 1990) with the small
// sorted bottom of the ladder queue (Tang, Goh, Thng, 2005).
package simclock
