package attacktest

import (
	"math"
	"testing"
)

func TestFalseLoss_Formula(t *testing.T) {
	for _, test := range []struct {
		attack       FalseLoss
		honest, want float64
	}{
		{FalseLoss{Factor: 10, Exponent: 1}, 2.5, 25},
		{FalseLoss{Factor: 0.5, Exponent: 1, Offset: 3}, 4, 5},
		{FalseLoss{Factor: 0, Exponent: 1, Offset: 7}, 123, 7},
		{FalseLoss{Factor: 0.5, Exponent: 3}, 2, 4},
		{FalseLoss{Factor: 2, Exponent: 3}, -2, -4},                   // a quadratic's loss may be below 0
		{FalseLoss{Factor: 1e6, Exponent: 1}, 1e305, math.MaxFloat64}, // finite, whatever is multiplied
		{FalseLoss{Factor: 0, Exponent: 9, Offset: 1}, 1e305, 1},      // or raised
	} {
		if got := test.attack.Behaviour().Loss(test.honest); math.Abs(got-test.want) > 1e-15*math.Abs(test.want) {
			t.Errorf("%+v of %g tells %g, want %g", test.attack, test.honest, got, test.want)
		}
	}
}

func TestLate_Times(t *testing.T) {
	for _, test := range []struct {
		late                   Late
		honest, deadline, want int64
	}{
		{Late{Factor: 3}, 10, 0, 30},
		{Late{Factor: 1.25}, 10, 5, 12},                // it heeds none; 12.5 rounds to even
		{Late{Factor: 3, Deadline: 0.9}, 10, 20, 18},   // done just before the deadline
		{Late{Factor: 3, Deadline: 0.9}, 19, 20, 19},   // an honest client would not be sooner
		{Late{Factor: 3, Deadline: 0.9}, 1, 20, 3},     // the factor ends it
		{Late{Factor: 3, Deadline: 0.9}, 10, 0, 30},    // rounds without a deadline
		{Late{Factor: 1e6}, 1 << 57, 0, 1 << 62},       // too long for any clock, and no overflow
		{Late{Factor: 1e6, Deadline: 1}, 10, 1e9, 1e7}, // 1e6 times
	} {
		if got := test.late.Behaviour().Time(test.honest, test.deadline); got != test.want {
			t.Errorf("%+v of %d with deadline %d takes %d, want %d", test.late, test.honest, test.deadline, got, test.want)
		}
	}
	if !(Late{Deadline: 0.5}).Needs().Deadline || (Late{}).Needs().Deadline {
		t.Error("only what heeds a deadline needs one")
	}
}
