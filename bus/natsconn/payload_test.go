package natsconn_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"fedpace/bus"
	"fedpace/bus/natsconn"
	"fedpace/internal/testkit/testport"
	"fedpace/internal/testkit/testserver"
)

// A reload lowers max_payload under a connection, which the library then gives up for good; a new one learns of the
// limit, says so, and sends the message once the limit is raised.
func TestAsk_LoweredMaxPayload(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "nats.conf")
	listen := testport.Held(t)
	write := func(limit int) {
		text := fmt.Sprintf("listen: %q\nmax_payload: %d\n", listen, limit)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(1 << 20)
	s := testserver.Start(t, path)
	answerAll(t, "nats://"+listen)
	connect := func() *natsconn.Conn {
		conn, err := natsconn.Connect(t.Context(), natsconn.Config{URL: "nats://" + listen, Patience: -1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		return conn
	}
	// ask sends a chunk, and gives up or raises the limit when it is too large.
	ask := func(conn *natsconn.Conn, tooLarge func() bool) error {
		return conn.Ask(t.Context(), &bus.Request{
			Subject: "fedpace.r.client.pi.update.0",
			Data:    make([]byte, bus.ChunkBytes),
			Retry:   func(err error) bool { return !errors.Is(err, bus.ErrTooLarge) || tooLarge() },
			Decode:  func([]byte) error { return nil },
		})
	}
	giveUp := func() bool { return false }
	conn := connect()
	if err := ask(conn, giveUp); err != nil {
		t.Fatal(err)
	}
	reload := func(limit int) {
		write(limit)
		if err := s.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	reload(1000)
	if err := ask(conn, giveUp); !natsconn.PayloadExceeded(err) {
		t.Fatalf("over the limit: %v", err)
	}
	conn = connect()
	want := "the server takes no message of this size: it has 524288 bytes, and the server's max_payload is 1000; raise that"
	if err := ask(conn, giveUp); err == nil || err.Error() != want {
		t.Errorf("a new connection: %v, want %s", err, want)
	}
	raise := func() bool {
		reload(1 << 20)
		return true
	}
	if err := ask(connect(), raise); err != nil {
		t.Errorf("with the limit raised: %v", err)
	}
}
