package plugins

import (
	"fedpace/actors/fleet"
	"fedpace/registry"
)

func init() {
	fleet.Distributions.Register("two_point", "one of two values", TwoPoint{})
}

// TwoPoint is a quantity with two values, such as the time of a step on old and
// on new phones.
type TwoPoint struct {
	Low   float64 `key:"low" range:"(0,1e12]" help:"the smaller value"`
	High  float64 `key:"high" range:"(0,1e12]" help:"the larger value"`
	Share float64 `key:"share" default:"0.5" range:"[0,1]" help:"part of the draws that give the larger value"`
}

// Sampler prepares the distribution for drawing. 64 random bits give one draw: the first 53 of them make a number
// from 0 to below 1, which is at least 1-Share for the larger value. It returns an error if High is below Low.
func (d TwoPoint) Sampler() (fleet.Sampler, error) {
	if d.High < d.Low {
		return fleet.Sampler{}, registry.Errorf("high", "%g is below low, %g", d.High, d.Low)
	}
	return fleet.Sampler{Min: d.Low, Quantile: func(bits uint64) float64 {
		uniform := float64(bits>>11) / (1 << 53)
		if uniform < 1-d.Share {
			return d.Low
		}
		return d.High
	}}, nil
}
