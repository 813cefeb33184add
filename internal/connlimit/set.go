package connlimit

import (
	"net"
	"net/netip"
	"slices"
	"sync"
)

// Set is a server's open connections. Its methods, and those of its connections, may
// be called concurrently.
type Set struct {
	waiting, admitted int // limits

	mu    sync.Mutex
	queue map[netip.Prefix][]*Conn // those that wait, by address, the oldest first; none is empty
	count Counts
}

// Counts are those of a set.
type Counts struct {
	Waiting  int   // open
	Admitted int   // open
	Evicted  int64 // that waited and were closed for others
	Refused  int64 // that were not admitted, since there were no places
}

// New makes a set of at most so many connections that wait, and so many that are admitted.
func New(waiting, admitted int) *Set {
	return &Set{waiting: waiting, admitted: admitted, queue: map[netip.Prefix][]*Conn{}}
}

// Conn is a connection of a set, which it leaves when it is closed.
type Conn struct {
	net.Conn
	set             *Set
	from            netip.Prefix
	waits, admitted bool // neither: it is closed
}

// Add takes a new connection, which waits, and closes another one if there are too
// many of them.
func (s *Set) Add(nc net.Conn) *Conn {
	c := &Conn{Conn: nc, set: s, from: Origin(nc.RemoteAddr())}
	s.mu.Lock()
	var evicted *Conn
	if s.count.Waiting >= s.waiting {
		evicted = s.oldest()
		s.count.Evicted++
	}
	s.enqueue(c)
	s.mu.Unlock()
	if evicted != nil {
		_ = evicted.Close() // nobody waits for what it says
	}
	return c
}

// Admit gives the connection a place, false if there is none.
func (c *Conn) Admit() bool {
	s := c.set
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case c.admitted:
		return true
	case !c.waits: // it is closed
		return false
	case s.count.Admitted >= s.admitted:
		s.count.Refused++
		return false
	}
	s.dequeue(c)
	c.admitted = true
	s.count.Admitted++
	return true
}

// Release takes the connection's place away: it waits again.
func (c *Conn) Release() {
	s := c.set
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.admitted {
		c.admitted = false
		s.count.Admitted--
		s.enqueue(c)
	}
}

// Close closes the connection. It may be called again.
func (c *Conn) Close() error {
	s := c.set
	s.mu.Lock()
	switch {
	case c.admitted:
		c.admitted = false
		s.count.Admitted--
	case c.waits:
		s.dequeue(c)
	}
	s.mu.Unlock()
	return c.Conn.Close()
}

// Counts are the set's as they are now.
func (s *Set) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// enqueue lets a connection wait. With the lock held, as the functions below.
func (s *Set) enqueue(c *Conn) {
	s.queue[c.from] = append(s.queue[c.from], c)
	c.waits = true
	s.count.Waiting++
}

func (s *Set) dequeue(c *Conn) {
	s.queue[c.from] = slices.DeleteFunc(s.queue[c.from], func(x *Conn) bool { return x == c })
	if len(s.queue[c.from]) == 0 {
		delete(s.queue, c.from)
	}
	c.waits = false
	s.count.Waiting--
}

// oldest is the connection that has waited longest of those of the address that has the
// most.
func (s *Set) oldest() *Conn {
	var most []*Conn
	for _, list := range s.queue {
		if len(list) > len(most) {
			most = list
		}
	}
	oldest := most[0]
	s.dequeue(oldest)
	return oldest
}

// Origin is what stands for a client: its IPv4 address, or the /64 of its IPv6 address,
// of which a client has all (RFC 6177). Connections without an IP address are one.
func Origin(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap()
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.WithZone("").Prefix(bits) // fails only on an address that is none, which is one client
	return p
}
