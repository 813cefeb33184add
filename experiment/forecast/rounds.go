package forecast

import (
	"context"

	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
	"fedpace/experiment/config"
	"fedpace/experiment/problem"
)

// expected is a round as it can be expected: how long it is on the virtual clock, and how many
// updates count in it. What comes of them in a run is taken to be in proportion.
type expected struct {
	length  round.Time
	updates float64
}

// expectation returns what is expected of a problem's rounds of k steps: exactly, where all
// rounds are alike, else the mean of some that are played, with simulated clients in the place
// of devices that are alone. Those of a power of two are played; between them it is on a line.
func expectation(p *problem.Problem) func(k int) expected {
	_, alike := p.FixedRound()
	own, known := *p, map[int]expected{}
	own.Config.Untrained()
	at := func(k int) expected {
		e, ok := known[k]
		if !ok {
			e = playedRound(&own, k)
			known[k] = e
		}
		return e
	}
	return func(k int) expected {
		if alike {
			if length, err := p.MeanRound(k); err == nil {
				return expected{length, at(1).updates}
			}
		}
		low := 1
		for 2*low <= k {
			low *= 2
		}
		a, part := at(low), float64(k-low)/float64(low)
		if part <= 0 {
			return a
		}
		b := at(2 * low)
		return expected{a.length + round.Time(part*float64(b.length-a.length)), a.updates + part*(b.updates-a.updates)}
	}
}

// A round is expected to be the mean over some rounds, of about so many tasks in all.
const (
	triedRounds = 64
	triedTasks  = 4096
)

// playedRound is the mean of some rounds of k steps of a problem without learning. Steps count if
// nothing comes of them.
func playedRound(p *problem.Problem, k int) expected {
	own := *p
	c := &own.Config
	c.Schedule.K, c.Schedule.Unit, c.Schedule.K0 = schedule.FixedK{}, "", k
	c.Stop = config.Stop{Rounds: max(1, min(triedRounds, triedTasks/max(1, c.Cohort)))}
	stop, _, err := Play(context.Background(), &own)
	if err != nil || stop.Rounds == 0 || stop.At == 0 {
		return expected{round.Time(1+k) * 1e9, float64(max(1, c.Cohort))}
	}
	return expected{stop.At / round.Time(stop.Rounds), float64(stop.Outcomes[round.Accepted]) / float64(stop.Rounds)}
}
