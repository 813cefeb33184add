package grid

import (
	"testing"

	"fedpace/actors/fleet"
	"fedpace/actors/flower"
	"fedpace/coordinator/round"
)

// A message whose node is away until it has expired has transferred nothing and taken no step, although a process has
// served it. One that its node has taken up has its steps, however late the reply is.
func TestTaskOf_NeverTaken(t *testing.T) {
	for _, x := range []struct {
		begins, now round.Time
		taken       bool
		steps       int
	}{
		{begins: 200, now: 500, taken: false, steps: 0},
		{begins: 100, now: 50, taken: false, steps: 0},
		{begins: 100, now: 500, taken: true, steps: 7},
	} {
		m := &message{
			sent:    &flower.Message{Type: "train"},
			reply:   &flower.Reply{Steps: 7, Size: 10},
			begins:  x.begins,
			expires: 150,
			fate:    expired,
			arrived: true,
		}
		if m.isTakenInTime() {
			m.plan = fleet.Plan{Durations: fleet.Durations{Download: 100}}
		}
		got := (&player{now: x.now}).taskOf(m)
		if got.Taken != x.taken || got.LocalSteps != x.steps {
			t.Errorf("%+v: taken %v with %d steps", x, got.Taken, got.LocalSteps)
		}
	}
}
