//go:build unix && !race

package cmd

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// A ban for a while outlives the process that has spoken it: when the run is killed and goes on,
// the device is not heard, and the model is that of the others.
func TestBan_OutlivesKill(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	const rounds, sets = 12, "stop.rounds=12 pace=2 devices.quota.refused_tasks=2 devices.quota.ban_seconds=3600"
	quiet := s.without(t, others, sets)
	r := s.begin(t, "[good, evil]", sets)
	x := &attacker{besieged: r, id: "evil", creds: s.path("evil")}
	x.join()
	for range 2 {
		x.next()
		x.spoil()
	}
	r.lines.await(t, "Device evil has no place in the run for 1h0m0s: its updates of 2 tasks in a row were refused")
	waitForRows(t, r.dir, 4) // the ban is kept before the next round is counted
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-r.over.Done()

	r.start("resume", r.dir, "--keys", filepath.Join(s.dir, "keys"))
	again := &attacker{besieged: r, id: "evil", creds: s.path("evil")}
	again.connect()
	r.lines.await(t, "Device good has joined") // so the run listens
	if m, err := again.nats.Request(again.subject("join"), nil, time.Second); err == nil || !errors.Is(err, nats.ErrNoResponders) && !errors.Is(err, nats.ErrTimeout) {
		t.Errorf("a banned device is answered %v, %v", m, err)
	}
	summary, _ := r.end()
	if b := summary.Banned; len(b) != 1 || b[0].Device != "evil" || b[0].Seconds != 3600 || !strings.Contains(b[0].Reason, "2 tasks in a row") {
		t.Errorf("banned are %+v:\n%v", b, r.lines)
	}
	if summary.Rounds != rounds || *summary.ModelSHA256 != *quiet.summary.ModelSHA256 {
		t.Errorf("after %d rounds the model is not that of the others:\n%v", summary.Rounds, r.lines)
	}
}
