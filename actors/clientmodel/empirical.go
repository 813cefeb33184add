package clientmodel

import (
	"fmt"
	"slices"

	"fedpace/internal/keyed"
	"fedpace/internal/registry"
)

func init() { Distributions.Register("empirical", "measured values, each equally likely", Empirical{}) }

// Empirical draws one of some values.
type Empirical struct {
	Values []float64 `key:"values" range:"[0,1e12]" help:"the values, in any order"`
	Bounds
}

const maxValues = 1 << 20

func (d Empirical) Law() (Law, error) {
	if n := len(d.Values); n < 1 || n > maxValues {
		return Law{}, registry.Errorf("values", "%d of them (from 1 to %d)", n, maxValues)
	}
	values := slices.Clone(d.Values)
	sorted := slices.Sorted(slices.Values(values))
	return d.Cut(Law{Least: sorted[0], Most: sorted[len(sorted)-1], Median: sorted[len(sorted)/2], Quantile: func(bits uint64) float64 {
		return values[keyed.Below(bits, uint64(len(values)))]
	}})
}

// String is the extent of the values.
func (d Empirical) String() string {
	if len(d.Values) == 0 {
		return "empirical"
	}
	return fmt.Sprintf("empirical(%d values from %g to %g)", len(d.Values), slices.Min(d.Values), slices.Max(d.Values))
}
