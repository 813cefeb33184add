package schedule_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"fedpace/coordinator/schedule"
)

// Over 2,000 random histories AdaComm's K is that of the rule in Wang and Joshi (2019, Section 4),
// in float64: at the first round of each interval of T_0 it is ceil(sqrt(F/F_0) K_0) if that is
// less than the last K, else gamma times the last K, rounded up.
func TestAdaComm_Published(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	changes := [3]int{}
	for history := range 2000 {
		k0, gamma, interval := 1+r.IntN(200), 0.05+0.95*r.Float64(), 1+100*r.Float64()
		s := schedule.AdaComm{Seconds: interval, Gamma: gamma}
		want, at, begun, loss := k0, 0.0, 0.0, 1.0
		last := schedule.Decision{}
		for n := 1; n <= 40; n++ {
			loss *= math.Exp(0.3*r.NormFloat64() - 0.1)
			if math.Floor(at/interval) > begun {
				begun = math.Floor(at / interval)
				root := math.Sqrt(loss) * float64(k0)
				if math.Abs(root-math.Round(root)) < 1e-9 || math.Abs(gamma*float64(want)-math.Round(gamma*float64(want))) < 1e-9 {
					break // too near a whole number for float64
				}
				switch next := int(math.Ceil(root)); {
				case next < want:
					want = next
					changes[0]++
				default:
					want = int(math.Ceil(gamma * float64(want)))
					changes[1]++
				}
			} else {
				changes[2]++
			}
			p := schedule.Progress{Setup: schedule.Setup{K0: k0, Eta0: 1}, Round: n, Seconds: at, HasLoss: true, LossRatio: loss, Previous: last}
			if got := s.LocalSteps(p); got != want {
				t.Fatalf("history %d, round %d at %g s: K = %d, the rule gives %d (K_0 %d, gamma %g, T_0 %g, F/F_0 %g)", history, n, at, got, want, k0, gamma, interval, loss)
			}
			last = schedule.Decision{LocalSteps: want, LearningRate: 1, Seconds: at}
			at += interval * (0.1 + 0.8*r.Float64())
		}
	}
	if min(changes[0], changes[1], changes[2]) < 2000 {
		t.Errorf("K falls by the loss, by gamma and stays %v times: the test says little", changes)
	}
}

// The quadratic rule is that of Gu et al. (2024), Algorithm 2, with H_base = K_0: worked by hand, and
// for the rates of a cosine.
func TestQuadratic_Published(t *testing.T) {
	rule := schedule.QuadraticK{Alpha: 0.02}
	for rate, want := range map[float64]int{0.02: 4, 0.01: 4, 0.008: 6, 0.004: 25, 0.003: 44, 0.0019: 110} {
		p := schedule.Progress{Setup: schedule.Setup{K0: 4, Eta0: 0.02}, Round: 1, LearningRate: rate}
		if got := rule.LocalSteps(p); got != want {
			t.Errorf("eta %g: H = %d, want %d", rate, got, want)
		}
	}
	for n := range 100 {
		rate := 0.005 * (1 + math.Cos(math.Pi*float64(n)/100))
		want := max(2, int(math.Pow(0.0175/rate, 2)))
		p := schedule.Progress{Setup: schedule.Setup{K0: 2, Eta0: 0.01}, Round: n + 1, LearningRate: rate}
		if got := (schedule.QuadraticK{Alpha: 0.0175, Max: 500}).LocalSteps(p); got != min(want, 500) {
			t.Errorf("eta %g: H = %d, want %d", rate, got, want)
		}
	}
	for _, x := range [][2]float64{{0.3, 0.1}, {0.6, 0.2}, {0.21, 0.07}} { // the quotient is 3, and a little less in float64
		if got := (schedule.QuadraticK{Alpha: x[0]}).LocalSteps(schedule.Progress{Setup: schedule.Setup{K0: 1}, Round: 1, LearningRate: x[1]}); got != 9 {
			t.Errorf("alpha %g, eta %g: H = %d, want 9", x[0], x[1], got)
		}
	}
	tiny := schedule.Progress{Setup: schedule.Setup{K0: 2, Eta0: 1, PartsPerUnit: schedule.Parts}, Round: 1, LearningRate: 5e-324}
	if got := rule.LocalSteps(tiny); got != schedule.MaxK0+1 {
		t.Errorf("a rate of next to nothing: H = %d", got)
	}
}
