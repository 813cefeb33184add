package natsbus_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"fedpace/bus"
	"fedpace/bus/bustest/conformance"
	"fedpace/bus/natsbus"
	"fedpace/bus/natsconn"
)

// scarce is a run on a server whose JetStream has little memory.
type scarce struct {
	*conformance.Ends
	server *server.Server
	conn   *natsbus.Conn // the coordinator's
	js     jetstream.JetStream
	said   lines
}

// serve starts a server with options o that listens on this machine alone.
func serve(t *testing.T, o server.Options) *server.Server {
	t.Helper()
	o.Host, o.Port, o.NoSigs = "127.0.0.1", server.RANDOM_PORT, true
	s, err := server.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(patience) {
		t.Fatal("the server does not get ready")
	}
	return s
}

// newScarce starts a server with 1 MiB of JetStream memory, and opens both ends of a run on it.
func newScarce(t *testing.T, config natsconn.Config, lease time.Duration) *scarce {
	t.Helper()
	s := serve(t, server.Options{JetStream: true, StoreDir: t.TempDir(), JetStreamMaxMemory: 1 << 20})
	bare, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bare.Close)
	x := &scarce{server: s, said: make(lines, 1000)}
	x.js, err = jetstream.New(bare)
	if err != nil {
		t.Fatal(err)
	}
	config.URL, config.Notice = s.ClientURL(), x.said.add
	x.conn, err = natsbus.Connect(t.Context(), config, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.conn.Close)
	p := &conformance.Bus{Connect: func(testing.TB) bus.Transport { return x.conn }, PublishModels: true}
	x.Ends = p.Ends(t, bus.CoordinatorConfig{Lease: lease})
	return x
}

// fill uses up JetStream's memory with another stream, as another run may.
func (x *scarce) fill() {
	x.Helper()
	_, err := x.js.CreateStream(x.Context(), jetstream.StreamConfig{Name: "other", Subjects: []string{"other"}, Storage: jetstream.MemoryStorage})
	x.OK(err)
	for err == nil {
		_, err = x.js.Publish(x.Context(), "other", make([]byte, 100<<10))
	}
	if api := new(jetstream.APIError); !errors.As(err, &api) {
		x.Fatalf("the memory is not full: %v", err)
	}
}

// free deletes the stream of fill.
func (x *scarce) free() {
	x.Helper()
	x.OK(x.js.DeleteStream(x.Context(), "other"))
}

// A model that JetStream has no memory for waits; that is said with the way out when
// it happens, and passes.
func TestJetStream_NoMemoryForModel(t *testing.T) {
	t.Parallel()
	x := newScarce(t, natsconn.Config{}, 5*time.Second)
	x.fill()
	other := []float32{7, 8}
	put := make(chan error, 1)
	go func() { put <- x.C.PutModel(t.Context(), bus.DigestOf(other), other) }()
	x.said.until(t, "Waiting for the server at "+x.conn.NATS().ConnectedUrl()+" to take a model: bus: send chunk 0 of model")
	select {
	case err := <-put:
		t.Fatalf("there is memory for it: %v", err)
	default:
	}
	const metric = " (a limit of the server is reached)"
	if what, since := x.conn.Waiting(); !strings.HasSuffix(what, metric) || since.IsZero() {
		t.Errorf("it waits for %q since %v", what, since)
	}
	x.free()
	x.OK(<-put)
	if got, err := x.H.Model(t.Context(), bus.DigestOf(other)); err != nil || len(got) != 2 {
		t.Errorf("got %v, %v", got, err)
	}
}

// So does a job.
func TestJetStream_NoMemoryForJob(t *testing.T) {
	t.Parallel()
	x := newScarce(t, natsconn.Config{}, 5*time.Second)
	x.fill()
	x.Send(1)
	x.Send(2)
	x.said.until(t, "to take the jobs of run r: ")
	x.free()
	for range 2 {
		d := x.Next()
		done := x.Post(x.Sum(d.Job().Job))
		x.Take().Accept()
		x.OK(<-done)
		x.OK(d.Done(t.Context()))
	}
}

// What stays so ends the run, with the way out.
func TestJetStream_NeverHasMemory(t *testing.T) {
	t.Parallel()
	// The lease outlasts what the run waits: that is what ends it.
	x := newScarce(t, natsconn.Config{Patience: 5 * time.Second}, time.Minute)
	x.fill()
	x.Send(1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := x.C.TakeSum(ctx)
	const want = "(tried for 5s): give JetStream more memory (max_mem of the server's jetstream block"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
	x.said.until(t, ": give JetStream more memory (max_mem of the server's jetstream block")
}

// A server that has switched JetStream off, as one does whose disk is full, stays silent:
// that is told with what it may be.
func TestJetStream_SwitchedOff(t *testing.T) {
	t.Parallel()
	x := newScarce(t, natsconn.Config{}, 5*time.Second)
	x.OK(x.server.DisableJetStream())
	x.said.until(t, "look whether its disk is full")
	if what, _ := x.conn.Waiting(); what == "" {
		t.Error("nothing is waited for")
	}
}

// A lease that cannot be renewed for want of memory says so, not only that it has to be renewed.
func TestLease_JetStreamWithoutMemory(t *testing.T) {
	t.Parallel()
	x := newScarce(t, natsconn.Config{Patience: 5 * time.Second}, 2*time.Second)
	x.fill()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := x.C.PutModel(ctx, bus.DigestOf([]float32{7, 8}), []float32{7, 8})
	if want := "give JetStream more memory"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}
