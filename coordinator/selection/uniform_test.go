package selection

import (
	"math"
	"slices"
	"testing"
)

// Algorithm 1, line 3: a cohort is drawn uniformly without replacement. Over
// many rounds each client is drawn equally often (chi-square, five standard
// deviations), each pair of places is distinct, and the draw is keyed.
func TestUniform_WithoutReplacement(t *testing.T) {
	const clients, n, rounds = 50, 20, 20_000
	var c cohort
	count := make([]float64, clients)
	for r := range rounds {
		drawn := c.draw(7, r, n, clients)
		sorted := slices.Sorted(slices.Values(drawn))
		if len(slices.Compact(sorted)) != n {
			t.Fatalf("round %d draws a client twice: %v", r, drawn)
		}
		for _, client := range drawn {
			count[client]++
		}
	}
	expected := float64(rounds*n) / clients
	// Without replacement a count varies by (1 - n/clients) of a binomial's.
	chi := 0.0
	for _, k := range count {
		chi += (k - expected) * (k - expected) / (expected * (1 - float64(n)/clients))
	}
	if limit := 5 * math.Sqrt(2*(clients-1)); math.Abs(chi-(clients-1)) > limit {
		t.Errorf("chi-square %.1f, want %d ± %.1f", chi, clients-1, limit)
	}
	var d cohort
	if !slices.Equal(c.draw(7, 3, n, clients), d.draw(7, 3, n, clients)) {
		t.Error("a cohort depends on those drawn before")
	}
	if slices.Equal(slices.Clone(c.draw(7, 3, n, clients)), c.draw(8, 3, n, clients)) {
		t.Error("the seed does not count")
	}
}

func TestUniform_Everybody(t *testing.T) {
	var c cohort
	got := slices.Sorted(slices.Values(c.draw(1, 1, 10, 10)))
	for i, client := range got {
		if client != i {
			t.Fatalf("a cohort of all is %v", got)
		}
	}
}

// draw returns the first n clients of a round's order.
func (c *cohort) draw(seed uint64, round, n, clients int) []int {
	if c.Shuffle == nil || c.Len() != clients {
		*c = newCohort(seed, clients)
	}
	c.Seed = seed
	c.Start(round, 0)
	var drawn []int
	for range n {
		client, _ := c.Next()
		drawn = append(drawn, client)
	}
	return drawn
}
