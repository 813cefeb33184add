package privacy

import (
	"math"
	"testing"
)

// The figures for σ = 2, sensitivity 1 and δ = 1e-5: by concentrated differential privacy and Rényi
// orders 2.166, by the simple formula 2.524, and by the exact curve of the Gaussian mechanism 1.993. The
// discrete Gaussian of so coarse a grid costs more than that by its own exact curve, 2.011: the Gaussian's
// figure holds for grids so fine that Distance is small beside δ.
func TestEpsilon_OfSigmaTwo(t *testing.T) {
	s := DiscreteSum{Clients: 1, Deviation: 2, Sensitivity: 1, Values: 1}
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"zCDP", ConcentratedEpsilon(s.Ratio(), 1, 1e-5), 2.166},
		{"simple", SimpleEpsilon(s.Ratio(), 1, 1e-5), 2.524},
		{"Gaussian", gaussianEpsilon(0.5, 1e-5), 1.993},
		{"discrete Gaussian", exactEpsilon(weights(2, 60), 1, 1e-5), 2.011},
	} {
		if math.Abs(c.got-c.want) > 5e-4 {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
	if s.Distance() < 1e-5 {
		t.Errorf("the distance from a Gaussian is %g", s.Distance())
	}
	// On the grid of runs the discrete Gaussian has the Gaussian's figure: 200 steps tell already.
	fine := exactEpsilon(weights(400, 6000), 200, 1e-5)
	if math.Abs(fine-1.993) > 5e-4 {
		t.Errorf("σ of 400 steps, moved by 200: %v, want 1.993", fine)
	}
}

// exactEpsilon returns the epsilon of a distribution and the same moved by a number of places, by sums
// of all probabilities.
func exactEpsilon(p []float64, moved int, delta float64) float64 {
	low := 0.0
	high := 100.0
	for range 100 {
		middle := (low + high) / 2
		sum := 0.0
		for i := range p {
			other := 0.0
			if i >= moved {
				other = p[i-moved]
			}
			sum += max(0, p[i]-math.Exp(middle)*other)
		}
		if sum > delta {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

// convolve returns the distribution of the sum of n independent numbers of one distribution.
func convolve(p []float64, n int) []float64 {
	sum := p
	for range n - 1 {
		next := make([]float64, len(sum)+len(p)-1)
		for i, a := range sum {
			for j, b := range p {
				next[i+j] += a * b
			}
		}
		sum = next
	}
	return sum
}

// The sum of discrete Gaussians is none: with σ = 0.5 its Rényi divergence from the same moved by one is
// above that of a discrete Gaussian of the same deviation, and below the paper's bound.
func TestDiscreteSum_PaperBound(t *testing.T) {
	for _, c := range []struct {
		sigma   float64
		clients int
	}{{0.5, 2}, {0.5, 5}, {0.7, 3}, {1, 4}} {
		s := DiscreteSum{Clients: c.clients, Deviation: c.sigma, Sensitivity: 1, Values: 1}
		sum := convolve(weights(c.sigma, 12), c.clients)
		for _, order := range []float64{1.5, 2, 4, 8} {
			moment := 0.0
			for i := 1; i < len(sum); i++ {
				if sum[i] > 1e-300 && sum[i-1] > 1e-300 {
					moment += math.Pow(sum[i], order) * math.Pow(sum[i-1], 1-order)
				}
			}
			divergence := math.Log(moment) / (order - 1)
			bound := order * s.Ratio() * s.Ratio() / 2
			if divergence > bound {
				t.Errorf("σ %g of %d, order %g: divergence %.6f above the bound %.6f",
					c.sigma, c.clients, order, divergence, bound)
			}
		}
	}
}

// The distance from the rounded Gaussian is within its bound, of one client and of a sum.
func TestDiscreteSum_Distance(t *testing.T) {
	for _, c := range []struct {
		sigma   float64
		clients int
	}{{1, 1}, {3, 1}, {2, 4}} {
		s := DiscreteSum{Clients: c.clients, Deviation: c.sigma, Sensitivity: 1, Values: 1}
		most := int(12 * c.sigma)
		sum := convolve(weights(c.sigma, most), c.clients)
		deviation := c.sigma * math.Sqrt(float64(c.clients))
		distance := 0.0
		for i, p := range sum {
			x := float64(i - len(sum)/2)
			cell := (math.Erf((x+0.5)/deviation/math.Sqrt2) - math.Erf((x-0.5)/deviation/math.Sqrt2)) / 2
			distance += max(0, p-cell)
		}
		if bound := s.Distance(); distance > bound || distance < bound/20 {
			t.Errorf("σ %g of %d: distance %g, bound %g", c.sigma, c.clients, distance, bound)
		}
	}
}

// Rounds and noise enter as in the Gaussian mechanism, whose exact curve is below.
func TestConcentratedEpsilon_AboveExactCurve(t *testing.T) {
	for _, rounds := range []int{1, 10, 100} {
		for _, ratio := range []float64{0.1, 0.5, 2} {
			exact := gaussianEpsilon(math.Sqrt(float64(rounds))*ratio, 1e-5)
			got := ConcentratedEpsilon(ratio, rounds, 1e-5)
			simple := SimpleEpsilon(ratio, rounds, 1e-5)
			if got < exact || got > simple || got > 1.3*exact {
				t.Errorf("%d rounds, ratio %g: %g, exact %g, simple %g", rounds, ratio, got, exact, simple)
			}
		}
	}
	if ConcentratedEpsilon(1, 0, 1e-5) != 0 {
		t.Error("no rounds cost something")
	}
}
