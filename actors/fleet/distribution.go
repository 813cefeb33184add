package fleet

import (
	"cmp"
	"math"

	"fedpace/registry"
)

// Distribution is the law of one quantity, such as a speed or a factor. Those of
// this package embed [Bounds].
type Distribution interface {
	// Sampler prepares the distribution for drawing.
	Sampler() (Sampler, error)
}

// Distributions are the laws that a configuration can name.
var Distributions = registry.New[Distribution]("distribution", "dist")

// Sampler is a distribution ready for drawing. One key gives one draw.
type Sampler struct {
	// Quantile is the draw for 64 random bits, neither negative nor infinite. It
	// does not fall as they grow, unless Most and Median are given. It must not multiply and add in one
	// expression without a conversion to float64 in between: architectures would
	// differ.
	Quantile func(bits uint64) float64
	// Least is the least draw; 0 where draws come as near to zero as one likes.
	Min float64
	// Most is the greatest draw; 0: that for the greatest bits.
	Max float64
	// Median is the middle of the draws; 0: that for the middle bits.
	Median float64

	constant  bool // one value
	lognormal bool // and without bounds
	mu, sigma float64
}

// maxDraw is the greatest draw, 1 where there is no law.
func (l *Sampler) maxDraw() float64 { return l.or(l.Max, math.MaxUint64) }

// median is the middle of the draws, 1 where there is no law.
func (l *Sampler) median() float64 { return l.or(l.Median, 1<<63) }

// or is a value that the law gives, or its draw for these bits.
func (l *Sampler) or(value float64, bits uint64) float64 {
	if l.isSet() && value == 0 {
		return l.Quantile(bits)
	}
	return cmp.Or(value, 1)
}

func (l *Sampler) isSet() bool { return l.Quantile != nil }

// Bounds are the options that all distributions share: a draw beyond a bound is
// set to the bound.
type Bounds struct {
	AtLeast float64 `key:"at_least" is:"null" range:"[0,1e12]" help:"smaller draws are set to it"`
	AtMost  float64 `key:"at_most" is:"null" range:"[0,1e12]" help:"larger draws are set to it"`
}

func (b Bounds) Cut(l Sampler) (Sampler, error) {
	if b == (Bounds{}) {
		return l, nil
	}
	if b.AtMost != 0 && b.AtMost < b.AtLeast {
		return l, registry.Errorf("at_most", "%g is below at_least, %g", b.AtMost, b.AtLeast)
	}
	limit := cmp.Or(b.AtMost, math.Inf(1))
	free := l.Quantile
	l.Quantile = func(bits uint64) float64 { return min(max(free(bits), b.AtLeast), limit) }
	l.lognormal = false
	l.constant = l.constant && l.Min >= b.AtLeast && l.Min <= limit
	l.Min = min(max(l.Min, b.AtLeast), limit)
	for _, x := range []*float64{&l.Max, &l.Median} {
		if *x != 0 {
			*x = min(max(*x, b.AtLeast), limit)
		}
	}
	return l, nil
}

// samplerOf checks a distribution and prepares it.
func samplerOf(d Distribution) (Sampler, error) {
	if err := registry.Check(d); err != nil {
		return Sampler{}, err
	}
	return d.Sampler()
}

// exactlyOne is what one of two options gives, of which exactly one must be.
func exactlyOne(name string, value float64, otherName string, otherValue float64) error {
	switch {
	case value != 0 && otherValue != 0:
		return registry.Errorf(name, "is %g and %s is %g: give one of the two", value, otherName, otherValue)
	case value == 0 && otherValue == 0:
		return registry.Errorf(name, "is not set, and neither is %s: give one of the two", otherName)
	}
	return nil
}
