package gateway_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fedpace/bus"
	"fedpace/bus/embedded"
	"fedpace/bus/gateway"
	"fedpace/bus/natsconn"
)

// deafLine is a line on which requests for updates find nobody while it is deaf. Everything else passes, as behind a
// hub that has withdrawn a part of its interest.
type deafLine struct {
	*natsconn.Conn
	deaf atomic.Bool
}

// Ask returns that nobody listens to an update while the line is deaf, and repeats it for as long as the request's
// Retry allows that.
func (l *deafLine) Ask(ctx context.Context, r *bus.Request) error {
	for l.deaf.Load() && strings.Contains(r.Subject, ".update.") {
		if !r.Retry(bus.ErrNoListener) {
			return bus.ErrNoListener
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return l.Conn.Ask(ctx, r)
}

func TestDevice_LeavesWhereNobodyListens(t *testing.T) {
	defer gateway.ShortenPatience(20 * time.Millisecond)()
	server, err := embedded.Start(t.Context(), embedded.Config{Listen: "127.0.0.1:0", Open: true})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	connect := func() *natsconn.Conn {
		conn, err := natsconn.Connect(t.Context(), natsconn.Config{Server: server})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		return conn
	}
	run, err := gateway.Open(t.Context(), connect(), "r", gateway.Config{
		Devices: []string{"pi"},
		Calls:   time.Hour,
		Welcome: &bus.Welcome{Clients: 1, Params: 2, HeartbeatSeconds: 60, Spec: &bus.Spec{Model: "linear:2,2", Batch: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	line := &deafLine{Conn: connect()}
	device, err := gateway.OpenDevice(t.Context(), line, gateway.DeviceConfig{ID: "pi", Run: "r", Join: &bus.Join{Name: "pi"}})
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _, _ = device.Next(ctx) }()
	expect := func(want gateway.EventKind) gateway.Event {
		t.Helper()
		for {
			events, err := run.TakeEvents(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				if e.Kind == want {
					return e
				}
			}
		}
	}
	expect(gateway.Joined)
	line.deaf.Store(true)
	go func() {
		update := &bus.DeviceUpdate{Update: &bus.Update{Task: 1, Samples: 1}, Values: []float32{1, 2}}
		_ = device.Send(ctx, "r", update)
	}()
	if e := expect(gateway.Departed); !strings.Contains(e.Text, "start the site's NATS server again") {
		t.Errorf("the run hears %q, want what to do", e.Text)
	}
	line.deaf.Store(false)
	expect(gateway.Joined)
}
