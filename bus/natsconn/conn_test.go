package natsconn_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/bus"
	"fedpace/bus/embedded"
	"fedpace/bus/natsconn"
)

// patience is how long what must come may take, on a machine that is busy with
// others perhaps.
const patience = 2 * time.Minute

func TestConnect_Nowhere(t *testing.T) {
	for want, c := range map[string]natsconn.Config{
		"neither a server in this process nor a URL": {},
		"nats://127.0.0.1:1":                         {URL: "nats://127.0.0.1:1"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if conn, err := natsconn.Connect(ctx, c); err == nil {
			conn.Close()
			t.Errorf("%+v connects", c)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		cancel()
	}
}

// A tls:// address of a server that does not encrypt is answered with the address that works.
func TestConnect_EncryptedToPlainServer(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start(t.Context(), embedded.Config{Listen: "127.0.0.1:0", Open: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	plain := strings.TrimPrefix(server.URL(), "nats://")
	conn, err := natsconn.Connect(t.Context(), natsconn.Config{URL: "tls://" + plain})
	if err == nil {
		conn.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "use a nats:// address") {
		t.Errorf("got %v, want the scheme that works", err)
	}
}

// A server that is not there is waited for as long as a lost connection, and what is
// waited for is said at once.
func TestConn_ServerStaysAway(t *testing.T) {
	t.Parallel()
	var said string
	config := natsconn.Config{URL: "nats://a:secret@127.0.0.1:1", Await: true, Patience: 300 * time.Millisecond, Notice: func(n bus.Notice) { said = n.Text }}
	conn, err := natsconn.Connect(t.Context(), config)
	if err == nil {
		conn.Close()
	}
	if want := "bus: connect to nats://127.0.0.1:1: no server answers there"; err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v, want %q", err, want)
	}
	if want := "No server answers at nats://127.0.0.1:1; trying again for at most 300ms."; said != want {
		t.Errorf("it says %q, want %q", said, want)
	}
}

// idle is a server in the process that a busy machine keeps from answering.
type idle struct{ delay time.Duration }

// Credentials returns no options: the server lets anyone in.
func (idle) Credentials() ([]nats.Option, error) { return nil, nil }

// Trouble returns no errors.
func (idle) Trouble() string { return "" }

// InProcessConn returns a connection to a server that only answers pings, and begins after a delay.
func (s idle) InProcessConn() (net.Conn, error) {
	client, server := net.Pipe()
	go func() {
		time.Sleep(s.delay)
		_, _ = io.WriteString(server, "INFO {}\r\n")
		for lines := bufio.NewScanner(server); lines.Scan(); {
			if lines.Text() == "PING" {
				_, _ = io.WriteString(server, "PONG\r\n")
			}
		}
	}()
	return client, nil
}

// A server in the process is waited for as one elsewhere is: nothing but a busy machine
// keeps it from answering.
func TestConnect_BusyProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, err := natsconn.Connect(t.Context(), natsconn.Config{Server: idle{time.Minute}})
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	})
}

// What is given up is so for what the server said last, not for the silence of the attempt
// that the end cut short.
func TestRetry_EndHasReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, err := natsconn.Connect(t.Context(), natsconn.Config{Server: idle{}})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		calls := 0
		err = conn.Retry(t.Context(), natsconn.Retry{Timeout: time.Second}, func(ctx context.Context) error {
			if calls++; calls == 1 {
				return natsconn.TransientError("it is full")
			}
			<-ctx.Done()
			return ctx.Err()
		})
		if want := "it is full (tried for 1s)"; err == nil || err.Error() != want || calls != 2 {
			t.Errorf("got %v after %d calls, want %q", err, calls, want)
		}
	})
}
