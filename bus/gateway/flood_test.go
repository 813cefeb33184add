package gateway

import (
	"testing"

	"fedpace/bus/embedded"
	"fedpace/bus/natsconn"
	"fedpace/internal/mailbox"

	"github.com/nats-io/nats.go"
)

// NATS tells of dropped messages on a goroutine of its own, so perhaps only
// after the device that sent them has lost its place: that must not end the run.
func TestGateway_DropAfterFlood(t *testing.T) {
	server, err := embedded.Start(t.Context(), embedded.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	conn, err := natsconn.Connect(t.Context(), natsconn.Config{Server: server})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	x := &peer{
		gateway: &Gateway{run: "r", conn: conn, events: mailbox.New[Event](8)}, id: "evil", traffic: traffic{refused: map[string]int{}},
	}
	if err := x.subscribe(); err != nil {
		t.Fatal(err)
	}
	slow := x.subs[0].(*nats.Subscription)
	x.flood("over its budget")
	conn.NATS().ErrorHandler()(conn.NATS(), slow, nats.ErrSlowConsumer)
	select {
	case <-conn.Life().Done():
		t.Error("the connection is broken:", conn.Err())
	default:
	}
	if news, err := x.gateway.events.Take(t.Context(), nil); err != nil || len(news) != 1 || news[0].Kind != Flooded {
		t.Errorf("news %v, %v; want one, of the flood", news, err)
	}
}
