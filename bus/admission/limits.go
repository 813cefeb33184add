package admission

import (
	"net/netip"
	"time"

	"golang.org/x/time/rate"
)

// Descriptors that a process keeps for what does not come through here: its files, and
// the connections of its pages.
const reserved = 512

// maxConnections is below what the server behind takes.
const maxConnections = 60_000

// connections is how many connections over TCP a process takes that may have a number of descriptors
// open: those that wait for their credentials to be accepted, and those that were admitted.
func connections(descriptors int) (waiting, admitted int) {
	n := min(max(descriptors-reserved, descriptors/2), maxConnections)
	waiting = min(512, n/4)
	return waiting, n - waiting
}

// Limits of a connection that has not been admitted, and of each that has.
const (
	loginTime = 10 * time.Second // from the first byte to the server's acceptance
	stallTime = 10 * time.Second // for a part of what waits to be read by a device
	flushTime = time.Second      // for what waits when the connection ends
	maxLine   = 8 << 10          // above the server's own limit, which it tells of
)

// Limits of all connections that an address, or all addresses, may open in a second,
// and how many at once. What is beyond is closed before anything is read of it.
const (
	addressRate  = 50
	addressBurst = 512
	allRate      = 500
	allBurst     = 4096
	refusedRate  = 2000 // connections closed in a second; more wait in the system's queue
	refusedBurst = 512
	maxAddresses = 4096 // remembered addresses
)

// Limits of a device's traffic beside its quota.
const (
	messageBurst = 16
	byteRate     = 128 << 20 // a second, to the server
	byteBurst    = 4 << 20
	readAhead    = 1 << 20     // bytes that wait for a device of which more is read
	requests     = 2           // requests that wait for an answer; an honest device has one
	answerTime   = time.Second // after which one more is taken all the same
)

// pendingAll is how many bytes may wait for all devices.
const pendingAll = 64 << 20

// addresses limits how often clients open connections: each address, and all together.
type addresses struct {
	all *rate.Limiter
	by  map[netip.Prefix]*rate.Limiter
}

// newAddresses makes limits for addresses of which none was seen.
func newAddresses() *addresses {
	return &addresses{rate.NewLimiter(allRate, allBurst), map[netip.Prefix]*rate.Limiter{}}
}

// allow reports whether an address may open one more connection now.
func (a *addresses) allow(origin netip.Prefix) bool {
	l := a.by[origin]
	if l == nil {
		a.forget()
		l = rate.NewLimiter(addressRate, addressBurst)
		a.by[origin] = l
	}
	return l.Allow() && a.all.Allow()
}

// forget makes room for one more address. Those leave that have opened no connection for a while; if
// there are none, all leave, which is safe because the rate of all addresses together stays limited.
func (a *addresses) forget() {
	if len(a.by) < maxAddresses {
		return
	}
	for origin, l := range a.by {
		if l.Tokens() >= addressBurst {
			delete(a.by, origin)
		}
	}
	if len(a.by) >= maxAddresses {
		clear(a.by)
	}
}
