package round

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"fedpace/coordinator/closing"
)

func TestLate_ImpossibleOptions(t *testing.T) {
	for _, x := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"no limit", func(c *Config) { c.Closing, c.Late = closing.First{N: 2}, closing.Use{} }, "late updates: limit: 0 is out of range"},
		{"nobody is late", func(c *Config) { c.Late = closing.Use{Limit: 1} }, "no update is late where a round waits for all"},
		{"rounds overlap", func(c *Config) { c.Closing, c.Late = closing.Buffered{N: 2}, closing.Use{Limit: 1} }, "no update is late where rounds overlap"},
		{"candidates", func(c *Config) {
			c.Closing, c.Late, c.Select = closing.First{N: 2}, closing.Use{Limit: 1}, chosen("power_of_choice", "candidates", 4)
		}, "late updates do not go with candidates"},
	} {
		c := config()
		x.change(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: error %v, want one with %q", x.name, err, x.want)
		}
	}
}

// Rounds of a cohort of 3 of 12 clients, closed by a deadline of 100 ns or by the first
// update. Task n takes the n-th time.
func TestLate_CountInRoundOfArrival(t *testing.T) {
	for _, x := range []struct {
		name    string
		closing closing.Rule
		late    closing.Lateness
		takes   []Time
		ends    []Time
		want    [][Outcomes]int // by round
		stale   [][]int         // staleness of the updates of a round, in the order of tasks
		rest    int             // cancelled with the run's end
	}{
		{
			"one round later", after(100), closing.Use{Limit: 5}, []Time{50, 150, 60, 90, 90, 90}, []Time{100, 190},
			[][Outcomes]int{{Accepted: 2}, {Accepted: 4}}, [][]int{{0, 0}, {1, 0, 0, 0}}, 0,
		},
		{
			"dropped", after(100), closing.Drop{}, []Time{50, 150, 60, 90, 90, 90}, []Time{100, 190},
			[][Outcomes]int{{Accepted: 2, Late: 1}, {Accepted: 3}}, [][]int{{0, 0}, {0, 0, 0}}, 0,
		},
		{
			"unequally late", after(100), closing.Use{Limit: 5}, []Time{150, 260, 30, 40, 120, 50, 30, 40, 70}, []Time{100, 200, 270},
			[][Outcomes]int{{Accepted: 1}, {Accepted: 3}, {Accepted: 5}}, [][]int{{0}, {1, 0, 0}, {2, 1, 0, 0, 0}}, 0,
		},
		{
			"too old after two models", after(100), closing.Use{Limit: 1}, []Time{30, 900, 30, 30, 30, 120, 40, 40, 40}, []Time{100, 200, 240},
			[][Outcomes]int{{Accepted: 2}, {Accepted: 2, Late: 1}, {Accepted: 4}}, [][]int{{0, 0}, {0, 0}, {1, 0, 0, 0}}, 0,
		},
		{
			"rounds without a model make nothing older", after(100), closing.Use{Limit: 1}, []Time{350, 350, 350, 350, 350, 350, 350, 350, 350, 40, 50, 60}, []Time{100, 200, 300, 360},
			[][Outcomes]int{{}, {}, {}, {Accepted: 6}}, [][]int{nil, nil, nil, {0, 0, 0, 0, 0, 0}}, 6,
		},
		{
			"late ones close no round", closing.First{N: 2}, closing.Use{Limit: 5}, []Time{10, 20, 25, 30, 40, 90}, []Time{20, 60},
			[][Outcomes]int{{Accepted: 2}, {Accepted: 3}}, [][]int{{0, 0}, {1, 0, 0}}, 1,
		},
		{
			"of a quorum", closing.Quorum{N: 3, M: 1, Seconds: Time(100).Seconds()}, closing.Use{Limit: 5}, []Time{110, 120, 130, 20, 30, 40}, []Time{110, 150},
			[][Outcomes]int{{Accepted: 1}, {Accepted: 5}}, [][]int{{0}, {1, 1, 0, 0, 0}}, 0,
		},
	} {
		c := config()
		c.Clients, c.Closing, c.Late, c.Stop.Rounds = 12, x.closing, x.late, len(x.ends)
		p := newPlayer(t, c, rand.New(rand.NewPCG(1, 1)), func(task Task) Plan { return Plan{Compute: x.takes[task.Task-1]} })
		var stale [][]int
		late := make([]int, len(x.ends)) // updates of earlier rounds
		for p.machine.Phase() != Stopped {
			before := len(p.trained)
			p.turn(t)
			if len(p.trained) > before {
				for len(stale) < p.machine.Round() {
					stale = append(stale, nil)
				}
				for _, task := range p.trained[before:] {
					stale[p.machine.Round()-1] = append(stale[p.machine.Round()-1], task.Staleness)
					if task.Round < p.machine.Round() {
						late[p.machine.Round()-1]++
					}
				}
			}
		}
		p.over(t)
		for i, r := range p.reports {
			if r.End != x.ends[i] || r.Outcomes != x.want[i] || !slices.Equal(stale[i], x.stale[i]) || r.LateUsed != late[i] {
				t.Errorf("%s: round %d closed at %d with %v and staleness %v, want %d with %v and %v", x.name, i+1, r.End, r.Outcomes, stale[i], x.ends[i], x.want[i], x.stale[i])
				t.Errorf("%s: it has %d late updates, want %d", x.name, r.LateUsed, late[i])
			}
		}
		if got := p.stop.Outcomes[Cancelled]; got != x.rest {
			t.Errorf("%s: %d tasks are cancelled, want %d", x.name, got, x.rest)
		}
	}
}

// Where all clients but late ones are away, the round waits for those, and takes them
// when they are done.
func TestLate_RoundWaits(t *testing.T) {
	c := config()
	c.Clients, c.Cohort, c.Closing, c.Late, c.Stop.Rounds = 2, 2, closing.First{N: 1}, closing.Use{Limit: 5}, 3
	takes := []Time{10, 35, 40, 1, 1, 1}
	reports, _, stop := play(t, c, rand.New(rand.NewPCG(1, 1)), func(task Task) Plan { return Plan{Compute: takes[task.Task-1]} })
	for i, want := range []struct {
		start, end Time
		accepted   int
	}{{0, 10, 1}, {10, 50, 2}, {50, 51, 1}} {
		if r := reports[i]; r.Start != want.start || r.End != want.end || r.Outcomes[Accepted] != want.accepted {
			t.Errorf("round %d from %d to %d with %v, want %+v", r.Round, r.Start, r.End, r.Outcomes, want)
		}
	}
	if stop.Rounds != 3 {
		t.Errorf("%d rounds", stop.Rounds)
	}
	// Both are late, and nobody else is there until the first of them is free.
	c.Closing, takes = after(5), []Time{12, 20, 3, 3, 3, 3}
	reports, _, _ = play(t, c, rand.New(rand.NewPCG(1, 1)), func(task Task) Plan { return Plan{Compute: takes[task.Task-1]} })
	for i, want := range []struct {
		start, end Time
		accepted   int
	}{{0, 5, 0}, {12, 15, 2}, {15, 18, 1}} {
		if r := reports[i]; r.Start != want.start || r.End != want.end || r.Outcomes[Accepted] != want.accepted {
			t.Errorf("round %d from %d to %d with %v, want %+v", r.Round, r.Start, r.End, r.Outcomes, want)
		}
	}
}

// A round that has got a late client takes no other that comes back meanwhile.
func TestLate_WholeRound(t *testing.T) {
	c := config()
	c.Clients, c.Cohort, c.Closing, c.Late, c.Stop.Rounds = 3, 2, after(5), closing.Use{Limit: 5}, 2
	c.Available = func(client int, at Time) bool { return client < 2 || at >= 14 }
	c.NextChange = func(at Time) (Time, bool) { return 14, at < 14 }
	takes := []Time{12, 30, 4, 1, 1}
	reports, popped, _ := play(t, c, rand.New(rand.NewPCG(1, 1)), func(task Task) Plan { return Plan{Compute: takes[task.Task-1]} })
	if r := reports[1]; r.Start != 12 || r.End != 16 || r.Cohort != 2 || r.Outcomes[Accepted] != 2 {
		t.Errorf("the second round is from %d to %d with %d tasks, %v, want 12 to 16 with 2", r.Start, r.End, r.Cohort, r.Outcomes)
	}
	for _, timer := range popped {
		if timer.Kind == AvailabilityChanges {
			t.Errorf("the round still waits at %d", timer.At)
		}
	}
}

// Whatever the run: no update counts twice or after its limit, and with late updates no
// task of a round that a deadline closes is lost for that alone.
func TestLate_AnyRun(t *testing.T) {
	used := 0
	rapid.Check(t, func(t *rapid.T) {
		c, plan := world(t)
		c.SiteRounds = 0
		limit := rapid.IntRange(1, 4).Draw(t, "limit of late")
		c.Train, c.Late = true, closing.Use{Limit: limit}
		drawEntry(t, closing.Rules, &c, func(rule closing.Rule) { c.Closing, c.Select = rule, nil })
		p := newPlayer(t, c, rand.New(rand.NewPCG(1, 1)), plan)
		for p.machine.Phase() != Stopped {
			p.turn(t)
			if n := len(p.machine.models()); n > limit+1 {
				t.Fatalf("%d models are kept with a limit of %d", n, limit)
			}
		}
		p.over(t)
		seen := map[uint64]bool{}
		for _, task := range p.trained {
			if seen[task.Task] || task.Staleness > limit {
				t.Fatalf("task %d counts again, or with staleness %d", task.Task, task.Staleness)
			}
			seen[task.Task] = true
			if task.Staleness > 0 {
				used++
			}
		}
	})
	if used < 10 && !testing.Short() {
		t.Errorf("%d late updates count: the test says little", used)
	}
}
