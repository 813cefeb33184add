package study

import (
	"fmt"
	"math"
	"slices"

	"fedpace/internal/statistics"
)

// Until adds seeds to a comparison until its differences are known to ± Half, in two stages (Stein
// 1945): the deviations of the first seeds' differences say how many seeds that takes.
type Until struct {
	Half float64 // wanted of the interval of each difference in how runs end; 0: no seeds are added
	Most int     // seeds in all

	first int // seeds of the first stage, once others were added
}

// fewest seeds have a deviation from which others can be foreseen.
const fewest = 5

// enough is how many seeds there must be in all, those that were played included.
func (r *Comparison) enough(notice func(string)) int {
	u := r.Plan.Until
	seeds := r.Plan.Seeds
	if u.Half == 0 {
		return seeds
	}
	enough := seeds
	of := ""
	for _, d := range r.Table().Differences() {
		if d.Quantity == toLevel || slices.ContainsFunc(d.BySeed, math.IsNaN) || len(d.BySeed) < 2 {
			continue
		}
		if n := statistics.Enough(d.BySeed, u.Half); n > enough {
			enough = n
			of = d.Row.Schedule
		}
	}
	most := max(u.Most, seeds)
	switch {
	case enough > most:
		notice(fmt.Sprintf(
			"It takes %d seeds until the difference of %s is known to ±%g: %d are played, the most allowed.",
			enough,
			of,
			u.Half,
			most,
		))
	case enough > seeds:
		notice(fmt.Sprintf("It takes %d seeds until the difference of %s is known to ±%g.", enough, of, u.Half))
	}
	return min(enough, most)
}
