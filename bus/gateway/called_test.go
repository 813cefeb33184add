package gateway

import (
	"testing"
	"time"

	"fedpace/bus"
)

// A device is called until it takes part, and when it has been silent for three intervals of heartbeats, once in as
// much time: a new process of it may not know the run.
func TestPeer_CallsSilentDevice(t *testing.T) {
	const pause = 6 * time.Second
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name string
		presence
		process uint64
		flooded bool
		want    bool
	}{
		{name: "absent", want: true},
		{name: "banned", flooded: true},
		{name: "present", process: 1, presence: presence{joined: true, lastHeard: now.Add(-pause + 1)}},
		{name: "silent", process: 1, presence: presence{joined: true, lastHeard: now.Add(-pause)}, want: true},
		{name: "called", process: 1, presence: presence{joined: true, lastCalled: now.Add(-pause + 1)}},
		{name: "called before", process: 1, presence: presence{joined: true, lastCalled: now.Add(-pause)}, want: true},
		{name: "without a number", presence: presence{joined: true, lastHeard: now.Add(-time.Hour)}},
	} {
		p := &peer{
			welcome:  &bus.Welcome{HeartbeatSeconds: 2},
			presence: c.presence,
			place:    place{process: c.process},
			traffic:  traffic{banned: c.flooded},
		}
		if got := p.isCallDue(now); got != c.want {
			t.Errorf("%s: a call is due: %v, want %v", c.name, got, c.want)
		}
		if c.presence.joined && c.want && p.isCallDue(now.Add(pause-1)) {
			t.Errorf("%s: called again too soon", c.name)
		}
	}
}
