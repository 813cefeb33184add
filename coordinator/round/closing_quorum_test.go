package round

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"fedpace/coordinator/closing"
)

func TestQuorum_ImpossibleOptions(t *testing.T) {
	for _, x := range []struct {
		rule closing.Quorum
		want string // "": it can
	}{
		{closing.Quorum{N: 3, M: 3, Seconds: 1}, ""},
		{closing.Quorum{N: 1, M: 1, Seconds: 1e-9}, ""},
		{closing.Quorum{N: 4, M: 1, Seconds: 1}, "round: closing rule: n: 4 is more than the cohort (at most 3: over-selection asks more clients than it waits for)"},
		{closing.Quorum{N: 2, M: 3, Seconds: 1}, "round: closing rule: m: 3 is more than n (at most 2: a round has closed when n updates have come)"},
		{closing.Quorum{N: 3, Seconds: 1}, "round: closing rule: m: 0 is out of range (a whole number from 1 to 1000000)"},
		{closing.Quorum{N: 3, M: 1}, "round: closing rule: seconds: 0 is out of range (more than 0 and at most 4000000000 seconds)"},
	} {
		c := config()
		c.Closing = x.rule
		got := ""
		if err := c.Validate(); err != nil {
			got = err.Error()
		}
		if got != x.want {
			t.Errorf("%+v: error %q, want %q", x.rule, got, x.want)
		}
	}
}

// Six clients, four updates before 100 ns or two after it.
func TestQuorum_ClosesRounds(t *testing.T) {
	const never = 0 // the client drops out after 300 ns
	for _, x := range []struct {
		name     string
		takes    []Time // by task
		end      Time
		outcomes [Outcomes]int
	}{
		{"four come in time", []Time{10, 20, 30, 40, 50, 60}, 40, [Outcomes]int{Accepted: 4, Cancelled: 2}},
		{"three come in time", []Time{10, 20, 30, 110, 120, 130}, 100, [Outcomes]int{Accepted: 3, Late: 3}},
		{"the second comes at the deadline", []Time{10, 100, 110, 120, 130, 140}, 100, [Outcomes]int{Accepted: 2, Late: 4}},
		{"the second comes after the deadline", []Time{10, 110, 120, 130, 140, 150}, 110, [Outcomes]int{Accepted: 2, Late: 4}},
		{"all come after the deadline", []Time{110, 120, 130, 140, 150, 160}, 120, [Outcomes]int{Accepted: 2, Late: 4}},
		{"too few can come", []Time{10, never, never, never, never, never}, 300, [Outcomes]int{Accepted: 1, Dropped: 5}},
		{"nobody can come", []Time{never, never, never, never, never, never}, 300, [Outcomes]int{Dropped: 6}},
	} {
		c := config()
		c.Cohort, c.Closing, c.Stop.Rounds = 6, closing.Quorum{N: 4, M: 2, Seconds: Time(100).Seconds()}, 1
		reports, _, _ := play(t, c, rand.New(rand.NewPCG(1, 1)), func(task Task) Plan {
			took := x.takes[task.Task-1]
			return Plan{Compute: took, Drops: took == never, Dropout: 300}
		})
		if r := reports[0]; r.End != x.end || r.Outcomes != x.outcomes {
			t.Errorf("%s: closed at %d with %v, want %d with %v", x.name, r.End, r.Outcomes, x.end, x.outcomes)
		}
	}
}

// Whatever the run: clients are cancelled when n updates have come, late when m
// have, and one history follows, also of a machine that is cut and restored.
func TestQuorum_AnyRun(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, plan := world(t)
		c.SiteRounds = 0
		n := rapid.IntRange(1, c.Cohort).Draw(t, "n of quorum")
		rule := closing.Quorum{N: n, M: rapid.IntRange(1, n).Draw(t, "m"), Seconds: Time(rapid.IntRange(1, 60).Draw(t, "deadline of quorum")).Seconds()}
		c.Closing, c.Late = rule, nil
		reports, popped, _ := play(t, c, rand.New(rand.NewPCG(1, 1)), plan)
		for _, r := range reports {
			switch o := r.Outcomes; {
			case o[Accepted] > n || o[Cancelled] > 0 && o[Accepted] != n || o[Late] > 0 && o[Accepted] < rule.M:
				t.Fatalf("round %d has the outcomes %v under %+v", r.Round, o, rule)
			}
		}
		cut := newPlayer(t, c, rand.New(rand.NewPCG(2, 2)), plan)
		every := rapid.IntRange(1, 20).Draw(t, "cut every")
		for i := 1; cut.machine.Phase() != Stopped; i++ {
			cut.turn(t)
			if i%every == 0 {
				cut.cut(t, true)
			}
		}
		if diff := cmp.Diff(popped, cut.popped); diff != "" {
			t.Fatalf("the history changes: %s", diff)
		}
		if !slices.EqualFunc(reports, cut.reports, sameReport) {
			t.Fatalf("the reports change")
		}
	})
}
