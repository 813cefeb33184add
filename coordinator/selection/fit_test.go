package selection

import (
	"testing"

	"pgregory.net/rapid"
)

// K is the largest that fits, and never above K_r or below 1.
func TestFit_LargestK(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		per := rapid.IntRange(0, 30).Draw(t, "per step")
		s := Setup{Deadline: Time(rapid.IntRange(1, 500).Draw(t, "deadline"))}
		s.Expect = func(client, k int) Time { return Time(client + k*per) }
		fixed, most := rapid.IntRange(0, 600).Draw(t, "transfers"), rapid.IntRange(1, 90).Draw(t, "K_r")
		want := 1
		for k := range most + 1 {
			if k > 0 && s.Expect(fixed, k) <= s.Deadline {
				want = k
			}
		}
		if got := (Fit{}).Limit(&s, fixed, most); got != want {
			t.Fatalf("K is %d, want %d", got, want)
		}
	})
}

// A summary speaks of no deadline where there may be none.
func TestFit_Cohort(t *testing.T) {
	if got, want := (Fit{Base: RoundRobin{}}).String(), "in turn, with local steps that fit the round"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A client that cannot make the deadline with the fewest steps is left out; if the
// fewest are 0 it is asked for one.
func TestFit_LeavesOutTooSlow(t *testing.T) {
	s := Setup{Deadline: 100, Expect: func(client, k int) Time { return Time(client + 10*k) }}
	for _, x := range []struct{ least, client, k, want int }{
		{1, 20, 8, 8}, {1, 21, 8, 7}, {1, 90, 8, 1}, {1, 91, 8, 0}, {0, 91, 8, 1},
		{5, 50, 8, 5}, {5, 51, 8, 0}, {5, 60, 4, 4}, {5, 61, 4, 0},
	} {
		if got := (Fit{MinSteps: x.least}).Limit(&s, x.client, x.k); got != x.want {
			t.Errorf("least %d: client %d does %d of %d steps, want %d", x.least, x.client, got, x.k, x.want)
		}
	}
}
