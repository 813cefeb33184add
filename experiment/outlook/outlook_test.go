package outlook

import (
	"math"
	"testing"

	"fedpace/actors/measure"
	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
)

func setup(rounds int, virtual float64) Setup {
	return Setup{
		K: schedule.FixedK{K0: 10}, Eta: schedule.FixedEta{Eta0: 1}, Steps: func(k int) int { return k }, Rounds: rounds, Virtual: virtual,
		Expect: func(k int) (float64, float64) { return 1 + float64(k), 5 }, Train: true, Batch: 10,
		Evaluate: measure.Timetable{Every: 10}, HeldOut: 300,
	}
}

// play has an outlook see n rounds of 10 steps, each 22 virtual seconds long and of 6 clients,
// which take 3 s to be trained in a round of 4 s; an evaluation takes 2 s more.
func play(o *Outlook, n int) {
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

func TestWhatIsLeftOfEqualRounds(t *testing.T) {
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
		o := New(setup(test.rounds, test.virtual))
		if _, known := o.Left(); known {
			t.Errorf("%s: something is known before the first round", test.name)
		}
		play(o, 20)
		if left, known := o.Left(); !known || math.Abs(left-test.want) > 0.01*test.want {
			t.Errorf("%s: %v s are left, %v, want %v", test.name, left, known, test.want)
		}
	}
	o := New(setup(0, 0))
	play(o, 20)
	if _, known := o.Left(); known {
		t.Error("something is known of a run whose end is not")
	}
}

// A paced run cannot be faster than its pace, and what follows its measurements keeps its K.
func TestWhatIsLeftOfOthers(t *testing.T) {
	s := setup(100, 0)
	s.Pace = 2
	o := New(s)
	play(o, 20)
	if left, _ := o.Left(); math.Abs(left-80*11) > 1 {
		t.Errorf("%v s are left at a pace of 2, want 880", left)
	}
	s = setup(100, 0)
	s.K, s.Follows = schedule.FixedK{K0: 1000}, true
	o = New(s)
	play(o, 20)
	if left, _ := o.Left(); math.Abs(left-338) > 3 {
		t.Errorf("%v s are left with a K that cannot be foreseen, want 338", left)
	}
}

// Costs are found where causes vary, and are the guess where they do not.
func TestCosts(t *testing.T) {
	var varied, constant fit
	for n := range 20 {
		steps := float64(100 - 4*n)
		varied.add(vector{10, steps}, 10*0.3+steps*0.02)
		constant.add(vector{10, 100}, 3)
	}
	if c := varied.costs(varied.proportional(vector{2, 1})); math.Abs(c[0]-0.3) > 0.01 || math.Abs(c[1]-0.02) > 0.001 {
		t.Errorf("costs %v, want 0.3 and 0.02", c)
	}
	if c := constant.costs(constant.proportional(vector{2, 1})); math.Abs(c[0]-0.05) > 1e-6 || math.Abs(c[1]-0.025) > 1e-6 {
		t.Errorf("costs %v, want 0.05 and 0.025", c)
	}
	var none fit
	none.add(vector{}, 1)
	if c := none.costs(none.proportional(vector{2, 1})); c != (vector{}) {
		t.Errorf("nothing costs %v", c)
	}
}
