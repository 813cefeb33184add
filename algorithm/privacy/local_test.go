package privacy

import (
	"math"
	"slices"
	"testing"

	"fedpace/internal/keyed"
)

// The δ of Gaussian mechanisms as dp_accounting's tests have them: deviation and sensitivity 1,
// or a sensitivity of 3 deviations.
func TestLocalNoise_GaussianDeltas(t *testing.T) {
	for _, test := range []struct{ mu, epsilon, want float64 }{{1, 1, 0.12693674}, {3, 1, 0.78760074}, {1, 2, 0.02092364}, {1, 0, 0.38292492}} {
		if got := gaussianDelta(test.mu, test.epsilon); math.Abs(got-test.want) > 5e-9 {
			t.Errorf("μ = %g, ε = %g: %.8f, want %.8f", test.mu, test.epsilon, got, test.want)
		}
		if test.epsilon == 0 {
			continue
		}
		// One update whose μ is 2/multiplier, and four of twice the noise.
		for updates, multiplier := range map[int]float64{1: 2 / test.mu, 4: 4 / test.mu} {
			if got := LocalEpsilon(multiplier, updates, test.want); !(got >= test.epsilon-1e-6 && got < test.epsilon+2e-5) {
				t.Errorf("%d updates with %g: ε = %g, want %g", updates, multiplier, got, test.epsilon)
			}
		}
	}
}

// The classical calibration of Dwork and Roth (2014, Theorem A.1) is a bound for ε below 1, and
// that by Rényi divergences everywhere; where ε is large, μ²/2 is most of it.
func TestLocalNoise_EpsilonBounds(t *testing.T) {
	const delta = 1e-5
	for _, epsilon := range []float64{0.1, 0.5, 0.99} {
		multiplier := 2 * math.Sqrt(2*math.Log(1.25/delta)) / epsilon
		if got := LocalEpsilon(multiplier, 1, delta); !(got < epsilon && got > epsilon/2) {
			t.Errorf("ε = %g by the classical calibration, %g exactly", epsilon, got)
		}
	}
	for _, multiplier := range []float64{0.01, 0.1, 1, 10, 1000} {
		for _, updates := range []int{1, 7, 10_000} {
			bound := NewAccountant(multiplier, Draw{Rate: 1, Displaces: true}).Epsilon(updates, delta)
			got := LocalEpsilon(multiplier, updates, delta)
			// Orders are few, so that the bound is wide where they do not reach.
			if mu2 := 4 * float64(updates) / (multiplier * multiplier); !(got > 0 && got <= bound) || mu2 > 1e4 && math.Abs(got/(mu2/2)-1) > 0.2 {
				t.Errorf("%d updates with %g: ε = %g, a bound is %g", updates, multiplier, got, bound)
			}
		}
	}
	if LocalEpsilon(1, 0, delta) != 0 {
		t.Error("no update costs something")
	}
}

// What a client sends is its shortened update with noise of the deviation that is said, by the
// key alone.
func TestLocalNoise(t *testing.T) {
	const n = 100_000
	l := Local{Clip: 2, Noise: 0.5}
	base, own := make([]float32, n), make([]float32, n)
	for i := range base {
		base[i] = float32(keyed.Nth(1, uint64(i))%1000) / 1000
		own[i] = base[i]
	}
	own[3] += 6
	own[7] -= 8 // the update's norm is 10
	sum, square := 0.0, 0.0
	sent := slices.Clone(own)
	l.Hide(sent, base, Secret{1})
	for i := range sent {
		z := float64(sent[i]) - float64(base[i])
		switch i {
		case 3:
			z -= 1.2
		case 7:
			z += 1.6
		}
		sum, square = sum+z, square+z*z
	}
	if mean, deviation := sum/n, math.Sqrt(square/n); math.Abs(mean) > 5/math.Sqrt(n) || math.Abs(deviation-1) > 5/math.Sqrt(2*n) {
		t.Errorf("the noise has mean %g and deviation %g, want 0 and 1", mean, deviation)
	}
	again, other := slices.Clone(own), slices.Clone(own)
	l.Hide(again, base, Secret{1})
	l.Hide(other, base, Secret{2})
	if !slices.Equal(sent, again) || slices.Equal(sent, other) {
		t.Error("the noise does not follow from the key")
	}
	short := slices.Clone(base)
	short[5] += 0.25
	quiet := Local{Clip: 2, Noise: 1e-12}
	quiet.Hide(short, base, Secret{})
	if short[5] != base[5]+0.25 {
		t.Errorf("a short update is changed to %g", short[5]-base[5])
	}
	short[0] = float32(math.NaN())
	l.Hide(short, base, Secret{})
	if short[0] == short[0] || short[1] != base[1] {
		t.Error("an update that is not finite is changed")
	}
}
