package problem

import (
	"math"
	"testing"

	"fedpace/coordinator/round"
	"fedpace/experiment/runtest"
)

// The share of a time in which a client is there is the one that many looks find.
func TestAvailable_ShareOfTime(t *testing.T) {
	t.Parallel()
	p, err := Prepare(t.Context(), runtest.Stragglers(t, "train=false", "availability={model: markov, on_seconds: 20, off_seconds: 30}"), false, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	const second = round.Time(1e9)
	seen := map[float64]bool{}
	for client := range 40 {
		for _, from := range []round.Time{0, 7 * second, 1000 * second} {
			const looks = 5000
			to, there := from+60*second, 0.0
			for i := range looks {
				if p.Fleet.Available(client, int64(from)+int64(i)*int64(to-from)/looks) {
					there++
				}
			}
			got := p.availableShare(client, from, to)
			if math.Abs(got-there/looks) > 0.01 {
				t.Errorf("client %d is there for %g of the time from %v, %d looks find %g", client, got, from, looks, there/looks)
			}
			seen[got] = true
		}
	}
	if len(seen) < 60 {
		t.Errorf("%d shares: the test says little", len(seen))
	}
}
