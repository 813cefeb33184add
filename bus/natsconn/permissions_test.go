package natsconn_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"fedpace/bus"
	"fedpace/bus/natsconn"
	"fedpace/internal/testkit/testport"
)

// A reload takes a permission away and another gives it back. The server has ended the subscription to the answers
// by then, and the client does not know.
func TestAsk_AfterPermissionReturned(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "nats.conf")
	listen := testport.Held(t)
	write := func(answers string) {
		text := fmt.Sprintf(`listen: %q
authorization { users: [
  { user: lab, password: x }
  { user: pi, password: x, permissions: { publish: "fedpace.>", subscribe: [%q, "fedpace.r.client.pi.task"] } }
] }
`, listen, answers)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const inbox = "_INBOX.>"
	write(inbox)
	s := startReloaded(t, path)
	answerAll(t, "nats://lab:x@"+listen)
	var renewed atomic.Int64
	conn, err := natsconn.Connect(t.Context(), natsconn.Config{
		URL:      "nats://pi:x@" + listen,
		Patience: -1,
		Notice: func(n bus.Notice) {
			if n.State == bus.ServerBack {
				renewed.Add(1)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ask := func() {
		t.Helper()
		err := conn.Ask(t.Context(), &bus.Request{
			Subject: "fedpace.r.client.pi.update.0",
			Data:    make([]byte, bus.ChunkBytes),
			Retry:   func(error) bool { return true },
			Decode:  func([]byte) error { return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	ask()
	for _, answers := range []string{"nothing", inbox} {
		write(answers)
		if err := s.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	ask()
	if renewed.Load() == 0 {
		t.Error("the request is answered over the connection of before, whose subscription has ended")
	}
}
