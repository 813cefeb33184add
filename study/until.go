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
	// Half is the wanted half width of the interval of each difference in how runs end. With 0 no
	// seeds are added.
	Half float64
	// MaxSeeds bounds the seeds of both stages together.
	MaxSeeds int

	// firstStageSeeds is the number of seeds of the first stage. It is 0 until others are added.
	firstStageSeeds int
}

// firstStage is the number of seeds of the first stage, at least: the deviation of fewer says too little of
// that of more seeds.
const firstStage = 5

// seedsNeeded estimates, from the seeds played so far, how many seeds it takes in all until every difference
// between schedules in how runs end is known to ±Half, the half width of its interval. The result is at most
// MaxSeeds; if more seeds are needed than were played, notice is called with a sentence that says how many.
// Differences without a value for some seed are left out.
func (r *Comparison) seedsNeeded(notice func(string)) int {
	u := r.Plan.Until
	seeds := r.Plan.Seeds
	if u.Half == 0 {
		return seeds
	}
	needed := seeds
	schedule := ""
	// Times to the level may have no value, so differences in how runs end decide alone.
	for _, d := range r.Table().Differences() {
		// The number of seeds cannot be told from differences that are missing.
		isIncomplete := len(d.BySeed) < 2 || slices.ContainsFunc(d.BySeed, math.IsNaN)
		if d.Quantity == toLevel || isIncomplete {
			continue
		}
		// The difference that needs the most seeds decides.
		if n := statistics.Enough(d.BySeed, u.Half); n > needed {
			needed = n
			schedule = d.Row.Schedule
		}
	}
	limit := max(u.MaxSeeds, seeds)
	switch {
	case needed > limit:
		notice(fmt.Sprintf(
			"It takes %d seeds until the difference of %s is known to ±%g: %d are played, the most allowed.",
			needed,
			schedule,
			u.Half,
			limit,
		))
	case needed > seeds:
		notice(fmt.Sprintf("It takes %d seeds until the difference of %s is known to ±%g.", needed, schedule, u.Half))
	}
	return min(needed, limit)
}
