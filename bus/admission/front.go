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

// Config is what a [Front] needs.
type Config struct {
	// Listen is the address to listen on, such as "127.0.0.1:4222".
	Listen string
	// TLS encrypts the connections of clients. It is nil if they come in the clear.
	TLS *tls.Config
	// Dial connects to the server behind the front, once for each connection of a client.
	Dial func() (net.Conn, error)
	// Quota is the quota of every device.
	Quota quota.Device
	// Notice is called, once for each device and reason, when a connection is not carried on. It may
	// be nil.
	Notice func(string)
}

// Front takes connections for the NATS server behind it, and carries those that it admits.
type Front struct {
	config   Config
	listener net.Listener
	open     *connlimit.Set
	// maxConnections is how many connections may be open in all.
	maxConnections int
	// life ends when Close has waited long enough; all connections are then closed.
	life    context.Context
	end     context.CancelFunc
	serving sync.WaitGroup

	backlogs backlogs
	// closed counts the connections that were not carried on, by their reasons.
	closed [reasons]atomic.Int64

	mu      sync.Mutex
	devices map[string]*device
	// noticed are the devices and reasons for which Notice was called.
	noticed map[string]bool
}

// Reason is why a connection was not carried on. Metrics have it as a label.
type Reason int

// These are the reasons.
const (
	// TooOften says that the client's address, or all addresses together, connect too often.
	TooOften Reason = iota
	// Crowded says that the client had not shown its credentials yet when another connection needed
	// the place.
	Crowded
	// Anonymous says that the connection ended before the server accepted its credentials.
	Anonymous
	// Full says that all places were taken.
	Full
	// TooMany says that the device has as many connections as it may have.
	TooMany
	// Slow says that the device does not read what waits for it.
	Slow
	// Expelled says that the device is excluded.
	Expelled
	// Malformed says that the client sent what the server behind would read as something else.
	Malformed
	reasons
)

// String returns the reason as metrics have it.
func (r Reason) String() string {
	return [reasons]string{"too_often", "crowded", "anonymous", "full", "too_many", "slow", "expelled", "malformed"}[r]
}

// Stats are the figures of a front at one moment.
type Stats struct {
	// Admitted counts the open connections whose credentials the server has accepted, and Waiting
	// those whose credentials it has not accepted yet.
	Admitted, Waiting int
	// Pending is how many bytes wait for all devices.
	Pending int64
	// Closed counts the connections that were not carried on since the front was opened, by reason.
	Closed [reasons]int64
}

// Listen opens the port and carries connections to the server behind until Close. Context ctx bounds
// only the opening.
func Listen(ctx context.Context, c Config) (*Front, error) {
	// The limits of connections that wait for their credentials to be accepted, and of those that were admitted.
	waiting, admitted := connections(Descriptors())
	// The server's own pings show when a client is gone, so TCP need not probe for it.
	lc := net.ListenConfig{KeepAlive: -1}
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

// Addr returns the address that is listened on, with the port in use.
func (s *Front) Addr() net.Addr { return s.listener.Addr() }

// MaxConnections returns how many connections the front has open at most.
func (s *Front) MaxConnections() int { return s.maxConnections }

// Stop takes no further connections; the open ones continue. The listener takes none even if
// closing it fails.
func (s *Front) Stop() { _ = s.listener.Close() }

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

// Stats returns the figures of the front. It may be called at any time, also after Close.
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
		// Either this connection failed, or the process has no descriptor left; both pass.
		case err != nil:
			time.Sleep(acceptPause)
		case !rates.allow(connlimit.Origin(nc.RemoteAddr())):
			if tcp, ok := nc.(*net.TCPConn); ok {
				// A reset leaves no state of the connection behind in the system.
				_ = tcp.SetLinger(0)
			}
			_ = nc.Close()
			s.closed[TooOften].Add(1)
			// An error means that the front closes, and the loop then ends with the listener.
			_ = refusals.Wait(s.life)
		default:
			c := s.open.Add(nc)
			s.serving.Go(func() { s.serve(c) })
		}
	}
}

// refused counts a connection that is closed for the reason r. The first one of a device for each reason is
// reported to the server's owner, with an explanation. device is the device's id, "" for a connection that
// is only counted.
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

// Sent returns how many bytes were sent to a device.
func (s *Front) Sent(device string) int64 {
	return s.device(device).sent.Load()
}

// Expel closes all connections of the device with this id and refuses further ones until Readmit.
// Expelling it again changes nothing.
func (s *Front) Expel(device string) {
	d := s.device(device)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expelled = true
	for c := range d.open {
		// The goroutines that carry the connection notice its end.
		_ = c.Close()
	}
}

// Readmit takes connections of an expelled device again.
func (s *Front) Readmit(device string) {
	d := s.device(device)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expelled = false
}

// device returns the record of a device, which is made when its id is first seen. There are few
// ids: only a run that names a device, or credentials that the server accepts, lead here.
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
