package round

import (
	"math/rand/v2"
	"testing"

	"fedpace/coordinator/closing"
)

// Four clients take 10 + (c + 1) K s (see linear), so a round of K = 8, 4 and 2 takes all clients
// together 120, 80 and 60 s. A client's task uses 2 J a second and 100 bytes.
func TestMachine_StopsAtBudget(t *testing.T) {
	uses := func(e *TaskReport) (Used, error) {
		took := e.End - e.Start
		return Used{Time: took, Bytes: 100, Joules: 2 * took.Seconds()}, nil
	}
	for _, c := range []struct {
		name   string
		rule   closing.Rule
		budget Used
		rounds int
		used   Used
	}{
		{"no budget", closing.All{}, Used{}, 3, Used{Time: 260e9, Bytes: 1200, Joules: 520}},
		{"energy, with the second round", closing.All{}, Used{Joules: 300}, 2, Used{Time: 200e9, Bytes: 800, Joules: 400}},
		{"energy, to the joule", closing.All{}, Used{Joules: 240}, 1, Used{Time: 120e9, Bytes: 400, Joules: 240}},
		{"time of clients", closing.All{}, Used{Time: 201e9}, 3, Used{Time: 260e9, Bytes: 1200, Joules: 520}},
		{"bytes", closing.All{}, Used{Bytes: 401}, 2, Used{Time: 200e9, Bytes: 800, Joules: 400}},
		// After 20 s clients 0 (18 s) is done and the others are given up: 18 + 3 · 20 s. In round 2
		// clients 0 and 1 are done after 14 and 18 s, the others not: 14 + 18 + 2 · 20 s.
		{
			"what was broken off counts", closing.Deadline{Seconds: 20}, Used{Time: 150e9}, 2,
			Used{Time: 150e9, Bytes: 800, Joules: 300},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := shrinking(c.rule)
			run.Stop.Budget = c.budget
			run.Stop.Uses = uses
			reports, _, stop := play(t, run, rand.New(rand.NewPCG(1, 1)), linearPlan)
			last := reports[len(reports)-1]
			if stop.Rounds != c.rounds || last.Used != c.used {
				t.Errorf("%d rounds with %+v, want %d with %+v", stop.Rounds, last.Used, c.rounds, c.used)
			}
		})
	}
}
