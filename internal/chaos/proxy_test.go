//go:build unix

package chaos

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// proxy stands between a client and a server and does to their connections what
// networks do.
type proxy struct {
	t      testing.TB
	listen net.Listener
	target string

	mu     sync.Mutex
	delay  time.Duration
	held   bool // nothing passes, nothing is closed
	closed bool // who connects is turned away
	conns  map[net.Conn]bool
	made   int // connections carried so far
	turned int // connections turned away so far
	change *sync.Cond
}

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, listen: l, target: target, conns: map[net.Conn]bool{}}
	p.change = sync.NewCond(&p.mu)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.carry(c)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		p.heal()
		p.cut(false)
	})
	return p
}

func (p *proxy) url() string { return "nats://" + p.listen.Addr().String() }

func (p *proxy) carry(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		client.Close()
		return
	}
	p.mu.Lock()
	if p.closed {
		p.turned++
		p.change.Broadcast()
		p.mu.Unlock()
		client.Close()
		server.Close()
		return
	}
	p.conns[client], p.conns[server] = true, true
	p.made++
	p.change.Broadcast()
	p.mu.Unlock()
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		go func() {
			p.pump(way[1], way[0])
			client.Close()
			server.Close()
			done <- struct{}{}
		}()
	}
	<-done
	<-done
	p.mu.Lock()
	delete(p.conns, client)
	delete(p.conns, server)
	p.mu.Unlock()
}

// pump carries bytes one way, each piece after the delay.
func (p *proxy) pump(to io.Writer, from io.Reader) {
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		if n > 0 {
			p.mu.Lock()
			for p.held {
				p.change.Wait()
			}
			delay := p.delay
			p.mu.Unlock()
			time.Sleep(delay)
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// slow delays each piece from now on.
func (p *proxy) slow(delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = delay
}

// hold lets nothing through, as a cable does that was pulled.
func (p *proxy) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = true
}

// cut closes all connections and, if stay, turns away those that come. It returns
// how many there have been.
func (p *proxy) cut(stay bool) (made int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = stay
	for c := range p.conns {
		c.Close()
	}
	return p.made
}

// connects waits until there is another connection than the first ones.
func (p *proxy) connects(made int) { p.await(func() bool { return p.made > made }) }

// turnsAway waits until so many more connections were turned away.
func (p *proxy) turnsAway(more int) {
	p.mu.Lock()
	turned := p.turned + more
	p.mu.Unlock()
	p.await(func() bool { return p.turned >= turned })
}

func (p *proxy) await(condition func() bool) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	late := false
	defer time.AfterFunc(patience, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		late = true
		p.change.Broadcast()
	}).Stop()
	for !condition() {
		if late {
			p.t.Fatalf("nobody connects through the proxy within %v", patience)
		}
		p.change.Wait()
	}
}

// heal undoes all of it.
func (p *proxy) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay, p.held, p.closed = 0, false, false
	p.change.Broadcast()
}
