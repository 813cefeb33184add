package fleet

import (
	"cmp"
	"math"

	"fedpace/registry"
)

// Distribution is the law of one quantity, such as a speed or a factor. Those of
// this package embed [Bounds].
type Distribution interface {
	// Law prepares the distribution for drawing.
	Law() (Law, error)
}

// Distributions are the laws that a configuration can name.
var Distributions = registry.New[Distribution]("distribution", "dist")

// Law is a distribution ready for drawing. One key gives one draw.
type Law struct {
	// Quantile is the draw for 64 random bits, neither negative nor infinite. It
	// does not fall as they grow, unless Most and Median are given. It must not multiply and add in one
	// expression without a conversion to float64 in between: architectures would
	// differ.
	Quantile func(bits uint64) float64
	// Least is the least draw; 0 where draws come as near to zero as one likes.
	Least float64
	// Most is the greatest draw; 0: that for the greatest bits.
	Most float64
	// Median is the middle of the draws; 0: that for the middle bits.
	Median float64

	constant  bool // one value
	lognormal bool // and without bounds
	mu, sigma float64
}

// most is the greatest draw, 1 where there is no law.
func (l *Law) most() float64 { return l.or(l.Most, math.MaxUint64) }

// median is the middle of the draws, 1 where there is no law.
func (l *Law) median() float64 { return l.or(l.Median, 1<<63) }

// or is a value that the law gives, or its draw for these bits.
func (l *Law) or(given float64, bits uint64) float64 {
	if l.isSet() && given == 0 {
		return l.Quantile(bits)
	}
	return cmp.Or(given, 1)
}

func (l *Law) isSet() bool { return l.Quantile != nil }

// Bounds are the options that all distributions share: a draw beyond a bound is
// set to the bound.
type Bounds struct {
	AtLeast float64 `key:"at_least" is:"null" range:"[0,1e12]" help:"smaller draws are set to it"`
	AtMost  float64 `key:"at_most" is:"null" range:"[0,1e12]" help:"larger draws are set to it"`
}

func (b Bounds) Cut(l Law) (Law, error) {
	if b == (Bounds{}) {
		return l, nil
	}
	if b.AtMost != 0 && b.AtMost < b.AtLeast {
		return l, registry.Errorf("at_most", "%g is below at_least, %g", b.AtMost, b.AtLeast)
	}
	most := cmp.Or(b.AtMost, math.Inf(1))
	free := l.Quantile
	l.Quantile = func(bits uint64) float64 { return min(max(free(bits), b.AtLeast), most) }
	l.lognormal = false
	l.constant = l.constant && l.Least >= b.AtLeast && l.Least <= most
	l.Least = min(max(l.Least, b.AtLeast), most)
	for _, x := range []*float64{&l.Most, &l.Median} {
		if *x != 0 {
			*x = min(max(*x, b.AtLeast), most)
		}
	}
	return l, nil
}

// lawOf checks a distribution and prepares it.
func lawOf(d Distribution) (Law, error) {
	if err := registry.Check(d); err != nil {
		return Law{}, err
	}
	return d.Law()
}

// either is what one of two options gives, of which exactly one must be.
func either(name string, value float64, other string, instead float64) error {
	switch {
	case value != 0 && instead != 0:
		return registry.Errorf(name, "is %g and %s is %g: give one of the two", value, other, instead)
	case value == 0 && instead == 0:
		return registry.Errorf(name, "is not set, and neither is %s: give one of the two", other)
	}
	return nil
}
