//go:build unix

package cmd

import (
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"fedpace/actors/external/externaltest"
	"fedpace/coordinator/round"
)

// meter is a proxy that counts the bytes that pass it.
type meter struct {
	address  string
	up, down atomic.Int64
}

func newMeter(t *testing.T, target string) *meter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &meter{address: l.Addr().String()}
	var open sync.WaitGroup
	pass := func(to, from net.Conn, count *atomic.Int64) {
		b := make([]byte, 32<<10)
		for {
			n, err := from.Read(b)
			count.Add(int64(n))
			if _, failed := to.Write(b[:n]); err != nil || failed != nil {
				to.Close()
				from.Close()
				return
			}
		}
	}
	open.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				client.Close()
				continue
			}
			open.Go(func() { pass(server, client, &m.up) })
			open.Go(func() { pass(client, server, &m.down) })
		}
	})
	t.Cleanup(func() { l.Close(); open.Wait() })
	return m
}

// A device of whose model 97 % of the parameters are frozen fetches these once, and each task
// sends 3 % of the model and at most 2 kB more, both ways: a trainer's model, and one of layers.
func TestDevice_FetchesFrozenOnce(t *testing.T) {
	t.Parallel()
	const trained, frozen = 10_226, 330_641 // of mlp:784,12,62
	trainer := externaltest.Command("-frozen", strconv.Itoa(frozen), "-buffers", "0")
	fetchesOnce(t, trained, frozen, fmt.Sprintf("trainer: %q\n", trainer), "--trainer", trainer)
}

func TestDevice_FetchesFrozenLayersOnce(t *testing.T) {
	t.Parallel()
	const frozen, trained = 784*440 + 440, 440*20 + 20 + 20*62 + 62
	fetchesOnce(t, trained, frozen, "model: [flatten, dense: {width: 440, frozen: true}, relu, dense: 20, relu, dense]\n")
}

func fetchesOnce(t *testing.T, trained, frozen int64, sets string, flags ...string) {
	measure := func(rounds int) (up, down int64) {
		s := newSite(t, 1, 2, rounds, "devices: {names: [pi], liveness_seconds: 300}\n"+sets)
		m := newMeter(t, strings.TrimPrefix(s.url, "nats://"))
		s.listen(fedpace(t, append([]string{"actor", "--nats", "nats://" + m.address, "--client", "pi", "--creds", s.creds("pi"), "--once"}, flags...)...))
		if summary := s.end(); summary.Outcomes[round.Accepted] != 2*int64(rounds) {
			t.Fatalf("outcomes %v:\n%v", summary.Outcomes, s.lines)
		}
		return m.up.Load(), m.down.Load()
	}
	up, down := measure(2)
	moreUp, moreDown := measure(12)
	// Ten more tasks. Where the machine is busy and an answer late, either run has an update sent once more.
	const tasks = 10
	for way, bytes := range map[string]int64{"up": moreUp - up, "down": moreDown - down} {
		beyond := bytes - tasks*4*trained
		repeated := int64(math.Floor(float64(beyond) / float64(4*trained)))
		if max(repeated, -repeated) >= tasks/2 || beyond-repeated*4*trained > tasks*2000 {
			t.Errorf("%s: %d tasks take %d bytes, those that train are %d each", way, tasks, bytes, 4*trained)
		}
	}
	if beyond := down - 4*frozen - 2*4*trained; beyond < 0 || beyond > 20_000 {
		t.Errorf("two tasks fetch %d bytes beside what is frozen, once, and what trains", beyond)
	}
}
