//go:build unix

package cmd

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/bus/auth"
	"fedpace/coordinator/round"
	"fedpace/internal/testkit/installed"
	"fedpace/internal/testkit/slow"
)

// secureSite is a run with secure aggregation of devices alone.
const secureSite = `
name: mixed
task: logistic
clients: 0
cohort: fit
devices: {names: [%s], liveness_seconds: 30}
schedule: {k0: 3}
stop: {rounds: 3}
secure_aggregation: {on: true}
evaluate: {every: 100}
`

// Devices in JavaScript, and where tests may take long in Python, aggregate securely with their credentials. Whoever
// has these sees the device's own tasks and models, and no message of others: neither their keys and shares nor their
// masked updates.
func TestCredentials_LanguagesSeeOwnMessages(t *testing.T) {
	t.Parallel()
	example, err := filepath.Abs("../examples")
	if err != nil {
		t.Fatal(err)
	}
	node := installed.Program(t, "node", "nodejs")
	installed.Packages(t, filepath.Join(example, "device-js"))
	programs := map[string][]string{"js": {node, filepath.Join(example, "device-js", "device.js")}}
	if slow.On() {
		uv := installed.Program(t, "uv", "python3-venv")
		programs["py"] = []string{uv, "run", "--quiet", filepath.Join(example, "device-py", "device.py")}
	}
	ids := []string{"pi", "pj", "pk"}
	ids = slices.AppendSeq(ids, maps.Keys(programs))
	slices.Sort(ids)
	s := siteOf(t, fmt.Sprintf(secureSite, strings.Join(ids, ", ")))
	witness := s.watch("witness", "--coordinator")
	others := []string{"fedpace.mixed.client.pi.>", "fedpace.mixed.client.*.update.>", "fedpace.mixed.client.*.task",
		"fedpace.mixed.sums", "fedpace.>", "_INBOX.>", auth.InboxPrefix("pi") + ".>", "$JS.API.>", ">"}
	heard := witness.listen("fedpace.mixed.client.pi.update.secure")
	spies := map[string]*watcher{}
	own := map[string]*atomic.Int64{}
	stolen := map[string]*atomic.Int64{}
	for id := range programs {
		spy := s.watch(id)
		spies[id] = spy
		own[id] = spy.listen("fedpace.mixed.client." + id + ".task")
		stolen[id] = spy.listen(others...)
		// It cannot speak for another device, either.
		if err := spy.conn.Publish("fedpace.mixed.client.pi.update.secure", []byte("x")); err != nil {
			t.Fatal(err)
		}
		spy.awaitRefusals(int64(len(others)) + 1)
	}
	for id, program := range programs {
		args := append(program[1:], "--nats", s.url, "--client", id, "--creds", s.creds(id), "--once", "--secure", "3")
		c := exec.CommandContext(t.Context(), program[0], args...)
		c.Stdout = os.Stderr
		c.Stderr = os.Stderr
		s.start(c)
	}
	for _, id := range ids {
		if programs[id] == nil {
			s.actor(id)
		}
	}
	summary := s.end()
	if n := summary.Outcomes[round.Accepted]; n != int64(3*len(ids)) {
		t.Errorf("%d updates were accepted, want %d:\n%v", n, 3*len(ids), s.lines)
	}
	if heard.Load() == 0 {
		t.Error("the coordinator's credentials show no message of another device")
	}
	for id := range programs {
		if own[id].Load() == 0 {
			t.Errorf("%s: its credentials show none of its tasks", id)
		}
		if n := stolen[id].Load(); n > 0 {
			t.Errorf("%s: its credentials show %d messages of others", id, n)
		}
	}
}

// watcher is a connection that listens to subjects, by the credentials of a device or of a coordinator.
type watcher struct {
	site *site
	conn *nats.Conn
	// refused counts the subscriptions and messages that the server has refused.
	refused atomic.Int64
}

// watch connects a watcher with the credentials of a user, which it makes by "fedpace enroll".
func (s *site) watch(id string, flags ...string) *watcher {
	s.Helper()
	w := &watcher{site: s}
	var err error
	w.conn, err = nats.Connect(s.url, nats.UserCredentials(s.creds(id, flags...)), nats.CustomInboxPrefix(auth.InboxPrefix(id)),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) { w.refused.Add(1) }))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(w.conn.Close)
	return w
}

// listen subscribes to subjects, as far as the server allows it, and returns the number of messages that arrive.
func (w *watcher) listen(subjects ...string) *atomic.Int64 {
	w.site.Helper()
	heard := new(atomic.Int64)
	for _, subject := range subjects {
		if _, err := w.conn.Subscribe(subject, func(*nats.Msg) { heard.Add(1) }); err != nil {
			w.site.Fatal(err)
		}
	}
	if err := w.conn.Flush(); err != nil {
		w.site.Fatal(err)
	}
	return heard
}

// awaitRefusals waits until the server has refused as much as this.
func (w *watcher) awaitRefusals(want int64) {
	w.site.Helper()
	deadline := time.Now().Add(slow.Patience(w.site.T))
	for w.refused.Load() < want {
		if time.Now().After(deadline) {
			w.site.Fatalf("%d subscriptions and messages are refused, want %d", w.refused.Load(), want)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
