package privacy

import (
	"fmt"
	"math"
	"math/bits"
	"testing"

	"fedpace/internal/keyed"
)

// What TensorFlow Privacy's tests (dp_accounting, test_compute_rdp_poisson_sampled_gaussian)
// and those of Opacus (accountants_test.py, test_rdp_accountant) expect, as quoted there.
func TestAccountant_PublishedValues(t *testing.T) {
	for order, want := range map[float64]float64{5: 2.1808e-03, 50: 2.3846e-02, 100: 1.6742e+02} {
		if got := 50 * Divergence(order, 0.01, 2.5); math.Abs(got/want-1) > 1e-4 {
			t.Errorf("divergence of order %g is %.5g, want %.5g", order, got, want)
		}
	}
	// Opacus is at the best of 1.1, 1.2, …, with broken orders exact.
	a := NewAccountant(1.5, Draw{Rate: 0.04})
	if got, want := a.Epsilon(2250, 1e-5), 7.32911117143; math.Abs(got/want-1) > 2e-6 {
		t.Errorf("epsilon %.6g, want %.6g", got, want)
	}
	for order := 2.; order < 33; order++ { // a pure 1.1, of which the best is the largest order
		if got, want := epsilonFromDivergence(1.1, order, 1e-5), 1.32783806176; got < want-1e-11 || order == 32 && got > want+1e-11 {
			t.Errorf("epsilon %.12g at order %g, want %.12g at order 32", got, order, want)
		}
	}
}

// integral is the divergence by its definition: 1/(α−1) ln ∫ p^α q^(1−α), by the
// trapezoidal rule, which converges faster than any power for such functions.
func integral(order, q, sigma float64) float64 {
	density := func(x, mean float64) float64 {
		return math.Exp(-(x-mean)*(x-mean)/(2*sigma*sigma)) / (sigma * math.Sqrt(2*math.Pi))
	}
	// Where the integrand lives: about the means 0 to α, and some deviations around.
	const steps = 200_000
	from, to := -12*sigma, order+12*sigma
	width, sum := (to-from)/steps, 0.0
	for i := range steps + 1 {
		x := from + float64(i)*width
		ratio := (1 - q) + q*math.Exp((2*x-1)/(2*sigma*sigma))
		sum += density(x, 0) * math.Pow(ratio, order) * width
	}
	return math.Log(sum) / (order - 1)
}

func TestAccountant_DivergenceIsIntegral(t *testing.T) {
	for _, c := range []struct{ order, q, sigma float64 }{
		{2, 0.01, 1}, {3, 0.1, 0.7}, {8, 0.004, 1.1}, {20, 0.05, 2}, {64, 0.2, 5}, {5, 0.9, 1.5}, {2, 1, 3}, {7.5, 1, 2},
	} {
		got, want := Divergence(c.order, c.q, c.sigma), integral(c.order, c.q, c.sigma)
		if math.Abs(got-want) > 1e-9+1e-7*want {
			t.Errorf("%v: %.10g, by integration %.10g", c, got, want)
		}
	}
	for _, c := range []struct{ order, q, sigma float64 }{{1.1, 0.1, 1}, {1.5, 0.01, 2}, {2.5, 0.04, 1.5}, {6.3, 0.1, 1}, {1.3, 0.9, 0.5}, {1.001, 0.1, 0.35}, {10.9, 0.01, 8}} {
		got, want := Divergence(c.order, c.q, c.sigma), integral(c.order, c.q, c.sigma)
		if math.Abs(got-want) > 1e-10+1e-7*want {
			t.Errorf("%v: %.10g, by integration %.10g", c, got, want)
		}
	}
	// Of whole orders the integral is the closed sum, also far out, where neither fits a float64.
	for _, sigma := range []float64{0.005, 0.02, 0.04, 0.15, 0.5, 1, 20} {
		for _, q := range []float64{1e-6, 0.01, 0.5, 0.999} {
			for _, order := range []float64{2, 3, 9} {
				if got, want := logMomentByIntegral(order, q, sigma), logMomentBySum(int(order), q, sigma); math.Abs(got/want-1) > 1e-9 {
					t.Errorf("order %g, q %g, sigma %g: %.12g, the sum is %.12g", order, q, sigma, got, want)
				}
			}
		}
	}
}

// With little noise the best orders are below 2. The figures are those of Mironov, Talwar and Zhang
// (2019, section 3.3) at broken orders, worked out apart from this program; and no figure is above
// that of the rounds without a secret draw.
func TestAccountant_LittleNoise(t *testing.T) {
	for _, c := range []struct {
		noise, rate float64
		rounds      int
		delta, want float64
	}{{0.7, 0.01, 1000, 1e-6, 54}, {0.3, 0.1, 40, 1e-4, 296.4}} {
		got := NewAccountant(c.noise, Draw{Rate: c.rate, Displaces: true}).Epsilon(c.rounds, c.delta)
		if math.Abs(got-c.want) > 0.5 {
			t.Errorf("noise %g, rate %g: epsilon %g, want %g", c.noise, c.rate, got, c.want)
		}
	}
	for _, noise := range []float64{0.01, 0.1, 1, 10} {
		a, all := NewAccountant(noise, Draw{Rate: 0.999, Displaces: true}), LocalEpsilon(noise, 40, 1e-4)
		if got := a.Epsilon(40, 1e-4); got > all {
			t.Errorf("noise %g: epsilon %g of a draw, %g without one", noise, got, all)
		}
	}
}

// mixture is the density of the mean of cohorts of a size, drawn uniformly, with noise.
func mixture(updates []float64, cohort int, sigma float64) func(x float64) float64 {
	var sums []float64
	for set := range 1 << len(updates) {
		if bits.OnesCount(uint(set)) != cohort {
			continue
		}
		sum := 0.0
		for i, u := range updates {
			if set>>i&1 == 1 {
				sum += u
			}
		}
		sums = append(sums, sum)
	}
	return func(x float64) (density float64) {
		for _, sum := range sums {
			density += math.Exp(-(x-sum)*(x-sum)/(2*sigma*sigma)) / (sigma * math.Sqrt(2*math.Pi)) / float64(len(sums))
		}
		return density
	}
}

// between is the divergence of one density from another.
func between(p, q func(float64) float64, order float64) float64 {
	const steps, far = 20_000, 40.0
	sum := 0.0
	for i := range steps + 1 {
		x := (float64(i)/steps*2 - 1) * far
		if q := q(x); q > 0 {
			sum += q * math.Pow(p(x)/q, order) * (2 * far / steps)
		}
	}
	return math.Log(sum) / (order - 1)
}

// Cohorts of 2 with one client more of 6, over all that they may be drawn to: with any
// updates, in both directions, the divergence is within the bound, and with the worst ones
// above that of Poisson samples.
func TestAccountant_FixedCohortBound(t *testing.T) {
	const clients, cohort, sigma = 6, 2, 1.7
	draw := Draw{Rate: float64(cohort) / clients, Displaces: true}
	fixed, poisson := NewAccountant(sigma, draw), NewAccountant(sigma, Draw{Rate: draw.Rate})
	worst := []float64{-1, -1, -1, -1, -1, 1} // the last is the one more
	check := func(updates []float64) (beyond bool) {
		with, without := mixture(updates, cohort, sigma), mixture(updates[:clients-1], cohort, sigma)
		for i, order := range orders {
			if order != 1.5 && order != 2 && order != 5 && order != 12 {
				continue
			}
			got := max(between(with, without, order), between(without, with, order))
			if got > fixed.divergence[i]+1e-9 {
				t.Errorf("%v: the divergence of order %g is %g, the bound is %g", updates, order, got, fixed.divergence[i])
			}
			beyond = beyond || got > poisson.divergence[i]
		}
		return beyond
	}
	if !check(worst) {
		t.Error("the figure of Poisson samples holds for cohorts of a fixed size, too")
	}
	for n := range uint64(20) {
		updates := make([]float64, clients)
		for i := range updates {
			updates[i] = 2*keyed.Float64(keyed.Hash(1, keyed.Cohort, n, uint64(i))) - 1
		}
		check(updates)
	}
}

func TestEpsilon(t *testing.T) {
	everybody := NewAccountant(4, Draw{Rate: 1})
	displaced := NewAccountant(8, Draw{Rate: 1, Displaces: true})
	if a, b := everybody.Epsilon(10, 1e-5), displaced.Epsilon(10, 1e-5); a != b {
		t.Errorf("twice the noise for twice the difference: %g and %g", a, b)
	}
	// The analytic Gaussian mechanism at the same delta is the least that any accountant
	// may say: Φ(1/2s − εs) − e^ε Φ(−1/2s − εs) with s = σ/√rounds (Balle, Wang 2018).
	phi := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	for _, rounds := range []int{1, 10, 100, 1000} {
		s, epsilon := 4/math.Sqrt(float64(rounds)), everybody.Epsilon(rounds, 1e-5)
		exact := func(e float64) float64 { return phi(1/(2*s)-e*s) - math.Exp(e)*phi(-1/(2*s)-e*s) }
		if exact(epsilon) > 1e-5 || exact(0.8*epsilon) < 1e-5 {
			t.Errorf("%d rounds: epsilon %g, of delta %g, and of %g a fifth lower", rounds, epsilon, exact(epsilon), exact(0.8*epsilon))
		}
	}
	if got := everybody.Epsilon(0, 1e-5); got != 0 {
		t.Errorf("no round costs %g", got)
	}
	sampled := NewAccountant(1.1, Draw{Rate: 0.01, Displaces: true})
	before := 0.0
	for rounds := 1; rounds < 5000; rounds *= 3 {
		now := sampled.Epsilon(rounds, 1e-6)
		if now < before {
			t.Errorf("%d rounds cost %g, fewer cost %g", rounds, now, before)
		}
		before = now
		if most := sampled.Rounds(now, 1e-6, 1_000_000); most < rounds || sampled.Epsilon(most+1, 1e-6) <= now {
			t.Errorf("epsilon %g is said to allow %d rounds, %d keep to it", now, most, rounds)
		}
	}
}

func TestRoundUp(t *testing.T) {
	for x, want := range map[float64]float64{0: 0, 1: 1, 1.2345678: 1.23457, 9.999999: 10, 123456.7: 123457} {
		if got := RoundUp(x); fmt.Sprintf("%.9g", got) != fmt.Sprintf("%.9g", want) {
			t.Errorf("%.9g becomes %.9g, want %.9g", x, got, want)
		}
	}
}

func ExampleAccountant() {
	a := NewAccountant(2, Draw{Rate: 0.01, Displaces: true})
	fmt.Printf("epsilon %.3g; %d rounds keep to 2\n", a.Epsilon(100, 1e-5), a.Rounds(2, 1e-5, 10_000))
	// Output: epsilon 1.21; 881 rounds keep to 2
}
