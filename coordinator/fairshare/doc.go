// Package fairshare is links that transfers share max-min fairly: a server's, and those of
// sites before it.
//
// All transfers have one size. Each has its own speed, that of its client's
// link, and is never faster. The transfers that the server slows down share the
// rest of its capacity equally. At any time there is therefore a level: a
// transfer goes at the level or at its own speed, whichever is less, and the
// speeds add up to the server's capacity, or to less if the own speeds do
// (water-filling; Bertsekas and Gallager, Data Networks, 6.5.2). This is the
// fluid model of many long transfers through one bottleneck. It knows no packets,
// round trips or slow starts.
//
// A [FairLink] is played in virtual time. Transfers are added and taken away at
// given times, and the server says when the next one is complete. It is exact:
//
//	work.go      128-bit fixed point: additions round nothing, so no drift
//	fairlink.go  transfers in, transfers out, the next that is complete
//	level.go     which transfers go at the level, which at their own speed
//	tree.go      links of sites that meet at the server
//	heap.go      a heap whose members can be removed and moved
//
// A transfer that is never slowed down takes its own time. That holds to the
// nanosecond if the square of that time is below 2^63 ns times the time that it
// takes alone on the server (43 minutes at a millisecond). n equal transfers that
// share the server from start to end take n times as long as one alone. A
// transfer is complete at the first whole nanosecond at which nothing is left.
//
// Transfers that the server slows down are equally fast, so one clock of service
// serves them all: a transfer is complete when that clock reaches its mark
// (virtual-time processor sharing). A transfer at its own speed has a time at
// which it is complete. Transfers with equal own times change sides together. An
// event therefore costs O(log n) and these moves: one if all speeds are equal,
// and few on average if they are drawn from a distribution.
//
// The package does not know the content of transfers, or that there are rounds.
package fairshare
