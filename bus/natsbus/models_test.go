package natsbus_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"fedpace/bus"
	"fedpace/bus/bustest/conformance"
	"fedpace/bus/natsbus"
	"fedpace/bus/natsconn"
)

// cached returns a coordinator with two models a and b, and a host that fetches them over TCP and keeps at most this
// many bytes.
func cached(t *testing.T, bytes int64) (c bus.Coordinator, h bus.Host, a, b bus.Digest) {
	t.Helper()
	p := newPlace(t, true)
	c = p.Coordinator(t, "r")
	h, err := p.connect(t).OpenHost(t.Context(), "r", bus.HostConfig{})
	if err != nil {
		t.Fatal(err)
	}
	natsbus.LimitCache(h, bytes)
	put := func(params []float32) bus.Digest {
		d := bus.DigestOf(params)
		if err := c.PutModel(t.Context(), d, params); err != nil {
			t.Fatal(err)
		}
		return d
	}
	return c, h, put([]float32{1, 2, 3, 4}), put([]float32{5, 6, 7, 8})
}

func TestModelCache_LeastRecentlyUsed(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		bytes int64
		kept  bool // the first, when the second has been fetched
	}{{32, true}, {31, false}, {1, false}} {
		c, h, a, b := cached(t, x.bytes)
		for _, d := range []bus.Digest{a, b} {
			if _, err := h.Model(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			if err := c.DeleteModel(t.Context(), d); err != nil { // from now on only the cache has it
				t.Fatal(err)
			}
		}
		if _, err := h.Model(t.Context(), b); err != nil {
			t.Errorf("%d bytes: the newest is not kept: %v", x.bytes, err)
		}
		_, err := h.Model(t.Context(), a)
		if kept := err == nil; kept != x.kept || !kept && !errors.Is(err, bus.ErrNoModel) {
			t.Errorf("%d bytes: the older one: %v, want it kept: %v", x.bytes, err, x.kept)
		}
	}
}

// A host keeps the last few models: not hundreds of small ones, and never beyond what it kept before.
func TestHost_KeepsLastFewModels(t *testing.T) {
	t.Parallel()
	const megabyte = 1 << 20
	for _, test := range []struct{ size, want int64 }{
		{megabyte, 32 * megabyte},
		{20 * megabyte, 80 * megabyte},
		{500 * megabyte, 256 * megabyte},
	} {
		if got := natsbus.CacheLimit(test.size); got != test.want {
			t.Errorf("models of %d bytes: %d are kept, want %d", test.size, got, test.want)
		}
	}
}

// A job may reach a host sooner than its model the server that the host asks.
func TestModel_Lag(t *testing.T) {
	t.Parallel()
	c, h, _, _ := cached(t, 1<<20)
	natsbus.Await(h, patience)
	late := []float32{9, 10}
	put := make(chan error, 1)
	time.AfterFunc(50*time.Millisecond, func() { put <- c.PutModel(t.Context(), bus.DigestOf(late), late) })
	if _, err := h.Model(t.Context(), bus.DigestOf(late)); err != nil {
		t.Error(err)
	}
	if err := <-put; err != nil { // the model may be there before its answer
		t.Error(err)
	}
}

func TestModel_SharedFetch(t *testing.T) {
	t.Parallel()
	_, h, a, _ := cached(t, 1<<20)
	var group sync.WaitGroup
	got := make([][]float32, 8)
	for i := range got {
		group.Go(func() {
			var err error
			got[i], err = h.Model(t.Context(), a)
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	for i, params := range got {
		if len(params) != 4 || &params[0] != &got[0][0] {
			t.Errorf("worker %d has a copy of its own", i)
		}
	}
}

// One side shares the server's process, the other reaches it over TCP: a handle
// says nothing there, and the values follow.
func TestSendSum_ForeignHandle(t *testing.T) {
	t.Parallel()
	p := newPlace(t, true)
	c := p.Coordinator(t, "r") // over TCP, without a store
	near, err := natsbus.Connect(t.Context(), natsconn.Config{Server: p.server}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	h, err := near.OpenHost(t.Context(), "r", bus.HostConfig{})
	if err != nil {
		t.Fatal(err)
	}
	d := &conformance.Ends{T: t, C: c, H: h, Digest: bus.DigestOf(model)}
	d.OK(c.PutModel(t.Context(), d.Digest, model))
	for n := range uint64(2) {
		d.Send(n + 1)
		x := d.Next()
		if _, err := h.Model(t.Context(), d.Digest); err != nil { // by the bus, not by memory
			t.Fatal(err)
		}
		done := d.Post(d.Sum(n + 1))
		s := d.Take()
		if len(s.Values) != 3 || s.Values[2] != 6 {
			t.Errorf("values %v", s.Values)
		}
		s.Accept()
		d.OK(<-done)
		d.OK(x.Done(t.Context()))
	}
}

// Connections of one process to a server by URL share what a Store holds.
func TestStore_SharedByConnections(t *testing.T) {
	t.Parallel()
	p := newPlace(t, true)
	store := natsbus.NewStore()
	connect := func() *natsbus.Conn {
		conn, err := natsbus.Connect(t.Context(), natsconn.Config{URL: p.server.URL()}, store)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		return conn
	}
	c, err := connect().OpenCoordinator(t.Context(), "r", bus.CoordinatorConfig{Kernel: "go"})
	if err != nil {
		t.Fatal(err)
	}
	h, err := connect().OpenHost(t.Context(), "r", bus.HostConfig{})
	if err != nil {
		t.Fatal(err)
	}
	d := &conformance.Ends{T: t, C: c, H: h, Digest: bus.DigestOf(model)}
	d.OK(c.PutModel(t.Context(), d.Digest, model))
	if params, err := h.Model(t.Context(), d.Digest); err != nil || &params[0] != &model[0] {
		t.Fatalf("%v: the model is a copy", err)
	}
	d.Send(1)
	sum := d.Sum(1)
	done := d.Post(sum)
	s := d.Take()
	if &s.Values[0] != &sum.Values[0] {
		t.Error("the values are a copy")
	}
	s.Accept()
	d.OK(<-done)
	d.OK(c.Close(t.Context()))
	if _, err := h.Model(t.Context(), d.Digest); !errors.Is(err, bus.ErrNoModel) {
		t.Errorf("after the run: %v, want ErrNoModel", err)
	}
}
