package natsbus

import (
	"math/rand/v2"
	"sync/atomic"
)

// A fencing token tells the messages of a coordinator from those of another that had the lease before (Burrows,
// The Chubby lock service, OSDI 2006, section 2.4: sequencers). Hosts take nothing with a lower token than the highest
// that they have seen in the run. So a coordinator that stood still, and does not know yet that another has taken the
// run over, changes nothing on them.
//
// The token is the revision of the lease's entry at which the coordinator took the lease, and behind it fenceBits
// random bits. Revisions grow from holder to holder, as long as the bucket lives. A bucket that a cluster has lost is
// made again and counts from 1: then hosts report a higher token than that of the new holder. A holder that has
// renewed its lease after it heard of a higher token takes the next one. The random bits tell two holders apart
// that have the same revision of two buckets.

// fenceBits is how many random bits a token has behind the revision.
const fenceBits = 16

// noFence stands for the token of a message without one, which everybody takes.
const noFence = 0

// fencedReason is the reason that a trainer gives when it throws away a job with a lower token than it has seen.
const fencedReason = "fenced"

// newFence returns a token for a revision of the lease's entry.
func newFence(revision uint64) uint64 { return revision<<fenceBits | rand.Uint64N(1<<fenceBits) }

// fence is the token of a coordinator, and the highest one that it has heard of.
type fence struct {
	token atomic.Uint64
	heard atomic.Uint64
}

// take gives the coordinator a token when it has made the lease's entry at a revision. The token never becomes lower.
func (f *fence) take(revision uint64) { raise(&f.token, newFence(revision)) }

// hear notes a token that somebody else has seen.
func (f *fence) hear(token uint64) { raise(&f.heard, token) }

// exceed takes a token above all that were heard of, and reports whether that was necessary. Only a coordinator may
// call it that has just renewed its lease: to any other, a higher token means that it was taken over.
func (f *fence) exceed() bool {
	heard := f.heard.Load()
	if heard <= f.token.Load() {
		return false
	}
	f.take(heard>>fenceBits + 1)
	return true
}

// highest is the highest token that a host has seen in a run.
type highest struct{ atomic.Uint64 }

// admits notes a message's token, and reports whether the message may be taken: none with a higher token has come
// before.
func (h *highest) admits(token uint64) bool {
	if token == noFence {
		return true
	}
	return raise(&h.Uint64, token) == token
}

// raise makes number at least as high as v and returns what it is then: v, or a higher number that
// it had before. It takes no lock, and goroutines may call it at once.
func raise(number *atomic.Uint64, v uint64) uint64 {
	for {
		now := number.Load()
		if now >= v {
			return now
		}
		// If another goroutine has changed the number meanwhile, it is looked at again.
		if number.CompareAndSwap(now, v) {
			return v
		}
	}
}
