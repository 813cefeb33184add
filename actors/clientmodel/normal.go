package clientmodel

import "fedpace/internal/portable"

func init() {
	Distributions.Register("normal", "a bell around its mean; draws below zero are set to zero", Normal{})
}

// Normal is the normal distribution. Its mean is that before negative draws are
// set to zero.
type Normal struct {
	Mean float64 `key:"mean" range:"[0,1e12]" help:"mean"`
	Std  float64 `key:"std" range:"[0,1e12]" help:"standard deviation"`
	Bounds
}

func (d Normal) Law() (Law, error) {
	return d.Cut(Law{Quantile: func(bits uint64) float64 { return max(0, d.Mean+float64(d.Std*portable.Normal(bits))) }})
}
