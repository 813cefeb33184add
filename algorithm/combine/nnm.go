package combine

import "fedpace/registry"

// init registers the rule under the name by which a configuration chooses it. The text is its line
// in the list of such components.
func init() {
	Rules.Register("nnm", "another rule, of updates mixed with near ones (Allouah et al. 2023)", NNM{})
}

// NNM is nearest-neighbour mixing (Allouah et al. 2023, Algorithm 2), for clients whose data
// differ: each update becomes the mean of the n - f that are nearest to it, itself included,
// and another rule combines these means. Of n updates f = ⌈liars·n⌉ may be false. Of equal
// distances the first counts.
//
// The means of honest updates lie closer together than the updates themselves, so that the rule
// behind has less room to be misled in. They are held beside the updates.
type NNM struct {
	Byzantine
	Then string `key:"then" default:"trimmed_mean" words:"trimmed_mean,median,krum,multi_krum,geometric_median" help:"rule for the mixed updates"`
}

// thenRule returns the rule of the option Then, which combines the mixed updates: the trimmed mean if none
// is named.
func (m NNM) thenRule() Rule {
	switch m.Then {
	case "median":
		return Median{}
	case "krum":
		return Krum{Byzantine: m.Byzantine}
	case "multi_krum":
		return MultiKrum{Byzantine: m.Byzantine}
	case "geometric_median":
		return GeometricMedian{Iterations: 1000, Smoothing: 1e-6}
	}
	return TrimmedMean{Byzantine: m.Byzantine}
}

// Validate refuses a number of updates of which the rule behind the mixing (Then) cannot tolerate as many false ones
// as the share says. For a rule without such a check, more than twice as many updates must come as may be false.
func (m NNM) Validate(updates int) error {
	if v, ok := m.thenRule().(interface{ Validate(updates int) error }); ok {
		return v.Validate(updates)
	}
	return m.checkUpdates("nnm", updates, 1)
}

// Needs says that updates count equally, that the mixed updates take memory beside them, and that
// updates must be whole if the rule that combines the mixed ones needs that.
func (m NNM) Needs() registry.Needs {
	return registry.Needs{EqualWeight: true, Copy: true, Whole: registry.NeedsOf(m.thenRule()).Whole}
}

// Combine implements [Rule]: it replaces each update by the mean of the updates that are nearest to it,
// itself included, and combines these means by the rule of the option Then. The returned shares, one for
// each update, are the weights with which the model's buffers are averaged: those of that rule, where the
// share of each mean is divided equally among the updates in it.
func (m NNM) Combine(dst []int64, updates [][]int64, weights []float64) (shares []float64) {
	n := len(updates)
	// A mean over as many updates as are surely honest: all but the number that may be Byzantine.
	near := max(1, n-m.Count(n))
	mixed := make([][]int64, n)
	// mixing holds for each mixed update the factors of the updates in it.
	mixing := make([][]float64, n)
	for i, distances := range squaredDistances(updates) {
		mixing[i] = make([]float64, n)
		for _, j := range ascendingOrder(distances)[:near] {
			mixing[i][j] = 1 / float64(near)
		}
		mixed[i] = make([]int64, len(dst))
		weightedSum(mixed[i], updates, mixing[i])
	}
	mixedShares := m.thenRule().Combine(dst, mixed, weights)
	if mixedShares == nil {
		mixedShares = weights
	}
	// A buffer is averaged as if it had been mixed, too: Σ_i s_i Σ_j m_ij u_j.
	shares = make([]float64, n)
	for i, share := range mixedShares {
		for j, factor := range mixing[i] {
			shares[j] += float64(share * factor)
		}
	}
	return shares
}
