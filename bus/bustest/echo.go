package bustest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/internal/cputime"
)

// InFlight is how many messages of an echo are under way at a time.
const InFlight = 4096

// Echo runs the bare loop with which the exchange of tasks and plans is compared: a connection and a
// wildcard subscription on each side, where the answer to one message of 128 bytes sends the next.
// The exchanges take turns on the subjects of the clients. It returns the processor time of all
// exchanges.
func Echo(b *testing.B, server nats.InProcessConnProvider, clients, exchanges int) time.Duration {
	b.Helper()
	tasks := make([]string, exchanges)
	for i := range tasks {
		tasks[i] = fmt.Sprintf("fedpace.bare.client.%d.task", i%clients)
	}
	connect := func(subject string, f func(*nats.Conn, *nats.Msg)) *nats.Conn {
		c, err := nats.Connect("", nats.InProcessServer(server))
		if err == nil {
			var s *nats.Subscription
			s, err = c.Subscribe(subject, func(m *nats.Msg) { f(c, m) })
			if err == nil {
				err = errors.Join(s.SetPendingLimits(-1, -1), c.Flush())
			}
		}
		if err != nil {
			b.Fatal(err)
		}
		return c
	}
	// The messages are about as long as a task.
	payload := make([]byte, 128)
	done := make(chan struct{})
	sent := min(InFlight, exchanges)
	received := 0
	// The far side answers each message, as a host does.
	far := connect("fedpace.bare.client.*.task", func(c *nats.Conn, m *nats.Msg) {
		_ = c.Publish(m.Subject[:len(m.Subject)-4]+"plan", m.Data)
	})
	defer far.Close()
	near := connect("fedpace.bare.client.*.plan", func(c *nats.Conn, m *nats.Msg) {
		if received++; received == exchanges {
			close(done)
		}
		if sent < exchanges {
			_ = c.Publish(tasks[sent], payload)
			sent++
		}
	})
	defer near.Close()
	used := cputime.Start()
	// From the beginning on InFlight messages are under way.
	for i := range sent {
		_ = near.Publish(tasks[i], payload)
	}
	<-done
	return used()
}
