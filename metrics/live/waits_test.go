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
	w.add(run, []metrics.Task{task(1, 9*second, round.Accepted), task(0, 2*second, round.Accepted), task(1, 7*second, round.Accepted), task(0, 8*second, round.Dropped)})
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

// A late task is waited for until the deadline; a tenth faster it would still be late.
func TestWaits_LateClass(t *testing.T) {
	const second = 1_000_000_000
	late := metrics.Task{Class: 1, TaskReport: round.TaskReport{
		End:     2 * second,
		Plan:    round.Plan{Compute: 10 * second},
		Outcome: round.Late,
	}}
	accepted := metrics.Task{TaskReport: round.TaskReport{
		End:     2 * second,
		Plan:    round.Plan{Compute: 2 * second},
		Outcome: round.Accepted,
	}}
	var w waits
	run := &metrics.Run{Classes: []string{"laptop", "board"}, Clients: 2}
	w.add(run, []metrics.Task{accepted, late})
	shown := w.shown(run, 0)
	if c := shown.Classes[0]; c.Class != "board" || c.Late != 1 || c.Faster != 0 || c.Compute != 2 {
		t.Errorf("the round lasts until the deadline because of a board: %+v", c)
	}
	if shown.Alike {
		t.Error("a run of two classes says that its clients are alike")
	}
	nearly := late
	nearly.Plan.Compute = 2_090_000_000
	if got, want := fasterSaves(&nearly).Seconds(), 2-2.09/1.1; got < want-1e-6 || got > want+1e-6 {
		t.Errorf("a tenth faster saves %g s, want %g", got, want)
	}
}
