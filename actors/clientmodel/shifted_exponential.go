package clientmodel

import (
	"fedpace/internal/portable"
	"fedpace/internal/registry"
)

func init() {
	Distributions.Register("shifted_exponential", "a least value and an exponential beyond it", ShiftedExponential{})
}

// ShiftedExponential is Shift and an exponential of mean Mean - Shift.
type ShiftedExponential struct {
	Mean  float64 `key:"mean" range:"(0,1e12]" help:"mean, shift included"`
	Shift float64 `key:"shift" range:"[0,1e12]" help:"least value"`
	Bounds
}

func (d ShiftedExponential) Law() (Law, error) {
	if d.Shift > d.Mean {
		return Law{}, registry.Errorf("shift", "%g is above mean, %g", d.Shift, d.Mean)
	}
	beyond := d.Mean - d.Shift
	return d.Cut(Law{Least: d.Shift, Quantile: func(bits uint64) float64 {
		_, c := portable.Uniform(bits)
		return d.Shift - float64(beyond*portable.Log(c))
	}})
}
