package live

import (
	"testing"

	"fedpace/coordinator/round"
	"fedpace/metrics"
)

// A class is waited for alone from when the last of the others is done.
func TestWaits_SoleBottlenecks(t *testing.T) {
	task := func(class int, end round.Time, outcome round.Outcome) metrics.Task {
		return metrics.Task{Class: class, TaskReport: round.TaskReport{End: end, Outcome: outcome}}
	}
	const second = 1_000_000_000
	var w waits
	run := &metrics.Run{Classes: []string{"phone", "watch"}}
	w.add(run, []metrics.Task{task(1, 9*second, round.Accepted), task(0, 2*second, round.Accepted), task(1, 7*second, round.Accepted), task(0, 8*second, round.Late)})
	w.add(run, []metrics.Task{task(0, 30*second, round.Accepted), task(1, 29*second, round.Accepted)})
	w.add(run, []metrics.Task{task(1, 40*second, round.Accepted)})
	for _, c := range w.Classes {
		if want := map[string]waitedOn{"watch": {Rounds: 2, Alone: 7}, "phone": {Rounds: 1, Alone: 1}}[c.Class]; c.Rounds != want.Rounds || c.Alone != want.Alone {
			t.Errorf("%+v, want %+v", c, want)
		}
	}
	if w.Rounds != 3 || len(w.Classes) != 2 {
		t.Errorf("%+v", w)
	}
}
