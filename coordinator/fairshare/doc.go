// Package fairshare is a server's link that transfers share max-min fairly.
//
// All transfers are of one size. Each has an own speed, that of its client's
// link, and no transfer is ever faster; what the server has is shared equally
// by those whom it slows down. At any time there is so a level such that a
// transfer goes at the lesser of the level and its own speed, and the sum of
// all is the server's capacity or, where the own speeds add up to less, their
// sum (water-filling; Bertsekas and Gallager, Data Networks, 6.5.2). This is
// the fluid model of many long transfers through one bottleneck; it knows no
// packets, round trips or slow starts.
//
// A [Server] is played in virtual time: transfers are added and taken away at
// given times, and it says when the next one is complete. It is exact:
//
//	work.go      128-bit fixed point: additions round nothing, so no drift
//	server.go    transfers in, transfers out, the next that is complete
//	level.go     who goes at the level, who at their own speed
//	heap.go      a heap whose members can be removed and moved
//
// A transfer that is never slowed down takes its own time, to the nanosecond
// where the square of that is below 2^63 ns times what it takes alone on the
// server (43 minutes at a millisecond); n equal ones that share the server from
// start to end take n times what one takes alone. A transfer is complete at the first whole nanosecond at which
// nothing is left of it.
//
// Those whom the server slows down go equally fast, so one clock of service
// serves them all, and a transfer is complete when that clock reaches its mark
// (virtual-time processor sharing). Those who go at their own speed have a time
// at which they are complete. Transfers with equal own times move from one side
// to the other together, so an event costs O(log n) and the moves: one where
// speeds are all alike, and on average few where they are drawn from a
// distribution.
//
// The package is pure: no wall clock, no goroutine, no randomness; the standard
// library only. It does not know what is transferred, or that there are rounds.
package fairshare
