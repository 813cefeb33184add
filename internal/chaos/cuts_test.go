//go:build unix

package chaos

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"fedpace/bus/embedded"
	"fedpace/bus/natsconn"
	"fedpace/config"
	"fedpace/experiment/folder"
	"fedpace/experiment/run"
	"fedpace/internal/testkit/slow"
)

// The connection is cut at every message that a coordinator and a host send in a
// small run, from the first CONNECT to the last removal: before the server has the
// message, and after it has it and before its answer. Every run comes to the
// results of one that nothing disturbs. Without FEDPACE_LONG it is one cut in thirteen.
func TestCuts_EveryMessage(t *testing.T) {
	t.Parallel()
	s, err := embedded.Start(t.Context(), embedded.Config{Listen: "127.0.0.1:0", Open: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	address := strings.TrimPrefix(s.URL(), "nats://")
	whole := newScissors(t, address, -1, false)
	want, err := play(t, whole.Addr().String(), "whole")
	if err != nil {
		t.Fatal(err)
	}
	sent := whole.kinds()
	t.Logf("%d messages: %s", len(sent), strings.Join(sent, " "))
	if len(sent) < 40 {
		t.Fatal("there are fewer messages than a run has")
	}
	step := 13 // a spread, which falls on other kinds before and after
	if slow.On() {
		step = 1
	}
	for at := range len(sent) {
		for i, after := range []bool{false, true} {
			if (at+3*i)%step != 0 {
				continue
			}
			name := fmt.Sprintf("%d-%v", at, after)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				x := newScissors(t, address, at, after)
				got, err := play(t, x.Addr().String(), "cut"+name)
				if err != nil {
					t.Fatalf("cut at %s: %v", x.cut, err)
				}
				if got.Fingerprint != want.Fingerprint || *got.ModelSHA256 != *want.ModelSHA256 {
					t.Errorf("cut at %s: %s, %s; want %s, %s", x.cut, got.Fingerprint, *got.ModelSHA256, want.Fingerprint, *want.ModelSHA256)
				}
			})
		}
	}
}

// play plays a run whose coordinator and host talk through the proxy at an address.
func play(t *testing.T, proxy, name string) (folder.Summary, error) {
	t.Helper()
	dir := t.TempDir()
	c, err := config.Load("", []string{
		"task=custom", "schedule.eta0=0.3", "compute.seconds_per_step=0.017", "network.download_mbps=20", "network.upload_mbps=5",
		"name=" + name, "out=" + filepath.Join(dir, "run"), "data=" + data, "model={mlp: [2, 8, 2]}", "batch=4", "clients=30", "cohort=3",
		"schedule.k0=2", "schedule.k=fixed", "stop.rounds=3", "evaluate.every=2", "nats.url=" + strconv.Quote("nats://"+proxy),
		"nats.ack_seconds=1",
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	said := &notices{}
	to := natsconn.Config{URL: "nats://" + proxy}
	hosted := make(chan error, 1)
	go func() {
		hosted <- run.Host(ctx, run.HostOptions{NATS: to, Run: name, Workers: 1, Once: true, Notice: said.add("host: ")})
	}()
	summary, err := run.Run(ctx, c, run.Options{Place: run.Place{NATS: to, RemoteHosts: true}, Callbacks: run.Callbacks{Notice: said.add("")}})
	if err != nil {
		stop()
	}
	hostErr := <-hosted
	if err == nil && hostErr != nil && !errors.Is(hostErr, context.Canceled) {
		err = fmt.Errorf("host: %w", hostErr)
	}
	if t.Failed() || err != nil {
		t.Logf("they said:\n%s", said.text())
	}
	return summary, err
}

// notices are what a coordinator and a host say.
type notices struct {
	mu    sync.Mutex
	lines []string
}

func (n *notices) add(who string) func(string) {
	return func(line string) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.lines = append(n.lines, who+line)
	}
}

func (n *notices) text() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.lines, "\n")
}

// scissors are a proxy that knows NATS's protocol as clients speak it, and cuts one
// connection at one of their messages.
type scissors struct {
	net.Listener
	at    int // number of the message, of all connections; negative: none
	after bool

	mu   sync.Mutex
	seen []string // kinds of messages
	cut  string   // the kind of the one at which it cut
}

func newScissors(t *testing.T, server string, at int, after bool) *scissors {
	t.Helper()
	x := &scissors{at: at, after: after}
	x.Listener = relay(t, server, x.carry)
	return x
}

// relay accepts connections in place of a server and has each carried there.
func relay(t *testing.T, server string, carry func(client, server net.Conn)) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			go carry(client, server)
		}
	}()
	return l
}

func (x *scissors) kinds() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.seen
}

// carry carries one connection until an end closes it or it is cut.
func (x *scissors) carry(client, server net.Conn) {
	defer client.Close()
	defer server.Close()
	go func() {
		_, _ = io.Copy(client, server)
		client.Close()
	}()
	in := bufio.NewReader(client)
	for {
		kind, message, err := readMessage(in)
		if err != nil {
			return
		}
		if kind != "" && x.counts(kind) {
			if x.after {
				client.Close() // the answer does not come through
				_, _ = server.Write(message)
			}
			return
		}
		if _, err := server.Write(message); err != nil {
			return
		}
	}
}

// counts counts a message, and tells whether it is the one.
func (x *scissors) counts(kind string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.seen = append(x.seen, kind)
	if len(x.seen)-1 != x.at {
		return false
	}
	x.cut = kind
	return true
}

// readMessage reads what a client or a server says, up to its end. Its kind is its verb, or its
// subject without the run; empty for what keeps a connection alive.
func readMessage(in *bufio.Reader) (kind string, message []byte, err error) {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return "", nil, err
	}
	words := strings.Fields(string(line))
	if len(words) == 0 {
		return "", line, nil
	}
	switch verb := strings.ToUpper(words[0]); verb {
	case "PUB", "HPUB", "MSG", "HMSG":
		n, err := strconv.Atoi(words[len(words)-1])
		if err != nil {
			return "", nil, err
		}
		payload := make([]byte, n+2)
		if _, err := io.ReadFull(in, payload); err != nil {
			return "", nil, err
		}
		return words[1], bytes.Join([][]byte{line, payload}, nil), nil
	case "PONG", "UNSUB":
		return "", line, nil
	default:
		return verb, line, nil
	}
}
