package natsconn_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/bus"
	"fedpace/bus/natsconn"
	"fedpace/internal/testkit/testport"
	"fedpace/internal/testkit/testserver"
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
	s := testserver.Start(t, path)
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

// A reload that takes the permission of a request away ends the connection with what to do, and at once the requests
// that wait.
func TestRetry_PermissionWithdrawn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "nats.conf")
	listen := testport.Held(t)
	write := func(subject string) {
		text := fmt.Sprintf("listen: %q\nauthorization { users: [{ user: pi, password: x, permissions: { publish: %q } }] }\n",
			listen, subject)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("fedpace.>")
	s := testserver.Start(t, path)
	conn, err := natsconn.Connect(t.Context(), natsconn.Config{URL: "nats://pi:x@" + listen, Patience: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	write("nothing")
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	// Without the end of the connection the request would wait until the tests end.
	err = conn.Retry(t.Context(), natsconn.Retry{Attempt: time.Hour}, func(ctx context.Context) error {
		_, err := conn.NATS().RequestWithContext(ctx, "fedpace.r.model", nil)
		return err
	})
	if !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), "these credentials lack a permission") {
		t.Errorf("the request ends with %v", err)
	}
}

// A user and a password in the URL that the server does not accept are not missing credentials.
func TestConnect_WrongPasswordInURL(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "nats.conf")
	listen := testport.Held(t)
	text := fmt.Sprintf("listen: %q\nauthorization { users: [{ user: pi, password: x }] }\n", listen)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	testserver.Start(t, path)
	for user, want := range map[string]string{
		"":          "the server asks for credentials",
		"pi:wrong@": "the server does not accept these credentials",
	} {
		conn, err := natsconn.Connect(t.Context(), natsconn.Config{URL: "nats://" + user + listen})
		if err == nil {
			conn.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("as %q: %v, want %q", user, err, want)
		}
	}
}
