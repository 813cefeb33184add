package federated

import (
	"math/rand/v2"
	"testing"
)

// Which samples are there, and when a client gets its first or loses its last, is what a look at every
// sample and every time says.
func TestArrivals_EveryTime(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for trial := range 200 {
		s := &Grouped{Names: []string{"a", "b", "c"}, Starts: []int{0, 4, 5, 9}, Train: []int32{8, 1, 2, 3, 4, 5, 6, 7, 0}, Held: []int32{9, 10, 11}}
		times := make([]float64, 12)
		for i := range times {
			times[i] = float64(r.IntN(40) - 5)
		}
		rule := Arrival{Column: "at", Start: 3, Speed: 0.5}
		if trial%2 == 1 {
			rule.Window = float64(1 + r.IntN(9))
		}
		if err := s.SetTimes(times, rule); err != nil {
			continue
		}
		a := s.Arrivals(2)
		isThere := func(sample int32, at float64) bool {
			arrival := (times[sample] - 3) / 0.5
			return arrival <= at && (rule.Window == 0 || at < arrival+rule.Window)
		}
		count := func(samples []int32, at float64) (n int) {
			for _, sample := range samples {
				if isThere(sample, at) {
					n++
				}
			}
			return n
		}
		const second = 1e9
		changes := map[int64]bool{}
		for at := int64(0); at < 120; at++ {
			for client := range 3 {
				list := s.Train[s.Starts[client]:s.Starts[client+1]]
				first, n := a.Samples(client, at*second)
				if n != count(list, float64(at)) || n > 0 && count(list[first:first+n], float64(at)) != n {
					t.Fatalf("trial %d, client %d at %d s: %d samples from %d on of %v", trial, client, at, n, first, times)
				}
				hadNone, hasNone := count(list, float64(at-1)) == 0, n == 0
				if client < 2 && hadNone != hasNone {
					changes[at] = true
				}
			}
			if _, n := a.HeldOut(at * second); n != count(s.Held, float64(at)) {
				t.Fatalf("trial %d at %d s: %d held-out samples", trial, at, n)
			}
		}
		for at := int64(0); at < 119; at++ {
			next, ok := a.NextChange(at * second)
			want := at + 1
			for want < 120 && !changes[want] {
				want++
			}
			if ok != (want < 120) || ok && next != want*second {
				t.Fatalf("trial %d at %d s: the next change is at %d (%t), want %d s", trial, at, next, ok, want)
			}
		}
	}
}
