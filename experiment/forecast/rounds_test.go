package forecast

import (
	"math"
	"testing"

	"fedpace/coordinator/closing"
	"fedpace/coordinator/round"
)

// Rounds end with their slowest clients, at a deadline or with the first, and between powers
// of two their lengths are on a line.
func TestRoundsThatAreExpected(t *testing.T) {
	apart := func(client, steps int) round.Time { return round.Time(client+1) * round.Time(steps) * 1e9 }
	alike := func(_, steps int) round.Time { return round.Time(steps) * 1e9 }
	never := func(_, _ int) round.Time { return round.MaxDuration }
	for _, x := range []struct {
		name             string
		c                round.Config
		k                int
		seconds, updates float64
	}{
		{"all alike", round.Config{Clients: 30, Cohort: 5, Closing: closing.All{}, Expect: alike}, 8, 8, 5},
		{"all alike, on the line", round.Config{Clients: 30, Cohort: 5, Closing: closing.All{}, Expect: alike}, 11, 11, 5},
		{"a single client", round.Config{Clients: 1, Cohort: 5, Closing: closing.All{}, Expect: apart}, 4, 4, 1},
		{"devices that are drawn", round.Config{Cohort: 2, Closing: closing.All{}, Expect: alike, Devices: round.Devices{Count: 3, Include: round.Sampled}}, 4, 4, 2},
		{"devices alone", round.Config{Closing: closing.All{}, Expect: alike, Devices: round.Devices{Count: 3}}, 4, 4, 3},
		{"nobody", round.Config{Cohort: 2, Closing: closing.All{}, Expect: alike}, 4, 5, 1},
		{"a deadline", round.Config{Clients: 30, Cohort: 5, Closing: closing.Deadline{Seconds: 3}, Expect: alike}, 8, 3, 0},
		{"the first", round.Config{Clients: 30, Cohort: 5, Closing: closing.First{N: 1}, Expect: alike}, 8, 8, 5}, // all come at once
		{"rounds that overlap", round.Config{Clients: 30, Cohort: 6, Closing: closing.Buffered{N: 3}, Expect: alike}, 8, 4, 3},
		{"nothing can be expected", round.Config{Clients: 30, Cohort: 5, Closing: closing.All{}, Expect: never}, 8, 9, 5},
	} {
		if e := meanRounds(&x.c)(x.k); math.Abs(e.length.Seconds()-x.seconds) > 1e-9 || e.updates != x.updates {
			t.Errorf("%s: %v s and %v updates, want %v and %v", x.name, e.length.Seconds(), e.updates, x.seconds, x.updates)
		}
	}
}
