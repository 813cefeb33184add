package combine

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"fedpace/algorithm"
)

// Krum chooses by exact differences, also where updates are small beside the model: of values around 1e4
// that differ by 1e-3, as in findings/flwr-krum-float32.sh. The right choice is computed here from the
// float32 models in float64, which holds their differences exactly.
func TestPeers_KrumOfSmallUpdates(t *testing.T) {
	for seed := range uint64(50) {
		draws := rand.New(rand.NewPCG(seed, 0))
		const n, size, liars = 8, 50, 2
		base := slices.Repeat([]float32{1e4}, size)
		models := make([][]float32, n)
		updates := make([][]int64, n)
		for i := range models {
			for range size {
				models[i] = append(models[i], float32(1e4+1e-3*draws.NormFloat64()))
			}
			updates[i] = make([]int64, size)
			if err := algorithm.Add(updates[i], 1, models[i], base); err != nil {
				t.Fatal(err)
			}
		}
		best, lowest := 0, math.Inf(1)
		for i := range models {
			var distances []float64
			for j := range models {
				if i == j {
					continue
				}
				sum := 0.0
				for k := range size {
					d := float64(models[i][k]) - float64(models[j][k])
					sum += d * d
				}
				distances = append(distances, sum)
			}
			slices.Sort(distances)
			score := 0.0
			for _, d := range distances[:n-liars-2] {
				score += d
			}
			if score < lowest {
				best, lowest = i, score
			}
		}
		got := make([]int64, size)
		Krum{Byzantine: Byzantine{0.25}}.Combine(got, updates, algorithm.Equal(n))
		if !slices.Equal(got, updates[best]) {
			t.Errorf("seed %d: it does not choose update %d", seed, best)
		}
	}
}
