package round

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fedpace/coordinator/closing"
	"fedpace/coordinator/schedule"
)

// paceSpy notes the pace and the part of the run that it is told, and gives 4, 2 and 1 steps.
type paceSpy struct{ told *[]schedule.Progress }

// Needs asks for the pace.
func (paceSpy) Needs() schedule.Needs { return schedule.Needs{Pace: true} }

// LocalSteps notes the pace and the share of the run that the schedule was given.
func (s paceSpy) LocalSteps(p schedule.Progress) int {
	*s.told = append(*s.told, schedule.Progress{Pace: p.Pace, Share: p.Share})
	return 8 >> p.Round
}

// Client c of 0 to 3 takes (c+1) s a local step and 10 s for its transfers, so rounds wait for client
// 3 where they wait for all: 10 + 4K s.
func TestMachine_MeasuresPace(t *testing.T) {
	second := Time(1e9)
	plan := func(x Task) Plan {
		return Plan{Download: 10 * second, Compute: Time(x.Client+1) * Time(x.LocalSteps) * second}
	}
	known := func(round, step float64) schedule.Pace {
		return schedule.Pace{Known: true, Round: round, Step: step}
	}
	for _, c := range []struct {
		name  string
		rule  closing.Rule
		paces []schedule.Pace // before rounds 1, 2 and 3
	}{
		{"all", closing.All{}, []schedule.Pace{{}, known(10, 4), known(10, 4)}},
		{"the slowest that counts", closing.First{N: 2}, []schedule.Pace{{}, known(10, 2), known(10, 2)}},
		// In round 1 clients 2 and 3 are late, with 22 and 26 s, and client 1 takes 18 s, of which
		// computing is 8: 12 s of the round are beside it. In round 2 all are done within 18 s.
		{"deadline", closing.Deadline{Seconds: 20}, []schedule.Pace{{}, known(12, 2), known(11, 3)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var told []schedule.Progress
			run := config()
			run.Clients = 4
			run.Cohort = 4
			run.Closing = c.rule
			run.Setup.K0 = 4
			run.K = paceSpy{&told}
			run.Stop = Limits{Rounds: 3}
			play(t, run, rand.New(rand.NewPCG(1, 1)), plan)
			for i, pace := range c.paces {
				want := schedule.Progress{Pace: pace, Share: float64(i) / 3}
				if diff := cmp.Diff(want, told[i]); diff != "" {
					t.Errorf("round %d (- wanted, + told): %s", i+1, diff)
				}
			}
		})
	}
}

func TestLimits_ShareIsOfNearestLimit(t *testing.T) {
	stop := Stop{Rounds: 10, Samples: 300}
	stop.Outcomes[Accepted] = 30
	for _, c := range []struct {
		name   string
		limits Limits
		want   float64
	}{
		{"rounds", Limits{Rounds: 40}, 0.25},
		{"time", Limits{Time: 100}, 0.5},
		{"the nearest of both", Limits{Rounds: 40, Time: 100}, 0.5},
		{"accepted tasks", Limits{Accepted: 40}, 0.75},
		{"samples", Limits{Samples: 3000}, 0.1},
		{"tokens", Limits{Tokens: 3000, TokensPerSample: 2}, 0.2},
		{"a limit that is passed", Limits{Samples: 200}, 1},
		{"no limit", Limits{}, math.NaN()},
	} {
		got := c.limits.Share(50, &stop)
		same := got == c.want || math.IsNaN(got) && math.IsNaN(c.want)
		if !same {
			t.Errorf("%s: the part is %v, want %v", c.name, got, c.want)
		}
	}
}
