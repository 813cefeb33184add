package selection

import (
	"math"
	"slices"
	"testing"
)

// orderOf returns the order of a selection among clients that are always free and have ten samples. Client c takes
// times[c] for any task.
func orderOf[T Order](t *testing.T, s Rule, cohort int, times ...Time) T {
	t.Helper()
	order, err := s.Order(Setup{
		Seed: 3, Clients: len(times), Cohort: cohort,
		Samples: func(int) int { return 10 },
		Expect:  func(client, _ int) Time { return times[client] },
		Steps:   func(int) int { return 8 },
		Free:    func(int) bool { return true },
	})
	if err != nil {
		t.Fatal(err)
	}
	return order.(T)
}

// cohortOf returns the first n clients of a round's order.
func cohortOf(o Order, round, n int) (clients []int) {
	o.Start(round, 0)
	for len(clients) < n {
		client, ok := o.Next()
		if !ok {
			break
		}
		clients = append(clients, client)
	}
	return clients
}

// fair fails the test unless counts fit the expected numbers: chi-square within five standard deviations. A count of
// which none is expected must be 0.
func fair(t *testing.T, what string, got []int, want []float64) {
	t.Helper()
	chi, cells := 0.0, -1.0
	for i, e := range want {
		if e == 0 {
			if got[i] != 0 {
				t.Errorf("%s: %d of a kind that there should not be: %v for %v", what, got[i], got, want)
			}
			continue
		}
		chi += (float64(got[i]) - e) * (float64(got[i]) - e) / e
		cells++
	}
	if limit := 5 * math.Sqrt(2*cells); cells < 1 || chi-cells > limit {
		t.Errorf("%s: chi-square %.1f, want %.0f ± %.1f: %v for %v", what, chi, cells, limit, got, want)
	}
}

// closed is the report of a round with a training loss.

// The fastest n_0 are 4, 1; their number doubles until it is that of all. Cohorts
// are uniform among them, and all of them where they are no more than the cohort.
func TestFlanp_FastestFirst(t *testing.T) {
	times := []Time{50, 20, 70, 30, 10, 40, 60}
	for r, want := range map[int][]int{1: {1, 4}, 4: {1, 3, 4, 5}, 7: {0, 1, 2, 3, 4, 5, 6}, 10: {0, 1, 2, 3, 4, 5, 6}} {
		o := orderOf[*growing](t, Flanp{Begin: 2, Rounds: 3}, 3, times...)
		for i := 1; i < r; i++ {
			o.Closed(i, math.NaN())
		}
		if got := slices.Sorted(slices.Values(cohortOf(o, r, 9))); !slices.Equal(got, want) {
			t.Errorf("round %d asks %v, want %v", r, got, want)
		}
	}
	o := orderOf[*growing](t, Flanp{Begin: 2, Rounds: 3}, 3, times...)
	for range 3 {
		o.Closed(1, 1)
	}
	const rounds = 20_000
	count := make([]int, len(times))
	for r := range rounds {
		for _, client := range cohortOf(o, r+1, 3) {
			count[client]++
		}
	}
	each := 3. / 4 * rounds
	fair(t, "three of four clients", count, []float64{0, each, 0, each, each, each, 0})
}

// A stage ends when in Patience rounds the loss did not come 10 % below its best.
// The best is that of the stage; a round without a loss counts for nothing.
func TestFlanp_StageEndsAtPlateau(t *testing.T) {
	o := orderOf[*growing](t, Flanp{Begin: 1, Patience: 2, MinDelta: 0.1}, 4, 1, 2, 3, 4)
	for i, x := range []struct {
		loss, best float64
		clients    int
	}{
		{2, 2, 1},
		{1.81, 2, 1}, // less than 1.8 would have done
		{1.79, 1.79, 1},
		{1.7, 1.79, 1},
		{1.65, 0, 2}, // twice not below 1.611
		{5, 5, 2},
		{math.NaN(), 5, 2},
		{4.6, 5, 2},
		{4.4, 4.4, 2},
		{4.4, 4.4, 2},
		{3.97, 0, 4}, // less than 3.96 would have done
		{9, 0, 4},    // all take part
	} {
		o.Closed(i+1, x.loss)
		if got := o.Among; got != x.clients || o.Best != x.best {
			t.Errorf("after loss %v, the %d., %d clients and best loss %v, want %d and %v", x.loss, i+1, got, o.Best, x.clients, x.best)
		}
	}
}
