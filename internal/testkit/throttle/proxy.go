package throttle

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Config is a link between devices and a server.
type Config struct {
	// Server is the address of the server, such as 127.0.0.1:4222.
	Server string
	// Listen is the address to which devices connect. If it is empty, it is 127.0.0.1 with a free port.
	Listen string
	// Download is the speed from the server to the devices in Mbit/s, and Upload that from the devices to the
	// server. 0 sets no limit.
	Download float64
	Upload   float64
	// Latency is the delay of each byte, each way.
	Latency time.Duration
}

// Proxy forwards connections until Close.
type Proxy struct {
	config   Config
	listener net.Listener
	down, up pipe

	life context.Context
	end  context.CancelFunc
	all  sync.WaitGroup
}

// Start begins to listen.
func Start(config Config) (*Proxy, error) {
	if config.Listen == "" {
		config.Listen = "127.0.0.1:0"
	}
	for name, mbps := range map[string]float64{"download": config.Download, "upload": config.Upload} {
		if !(mbps >= 0) {
			return nil, fmt.Errorf("throttle: %s of %g Mbit/s, want 0 for no limit, or more", name, mbps)
		}
	}
	listener, err := net.Listen("tcp", config.Listen)
	if err != nil {
		return nil, fmt.Errorf("throttle: %w", err)
	}
	p := &Proxy{config: config, listener: listener, down: pipe{mbps: config.Download}, up: pipe{mbps: config.Upload}}
	p.life, p.end = context.WithCancel(context.Background())
	p.all.Go(p.accept)
	return p, nil
}

// Address is where devices connect.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Close ends all connections.
func (p *Proxy) Close() {
	p.end()
	// Closing the listener ends accept.
	_ = p.listener.Close()
	p.all.Wait()
}

// accept forwards each connection that a device opens, until the listener is closed.
func (p *Proxy) accept() {
	for {
		device, err := p.listener.Accept()
		if err != nil {
			// Close has closed the listener.
			return
		}
		p.all.Go(func() { p.forward(device) })
	}
}

// forward carries one connection between device and the server. It closes both ends when one of them
// closes or the proxy does.
func (p *Proxy) forward(device net.Conn) {
	defer device.Close()
	var d net.Dialer
	server, err := d.DialContext(p.life, "tcp", p.config.Server)
	if err != nil {
		// Without a server, the device's connection is closed.
		return
	}
	defer server.Close()
	life, end := context.WithCancel(p.life)
	stop := context.AfterFunc(life, func() { _ = errors.Join(device.Close(), server.Close()) })
	defer stop()
	var both sync.WaitGroup
	both.Go(func() { defer end(); p.down.carry(life, server, device, p.config.Latency) })
	both.Go(func() { defer end(); p.up.carry(life, device, server, p.config.Latency) })
	both.Wait()
}

// pipe is one direction of the link.
type pipe struct {
	// mbps is the speed in Mbit/s; 0 sets no limit.
	mbps float64

	mu sync.Mutex
	// free is when the pipe will have carried all that was sent.
	free time.Time
}

// send adds n bytes to those that the pipe has to carry, and returns when it will have carried them.
func (l *pipe) send(n int) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); l.free.Before(now) {
		l.free = now
	}
	if l.mbps > 0 {
		l.free = l.free.Add(time.Duration(float64(8*n) / l.mbps * float64(time.Microsecond)))
	}
	return l.free
}

const (
	// segment is the number of bytes that are carried together.
	segment = 4 << 10
	// queued is the number of segments that may be under way. The sender then has to wait.
	queued = 64
)

// parcel is a segment under way: its bytes, and the time at which they arrive.
type parcel struct {
	bytes []byte
	at    time.Time
}

// carry copies from one end to the other until one of them closes or ctx ends. The time at
// which a segment arrives is computed from when it was read and from what was sent before, so
// a busy machine makes the link no slower.
func (l *pipe) carry(ctx context.Context, from, to net.Conn, latency time.Duration) {
	parcels := make(chan parcel, queued)
	var arriving sync.WaitGroup
	arriving.Go(func() {
		for x := range parcels {
			if !until(ctx, x.at) {
				// What is still under way is dropped.
				continue
			}
			if _, err := to.Write(x.bytes); err != nil {
				// Closing the other end makes the loop below stop reading.
				_ = from.Close()
			}
		}
	})
	for {
		b := make([]byte, segment)
		n, err := from.Read(b)
		if n > 0 {
			carriedAt := l.send(n)
			select {
			case parcels <- parcel{b[:n], carriedAt.Add(latency)}:
			case <-ctx.Done():
			}
		}
		if err != nil {
			break
		}
	}
	close(parcels)
	arriving.Wait()
}

// until waits for the time at, and returns true, or false if ctx ends before.
func until(ctx context.Context, at time.Time) bool {
	over := time.NewTimer(time.Until(at))
	defer over.Stop()
	select {
	case <-over.C:
		return true
	case <-ctx.Done():
		return false
	}
}
