package study

import (
	"fmt"
	"math"
	"slices"

	"fedpace/internal/statistics"
)

// Until adds seeds to a comparison until it decides, in two stages (Stein 1945): the deviations of
// the first seeds' differences say how many seeds make half of the interval of each as narrow as
// wanted.
type Until struct {
	Half float64 // of the interval of the difference in how runs end; 0: no seeds are added
	Most int     // seeds

	first int // seeds of the first stage, once others were added
}

// fewest seeds have a deviation from which others can be foreseen.
const fewest = 5

// begin is how many seeds the first stage has.
func (u *Until) begin(seeds int) int {
	if u.Half > 0 {
		seeds = max(seeds, min(fewest, u.Most))
	}
	return seeds
}

// more is how many seeds there must be in all; 0: there are enough.
func (r *Comparison) more(notice func(string)) int {
	u, seeds := r.Plan.Until, r.Plan.Seeds
	if u.Half == 0 {
		return 0
	}
	enough, of := 0, ""
	for _, d := range r.Table().Differences() {
		if d.Quantity == toLevel || slices.ContainsFunc(d.BySeed, math.IsNaN) || len(d.BySeed) < 2 {
			continue
		}
		if n := statistics.Enough(d.BySeed, u.Half); n > enough {
			enough, of = n, d.Row.Schedule
		}
	}
	if notice == nil {
		notice = func(string) {}
	}
	switch {
	case enough <= seeds:
		return 0
	case enough > u.Most:
		notice(fmt.Sprintf("It takes %d seeds until the difference of %s is known to ±%g: %d are played, the most allowed.", enough, of, u.Half, u.Most))
	default:
		notice(fmt.Sprintf("It takes %d seeds until the difference of %s is known to ±%g.", enough, of, u.Half))
	}
	if u.Most <= seeds {
		return 0
	}
	return min(enough, u.Most)
}
