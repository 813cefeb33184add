package natsbus

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// By their fencing token, the messages of a coordinator can be distinguished from those of another that had the lease
// before (Burrows, The Chubby lock service, OSDI 2006, section 2.4: sequencers). Hosts take nothing with a lower token
// than the highest that they have seen in the run. So a coordinator that stood still, and does not know yet that
// another has taken the run over, changes nothing on them.
//
// The token is the time in hundredths of a second at which the server made the lease's bucket plus the revision of the
// lease's entry at which the coordinator took the lease, and behind that sum fenceBits random bits. Revisions grow
// from holder to holder, as long as the bucket lives. A bucket that was deleted, by a coordinator that ended or by
// a cluster that has lost it, is made again and counts from 1, but at a later time: there are fewer renewals than
// hundredths of a second, also for a run that is resumed at once. If the servers' clocks differ, hosts may report a
// higher token than that of the new holder. A holder that has renewed its lease after it heard of a higher token takes
// the next one. The random bits make the tokens of two holders differ whose sums are equal. A token stays below 2^53,
// which devices in JavaScript hold exactly.

// fenceBits is how many random bits a token has behind the revision. With hundredths of a second since 1970 before
// them, tokens stay below 2^53 until 2057.
const fenceBits = 15

// fenceTime returns the time at which a bucket was made in hundredths of a second since 1970; 0 for earlier times.
func fenceTime(made time.Time) uint64 { return uint64(max(0, made.UnixMilli()/10)) }

// noFence stands for the token of a message without one, which every host takes.
const noFence = 0

// fencedReason is the reason with which a host terminates a job whose token is lower than one that the host has seen.
const fencedReason = "fenced"

// newFence returns a token for a revision of the lease's entry, counted from the time of the bucket.
func newFence(revision uint64) uint64 { return revision<<fenceBits | rand.Uint64N(1<<fenceBits) }

// fence has the tokens that a coordinator knows.
type fence struct {
	// token is the coordinator's own; noFence before the lease was acquired.
	token atomic.Uint64
	// heard is the highest token that hosts have reported.
	heard atomic.Uint64
}

// take gives the coordinator a new token for a revision, counted from the time of the bucket: that of the lease's entry
// when the lease was acquired, or a higher one. The token never becomes lower.
func (f *fence) take(revision uint64) { raise(&f.token, newFence(revision)) }

// hear notes a token that a host has reported with a heartbeat, a plan or a sum.
func (f *fence) hear(token uint64) { raise(&f.heard, token) }

// raiseAboveHeard gives the coordinator a new token above all that hosts have reported. If none of these is above
// its own, it keeps that, and the result is false. Only a coordinator that has just renewed its lease may call
// this: for any other, a higher token means that the run was taken over.
func (f *fence) raiseAboveHeard() bool {
	heard := f.heard.Load()
	if heard <= f.token.Load() {
		return false
	}
	heardRevision := heard >> fenceBits
	f.take(heardRevision + 1)
	return true
}

// highest is the highest token that a host has seen in a run.
type highest struct{ atomic.Uint64 }

// admits notes a message's token, and returns true if the message may be taken: it has no token, or no message before
// had a higher one.
func (h *highest) admits(token uint64) bool {
	if token == noFence {
		return true
	}
	return raise(&h.Uint64, token) == token
}

// raise makes number at least as high as v, and returns its value afterwards: v, or a higher one that
// it had before. Goroutines may call raise for one number concurrently.
func raise(number *atomic.Uint64, v uint64) uint64 {
	for {
		now := number.Load()
		if now >= v {
			return now
		}
		// The exchange fails if another goroutine has changed the number meanwhile.
		if number.CompareAndSwap(now, v) {
			return v
		}
	}
}
