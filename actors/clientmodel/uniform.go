package clientmodel

import (
	"fedpace/internal/portable"
	"fedpace/internal/registry"
)

func init() { Distributions.Register("uniform", "equally likely between two values", Uniform{}) }

// Uniform is the uniform distribution.
type Uniform struct {
	Min float64 `key:"min" range:"[0,1e12]" help:"least value"`
	Max float64 `key:"max" range:"[0,1e12]" help:"greatest value"`
	Bounds
}

func (d Uniform) Law() (Law, error) {
	if d.Max < d.Min {
		return Law{}, registry.Errorf("max", "%g is below min, %g", d.Max, d.Min)
	}
	return d.Cut(Law{Least: d.Min, Quantile: func(bits uint64) float64 {
		u, _ := portable.Uniform(bits)
		return d.Min + float64(u*(d.Max-d.Min))
	}})
}
