package fleet

import (
	"cmp"
	"math"

	"fedpace/registry"
)

// Distribution is the configured distribution of one quantity, such as a speed or a factor. The
// types of this package embed [Bounds].
type Distribution interface {
	// Sampler checks the parameters against each other and prepares the distribution for drawing.
	Sampler() (Sampler, error)
}

// Distributions are the ones that a configuration can name by the key dist.
var Distributions = registry.New[Distribution]("distribution", "dist")

// Sampler is a distribution ready for drawing. A draw is a function of 64 random bits, so one key
// gives one draw.
type Sampler struct {
	// Quantile returns the draw for 64 random bits, neither negative nor infinite. It does not decrease
	// as the bits grow, unless Max and Median are given. Implementations must not multiply and add in
	// one expression without a conversion to float64 in between: a fused multiply-add would give other
	// bits on other architectures.
	Quantile func(bits uint64) float64
	// Min is the smallest draw, 0 if draws come arbitrarily close to zero.
	Min float64
	// Max is the largest draw. 0 means the draw for the largest bits.
	Max float64
	// Median is the middle of the draws. 0 means the draw for the middle bits.
	Median float64

	// constant says that there is one value, Min.
	constant bool
	// lognormal says that the distribution is lognormal without bounds, with the parameters mu and
	// sigma.
	lognormal bool
	mu, sigma float64
}

// maxDraw returns the largest draw, 1 for a sampler that is not set (a factor that is not given).
func (l *Sampler) maxDraw() float64 { return l.valueOrDraw(l.Max, math.MaxUint64) }

// median returns the middle of the draws, 1 for a sampler that is not set.
func (l *Sampler) median() float64 { return l.valueOrDraw(l.Median, 1<<63) }

// valueOrDraw returns value, which is the sampler's Max or Median, or the draw for the random bits if value is 0, which
// means not given. For a sampler that is not set it returns 1, the factor that changes nothing.
func (l *Sampler) valueOrDraw(value float64, bits uint64) float64 {
	if l.isSet() && value == 0 {
		return l.Quantile(bits)
	}
	return cmp.Or(value, 1)
}

// isSet reports whether there is a distribution at all.
func (l *Sampler) isSet() bool { return l.Quantile != nil }

// Bounds are the options that all distributions share. A draw beyond a bound is replaced by the
// bound.
type Bounds struct {
	AtLeast float64 `key:"at_least" is:"null" range:"[0,1e12]" help:"minimum, to which smaller draws are set"`
	AtMost  float64 `key:"at_most" is:"null" range:"[0,1e12]" help:"maximum"`
}

// Cut returns the sampler l with its draws clamped to the bounds, and with Min, Max and Median
// changed alike. A bound of 0 is not set. It is an error if the upper bound is below the lower one.
func (b Bounds) Cut(l Sampler) (Sampler, error) {
	if b == (Bounds{}) {
		return l, nil
	}
	if b.AtMost != 0 && b.AtMost < b.AtLeast {
		return l, registry.Errorf("at_most", "%g is below at_least, %g", b.AtMost, b.AtLeast)
	}
	limit := cmp.Or(b.AtMost, math.Inf(1))
	unbounded := l.Quantile
	l.Quantile = func(bits uint64) float64 { return min(max(unbounded(bits), b.AtLeast), limit) }
	// A clamped draw is no longer lognormal, and constant only if the bounds leave it as it is.
	l.lognormal = false
	l.constant = l.constant && l.Min >= b.AtLeast && l.Min <= limit
	l.Min = min(max(l.Min, b.AtLeast), limit)
	// A maximum or median of 0 is not known, and stays so.
	for _, x := range []*float64{&l.Max, &l.Median} {
		if *x != 0 {
			*x = min(max(*x, b.AtLeast), limit)
		}
	}
	return l, nil
}

// samplerOf checks the options of a distribution and prepares it for drawing.
func samplerOf(d Distribution) (Sampler, error) {
	if err := registry.Check(d); err != nil {
		return Sampler{}, err
	}
	return d.Sampler()
}

// exactlyOne returns an error unless exactly one of two options is set, where 0 means not set.
func exactlyOne(name string, value float64, otherName string, otherValue float64) error {
	switch {
	case value != 0 && otherValue != 0:
		return registry.Errorf(name, "is %g and %s is %g: give one of the two", value, otherName, otherValue)
	case value == 0 && otherValue == 0:
		return registry.Errorf(name, "is not set, and neither is %s: give one of the two", otherName)
	}
	return nil
}
