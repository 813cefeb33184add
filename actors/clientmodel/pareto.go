package clientmodel

import (
	"fedpace/internal/portable"
	"fedpace/internal/registry"
)

func init() { Distributions.Register("pareto", "a heavy tail; give mean or min", Pareto{}) }

// Pareto is Pareto's distribution of type I, by its mean or its least value.
type Pareto struct {
	Mean  float64 `key:"mean" is:"null" range:"[1e-12,1e12]" help:"mean; needs a shape above 1"`
	Shape float64 `key:"shape" range:"[0.01,1e6]" help:"exponent of the tail"`
	Min   float64 `key:"min" is:"null" range:"[1e-12,1e12]" help:"least value, in place of mean"`
	Bounds
}

func (d Pareto) Law() (Law, error) {
	if err := either("mean", d.Mean, "min", d.Min); err != nil {
		return Law{}, err
	}
	least := d.Min
	if d.Mean != 0 {
		if d.Shape <= 1 {
			return Law{}, registry.Errorf("shape", "%g has no mean (more than 1, or min in place of mean)", d.Shape)
		}
		least = d.Mean * (d.Shape - 1) / d.Shape
	}
	exponent := -1 / d.Shape
	return d.Cut(Law{Least: least, Quantile: func(bits uint64) float64 {
		_, c := portable.Uniform(bits)
		return least * portable.Pow(c, exponent)
	}})
}
