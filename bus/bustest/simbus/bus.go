package simbus

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"fedpace/bus"
	"fedpace/internal/names"
)

// Intervals at which a part repeats a request without an answer, and times after which a silent
// part counts as lost.
const (
	// askEvery is for requests to the bus.
	askEvery = 5 * time.Second
	// sumEvery is for sums, which wait for the coordinator.
	sumEvery = 10 * time.Second
	// pullEvery is for pulls of a job. A pull ends when it is not repeated.
	pullEvery      = 20 * time.Second
	heartbeatEvery = 2 * time.Second
	// silentAfter is how long a host is silent before it counts as lost.
	silentAfter = 3 * heartbeatEvery
	// leaseFor is how long a coordinator's lease on its run lasts.
	leaseFor = 6 * time.Second
	// postponement is how long a job waits that cannot be done yet.
	postponement = time.Second
)

// maxReleases is how often a job may be given back before the run fails.
const maxReleases = 5

// Server is the name of the bus itself to a [Network].
const Server = "server"

// Network carries messages between a part and the bus. Both are known by their names.
type Network interface {
	// Carry calls deliver when the message arrives, as the network decides: at once, later,
	// twice or never, on any goroutine. kind names the message.
	Carry(from, to, kind string, deliver func())
}

// Bus is what a server is to the parts of runs. Its methods may be called
// concurrently.
type Bus struct {
	// network carries the messages. Nil means that everything arrives at once.
	network Network

	mu   sync.Mutex
	runs map[string]*server
	subs []*subscription
}

// New makes a bus. Without a network everything arrives at once.
func New(network Network) *Bus { return &Bus{network: network, runs: map[string]*server{}} }

// Connect returns the connection of a part.
func (b *Bus) Connect(name string) *Conn {
	c := &Conn{bus: b, name: name}
	c.life, c.end = context.WithCancelCause(context.Background())
	return c
}

// Forget makes the bus forget everything, as a server that was started again
// without what it had stored.
func (b *Bus) Forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.subs = nil
	for _, s := range b.runs {
		s.forget()
	}
}

// server returns what the bus holds of the run with this name, and makes it empty if there is
// nothing yet.
func (b *Bus) server(run string) *server {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.runs[run]
	if s == nil {
		s = &server{bus: b, run: run}
		s.clear()
		b.runs[run] = s
	}
	return s
}

// Conn is the connection of one part: a [bus.Transport], and a [bus.Line].
type Conn struct {
	bus  *Bus
	name string

	// life ends when the line is broken. Its cause says why.
	life context.Context
	end  context.CancelCauseFunc

	// requests counts the requests so far.
	requests atomic.Uint64

	mu   sync.Mutex
	subs []*subscription
}

// send sends the bus a message, whose effect is to call f: at once, or by the simulated network, which
// may delay, repeat or lose it. kind names the message.
func (c *Conn) send(kind string, f func()) {
	if c.bus.network == nil {
		f()
		return
	}
	c.bus.network.Carry(c.name, Server, kind, f)
}

// receive sends this end of the connection a message from the bus, whose effect is to call f: at once,
// or by the simulated network, which may delay, repeat or lose it. kind names the message.
func (c *Conn) receive(kind string, f func()) {
	if c.bus.network == nil {
		f()
		return
	}
	c.bus.network.Carry(Server, c.name, kind, f)
}

// ask sends a request of this kind to the bus, again after each time every, until it is answered or
// ctx ends. request is called on the bus with the function that takes the answer, possibly several
// times; the first answer counts.
func ask[T any](
	ctx context.Context,
	c *Conn,
	kind string,
	every time.Duration,
	request func(answer func(T)),
) (T, error) {
	answers := make(chan T, 1)
	answer := func(x T) {
		c.receive("answer to "+kind, func() {
			select {
			case answers <- x:
			// The answer is a repeat, and the first one has been taken.
			default:
			}
		})
	}
	for {
		c.send(kind, func() { request(answer) })
		select {
		case x := <-answers:
			return x, nil
		default:
		}
		// Without a network the answer was there at once, and no timer is needed.
		timer := time.NewTimer(every)
		select {
		case x := <-answers:
			timer.Stop()
			return x, nil
		case <-ctx.Done():
			timer.Stop()
			var none T
			return none, context.Cause(ctx)
		case <-timer.C:
		}
	}
}

// OpenCoordinator opens a run. It waits for the lease of a coordinator that has
// fallen silent to end.
func (c *Conn) OpenCoordinator(ctx context.Context, run string, config bus.CoordinatorConfig) (bus.Coordinator, error) {
	if err := names.CheckToken("run", run); err != nil {
		return nil, err
	}
	if config.Kernel != "" {
		if err := names.CheckToken("kernel", config.Kernel); err != nil {
			return nil, err
		}
	}
	return openCoordinator(ctx, c, run, config)
}

// OpenHost joins the run with this name, whose coordinator need not be there yet. The host takes no
// task before ServeTasks is called.
func (c *Conn) OpenHost(ctx context.Context, run string, config bus.HostConfig) (bus.Host, error) {
	if err := names.CheckToken("run", run); err != nil {
		return nil, err
	}
	h := &Host{conn: c, server: c.bus.server(run), config: config, held: map[*delivery]bool{}}
	h.life, h.end = context.WithCancelCause(context.Background())
	return h, ctx.Err()
}
