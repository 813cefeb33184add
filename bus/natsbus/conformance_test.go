package natsbus_test

import (
	"testing"

	"github.com/nats-io/nats.go"

	"fedpace/bus"
	"fedpace/bus/bustest/conformance"
	"fedpace/bus/embedded"
	"fedpace/bus/natsbus"
	"fedpace/bus/natsconn"
)

// place is one of the two ways to reach a server.
type place struct {
	conformance.Bus
	name    string
	connect func(t testing.TB) *natsbus.Conn
	server  *embedded.Embedded
}

const patience = conformance.Patience

// places runs a test against the embedded server and against a server over TCP, in parallel with other tests.
func places(t *testing.T, test func(t *testing.T, p *place)) {
	t.Parallel()
	t.Run("embedded", func(t *testing.T) { t.Parallel(); test(t, newPlace(t, false)) })
	t.Run("tcp", func(t *testing.T) { t.Parallel(); test(t, newPlace(t, true)) })
}

// newPlace starts a server in this process. Its connections are within the process, or with tcp over TCP.
func newPlace(t testing.TB, tcp bool) *place {
	t.Helper()
	p := &place{name: "embedded"}
	var config embedded.Config
	if tcp {
		p.name, config.Listen, config.Open = "tcp", "127.0.0.1:0", true
	}
	s, err := embedded.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	p.server = s
	var store *natsbus.Store
	if !tcp {
		store = natsbus.NewStore()
	}
	p.connect = func(t testing.TB) *natsbus.Conn {
		t.Helper()
		c := natsconn.Config{Server: s, Name: t.Name()}
		if tcp {
			c.Server, c.URL = nil, s.URL()
		}
		conn, err := natsbus.Connect(t.Context(), c, store)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		return conn
	}
	p.Bus = conformance.Bus{PublishModels: tcp, Connect: func(t testing.TB) bus.Transport { return p.connect(t) }}
	return p
}

// bare makes a connection of the NATS library alone to the same server.
func (p *place) bare(t testing.TB) *nats.Conn {
	t.Helper()
	c, err := nats.Connect("", nats.InProcessServer(p.server))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Messages of tests.
var model, someJob, result, someTask, answerAtOnce = conformance.Model, conformance.Job, conformance.Result, conformance.Task, conformance.Answer

func TestConformance(t *testing.T) {
	for name, tcp := range map[string]bool{"embedded": false, "tcp": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := func(t testing.TB) *conformance.Bus { return &newPlace(t, tcp).Bus }
			conformance.Test(t, open)
			conformance.TestLines(t, open)
		})
	}
}
