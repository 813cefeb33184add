package aggregate

import (
	"testing"

	"fedpace/algorithm"
)

// The weight of an update that is s rounds old is the whole number nearest to 1024/√(1+s).
func TestFreshness_WholeNumbers(t *testing.T) {
	rule := algorithm.FedAvg{Rate: 1, Staleness: algorithm.Staleness{Exponent: 0.5}}
	a := &Aggregator{
		learning:  Learning{Secure: &Secure{Shift: 14, MaxWeight: 1, FreshFactor: 1024}},
		algorithm: &algorithm.Instance{Algorithm: rule},
	}
	for staleness, want := range map[int]uint64{0: 1024, 1: 724, 2: 591, 3: 512, 8: 341, 5_000_000: 1} {
		if got := a.FreshnessFactor(staleness); got != want {
			t.Errorf("%d rounds old: %d, want %d", staleness, got, want)
		}
	}
	a.learning.Secure.FreshFactor = 1
	if got := a.FreshnessFactor(0); got != 1 {
		t.Errorf("without rounds that overlap the factor is %d, want 1", got)
	}
}
