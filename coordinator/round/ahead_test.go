package round

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"fedpace/coordinator/closing"
	"fedpace/coordinator/selection"
	_ "fedpace/internal/testkit/testseed"
)

// ahead plays as a driver that asks which events may run ahead before it waits for plans. It returns how many events
// did.
func (p *player) ahead(t failer) (n int) {
	for p.machine.Phase() != Stopped {
		for len(p.timers) > 0 {
			next := slices.MinFunc(p.timers, func(a, b Timer) int {
				if earlier(a, b) {
					return -1
				}
				return 1
			})
			if !p.machine.RunsAhead(next) {
				break
			}
			p.timers = slices.DeleteFunc(p.timers, func(x Timer) bool { return x.Seq == next.Seq })
			p.popped = append(p.popped, next)
			p.now = next.At
			p.step(t, Event{Kind: Due, Timer: next})
			n++
		}
		p.turn(t)
	}
	p.over(t)
	return n
}

// What runs ahead of plans changes no history.
func TestRunsAhead_ChangesNothing(t *testing.T) {
	ran := 0
	rapid.Check(t, func(t *rapid.T) {
		c, plan := world(t)
		c.SiteRounds = 0
		c.Server, c.Leaves, c.Devices, c.Late, c.Batteries = Bandwidth{}, nil, Devices{}, nil, nil
		c.Closing = closing.Buffered{N: rapid.IntRange(1, 2*c.Cohort).Draw(t, "buffer"), StalenessLimit: rapid.IntRange(0, 3).Draw(t, "limit")}
		c.Select = selection.Uniform{}
		const soonest = 7
		slow := func(x Task) Plan {
			p := plan(x)
			p.Download += soonest
			p.Dropout += soonest
			return p
		}
		want, popped, wantStop := play(t, c, rand.New(rand.NewPCG(1, 1)), slow)
		c.Soonest = soonest
		p := newPlayer(t, c, rand.New(rand.NewPCG(2, 2)), slow)
		ran += p.ahead(t)
		if len(p.reports) != len(want) || p.stop.EndTime != wantStop.EndTime || p.stop.Outcomes != wantStop.Outcomes {
			t.Fatalf("%d rounds until %+v, without %d until %+v", len(p.reports), p.stop, len(want), wantStop)
		}
		for i := range want {
			if !sameReport(p.reports[i], want[i]) {
				t.Fatalf("%+v, without %+v", p.reports[i], want[i])
			}
		}
		for i := range popped {
			a, b := popped[i], p.popped[i]
			if c.Available != nil { // timers for its changes are numbered earlier
				a.Seq, b.Seq = 0, 0
			}
			if a != b {
				t.Fatalf("event %d is %+v, without %+v", i, b, a)
			}
		}
	})
	if ran == 0 {
		t.Error("nothing ran ahead")
	}
}

// A machine that is cut while plans are outstanding that others have overtaken
// goes on to the same history.
func TestRunsAhead_RestoredMachine(t *testing.T) {
	c := config()
	c.Clients, c.Cohort, c.Closing, c.Train, c.Soonest = 30, 12, closing.Buffered{N: 9}, false, 10
	c.Stop = Limits{Rounds: 40}
	plan := func(x Task) Plan {
		return Plan{Download: 10, Compute: Time(x.Task * 7 % 19), Upload: Time(x.Client % 3)}
	}
	whole := newPlayer(t, c, rand.New(rand.NewPCG(1, 1)), plan)
	if whole.ahead(t) < 50 {
		t.Fatal("hardly anything ran ahead")
	}
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	var popped, timers []Timer
	var tasks []Task
	take := func(out *Effects, err error) {
		if err != nil {
			t.Fatal(err)
		}
		timers, tasks = append(timers, out.Timers...), append(tasks, out.Tasks...)
		for _, seq := range out.Cancel {
			timers = slices.DeleteFunc(timers, func(x Timer) bool { return x.Seq == seq })
		}
	}
	take(m.Step(&Event{Kind: Started}))
	for i := 0; m.Phase() != Stopped; i++ {
		m, err = Restore(c, m.State())
		if err != nil {
			t.Fatal(err)
		}
		if m.Phase() == Planning {
			tasks = slices.Clone(m.Pending().Tasks)
		}
		slices.SortFunc(timers, func(a, b Timer) int {
			if earlier(a, b) {
				return -1
			}
			return 1
		})
		switch {
		case len(timers) > 0 && (m.Phase() == Running || m.RunsAhead(timers[0])):
			next := timers[0]
			timers = timers[1:]
			popped = append(popped, next)
			take(m.Step(&Event{Kind: Due, Timer: next}))
		default: // all plans at once: a cut between them is another test's
			for _, x := range slices.Clone(tasks) {
				take(m.Step(&Event{Kind: Planned, Task: x.Task, Client: x.Client, Plan: plan(x)}))
			}
			tasks = nil
		}
	}
	if !slices.Equal(popped, whole.popped) {
		t.Errorf("%d events, of an uncut machine %d, and not the same", len(popped), len(whole.popped))
	}
}

// A task that is shorter than any should be is an error, not another history.
func TestRunsAhead_ImpossiblyEarlyTask(t *testing.T) {
	c := config()
	c.Clients, c.Cohort, c.Closing, c.Train, c.Soonest = 30, 12, closing.Buffered{N: 9}, false, 100
	c.Stop = Limits{Rounds: 4}
	defer func() {
		if text, ok := recover().(string); !ok || !strings.Contains(text, "shorter than tasks should be") {
			t.Errorf("the run ends with %q", text)
		}
	}()
	p := newPlayer(t, c, rand.New(rand.NewPCG(1, 1)), func(x Task) Plan { return Plan{Compute: 1 + Time(x.Task%12)} })
	p.ahead(panics{})
}

type panics struct{}

// Fatalf panics with the first error among args, or else with the format.
func (panics) Fatalf(format string, args ...any) {
	for _, a := range args {
		if err, ok := a.(error); ok {
			panic(err.Error())
		}
	}
	panic(format)
}
