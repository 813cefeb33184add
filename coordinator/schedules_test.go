package coordinator_test

import (
	"fmt"
	"testing"

	"fedpace/coordinator/closing"
	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
)

// A run that trains and one that is only timed have one history under every schedule
// that reads no loss, and every schedule has a history of its own.
func TestSchedules_TimingOnly(t *testing.T) {
	t.Parallel()
	l, fleet := newLab(t), stayingFleet(t)
	from := func(seconds float64) schedule.From { return schedule.From{Seconds: seconds} }
	seen := map[uint64]string{}
	for i, k := range []schedule.K{
		schedule.FixedK{},
		schedule.PowerK{Power: "2/3"},
		schedule.PowerK{Power: "-1/2", Max: 20},
		schedule.ListK{Values: []schedule.StepsFrom{{Value: 3, From: from(1)}, {Value: 9, From: from(2)}}},
		schedule.ExpressionK{Formula: "max(1, k0 - t)"},
		schedule.ExpressionK{Formula: "min(k, 4) + 6 * straggler_share"},
		schedule.ExpressionK{Formula: "eta > 0.1 ? 5 : 2"},
	} {
		for _, epochs := range []schedule.Epochs{{}, {Batch: 10, Samples: 20_000}} {
			c := ruleConfig(l, fleet, closing.All{}, nil)
			c.K, c.Epochs, c.Stop = k, epochs, round.Limits{Rounds: 6}
			if epochs.Batch > 0 { // K_r steps of a third of the clients, twice or three times as many of the others
				c.Samples = func(client int) int { return 1000 * epochs.Batch * (1 + client%3) }
			}
			trained := ruleRun(t, l, fleet, c, 1, 2)
			c.Train = false
			timed := ruleRun(t, l, fleet, c, 1, 1)
			if trained.Fingerprint != timed.Fingerprint || trained.Stop.EndTime != timed.Stop.EndTime {
				t.Errorf("schedule %d, %+v: the run that is timed ends at %v s, the one that trains at %v s", i, epochs, timed.Stop.EndTime.Seconds(), trained.Stop.EndTime.Seconds())
			}
			name := fmt.Sprint(i, epochs)
			if other, ok := seen[timed.Fingerprint]; ok {
				t.Errorf("schedules %s and %s have one history", other, name)
			}
			seen[timed.Fingerprint] = name
		}
	}
}
