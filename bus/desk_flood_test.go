package bus

import (
	"testing"

	"fedpace/bus/internal/mailbox"

	"github.com/nats-io/nats.go"
)

// NATS tells of dropped messages on a goroutine of its own, so perhaps only
// after the device that sent them has lost its place: that must not end the run.
func TestADropToldAfterTheFloodBreaksNothing(t *testing.T) {
	server, err := StartServer(t.Context(), ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	conn, err := Connect(t.Context(), ConnConfig{Server: server})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	x := &deskDevice{
		desk: &Desk{run: "r", conn: conn, news: mailbox.New[DeviceNews](8)}, id: "evil", refused: map[string]int{},
	}
	if err := x.subscribe(); err != nil {
		t.Fatal(err)
	}
	slow := x.subs[0]
	x.flood("over its budget")
	conn.trouble(conn.nats, slow, nats.ErrSlowConsumer)
	select {
	case <-conn.broken:
		t.Error("the connection is broken:", conn.err)
	default:
	}
	if news, err := x.desk.news.Take(t.Context(), nil); err != nil || len(news) != 1 || news[0].Kind != DeviceFlooded {
		t.Errorf("news %v, %v; want one, of the flood", news, err)
	}
}
