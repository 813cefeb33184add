package clientmodel

import "fedpace/internal/portable"

func init() {
	Distributions.Register("lognormal", "its logarithm is normal; give mean or median", Lognormal{})
}

// Lognormal is the lognormal distribution, by its mean or its median.
type Lognormal struct {
	Mean   float64 `key:"mean" is:"null" range:"[1e-12,1e12]" help:"mean, before at_least and at_most"`
	Median float64 `key:"median" is:"null" range:"[1e-12,1e12]" help:"median, in place of mean"`
	Sigma  float64 `key:"sigma" range:"[0,10]" help:"standard deviation of the logarithm"`
	Bounds
}

func (d Lognormal) Law() (Law, error) {
	if err := either("mean", d.Mean, "median", d.Median); err != nil {
		return Law{}, err
	}
	mu := portable.Log(d.Mean) - float64(d.Sigma*d.Sigma*0.5)
	if d.Median != 0 {
		mu = portable.Log(d.Median)
	}
	return d.Cut(Law{
		Quantile:  func(bits uint64) float64 { return portable.Exp(mu + float64(d.Sigma*portable.Normal(bits))) },
		Least:     portable.Exp(mu - float64(8.3*d.Sigma)), // the lowest of the 2^52 cells of normal
		lognormal: true, mu: mu, sigma: d.Sigma,
	})
}
