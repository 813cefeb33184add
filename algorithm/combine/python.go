package combine

import (
	"fmt"
	"math"

	"fedpace/policy"
	"fedpace/registry"
)

// init registers the rule under the name by which a configuration chooses it. The text is its line
// in the list of such components.
func init() {
	Rules.Register("python", "a Python subclass of fedpace.Combination", Python{})
}

// Python makes one update of a round's by a class in Python.
type Python struct {
	policy.Python
	Whole bool `key:"whole" default:"true" help:"works value by value: no compressed updates"`
}

// Kind names the base class in Python.
func (Python) Kind() string { return "Combination" }

// Needs says that updates are weighted equally, and not thinned out where the class works by value.
func (p Python) Needs() registry.Needs { return registry.Needs{EqualWeight: true, Whole: p.Whole} }

// maxValue bounds a value of an update, in units of 2^-44.
const maxValue = 1 << 61

// Combine implements [Rule]: the Python class gets the updates and their weights, writes the combined
// update into dst, and returns the shares of the buffers, or none. Without a bound process dst is the
// weighted mean. An answer that is out of range is reported as a failure, which ends the run; dst is then
// zero.
func (p Python) Combine(dst []int64, updates [][]int64, weights []float64) (shares []float64) {
	if p.Asker() == nil {
		weightedSum(dst, updates, weights)
		return nil
	}
	clear(dst)
	vectors := &policy.Vectors{Written: []any{dst}}
	for _, u := range updates {
		vectors.Read = append(vectors.Read, u)
	}
	question := struct {
		Weights []float64 `json:"weights"`
	}{weights}
	if !p.Asker().AskVectors("combine", question, vectors, &shares) {
		clear(dst)
		return nil
	}
	sum := 0.0
	// A share below 0 makes the sum NaN, which fails the check behind the loop.
	for _, s := range shares {
		sum += s
		if !(s >= 0) {
			sum = math.NaN()
		}
	}
	if shares != nil && (len(shares) != len(updates) || !(math.Abs(sum-1) < 1e-6)) {
		p.Asker().Fail("combine", "it returned %d shares with the sum %g: want None, or %d with the sum 1",
			len(shares), sum, len(updates))
		clear(dst)
		return nil
	}
	for i, v := range dst {
		if v >= maxValue || v <= -maxValue {
			p.Asker().Fail("combine", "value %d of the combined update is %d units, and must be below 2^61", i, v)
			clear(dst)
			return shares
		}
	}
	return shares
}

// String returns the rule in words, for a summary.
func (p Python) String() string { return fmt.Sprintf("as %v says", p.Python) }
