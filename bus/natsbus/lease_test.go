package natsbus_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"fedpace/bus"
	"fedpace/bus/auth"
	"fedpace/bus/bustest"
	"fedpace/bus/internal/subject"
	"fedpace/bus/natsbus"
	"fedpace/bus/natsconn"
)

// noticed connects as place.connect does, and collects the notices of the connection.
func (p *place) noticed(t *testing.T) (*natsbus.Conn, lines) {
	t.Helper()
	said := make(lines, 1000)
	conn, err := natsbus.Connect(t.Context(), natsconn.Config{Server: p.server, Notice: said.add}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn, said
}

// brief is a coordinator's configuration with a lease that is soon over.
var brief = bus.CoordinatorConfig{Kernel: "go", Lease: 500 * time.Millisecond}

// lasting is one with a lease that outlasts every pause of a busy machine.
var lasting = bus.CoordinatorConfig{Kernel: "go", Lease: time.Minute}

// Whoever listens to everything, a dashboard say, does not count as a coordinator.
func TestLease_SubscriberOnAllSubjects(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		bare := p.bare(t)
		defer bare.Close()
		if _, err := bare.SubscribeSync(">"); err != nil {
			t.Fatal(err)
		}
		if err := bare.Flush(); err != nil {
			t.Fatal(err)
		}
		p.Coordinator(t, "r")
	})
}

func TestLease_DeadCoordinator(t *testing.T) {
	t.Parallel()
	p := newPlace(t, true)
	dead := p.connect(t)
	if _, err := dead.OpenCoordinator(t.Context(), "r", brief); err != nil {
		t.Fatal(err)
	}
	dead.Close() // a crash: nothing is tidied up
	conn, said := p.noticed(t)
	c, err := conn.OpenCoordinator(t.Context(), "r", brief)
	if err != nil {
		t.Fatal(err)
	}
	said.until(t, "Waiting for the lease of run r, which process")
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// orphaned opens run r with a coordinator that dies, and begins to open a second one, whose lease has this length. It
// returns once that waits for the lease of the first: a channel that receives the result, and JetStream by a connection
// that may do anything.
func orphaned(t *testing.T, lease time.Duration) (<-chan error, jetstream.JetStream) {
	t.Helper()
	t.Parallel()
	p := newPlace(t, true)
	dead := p.connect(t)
	if _, err := dead.OpenCoordinator(t.Context(), "r", lasting); err != nil {
		t.Fatal(err)
	}
	dead.Close()
	conn, said := p.noticed(t)
	opened := make(chan error, 1)
	go func() {
		_, err := conn.OpenCoordinator(t.Context(), "r", bus.CoordinatorConfig{Kernel: "go", Lease: lease})
		opened <- err
	}()
	said.until(t, "Waiting for the lease of run r, which process")
	bare := p.bare(t)
	t.Cleanup(bare.Close)
	js, err := jetstream.New(bare)
	if err != nil {
		t.Fatal(err)
	}
	return opened, js
}

// What a coordinator sent before it died may arrive when another already waits.
func TestLease_LateRenewal(t *testing.T) {
	opened, js := orphaned(t, 10*time.Second)
	kv, err := js.KeyValue(t.Context(), subject.LeaseBucket("r"))
	if err != nil {
		t.Fatal(err)
	}
	renew := func() {
		t.Helper()
		if _, err := kv.PutString(t.Context(), "coordinator", "another process"); err != nil {
			t.Fatal(err)
		}
	}
	renew()
	select {
	case err := <-opened:
		t.Fatalf("after one renewal: %v", err)
	case <-time.After(1500 * time.Millisecond): // it looks each half of a second
	}
	for {
		renew()
		select {
		case err := <-opened:
			if err == nil || !strings.Contains(err.Error(), "run r has a coordinator on this server already (process)") {
				t.Errorf("after renewals: %v", err)
			}
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func TestLease_ReleasedAtClose(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		for range 2 { // the second does not wait a minute
			c, err := p.connect(t).OpenCoordinator(t.Context(), "r", lasting)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Who waits for a lease has it as soon as it is given back, also where somebody listens to everything:
// then the server does not say of what is sent to a bucket that is gone that nobody is there.
func TestLease_WaitingCoordinator(t *testing.T) {
	t.Parallel()
	p := newPlace(t, true)
	bare := p.bare(t)
	defer bare.Close()
	if _, err := bare.SubscribeSync(">"); err != nil {
		t.Fatal(err)
	}
	first, err := p.connect(t).OpenCoordinator(t.Context(), "r", lasting)
	if err != nil {
		t.Fatal(err)
	}
	conn, said := p.noticed(t)
	opened := make(chan error)
	go func() {
		second, err := conn.OpenCoordinator(t.Context(), "r", lasting)
		if err == nil {
			err = second.Close(context.WithoutCancel(t.Context()))
		}
		opened <- err
	}()
	said.until(t, "Waiting for the lease of run r, which process")
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
}

// taken waits until the coordinator fails because another has taken its run over.
func taken(t *testing.T, c bus.Coordinator) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		_, err := c.TakeSum(ctx)
		if errors.Is(err, bus.ErrInterrupted) {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "another coordinator has taken the run over") {
			t.Fatalf("got %v", err)
		}
		return
	}
}

// A coordinator whose connection stood for longer than its lease, as that of a
// process does that was stopped, leaves to another what that has made its own.
func TestLease_LostToAnotherCoordinator(t *testing.T) {
	t.Parallel()
	p := newPlace(t, true)
	g := newGate(t, strings.TrimPrefix(p.server.URL(), "nats://"))
	slow, err := natsbus.Connect(t.Context(), natsconn.Config{URL: "nats://" + g.Addr().String()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	first, err := slow.OpenCoordinator(t.Context(), "r", brief)
	if err != nil {
		t.Fatal(err)
	}
	g.hold()
	d := p.Ends(t, brief) // waits for the lease to end
	d.Send(1)
	if err := first.SendJob(t.Context(), someJob(2, d.Digest, len(model))); err != nil {
		t.Fatal(err)
	}
	g.release()
	taken(t, first)
	if err := first.SendJob(t.Context(), someJob(3, d.Digest, len(model))); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	x := d.Next()
	if x.Job().Job != 1 {
		t.Errorf("job %d is queued, want the new coordinator's alone", x.Job().Job)
	}
	done := d.Post(d.Sum(1))
	d.Take().Accept()
	d.OK(<-done)
	d.OK(x.Done(t.Context()))
	d.None(100 * time.Millisecond)
}

// A server that forgets the lease gives it back to the one who had it.
func TestLease_ForgottenByServer(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		c, err := p.connect(t).OpenCoordinator(t.Context(), "r", brief)
		if err != nil {
			t.Fatal(err)
		}
		bare := p.bare(t)
		defer bare.Close()
		js, err := jetstream.New(bare)
		if err != nil {
			t.Fatal(err)
		}
		if err := js.DeleteKeyValue(t.Context(), "fedpace_r_lease"); err != nil {
			t.Fatal(err)
		}
		often := time.NewTicker(10 * time.Millisecond)
		defer often.Stop()
		for end := time.Now().Add(patience); ; <-often.C {
			kv, err := js.KeyValue(t.Context(), "fedpace_r_lease")
			if err == nil {
				_, err = kv.Get(t.Context(), "coordinator")
			}
			if err == nil {
				break
			}
			if time.Now().After(end) {
				t.Fatal(err)
			}
		}
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// Only a coordinator's credentials change a lease.
func TestLease_Exclusive(t *testing.T) {
	t.Parallel()
	g := bustest.NewGuarded(t)
	lab := g.Connect(g.Creds(auth.Grant{Role: auth.RoleCoordinator, ID: "lab"}))
	c, err := lab.OpenCoordinator(t.Context(), "r", bus.CoordinatorConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	for id, role := range map[string]auth.Role{"box": auth.RoleHost, "pi": auth.RoleDevice} {
		conn, refused := g.Raw(g.Creds(auth.Grant{Role: role, ID: id}))
		for _, subject := range []string{"$KV.fedpace_r_lease.coordinator", "$JS.API.STREAM.DELETE.KV_fedpace_r_lease", "$JS.API.STREAM.PURGE.KV_fedpace_r_lease"} {
			expectRefusal(t, refused, id+": publish "+subject, func() error { return conn.Publish(subject, nil) }, conn)
		}
	}
}

// gate stands between clients and a server and can hold everything up.
type gate struct {
	net.Listener
	open sync.RWMutex // locked while it is held
}

// newGate starts a proxy to a server that can hold all traffic back.
func newGate(t *testing.T, server string) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{Listener: l}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			go g.carry(server, client)
			go g.carry(client, server)
		}
	}()
	return g
}

// hold holds all traffic back until release.
func (g *gate) hold() { g.open.Lock() }

// release lets traffic pass again.
func (g *gate) release() { g.open.Unlock() }

// carry copies one direction of a connection, while the gate is open.
func (g *gate) carry(to io.WriteCloser, from io.Reader) {
	defer to.Close()
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		g.open.RLock()
		_, failed := to.Write(b[:n])
		g.open.RUnlock()
		if err != nil || failed != nil {
			return
		}
	}
}

// takeOver puts another coordinator's entry into the bucket of the run's lease.
func takeOver(t *testing.T, p *place) {
	t.Helper()
	bare := p.bare(t)
	defer bare.Close()
	js, err := jetstream.New(bare)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(t.Context(), "fedpace_r_lease")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(t.Context(), "coordinator", []byte("TOKEN process 9 on another machine")); err != nil {
		t.Fatal(err)
	}
}

// The server tells a coordinator of what happens to the queue, which is another's by now, before its lease is due for
// renewal: that one empties the queue, its trainers give up a job, or a job of its arrives damaged again and again.
func TestCoordinator_TakenOver(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ kind, advisory string }{
		"queue emptied":   {"MSG_TERMINATED", `{"stream_seq":1,"reason":"Unacknowledged message was deleted"}`},
		"job given up":    {"MAX_DELIVERIES", `{"stream_seq":1}`},
		"job not read":    {"MSG_TERMINATED", `{"stream_seq":1,"reason":"it has no kind"}`},
		"advisory broken": {"MSG_TERMINATED", `{`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, true)
			d := p.Ends(t, lasting)
			d.Send(1)
			x := d.Next()
			defer func() { d.OK(x.Release(false)) }()
			takeOver(t, p)
			bare := p.bare(t)
			defer bare.Close()
			d.OK(bare.Publish("$JS.EVENT.ADVISORY.CONSUMER."+test.kind+".fedpace_r_jobs.go", []byte(test.advisory)))
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := d.C.TakeSum(ctx)
			want := "another coordinator has taken the run over (process 9 on another machine)"
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}
