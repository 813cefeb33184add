package round

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"fedpace/coordinator/closing"
)

// Whoever drops out, a round with a quorum closes when its rule in words says so, over 3,000
// random rounds: with the n-th update, or at the deadline if m have come, or with the m-th after
// it; and when nobody is left whom it could wait for.
func TestQuorum_PublishedDropouts(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	ways := map[string]int{}
	for i := range 3000 {
		const cohort = 8
		n := 1 + r.IntN(cohort)
		m, deadline := 1+r.IntN(n), float64(201+2*r.IntN(300))
		share := r.Float64()
		times := r.Perm(600) // no two alike, and none at the deadline
		leaves := make([]bool, cohort)
		var arrivals []float64
		last := 0.0
		for c := range cohort {
			times[c] = 2 * (times[c] + 1)
			leaves[c] = r.Float64() < share
			last = max(last, float64(times[c]))
			if !leaves[c] {
				arrivals = append(arrivals, float64(times[c]))
			}
		}
		slices.Sort(arrivals)
		nth := func(k int) float64 {
			if k > len(arrivals) {
				return math.Inf(1)
			}
			return arrivals[k-1]
		}
		whole, quorum := nth(n), max(deadline, nth(m))
		end := min(whole, quorum, last)
		var want [Outcomes]int
		for c := range cohort {
			switch at := float64(times[c]); {
			case at <= end && leaves[c]:
				want[Dropped]++
			case at <= end:
				want[Accepted]++
			case end < deadline:
				want[Cancelled]++
			default:
				want[Late]++
			}
		}
		switch end {
		case whole:
			ways["n"]++
		case deadline:
			ways["deadline"]++
		case quorum:
			ways["m"]++
		default:
			ways["nobody is left"]++
		}
		c := config()
		c.Cohort, c.Closing, c.Stop.Rounds = cohort, closing.Quorum{N: n, M: m, Seconds: Time(deadline).Seconds()}, 1
		reports, _, _ := play(t, c, rand.New(rand.NewPCG(1, uint64(i))), func(task Task) Plan {
			took := Time(times[task.Task-1])
			return Plan{Compute: took, Drops: leaves[task.Task-1], Dropout: took}
		})
		if got := reports[0]; float64(got.End) != end || got.Outcomes != want {
			t.Fatalf("n %d, m %d, deadline %g, times %v, who leaves %v: closed at %d with %v, want %g with %v",
				n, m, deadline, times[:cohort], leaves, got.End, got.Outcomes, end, want)
		}
	}
	for _, way := range []string{"n", "deadline", "m", "nobody is left"} {
		if ways[way] < 100 {
			t.Errorf("%d rounds close because of %s: the test says little (%v)", ways[way], way, ways)
		}
	}
}
