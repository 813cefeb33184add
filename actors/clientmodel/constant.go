package clientmodel

import "strconv"

func init() { Distributions.Register("constant", "one value", Constant{}) }

// Constant is one value.
type Constant struct {
	Value float64 `key:"value" is:"short" range:"[0,1e12]" help:"the value; a number in place of the distribution is the same"`
	Bounds
}

func (c Constant) String() string { return strconv.FormatFloat(c.Value, 'g', -1, 64) }

func (c Constant) Law() (Law, error) {
	return c.Cut(Law{Quantile: func(uint64) float64 { return c.Value }, Least: c.Value, constant: true})
}
