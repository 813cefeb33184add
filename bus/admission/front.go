package admission

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"fedpace/bus/quota"
	"fedpace/internal/connlimit"
)

// Config is what a Front needs.
type Config struct {
	Listen string                   // address, as "127.0.0.1:4222"
	TLS    *tls.Config              // nil: what comes is in the clear
	Dial   func() (net.Conn, error) // connects to the server behind
	Quota  quota.Device             // for each device
	Notice func(string)             // is told once of each device and reason; may be nil
}

// Front takes connections for the NATS server behind it.
type Front struct {
	config         Config
	listener       net.Listener
	open           *connlimit.Set
	maxConnections int // connections in all
	life           context.Context
	end            context.CancelFunc
	serving        sync.WaitGroup

	backlogs backlogs
	closed   [reasons]atomic.Int64

	mu      sync.Mutex
	devices map[string]*device
	noticed map[string]bool
}

// Reason is why a connection was not carried on.
type Reason int

// The reasons.
const (
	TooOften  Reason = iota // its address, or all addresses together, connect too often
	Crowded                 // it had not shown credentials yet when another connection needed its place
	Anonymous               // it ended before the server accepted its credentials
	Full                    // all places were taken
	TooMany                 // its device has as many connections as it may have
	Slow                    // its device does not read what waits for it
	Expelled                // its device is excluded
	Malformed               // it sent what the server behind would read as something else
	reasons
)

// String is the reason as metrics have it.
func (r Reason) String() string {
	return [reasons]string{"too_often", "crowded", "anonymous", "full", "too_many", "slow", "expelled", "malformed"}[r]
}

// Stats are what a front counts.
type Stats struct {
	Admitted, Waiting int            // open connections whose credentials are, or are not yet, accepted
	Pending           int64          // bytes that wait for all devices
	Closed            [reasons]int64 // connections that were not carried on, by reason
}

// Listen opens the port and carries connections to the server behind until Close. Context ctx bounds
// only the opening.
func Listen(ctx context.Context, c Config) (*Front, error) {
	waiting, admitted := connections(Descriptors())
	lc := net.ListenConfig{KeepAlive: -1} // the server's pings tell of an end that is gone
	l, err := lc.Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return nil, err
	}
	s := &Front{
		config:         c,
		listener:       l,
		open:           connlimit.New(waiting, admitted),
		maxConnections: waiting + admitted,
		devices:        map[string]*device{},
		noticed:        map[string]bool{},
		backlogs:       backlogs{limit: pendingAll, open: map[*backlog]bool{}},
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.serving.Go(s.accept)
	return s, nil
}

// Addr is the address that is listened on, with the port in use.
func (s *Front) Addr() net.Addr { return s.listener.Addr() }

// MaxConnections is how many connections the front has open at most.
func (s *Front) MaxConnections() int { return s.maxConnections }

// Stop takes no further connections; the open ones continue.
func (s *Front) Stop() { _ = s.listener.Close() } // takes no connections, even after an error

// drainTime is how long the last messages of the server behind may take to reach the clients.
const drainTime = 2 * time.Second

// Close stops the front. It waits until the server behind has ended all connections and its last messages
// have reached the clients, for at most drainTime, then closes what is left. When it returns, no
// goroutine of the front runs any more.
func (s *Front) Close() {
	s.Stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.serving.Wait()
	}()
	late := time.NewTimer(drainTime)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	}
	s.end()
	<-done
}

// Stats may be called at any time.
func (s *Front) Stats() Stats {
	open := s.open.Counts()
	v := Stats{Admitted: open.Admitted, Waiting: open.Waiting, Pending: s.backlogs.bytes()}
	for r := range v.Closed {
		v.Closed[r] = s.closed[r].Load()
	}
	v.Closed[Crowded] = open.Evicted
	v.Closed[Full] = open.Refused
	return v
}

// acceptPause is how long the front waits after it could not take a connection.
const acceptPause = 10 * time.Millisecond

// accept takes connections until the front closes. To close a connection costs the process more than to
// open one costs an attacker, so refusals have a rate, too: beyond it new connections wait until the
// operating system turns them away, and honest clients try again.
func (s *Front) accept() {
	rates := newAddresses()
	refusals := rate.NewLimiter(refusedRate, refusedBurst)
	for {
		nc, err := s.listener.Accept()
		switch {
		case s.life.Err() != nil || errors.Is(err, net.ErrClosed):
			if err == nil {
				_ = nc.Close()
			}
			return
		case err != nil: // a failure of this connection, or the process has no descriptor left
			time.Sleep(acceptPause)
		case !rates.allow(connlimit.Origin(nc.RemoteAddr())):
			if tcp, ok := nc.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0) // leaves nothing behind in the system
			}
			_ = nc.Close()
			s.closed[TooOften].Add(1)
			_ = refusals.Wait(s.life) // the loop ends with the listener
		default:
			c := s.open.Add(nc)
			s.serving.Go(func() { s.serve(c) })
		}
	}
}

// refused counts a connection that is not carried on. The first of a device for each reason is reported,
// with an explanation.
func (s *Front) refused(r Reason, device, explanation string) {
	s.closed[r].Add(1)
	key := device + " " + r.String()
	s.mu.Lock()
	noticed := s.noticed[key] || device == ""
	if !noticed {
		s.noticed[key] = true
	}
	s.mu.Unlock()
	if !noticed && s.config.Notice != nil {
		s.config.Notice(fmt.Sprintf("A connection of device %s is closed: %s.", device, explanation))
	}
}

// Sent is how many bytes were sent to a device.
func (s *Front) Sent(device string) int64 {
	return s.device(device).sent.Load()
}

// Expel closes the connections of a device and refuses further ones until Readmit.
func (s *Front) Expel(device string) {
	d := s.device(device)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expelled = true
	for c := range d.open {
		_ = c.Close() // its ends see it
	}
}

// Readmit takes connections of an expelled device again.
func (s *Front) Readmit(device string) {
	d := s.device(device)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expelled = false
}

// device is the record of a device by its id. Ids are bounded: only a run that names a device, or
// credentials that the server accepts, lead here.
func (s *Front) device(id string) *device {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.devices[id]
	if d == nil {
		d = newDevice(&s.config.Quota)
		s.devices[id] = d
	}
	return d
}
