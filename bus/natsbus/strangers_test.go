package natsbus_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"fedpace/bus"
	"fedpace/bus/natsbus"
	"fedpace/bus/natsconn"
)

// On an open server anybody may answer what only the server should: the run says so, and how
// to keep them out. This server has no JetStream, so that the stranger is always heard.
func TestCoordinator_StrangerAnswers(t *testing.T) {
	t.Parallel()
	s := serve(t, server.Options{})
	stranger, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	answers := []string{"hello", `["hello"]`}
	for _, answer := range answers {
		heard, err := stranger.Subscribe("$JS.API.>", func(m *nats.Msg) { _ = m.Respond([]byte(answer)) })
		if err == nil {
			err = stranger.Flush()
		}
		if err != nil {
			t.Fatal(err)
		}
		conn, err := natsbus.Connect(t.Context(), natsconn.Config{URL: s.ClientURL()}, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = conn.OpenCoordinator(t.Context(), "run", bus.CoordinatorConfig{Kernel: "go", PublishModels: true})
		if err == nil || !strings.Contains(err.Error(), "somebody else answers on this server") || !strings.Contains(err.Error(), "fedpace enroll") {
			t.Errorf("%q: %v", answer, err)
		}
		conn.Close()
		if err := heard.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
	}
}
