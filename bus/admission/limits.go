package admission

import (
	"net/netip"
	"time"

	"golang.org/x/time/rate"
)

// reserved is the number of descriptors that a process keeps for other things than the connections of a
// front: its files, and the connections of its pages.
const reserved = 512

// maxConnections is below what the server behind takes.
const maxConnections = 60_000

// connections returns how many connections a front takes in a process that may have this many descriptors
// open. waiting is the limit for connections whose credentials are not accepted yet, and admitted that
// for the others.
func connections(descriptors int) (waiting, admitted int) {
	n := min(max(descriptors-reserved, descriptors/2), maxConnections)
	waiting = min(512, n/4)
	return waiting, n - waiting
}

// Limits of a connection that has not been admitted, and of each that has.
const (
	// loginTime is the longest time from the first byte to the server's acceptance.
	loginTime = 10 * time.Second
	// stallTime is how long a device may take to read a part of what waits for it.
	stallTime = 10 * time.Second
	// flushTime is how long a connection that ends may take to deliver what waits.
	flushTime = time.Second
	// maxLine bounds a line in bytes. It is above the server's own limit, so that the server reports a
	// line that is too long.
	maxLine = 8 << 10
)

// Limits of all connections that an address, or all addresses, may open in a second,
// and how many at once. What is beyond is closed before anything is read of it.
const (
	addressRate  = 50
	addressBurst = 512
	allRate      = 500
	allBurst     = 4096
	// refusedRate bounds the connections closed in a second. More wait in the system's queue.
	refusedRate  = 2000
	refusedBurst = 512
	// maxAddresses bounds the addresses that are remembered.
	maxAddresses = 4096
)

// Limits of a device's traffic beside its quota.
const (
	messageBurst = 16
	// byteRate bounds the bytes to the server in a second.
	byteRate  = 128 << 20
	byteBurst = 4 << 20
	// readAhead is how many bytes may wait for a device before no more is read from it.
	readAhead = 1 << 20
	// maxUnanswered is how many requests of a device may wait for an answer. An honest device has one.
	maxUnanswered = 2
	// answerTime is the time after which one more request is taken without an answer.
	answerTime = time.Second
)

// pendingAll is how many bytes may wait for all devices.
const pendingAll = 64 << 20

// addresses limits how often clients open connections: each address by the limiter of its prefix in byPrefix, and all
// addresses together.
type addresses struct {
	all      *rate.Limiter
	byPrefix map[netip.Prefix]*rate.Limiter
}

// newAddresses makes limits for addresses of which none was seen.
func newAddresses() *addresses {
	return &addresses{rate.NewLimiter(allRate, allBurst), map[netip.Prefix]*rate.Limiter{}}
}

// allow reports whether an address may open one more connection now, by its own rate and by the
// rate of all addresses together. origin is the prefix that stands for the address; a new one
// begins with a full burst.
func (a *addresses) allow(origin netip.Prefix) bool {
	l := a.byPrefix[origin]
	if l == nil {
		a.forget()
		l = rate.NewLimiter(addressRate, addressBurst)
		a.byPrefix[origin] = l
	}
	return l.Allow() && a.all.Allow()
}

// forget makes room for one more address where maxAddresses are remembered. Addresses are forgotten that
// have opened no connection for a while; if there are none, all are forgotten, which is safe because the
// rate of all addresses together stays limited.
func (a *addresses) forget() {
	if len(a.byPrefix) < maxAddresses {
		return
	}
	for origin, l := range a.byPrefix {
		// A limiter with all its tokens has let no connection through for a while.
		if l.Tokens() >= addressBurst {
			delete(a.byPrefix, origin)
		}
	}
	if len(a.byPrefix) >= maxAddresses {
		clear(a.byPrefix)
	}
}
