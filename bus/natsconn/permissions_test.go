package natsconn_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

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
	options, err := server.ProcessConfigFile(path)
	if err != nil {
		t.Fatal(err)
	}
	options.NoSigs = true
	options.NoLog = true
	s, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(patience) {
		t.Fatal("the server does not start")
	}
	lab, err := nats.Connect("nats://lab:x@" + listen)
	if err != nil {
		t.Fatal(err)
	}
	defer lab.Close()
	_, err = lab.Subscribe("fedpace.>", func(m *nats.Msg) { _ = m.Respond([]byte("yes")) })
	if err := errors.Join(err, lab.Flush()); err != nil {
		t.Fatal(err)
	}
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
