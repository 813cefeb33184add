package schedule

import (
	"math"
	"testing"
)

// A round takes 0.8 s and 0.01 s a step, so computing is 0.8 of it at K* = 4 · 0.8/0.01 = 320, above
// K_0. Of 1.25 ms a step it would be at 4 · 0.02/0.00125 = 64.
func TestAuto_FallsToOneBeforeEnd(t *testing.T) {
	long := Pace{Known: true, Round: 0.8, Step: 0.01}
	short := Pace{Known: true, Round: 0.02, Step: 0.00125}
	line := Auto{Start: 0.8, Until: 0.9, Power: 1}
	curve := Auto{Start: 0.8, Until: 0.9, Power: 2}
	for _, c := range []struct {
		name  string
		rule  Auto
		pace  Pace
		share float64
		round int
		want  int
	}{
		{"nothing is measured", line, Pace{}, 0, 1, 100},
		{"K_0 bounds K*", line, long, 0, 2, 100},
		{"K* is below K_0", line, short, 0, 2, 64},
		{"a third of the way, on a line", line, short, 0.3, 50, 43},    // 64 · 2/3 = 42.7
		{"a third of the way, squared", curve, short, 0.3, 50, 29},     // 64 · 4/9 = 28.4
		{"half of the way, a whole number", line, short, 0.45, 50, 32}, // 64/2
		{"near the end", curve, short, 0.85, 90, 1},                    // 64 · (1/18)² = 0.2
		{"after nine tenths", line, short, 0.95, 90, 1},
		{"computing takes no time", line, Pace{Known: true, Round: 1}, 0, 2, 100},
		{"transfers take no time", line, Pace{Known: true, Step: 1}, 0, 2, 1},
		{"no limit: as rounds, from K*", line, short, math.NaN(), 8, 32}, // 64/cbrt(8)
		{"no limit: rounded up", line, short, math.NaN(), 9, 31},         // 64/2.08 = 30.8
	} {
		p := Progress{Setup: Setup{K0: 100}, Round: c.round, Pace: c.pace, Share: c.share}
		if got := c.rule.LocalSteps(p); got != c.want {
			t.Errorf("%s: K = %d, want %d", c.name, got, c.want)
		}
	}
}

// From a change of the data on, the rest of the run counts as a run of its own.
func TestAuto_RisesAfterChange(t *testing.T) {
	rule := Auto{Start: 0.8, Until: 0.9, Power: 1}
	for _, c := range []struct {
		name        string
		changeShare float64
		share       float64
		round       int
		want        int
	}{
		{"at the change", 0.4, 0.4, 41, 64},
		{"half of the way to 0.9 of the rest", 0.4, 0.67, 68, 32},
		{"after nine tenths of the rest", 0.4, 0.95, 96, 1},
		{"at the end", 1, 1, 101, 1},
		{"an end that was moved", 0.4, 0.2, 41, 64},
		{"no limit: as rounds, from the change on", 0, math.NaN(), 48, 32}, // 64/cbrt(8)
	} {
		p := Progress{
			Setup:  Setup{K0: 100},
			Round:  c.round,
			Pace:   Pace{Known: true, Round: 0.02, Step: 0.00125},
			Share:  c.share,
			Change: Change{Round: 40, Share: c.changeShare},
		}
		if got := rule.LocalSteps(p); got != c.want {
			t.Errorf("%s: K = %d, want %d", c.name, got, c.want)
		}
		if got := rule.Reason(p).ChangeRound; got != 40 {
			t.Errorf("%s: the reason names round %d, want 40", c.name, got)
		}
	}
}

func TestAuto_Reasons(t *testing.T) {
	rule := Auto{Start: 0.8, Until: 0.9, Power: 2}
	p := Progress{Setup: Setup{K0: 100}, Round: 5, Pace: Pace{Known: true, Round: 0.02, Step: 0.00125}, Share: 0.25}
	want := Reason{Pace: p.Pace, Top: 64, Share: 0.25}
	got := rule.Reason(p)
	got.Top = math.Round(got.Top*1e9) / 1e9 // 0.8 is no binary fraction
	if got != want {
		t.Errorf("the reason is %+v, want %+v", got, want)
	}
	if got := rule.Reason(Progress{Setup: Setup{K0: 100}, Round: 1}); got != (Reason{}) {
		t.Errorf("before the first measurement the reason is %+v", got)
	}
}
