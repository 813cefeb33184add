package forecast

import (
	"math"
	"testing"

	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
	"fedpace/internal/statistics"
	"fedpace/learn/metric"
)

func remaining(rounds int, virtual float64) *Remaining {
	return &Remaining{
		walk: walk{
			setup: schedule.Setup{K0: 10, Eta0: 1}, k: schedule.FixedK{}, eta: schedule.FixedEta{}, steps: func(k int) int { return k }, rounds: rounds, limit: round.Time(virtual * 1e9),
			expect: func(k int) expectedRound { return expectedRound{round.Time(1+k) * 1e9, 5} },
		},
		seen:        statistics.Thin[closedRound](maxKeptRounds),
		batch:       10,
		evaluations: evaluations{onHeldOut: metric.Timetable{Every: 10}, heldOutSamples: 300},
	}
}

// play has it see n rounds of 10 steps, each 22 virtual seconds long and of 6 clients,
// which take 3 s to be trained in a round of 4 s; an evaluation takes 2 s more.
func play(o *Remaining, n int) {
	for r := 1; r <= n; r++ {
		report := round.Report{Round: r, Start: round.Time(r-1) * 22e9, End: round.Time(r) * 22e9, LocalSteps: 10, LearningRate: 1, Evaluated: r%10 == 0}
		report.Outcomes[round.Accepted] = 6
		seconds := 4.0
		if report.Evaluated {
			seconds += 2
		}
		o.Round(&report, seconds, 3)
	}
}

func TestRemaining_EqualRounds(t *testing.T) {
	for _, test := range []struct {
		name    string
		rounds  int
		virtual float64
		want    float64
	}{
		// Two evaluations, and that of the final model.
		{"by rounds", 100, 0, 80*4 + 8*2 + 2},
		{"by virtual time", 0, 22 * 100, 80*4 + 8*2 + 2},
		{"the round under way at the end is cancelled", 0, 22*100 - 1, 79*4 + 7*2 + 2},
		{"whichever is first", 30, 22 * 100, 10*4 + 2 + 2},
		{"nothing but the last evaluation", 20, 0, 2},
	} {
		o := remaining(test.rounds, test.virtual)
		if _, known := o.WallTime(); known {
			t.Errorf("%s: something is known before the first round", test.name)
		}
		play(o, 20)
		if left, known := o.WallTime(); !known || math.Abs(left.P50-test.want) > 0.01*test.want {
			t.Errorf("%s: %v s are left, %v, want %v", test.name, left.P50, known, test.want)
		}
	}
	o := remaining(0, 0)
	play(o, 20)
	if _, known := o.WallTime(); known {
		t.Error("something is known of a run whose end is not")
	}
}

// halved are 10 local steps in the first rounds, then 4.
type halved struct{}

func (halved) LocalSteps(p schedule.Progress) int {
	if p.Round <= 20 {
		return 10
	}
	return 4
}

// Rounds of devices alone are waited for as long as they are on the clock, shorter with fewer steps:
// those of 10 steps took 22 s of 11 s expected, those of 4 steps take 10 s and the coordinator 4 s.
// Rounds that were all alike leave an interval for what they did not show alone.
func TestRemaining_DevicesAlone(t *testing.T) {
	o := remaining(100, 0)
	o.devicesAlone, o.walk.k = true, halved{}
	for r := 1; r <= 20; r++ {
		report := round.Report{Round: r, Start: round.Time(r-1) * 22e9, End: round.Time(r) * 22e9, LocalSteps: 10, LearningRate: 1}
		report.Outcomes[round.Accepted] = 6
		o.Round(&report, 26, 0)
	}
	left, known := o.WallTime()
	if want := 80.0 * (10 + 4); !known || math.Abs(left.P50-want) > 1 {
		t.Errorf("%v s are left, want %v", left.P50, want)
	}
	if off := math.Exp(1.645 * math.Sqrt(math.Log(1+0.03*0.03))); math.Abs(left.P95/left.P50-off) > 1e-9 || math.Abs(left.P50/left.P05-off) > 1e-9 {
		t.Errorf("the interval is %+v", left)
	}
}

// A paced run cannot be faster than its pace, and what follows its measurements keeps its K.
func TestRemaining_Others(t *testing.T) {
	o := remaining(100, 0)
	o.maxPace = 2
	play(o, 20)
	if left, _ := o.WallTime(); math.Abs(left.P50-80*11) > 1 {
		t.Errorf("%v s are left at a pace of 2, want 880", left)
	}
	o = remaining(100, 0)
	o.walk.setup.K0, o.walk.followsMeasures = 1000, true
	play(o, 20)
	if left, _ := o.WallTime(); math.Abs(left.P50-338) > 3 {
		t.Errorf("%v s are left with a K that cannot be foreseen, want 338", left)
	}
}
