package selection_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"fedpace/coordinator/selection"
)

// drawn returns all clients in the order of a round.
func drawn(o selection.Order, round int, now selection.Time) (clients []int) {
	o.Start(round, now)
	for {
		client, ok := o.Next()
		if !ok {
			return clients
		}
		clients = append(clients, client)
	}
}

// Over 300 random fleets FLANP's stages are those of Reisizadeh et al. (2022, Algorithm 1): stage s
// has the min(N, 2^s n_0) fastest clients and nobody else, and ends after its rounds.
func TestFlanp_PublishedStages(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	stages := 0
	for fleet := range 300 {
		n := 2 + r.IntN(200)
		begin, rounds := 1+r.IntN(n), 1+r.IntN(4)
		times := r.Perm(10 * n)[:n]
		sorted := slices.Sorted(slices.Values(times))
		order, err := selection.Flanp{Begin: begin, Rounds: rounds}.Order(selection.Setup{
			Seed: uint64(fleet), Clients: n, Cohort: n,
			Samples: func(int) int { return 1 },
			Expect:  func(client, steps int) selection.Time { return selection.Time((times[client] + 1) * steps) },
			Steps:   func(int) int { return 5 },
			Free:    func(int) bool { return true },
		})
		if err != nil {
			t.Fatal(err)
		}
		follows := order.(selection.Following)
		for round := 1; round <= 9*rounds; round++ {
			among := min(float64(n), math.Pow(2, float64((round-1)/rounds))*float64(begin))
			got := drawn(order, round, 0)
			if len(got) != int(among) || slices.ContainsFunc(got, func(c int) bool { return times[c] > sorted[int(among)-1] }) {
				t.Fatalf("fleet %d of %d, n_0 %d, %d rounds a stage: round %d has %d clients, want the %g fastest", fleet, n, begin, rounds, round, len(got), among)
			}
			follows.Closed(round, math.NaN())
		}
		stages += 9
	}
	t.Logf("%d stages", stages)
}

// stay is a time in which a client is there.
type stay struct{ from, to float64 }

// Over 500 random populations the order is that of REFL (Abdelmoniem et al. 2023, Section 4.1): by
// how likely a client is there in [mu, 2 mu] from now, the least first, where the shares of recorded
// stays are added up in float64.
func TestLeastAvailable_Published(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	share := func(stays []stay, from, to float64) (sum float64) {
		for _, s := range stays {
			sum += max(0, min(s.to, to)-max(s.from, from))
		}
		return sum / (to - from)
	}
	for population := range 500 {
		n, mu, now := 2+r.IntN(60), 1+100*r.Float64(), 1000*r.Float64()
		stays := make([][]stay, n)
		for c := range stays {
			for at := 50 * r.ExpFloat64(); at < 2000; {
				to := at + 50*r.ExpFloat64()
				stays[c] = append(stays[c], stay{at, to})
				at = to + 50*r.ExpFloat64()
			}
		}
		o, err := selection.LeastAvailable{Seconds: mu}.Order(selection.Setup{
			Seed: uint64(population), Clients: n, Simulated: n, Cohort: 1,
			AvailableShare: func(client int, from, to selection.Time) float64 {
				return share(stays[client], from.Seconds(), to.Seconds())
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		got := drawn(o, 1, selection.Time(now*1e9))
		want := make([]float64, n)
		for c := range want {
			want[c] = share(stays[c], now+mu, now+2*mu)
		}
		if sorted := slices.Sorted(slices.Values(got)); len(got) != n || sorted[0] != 0 || sorted[n-1] != n-1 {
			t.Fatalf("the order is %v", got)
		}
		for i := range n - 1 {
			if want[got[i]] > want[got[i+1]]+1e-6 { // times are whole nanoseconds
				t.Fatalf("population %d: client %d with %g comes before %d with %g", population, got[i], want[got[i]], got[i+1], want[got[i+1]])
			}
		}
	}
}
