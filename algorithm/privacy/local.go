package privacy

import (
	"fmt"
	"math"
	"math/rand/v2"

	"fedpace/internal/portable"
	"fedpace/registry"
)

// Local is the noise that each client adds to its own update before it sends it, so that nobody
// sees the update without noise: neither the coordinator nor who reads what is sent. Its zero
// value is no noise.
type Local struct {
	Clip  float64 `key:"clip" is:"null" range:"(0,1e4]" help:"clipping norm at clients"`
	Noise float64 `key:"noise_multiplier" is:"null" range:"[0.01,1e4]" help:"deviation of each value's noise, in clips"`
}

// On reports whether clients add noise.
func (l Local) On() bool { return l.Clip > 0 && l.Noise > 0 }

// Validate returns a [*registry.OptionError] when the options do not fit each other.
func (l Local) Validate() error {
	return registry.Below("local", checkNoise(l.Clip, l.Noise))
}

// Hide replaces a client's model, in place, by the one that it sends: its difference from base is shortened
// to the clip, and normal noise of the deviation Noise·Clip is added to each value. The noise follows from
// key; whoever knows that can subtract it. A model that is not finite stays as it is, since the coordinator
// refuses it anyway.
func (l Local) Hide(model, base []float32, key Secret) {
	factor, err := clipFactor(model, base, l.Clip)
	if err != nil {
		return
	}
	source := rand.NewChaCha8(key)
	deviation := l.Noise * l.Clip / math.Sqrt2
	for i, x := range model {
		clipped := float64(factor * (float64(x) - float64(base[i])))
		// The sum of two normal numbers hides the low bits that one of them would show.
		normal := portable.Normal(source.Uint64()) + portable.Normal(source.Uint64())
		model[i] = float32(float64(base[i]) + clipped + float64(deviation*normal))
	}
}

// clipFactor returns the factor, at most 1, that shortens the difference of model from base to the norm
// clip. It is an error if the difference is not finite.
func clipFactor(model, base []float32, clip float64) (float64, error) {
	square := portable.SquaredDistance(model, base)
	if math.IsNaN(square) || math.IsInf(square, 0) {
		return 0, fmt.Errorf("privacy: an update of the squared norm %v, want a finite one", square)
	}
	if norm := math.Sqrt(square); norm > clip {
		return clip / norm, nil
	}
	return 1, nil
}

// LocalEpsilon returns the epsilon with which this many updates of one client, sent one after the
// other, are together (epsilon, delta)-differentially private, whatever the client has learned from.
// It has six digits and is rounded up. Two updates differ by two clips at most, so n of them are a
// Gaussian mechanism with μ = 2 √n / multiplier, for which
//
//	δ = Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2)
//
// is exact (Balle and Wang 2018, Theorem 8; Dong, Roth and Su 2022, Corollaries 2.13 and 3.3).
func LocalEpsilon(multiplier float64, updates int, delta float64) float64 {
	if updates <= 0 {
		return 0
	}
	return RoundUp(gaussianEpsilon(2*math.Sqrt(float64(updates))/multiplier, delta))
}

// gaussianEpsilon returns the smallest ε for which a Gaussian mechanism with the parameter μ, the
// sensitivity over the deviation of the noise, is (ε, δ)-differentially private. δ falls with ε, so the
// search doubles an upper bound and then halves the interval.
func gaussianEpsilon(mu, delta float64) float64 {
	low := 0.0
	high := 1.0
	for gaussianDelta(mu, high) > delta {
		low = high
		high = 2 * high
	}
	// So many halvings leave no number between the bounds.
	for range 100 {
		if middle := (low + high) / 2; gaussianDelta(mu, middle) > delta {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

// gaussianDelta returns the δ of a Gaussian mechanism with the parameter μ at ε, by the formula of
// [LocalEpsilon]. The second term is computed as one exponential, since e^ε alone may overflow.
func gaussianDelta(mu, epsilon float64) float64 {
	return normalUpperTail(epsilon/mu-float64(mu/2)) - math.Exp(epsilon+logNormalUpperTail(epsilon/mu+float64(mu/2)))
}

// normalUpperTail returns 1 − Φ(x).
func normalUpperTail(x float64) float64 { return float64(math.Erfc(x/math.Sqrt2) / 2) }

// logNormalUpperTail returns ln(1 − Φ(x)). From x = 30 on it uses the first terms of the asymptotic series,
// since 1 − Φ(x) itself becomes too small for a float64.
func logNormalUpperTail(x float64) float64 {
	if x < 30 {
		return math.Log(normalUpperTail(x))
	}
	return float64(-x*x/2) - math.Log(x*math.Sqrt(2*math.Pi)) + math.Log1p(-1/(x*x)+3/(x*x*x*x))
}
