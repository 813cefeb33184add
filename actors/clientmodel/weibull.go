package clientmodel

import "fedpace/internal/portable"

func init() {
	Distributions.Register("weibull", "a stretched (shape below 1) or compressed exponential", Weibull{})
}

// Weibull is Weibull's distribution.
type Weibull struct {
	Scale float64 `key:"scale" range:"(0,1e12]" help:"value that 63 % of the draws are below"`
	Shape float64 `key:"shape" range:"[0.01,1e6]" help:"exponent"`
	Bounds
}

func (d Weibull) Law() (Law, error) {
	exponent := 1 / d.Shape
	return d.Cut(Law{Quantile: func(bits uint64) float64 {
		_, c := portable.Uniform(bits)
		return d.Scale * portable.Pow(-portable.Log(c), exponent)
	}})
}
