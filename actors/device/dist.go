package device

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"fedpace/internal/keyed"
)

// Dist is the distribution of one quantity, as a configuration names it. Each
// kind reads the fields given with it and refuses the others; a "mean" is
// always the mean of the quantity itself, before AtLeast and AtMost.
//
//	constant             value
//	uniform              min, max
//	normal               mean, std
//	lognormal            mean or median, and sigma (of the logarithm)
//	shifted_exponential  mean, shift: shift + an exponential of mean (mean - shift)
//	pareto               mean or min, and shape (type I; the mean needs shape > 1)
//	weibull              scale, shape
//	empirical            values: each equally likely
//
// The zero Dist is not given: what stands in for it is said where it is used.
type Dist struct {
	Dist   string
	Value  float64
	Mean   float64
	Median float64
	Std    float64
	Sigma  float64
	Shift  float64
	Scale  float64
	Shape  float64
	Min    float64
	Max    float64
	Values []float64

	// A draw outside [AtLeast, AtMost] is set to the nearer bound. AtMost 0:
	// no upper bound.
	AtLeast float64
	AtMost  float64
}

// Limits of a distribution's parameters.
const (
	maxParameter = 1e12
	maxSigma     = 10
	minShape     = 0.01
	maxShape     = 1e6
	maxValues    = 1 << 20
)

// given tells whether the distribution is set at all.
func (d *Dist) given() bool {
	return d.Dist != "" || d.Values != nil || d.set() != "" || d.AtLeast != 0 || d.AtMost != 0
}

// parameter is a field by its configured name.
type parameter struct {
	name  string
	value float64
}

func (d *Dist) parameters() [10]parameter {
	return [...]parameter{
		{"value", d.Value}, {"mean", d.Mean}, {"median", d.Median}, {"std", d.Std}, {"sigma", d.Sigma},
		{"shift", d.Shift}, {"scale", d.Scale}, {"shape", d.Shape}, {"min", d.Min}, {"max", d.Max},
	}
}

// set names the first parameter that is not zero; "" when there is none.
func (d *Dist) set() string {
	for _, p := range d.parameters() {
		if p.value != 0 {
			return p.name
		}
	}
	return ""
}

// reads lists the parameters of each kind, in the order of the type's comment.
var reads = []struct{ dist, parameters string }{
	{"constant", "value"},
	{"uniform", "min max"},
	{"normal", "mean std"},
	{"lognormal", "mean median sigma"},
	{"shifted_exponential", "mean shift"},
	{"pareto", "mean min shape"},
	{"weibull", "scale shape"},
	{"empirical", "values"},
}

// kinds is every kind in words.
func kinds() string {
	names := make([]string, len(reads))
	for i, r := range reads {
		names[i] = r.dist
	}
	return strings.Join(names, ", ")
}

// sampler checks the distribution and prepares it for drawing. No draw is
// negative.
func (d *Dist) sampler() (sampler, error) {
	i := slices.IndexFunc(reads, func(r struct{ dist, parameters string }) bool { return r.dist == d.Dist })
	if i < 0 {
		return sampler{}, fmt.Errorf("dist is %q, want one of %s", d.Dist, kinds())
	}
	known := strings.Fields(reads[i].parameters)
	for _, p := range d.parameters() {
		if p.value != 0 && !slices.Contains(known, p.name) {
			return sampler{}, fmt.Errorf("%s does not belong to dist %s, which has %s", p.name, d.Dist, strings.Join(known, ", "))
		}
	}
	if len(d.Values) > 0 && d.Dist != "empirical" {
		return sampler{}, fmt.Errorf("values do not belong to dist %s, which has %s", d.Dist, strings.Join(known, ", "))
	}
	s, err := d.law()
	if err != nil {
		return sampler{}, err
	}
	s.least, s.most = d.AtLeast, math.Inf(1)
	if err := within("at_least", d.AtLeast, 0, maxParameter); err != nil {
		return sampler{}, err
	}
	if d.AtMost != 0 {
		if err := within("at_most", d.AtMost, d.AtLeast, maxParameter); err != nil {
			return sampler{}, err
		}
		s.most = d.AtMost
	}
	return s, nil
}

// law prepares the distribution without its bounds.
func (d *Dist) law() (sampler, error) {
	positive := math.SmallestNonzeroFloat64
	switch d.Dist {
	case "constant":
		return sampler{kind: constant, a: d.Value}, within("value", d.Value, 0, maxParameter)
	case "uniform":
		return sampler{kind: flat, a: d.Min, b: d.Max}, first(
			within("min", d.Min, 0, maxParameter), within("max", d.Max, d.Min, maxParameter))
	case "normal":
		return sampler{kind: gaussian, a: d.Mean, b: d.Std}, first(
			within("mean", d.Mean, 0, maxParameter), within("std", d.Std, 0, maxParameter))
	case "lognormal":
		if err := first(d.either("mean", d.Mean, "median", d.Median), within("sigma", d.Sigma, 0, maxSigma)); err != nil {
			return sampler{}, err
		}
		if d.Median != 0 {
			return sampler{kind: logGaussian, a: ln(d.Median), b: d.Sigma}, nil
		}
		return sampler{kind: logGaussian, a: ln(d.Mean) - float64(d.Sigma*d.Sigma*0.5), b: d.Sigma}, nil
	case "shifted_exponential":
		return sampler{kind: exponential, a: d.Shift, b: d.Mean - d.Shift}, first(
			within("mean", d.Mean, positive, maxParameter), within("shift", d.Shift, 0, d.Mean))
	case "pareto":
		if err := first(d.either("mean", d.Mean, "min", d.Min), within("shape", d.Shape, minShape, maxShape)); err != nil {
			return sampler{}, err
		}
		least := d.Min
		if d.Mean != 0 {
			if d.Shape <= 1 {
				return sampler{}, fmt.Errorf("shape is %g, which has no mean: want more than 1, or min in place of mean", d.Shape)
			}
			least = d.Mean * (d.Shape - 1) / d.Shape
		}
		return sampler{kind: paretian, a: least, b: -1 / d.Shape}, nil
	case "weibull":
		return sampler{kind: weibull, a: d.Scale, b: 1 / d.Shape}, first(
			within("scale", d.Scale, positive, maxParameter), within("shape", d.Shape, minShape, maxShape))
	case "empirical":
		if len(d.Values) < 1 || len(d.Values) > maxValues {
			return sampler{}, fmt.Errorf("values: %d of them, want 1 to %d", len(d.Values), maxValues)
		}
		for i, v := range d.Values {
			if err := within(fmt.Sprintf("values[%d]", i), v, 0, maxParameter); err != nil {
				return sampler{}, err
			}
		}
		return sampler{kind: empirical, values: slices.Clone(d.Values)}, nil
	}
	panic("device: a distribution that is listed and not made")
}

// minLocation bounds what a logarithm is taken of.
const minLocation = 1e-12

// either checks that exactly one of two locations is given.
func (d *Dist) either(name string, value float64, other string, instead float64) error {
	switch {
	case value != 0 && instead != 0:
		return fmt.Errorf("%s is %g and %s is %g: give one of the two", name, value, other, instead)
	case instead != 0:
		return within(other, instead, minLocation, maxParameter)
	case value != 0:
		return within(name, value, minLocation, maxParameter)
	}
	return fmt.Errorf("%s and %s are both 0: give one of the two, positive", name, other)
}

// within checks a bound inclusively.
func within(name string, v, low, high float64) error {
	if v >= low && v <= high {
		return nil
	}
	if low == math.SmallestNonzeroFloat64 {
		return fmt.Errorf("%s is %v, want more than 0, at most %g", name, v, high)
	}
	return fmt.Errorf("%s is %v, want %g to %g", name, v, low, high)
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// String is the distribution in a line, such as "lognormal(mean 20, sigma 0.5)".
func (d Dist) String() string {
	if !d.given() {
		return "none"
	}
	if d.Dist == "constant" && d.AtLeast == 0 && d.AtMost == 0 {
		return fmt.Sprintf("%g", d.Value)
	}
	var parts []string
	for _, p := range d.parameters() {
		if p.value != 0 {
			parts = append(parts, fmt.Sprintf("%s %g", p.name, p.value))
		}
	}
	if n := len(d.Values); n > 0 {
		parts = append(parts, fmt.Sprintf("%d values from %g to %g", n, slices.Min(d.Values), slices.Max(d.Values)))
	}
	if d.AtLeast != 0 {
		parts = append(parts, fmt.Sprintf("at least %g", d.AtLeast))
	}
	if d.AtMost != 0 {
		parts = append(parts, fmt.Sprintf("at most %g", d.AtMost))
	}
	return d.Dist + "(" + strings.Join(parts, ", ") + ")"
}

// kind is the law of a sampler.
type kind uint8

const (
	absent kind = iota
	constant
	flat
	gaussian
	logGaussian
	exponential
	paretian
	weibull
	empirical
)

// sampler is a distribution ready to be drawn from: a value is the quantile
// function at 64 random bits, so that one key gives one draw.
type sampler struct {
	kind        kind
	a, b        float64 // by kind, see at
	least, most float64
	values      []float64
}

// unbounded tells whether AtLeast and AtMost leave all draws as they are.
func (s *sampler) unbounded() bool { return s.least == 0 && math.IsInf(s.most, 1) }

// at is the draw for 64 random bits; never negative.
func (s *sampler) at(h uint64) float64 {
	var x float64
	switch s.kind {
	case constant:
		x = s.a
	case flat:
		u, _ := uniform(h)
		x = s.a + float64(u*(s.b-s.a))
	case gaussian:
		x = s.a + float64(s.b*normal(h))
	case logGaussian:
		x = exp(s.a + float64(s.b*normal(h)))
	case exponential:
		_, c := uniform(h)
		x = s.a - float64(s.b*ln(c))
	case paretian:
		_, c := uniform(h)
		x = s.a * pow(c, s.b)
	case weibull:
		_, c := uniform(h)
		x = s.a * pow(-ln(c), s.b)
	case empirical:
		x = s.values[keyed.Below(h, uint64(len(s.values)))]
	default:
		panic("device: a draw from an absent distribution")
	}
	return min(max(x, s.least), s.most)
}

// floor is the least value that a draw can take; 0 when it comes as near to
// zero as one likes.
func (s *sampler) floor() float64 {
	low := 0.0
	switch s.kind {
	case constant, flat, exponential, paretian:
		low = s.a
	case logGaussian:
		low = exp(s.a - float64(8.3*s.b)) // the lowest of 2^52 cells
	case empirical:
		low = slices.Min(s.values)
	}
	return min(max(low, s.least), s.most)
}
