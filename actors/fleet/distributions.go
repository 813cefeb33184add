package fleet

import (
	"fmt"
	"slices"
	"strconv"

	"fedpace/internal/keyed"
	"fedpace/internal/portable"
	"fedpace/registry"
)

// init registers the distributions under the names by which a configuration chooses them.
func init() {
	Distributions.Register("constant", "one value", Constant{})
	Distributions.Register("uniform", "equally likely between two values", Uniform{})
	Distributions.Register("normal", "normal; negative draws become 0", Normal{})
	Distributions.Register("lognormal", "its logarithm is normal; needs mean or median", Lognormal{})
	Distributions.Register("shifted_exponential", "a least value and an exponential beyond it", ShiftedExponential{})
	Distributions.Register("weibull", "stretched (shape below 1) or compressed exponential", Weibull{})
	Distributions.Register("pareto", "a heavy tail; needs mean or min", Pareto{})
	Distributions.Register("empirical", "measured values, each equally likely", Empirical{})
}

// Constant is one value.
type Constant struct {
	Value float64 `key:"value" is:"short" range:"[0,1e12]" help:"the value, as the number alone"`
	Bounds
}

// String returns the value alone, as a configuration can write it.
func (c Constant) String() string { return strconv.FormatFloat(c.Value, 'g', -1, 64) }

// Sampler implements [Distribution]: each draw is the value, held to the bounds.
func (c Constant) Sampler() (Sampler, error) {
	return c.Cut(Sampler{Quantile: func(uint64) float64 { return c.Value }, Min: c.Value, constant: true})
}

// Uniform is the uniform distribution.
type Uniform struct {
	Min float64 `key:"min" range:"[0,1e12]" help:"least value"`
	Max float64 `key:"max" range:"[0,1e12]" help:"greatest value"`
	Bounds
}

// Sampler implements [Distribution]: draws are equally likely between Min and Max, and the bounds
// may cut them.
func (d Uniform) Sampler() (Sampler, error) {
	if d.Max < d.Min {
		return Sampler{}, registry.Errorf("max", "%g is below min, %g", d.Max, d.Min)
	}
	return d.Cut(Sampler{Min: d.Min, Quantile: func(bits uint64) float64 {
		u, _ := portable.Uniform(bits)
		return d.Min + float64(u*(d.Max-d.Min))
	}})
}

// Normal is the normal distribution. Its mean is that before negative draws are
// set to zero.
type Normal struct {
	Mean float64 `key:"mean" range:"[0,1e12]" help:"mean"`
	Std  float64 `key:"std" range:"[0,1e12]" help:"standard deviation"`
	Bounds
}

// Sampler implements [Distribution]: a draw below zero becomes zero.
func (d Normal) Sampler() (Sampler, error) {
	return d.Cut(Sampler{Quantile: func(bits uint64) float64 {
		return max(0, d.Mean+float64(d.Std*portable.Normal(bits)))
	}})
}

// Lognormal is the lognormal distribution, by its mean or its median.
type Lognormal struct {
	Mean   float64 `key:"mean" is:"null" range:"[1e-12,1e12]" help:"mean, before bounds"`
	Median float64 `key:"median" is:"null" range:"[1e-12,1e12]" help:"median in place of mean"`
	Sigma  float64 `key:"sigma" range:"[0,10]" help:"standard deviation of the logarithm"`
	Bounds
}

// Sampler implements [Distribution]. A mean m corresponds to mu = ln m - sigma²/2, a median m to mu
// = ln m.
func (d Lognormal) Sampler() (Sampler, error) {
	if err := exactlyOne("mean", d.Mean, "median", d.Median); err != nil {
		return Sampler{}, err
	}
	mu := portable.Log(d.Mean) - float64(d.Sigma*d.Sigma*0.5)
	if d.Median != 0 {
		mu = portable.Log(d.Median)
	}
	return d.Cut(Sampler{
		Quantile: func(bits uint64) float64 { return portable.Exp(mu + float64(d.Sigma*portable.Normal(bits))) },
		// A normal draw is one of 2^52 values, of which the lowest is at −8.3 standard deviations.
		Min:       portable.Exp(mu - float64(8.3*d.Sigma)),
		lognormal: true,
		mu:        mu,
		sigma:     d.Sigma,
	})
}

// ShiftedExponential is Shift and an exponential of mean Mean - Shift.
type ShiftedExponential struct {
	Mean  float64 `key:"mean" range:"(0,1e12]" help:"mean, shift included"`
	Shift float64 `key:"shift" range:"[0,1e12]" help:"least value"`
	Bounds
}

// Sampler implements [Distribution] by inversion: a draw is Shift plus an exponential of mean Mean
// − Shift, for which −log of a uniform number is taken.
func (d ShiftedExponential) Sampler() (Sampler, error) {
	if d.Shift > d.Mean {
		return Sampler{}, registry.Errorf("shift", "%g is above mean, %g", d.Shift, d.Mean)
	}
	excessMean := d.Mean - d.Shift
	return d.Cut(Sampler{Min: d.Shift, Quantile: func(bits uint64) float64 {
		_, complement := portable.Uniform(bits)
		return d.Shift - float64(excessMean*portable.Log(complement))
	}})
}

// Weibull is Weibull's distribution.
type Weibull struct {
	Scale float64 `key:"scale" range:"(0,1e12]" help:"value that 63 % of the draws are below"`
	Shape float64 `key:"shape" range:"[0.01,1e6]" help:"exponent"`
	Bounds
}

// Sampler implements [Distribution] by inversion: a draw is Scale · (−log u)^(1/Shape) for a
// uniform number u. To let draws grow with the random bits, u is the complement of their uniform number.
func (d Weibull) Sampler() (Sampler, error) {
	exponent := 1 / d.Shape
	return d.Cut(Sampler{Quantile: func(bits uint64) float64 {
		_, complement := portable.Uniform(bits)
		return d.Scale * portable.Pow(-portable.Log(complement), exponent)
	}})
}

// Pareto is Pareto's distribution of type I, by its mean or its least value.
type Pareto struct {
	Mean  float64 `key:"mean" is:"null" range:"[1e-12,1e12]" help:"mean; needs a shape above 1"`
	Shape float64 `key:"shape" range:"[0.01,1e6]" help:"exponent of the tail"`
	Min   float64 `key:"min" is:"null" range:"[1e-12,1e12]" help:"least value, in place of mean"`
	Bounds
}

// Sampler implements [Distribution] by inversion. A mean m corresponds to the minimum m (shape - 1)
// / shape.
func (d Pareto) Sampler() (Sampler, error) {
	if err := exactlyOne("mean", d.Mean, "min", d.Min); err != nil {
		return Sampler{}, err
	}
	minimum := d.Min
	if d.Mean != 0 {
		if d.Shape <= 1 {
			return Sampler{}, registry.Errorf("shape", "%g has no mean (more than 1, or min in place of mean)", d.Shape)
		}
		minimum = d.Mean * (d.Shape - 1) / d.Shape
	}
	exponent := -1 / d.Shape
	return d.Cut(Sampler{Min: minimum, Quantile: func(bits uint64) float64 {
		_, complement := portable.Uniform(bits)
		return minimum * portable.Pow(complement, exponent)
	}})
}

// Empirical draws each of the given values with equal probability, in the order of the random bits.
// Lists of equal length that share their bits draw values of the same position.
type Empirical struct {
	Values []float64 `key:"values" range:"[0,1e12]" help:"the values, in any order"`
	Bounds
}

// maxValues bounds the values of an empirical distribution.
const maxValues = 1 << 20

// Sampler implements [Distribution]: a draw is one of the values, each equally likely. The random bits choose a place
// in the list as it was given, so that lists of equal length give values of the same place for the same bits.
func (d Empirical) Sampler() (Sampler, error) {
	if n := len(d.Values); n < 1 || n > maxValues {
		return Sampler{}, registry.Errorf("values", "%d of them (from 1 to %d)", n, maxValues)
	}
	values := slices.Clone(d.Values)
	sorted := slices.Sorted(slices.Values(values))
	return d.Cut(Sampler{
		Min:    sorted[0],
		Max:    sorted[len(sorted)-1],
		Median: sorted[len(sorted)/2],
		Quantile: func(bits uint64) float64 {
			return values[keyed.Below(bits, uint64(len(values)))]
		},
	})
}

// String describes the distribution for people by the number of values and their range.
func (d Empirical) String() string {
	if len(d.Values) == 0 {
		return "empirical"
	}
	return fmt.Sprintf("empirical(%d values from %g to %g)", len(d.Values), slices.Min(d.Values), slices.Max(d.Values))
}
