package round

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"

	"fedpace/coordinator/closing"
	"fedpace/coordinator/schedule"
)

// linear returns the time of a task in a fleet of four clients: client c takes 10 s for its transfers and c + 1 s for a
// local step.
func linear(client, steps int) Time { return Time(10+(client+1)*steps) * 1e9 }

// linearPlan returns the plan of a task of the fleet of linear.
func linearPlan(x Task) Plan {
	return Plan{Download: 10 * 1e9, Compute: linear(x.Client, x.LocalSteps) - 10*1e9}
}

// shrinking returns a run of three rounds of 8, 4 and 2 local steps in the fleet of linear.
func shrinking(rule closing.Rule) Config {
	c := config()
	c.Clients = 4
	c.Cohort = 4
	c.Closing = rule
	c.Expect = linear
	c.Setup.K0 = 8
	c.K = schedule.ExpressionK{Formula: "k0 / 2 ** (r - 1)"}
	c.Stop = Limits{Rounds: 3}
	return c
}

// A deadline and numbers of updates that follow K, against a simulation that is written out: who is
// done by the deadline, and when.
func TestMachine_ClosingFollowsK(t *testing.T) {
	mean := func(k int) float64 { return 10 + 2.5*float64(k) } // of 10 + k, ... 10 + 4k
	for _, test := range []struct {
		name     string
		rule     closing.Formula
		deadline func(k int) float64 // seconds; 0: none
		updates  func(k int) int     // 0: not set
		enough   func(k int) int     // from the deadline on
	}{
		{
			name:     "a deadline of what is expected",
			rule:     closing.Formula{Seconds: "1.2 * expected"},
			deadline: func(k int) float64 { return 1.2 * mean(k) },
		},
		{
			name:     "a quantile: of four clients the third",
			rule:     closing.Formula{Seconds: "quantile(0.75)"},
			deadline: func(k int) float64 { return 10 + 3*float64(k) },
		},
		{
			name:    "fewer updates as K falls",
			rule:    closing.Formula{N: "k / 2"},
			updates: func(k int) int { return k / 2 },
		},
		{
			name:     "a quorum",
			rule:     closing.Formula{Seconds: "5 + k", N: "cohort", M: "0.5 * cohort"},
			deadline: func(k int) float64 { return 5 + float64(k) },
			updates:  func(int) int { return 4 },
			enough:   func(int) int { return 2 },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			reports, _, _ := play(t, shrinking(test.rule), rand.New(rand.NewPCG(1, 1)), linearPlan)
			for i, r := range reports {
				k := 8 >> i
				deadline := 0.0
				if test.deadline != nil {
					deadline = test.deadline(k)
				}
				updates := 0
				if test.updates != nil {
					updates = test.updates(k)
				}
				enough := 0
				if test.enough != nil {
					enough = test.enough(k)
				}
				took, accepted := playedOut(k, deadline, updates, enough)
				if got := (r.End - r.Start).Seconds(); got != took || r.Outcomes[Accepted] != accepted {
					t.Errorf("round %d of K = %d: %v s and %d updates, want %v s and %d",
						r.Round, k, got, r.Outcomes[Accepted], took, accepted)
				}
				if got := r.Closing.Deadline; got != Time(deadline*1e9+0.5) {
					t.Errorf("round %d: the deadline is %d ns, want %v s", r.Round, got, deadline)
				}
			}
		})
	}
}

// playedOut plays one round of the fleet of linear, with k local steps: it takes the ends of tasks in their order. The
// round closes with this number of updates, or after the deadline as soon as enough were accepted; 0 stands for no such
// number and no deadline. It returns the seconds of the round and how many updates were accepted.
func playedOut(k int, deadline float64, updates, enough int) (took float64, accepted int) {
	var ends []float64
	for client := range 4 {
		ends = append(ends, linear(client, k).Seconds())
	}
	slices.Sort(ends)
	for _, end := range ends {
		isOverdue := deadline > 0 && end > deadline
		if isOverdue && accepted >= enough {
			return deadline, accepted
		}
		accepted++
		if accepted == updates || isOverdue && accepted >= enough {
			return end, accepted
		}
		took = end
	}
	return took, accepted
}

// A run goes on from a state between two events of a round to the same end.
func TestMachine_RestoresFormulasOfRound(t *testing.T) {
	c := shrinking(closing.Formula{Seconds: "1.2 * expected"})
	c.CohortFormula = "5 - r"
	c.Late = closing.LateFormula{Limit: "r"}
	whole, _, _ := play(t, c, rand.New(rand.NewPCG(1, 1)), linearPlan)
	p := newPlayer(t, c, rand.New(rand.NewPCG(1, 1)), linearPlan)
	for p.machine.Phase() != Stopped {
		text, err := json.Marshal(p.machine.State())
		if err != nil {
			t.Fatal(err)
		}
		var state State
		if err := json.Unmarshal(text, &state); err != nil {
			t.Fatal(err)
		}
		if p.machine.Phase() == Running {
			p.machine, err = Restore(c, state)
			if err != nil {
				t.Fatal(err)
			}
		}
		p.turn(t)
	}
	for i := range whole {
		if whole[i].End != p.reports[i].End {
			t.Errorf("round %d ends after %d ns, want %d", i+1, p.reports[i].End, whole[i].End)
		}
	}
}

// A cohort that follows K: with all of its tasks waited for, each round lasts as long as the slowest of the clients
// that it selects, and has as many updates.
func TestMachine_CohortFollowsK(t *testing.T) {
	c := shrinking(closing.All{})
	c.CohortFormula = "cohort * k / k0"
	ended := map[int][]int{} // by round, the clients whose tasks ended in it
	reports, _, _ := play(t, c, rand.New(rand.NewPCG(1, 1)), func(x Task) Plan {
		ended[x.Round] = append(ended[x.Round], x.Client)
		return linearPlan(x)
	})
	if len(reports) != 3 {
		t.Fatalf("%d rounds, want 3", len(reports))
	}
	for i, r := range reports {
		// Of K = 8, 4 and 2 these are 4, 2 and 1.
		clients := 4 >> i
		slowest := slices.Max(ended[r.Round])
		if r.Wanted != clients || r.Outcomes[Accepted] != clients || r.Cohort != clients {
			t.Errorf("round %d: %d wanted, %d of %d tasks accepted, want %d",
				r.Round, r.Wanted, r.Outcomes[Accepted], r.Cohort, clients)
		}
		if took := r.End - r.Start; took != linear(slowest, 8>>i) {
			t.Errorf("round %d: %v s, want %v s", r.Round, took.Seconds(), linear(slowest, 8>>i).Seconds())
		}
	}
}

// The numbers of a closing rule are of the round's own cohort, and a selection by losses takes as many.
func TestMachine_ClosingFollowsCohort(t *testing.T) {
	c := shrinking(closing.Formula{N: "cohort - 1"})
	c.K = schedule.ExpressionK{Formula: "k0"}
	c.CohortFormula = "5 - r"
	reports, _, _ := play(t, c, rand.New(rand.NewPCG(1, 1)), linearPlan)
	for i, r := range reports {
		if want := 3 - i; r.Closing.N != want || r.Outcomes[Accepted] != want {
			t.Errorf("round %d closes with %d updates and has %d, want %d", r.Round, r.Closing.N, r.Outcomes[Accepted], want)
		}
	}
}

// Late updates whose limit follows the round, against a simulation that is written out.
func TestMachine_LateLimitFollowsRound(t *testing.T) {
	for _, test := range []struct {
		formula string
		rounds  int
		limit   func(round int) int
	}{
		{"1", 6, func(int) int { return 1 }},
		{"2", 6, func(int) int { return 2 }},
		{"r", 6, func(round int) int { return round }},
		{"4 - r", 3, func(round int) int { return 4 - round }},
		{"0.5 * k", 6, func(int) int { return 2 }},
	} {
		c := shrinking(closing.Deadline{Seconds: 12})
		c.K = schedule.FixedK{}
		c.Setup.K0 = 4
		c.Late = closing.LateFormula{Limit: test.formula}
		c.Stop = Limits{Rounds: test.rounds}
		reports, _, _ := play(t, c, rand.New(rand.NewPCG(1, 1)), crawling)
		for i, want := range playedLate(test.rounds, test.limit) {
			r := reports[i]
			got := lateRound{r.Outcomes[Accepted], r.LateUsed, r.Outcomes[Late], r.LateLimit}
			if got != want {
				t.Errorf("limit %s, round %d: %+v, want %+v", test.formula, r.Round, got, want)
			}
		}
	}
}

// crawling is the plan of a fleet of four clients in which client c takes 10 + 9 c seconds for a task.
func crawling(x Task) Plan { return Plan{Compute: Time(10+9*x.Client) * 1e9} }

// lateRound is what a round comes to: updates accepted, of them of earlier rounds, tasks given up, and the limit.
type lateRound struct{ accepted, used, givenUp, limit int }

// playedLate plays rounds of 12 s in the fleet of crawling, in which every free client has a task: a task that has not
// ended by the close goes on unless its base model would be older than the limit.
func playedLate(rounds int, limit func(round int) int) (list []lateRound) {
	const close = 12.0
	type task struct {
		end   float64
		model int
		round int
	}
	open := map[int]task{}
	model := 0
	for round := 1; round <= rounds; round++ {
		start := close * float64(round-1)
		for client := range 4 {
			if _, busy := open[client]; !busy {
				open[client] = task{start + 10 + 9*float64(client), model, round}
			}
		}
		r := lateRound{limit: limit(round)}
		for client := range 4 {
			if x := open[client]; x.end <= start+close {
				r.accepted++
				if x.round < round {
					r.used++
				}
				delete(open, client)
			}
		}
		if r.accepted > 0 {
			model++
		}
		for client := range 4 {
			if x, busy := open[client]; busy && model-x.model > r.limit {
				r.givenUp++
				delete(open, client)
			}
		}
		list = append(list, r)
	}
	return list
}
