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
	// waiting and admitted bound the connections that wait and those that are admitted.
	waiting, admitted int

	mu sync.Mutex
	// queue holds the connections that wait, by their addresses, the oldest first. No list is empty.
	queue map[netip.Prefix][]*Conn
	count Counts
}

// Counts are numbers of connections of a set.
type Counts struct {
	// Waiting and Admitted are the connections that are open.
	Waiting  int
	Admitted int
	// Evicted are the connections so far that waited and were closed for others.
	Evicted int64
	// Refused are the attempts so far to admit a connection while no place was left.
	Refused int64
}

// New makes a set in which at most waiting connections wait and at most admitted ones are admitted.
func New(waiting, admitted int) *Set {
	return &Set{waiting: waiting, admitted: admitted, queue: map[netip.Prefix][]*Conn{}}
}

// Conn is a connection of a set, which it leaves when it is closed.
type Conn struct {
	net.Conn
	set    *Set
	origin netip.Prefix
	// waits and admitted are never both true. If neither is, the connection is closed.
	waits, admitted bool
}

// Add adds a new connection to the set, in which it waits. If as many wait already as may, it first closes
// the connection that has waited longest from the address that has the most.
func (s *Set) Add(nc net.Conn) *Conn {
	conn := &Conn{Conn: nc, set: s, origin: Origin(nc.RemoteAddr())}
	s.mu.Lock()
	var evicted *Conn
	if s.count.Waiting >= s.waiting {
		evicted = s.takeOldest()
		s.count.Evicted++
	}
	s.enqueue(conn)
	s.mu.Unlock()
	if evicted != nil {
		// Nobody needs the error of a connection that is given up.
		_ = evicted.Close()
	}
	return conn
}

// Admit gives the connection a place among the admitted ones and reports whether it has one. It has none if
// all places are taken or if the connection is closed.
func (c *Conn) Admit() bool {
	set := c.set
	set.mu.Lock()
	defer set.mu.Unlock()
	switch {
	case c.admitted:
		return true
	// The connection is closed.
	case !c.waits:
		return false
	case set.count.Admitted >= set.admitted:
		set.count.Refused++
		return false
	}
	set.dequeue(c)
	c.admitted = true
	set.count.Admitted++
	return true
}

// Release takes back the place of an admitted connection, which then waits again.
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

// enqueue lets a connection wait. The caller holds the lock, as of the two functions below.
func (s *Set) enqueue(c *Conn) {
	s.queue[c.origin] = append(s.queue[c.origin], c)
	c.waits = true
	s.count.Waiting++
}

// dequeue takes a connection out of those that wait.
func (s *Set) dequeue(c *Conn) {
	s.queue[c.origin] = slices.DeleteFunc(s.queue[c.origin], func(x *Conn) bool { return x == c })
	if len(s.queue[c.origin]) == 0 {
		delete(s.queue, c.origin)
	}
	c.waits = false
	s.count.Waiting--
}

// takeOldest removes one waiting connection and returns it: of the connections from the address that has
// the most, the one that has waited longest. At least one must wait.
func (s *Set) takeOldest() *Conn {
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
	// Prefix fails only on the zero address. All connections without an address count as one client.
	p, _ := ip.WithZone("").Prefix(bits)
	return p
}
