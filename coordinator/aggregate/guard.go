package aggregate

import (
	"cmp"
	"math"
	"slices"
)

// The updates of real devices are their word alone. So a round that has some is tried before it counts:
// the coordinator measures the model that would result, on a few held-out samples. If half of what was
// learned is lost with it, the round is done without the devices whose updates, or moves of a buffer, are
// far longer than the others' and without which it is not. Devices are banned if their updates would have made an
// intact model diverge. If a model is lost all the same, the run goes back to its best one. Nothing
// here depends on the order or the time in which anything arrives, so a replay decides alike.

// Guard is what a run remembers of its models' losses to judge the updates of devices by.
type Guard struct {
	// First is the held-out loss of the model that the first update of a device started from, 0 as
	// long as none was above 0.
	First float64
	// Best is the least held-out loss of a model with which a round with devices began.
	Best float64
	// Good is the model with loss Best, nil if there was none.
	Good []float32
	// Banned counts the devices that were banned because their updates made the model diverge.
	Banned int
}

const (
	// guardSamples is how many held-out samples the guard measures a model on.
	guardSamples = 256
	// divergedTimes is how many times the first loss means that a model is lost.
	divergedTimes = 4
	// outlierTimes is how many times the median norm of the others makes an update suspect.
	outlierTimes = 4
	// maxSuspects is how many devices of a round are excluded at most.
	maxSuspects = 16
	// minToBlame is the least number of updates in a round for a ban: of two, either may be the
	// outlier.
	minToBlame = 3
	// halfOfLearning is how many times the best loss means that a model is degraded.
	halfOfLearning = 2
)

// degraded reports whether a model with this held-out loss has lost half of what the best model so far has
// learned: its loss is at least twice the best loss, and nearer to the first loss than to the best. It is
// false before the first loss is known.
func (g *Guard) degraded(loss float64) bool {
	bound := max(halfOfLearning*g.Best, (g.First+g.Best)/2)
	// The comparison is negated so that NaN counts as degraded, too.
	return g.First > 0 && !(loss <= bound)
}

// diverged reports whether a model with this held-out loss is far worse than the first one: its loss is
// more than divergedTimes the first loss. It is false before the first loss is known.
func (g *Guard) diverged(loss float64) bool {
	// The comparison is negated so that NaN counts as diverged, too.
	return g.First > 0 && !(loss <= divergedTimes*g.First)
}

// remember notes the held-out loss of a model with which a round with devices begins. The first loss above
// 0 is kept as the measure of divergence, and the model with the lowest loss as the one to return to.
// params are the model's values, and must not change afterwards.
func (g *Guard) remember(loss float64, params []float32) {
	if g.First == 0 && loss > 0 {
		g.First = loss
		g.Best = math.Inf(1)
	}
	if g.First > 0 && (loss < g.Best || g.Good == nil) {
		g.Best = loss
		g.Good = params
	}
}

// vettedRound is a round that is up for judgement.
type vettedRound struct {
	// startLoss is the held-out loss of the model with which the round begins.
	startLoss float64
	// updateCount is the number of updates in the round.
	updateCount int
	// firstDevice is the place of the first update of a device; those before it are simulated clients'.
	firstDevice int
	// population is the number of clients in the run, devices included.
	population int
	// try sums the round up without the excluded updates and returns the loss of the model that
	// would result. The last call decides what the round's sum is.
	try func(excluded []bool) (trial, error)
}

// trial is a round that was summed up without some of its updates.
type trial struct {
	sum roundSum
	// loss is the held-out loss of the model that would result.
	loss float64
	// norms holds the norms of the updates as they were sent, those of devices first.
	norms []float64
	// moves holds the lengths of the updates' moves of each tensor of buffers, in the order of norms.
	moves [][]float64
}

// verdict is what becomes of a round.
type verdict struct {
	// trial is the round as it counts, without the excluded updates.
	trial trial
	// excluded is true for each update that does not count, by place; nil if all count.
	excluded []bool
	// loss is that of the model that would result if all updates counted, and divergesWith says whether that
	// model would have diverged.
	loss         float64
	divergesWith bool
	// updates is the number of updates in the round, the excluded ones included.
	updates int
}

// harms reports whether a round does harm: the model that it makes, with this held-out loss, is degraded,
// and worse than the model with which the round began.
func (g *Guard) harms(v *vettedRound, loss float64) bool {
	// The second comparison is negated so that NaN counts as harm, too.
	return g.degraded(loss) && !(loss <= v.startLoss)
}

// judge decides which updates of a round count. round has a function that tries it without some
// updates, and all is the trial with every update. If that does no harm, every update counts. Otherwise the
// suspects, which have the longest updates, are excluded one after the other until the harm ends; then each
// excluded one is readmitted with which the round still does no harm. If the harm lasts when no more may be
// excluded, the devices are not its cause, and every update counts. The verdict's trial is always the
// newest one, because trials share the memory of their sum.
func (g *Guard) judge(round *vettedRound, all trial) (verdict, error) {
	result := verdict{
		trial:        all,
		loss:         all.loss,
		divergesWith: g.diverged(all.loss),
		updates:      len(all.norms),
	}
	if !g.harms(round, all.loss) {
		return result, nil
	}
	measures := append([][]float64{all.norms}, all.moves...)
	suspects := suspects(measures, round.firstDevice, round.updateCount)
	// At most half of a round may be excluded, and at most half of the run's clients be banned over the
	// run.
	halfOfRound := max(1, round.updateCount/2)
	bansLeft := round.population/2 - g.Banned
	limit := min(maxSuspects, halfOfRound, bansLeft, len(suspects))
	excluded := make([]bool, round.updateCount)
	last := all
	tried := 0
	for g.harms(round, last.loss) && tried < limit {
		excluded[suspects[tried]] = true
		tried++
		var err error
		last, err = round.try(excluded)
		if err != nil {
			return result, err
		}
	}
	if tried == 0 {
		return result, nil
	}
	// No exclusion helped, so the round is tried once more with all updates, whose sum counts.
	if g.harms(round, last.loss) {
		var err error
		result.trial, err = round.try(make([]bool, round.updateCount))
		return result, err
	}
	// The harm has ended with the exclusion of the last one tried, so only those before it may be readmitted.
	last, err := g.readmit(round, last, excluded, suspects[:tried-1])
	result.trial = last
	result.excluded = excluded
	return result, err
}

// readmit tries to end exclusions, since a long update need not do harm. For each of the places it tries the
// round with the update at that place counting again, and excludes the update anew if that does harm. last is the
// trial without all excluded updates. It changes excluded, and returns a trial without the updates that are
// excluded in the end: last itself if there are no places.
func (g *Guard) readmit(round *vettedRound, last trial, excluded []bool, places []int) (trial, error) {
	var err error
	lastHarms := false
	for _, place := range places {
		excluded[place] = false
		last, err = round.try(excluded)
		if err != nil {
			return last, err
		}
		lastHarms = g.harms(round, last.loss)
		if lastHarms {
			excluded[place] = true
		}
	}
	if lastHarms {
		// The last trial had the update of the last place, which did harm and is excluded again. The
		// round without it is tried once more, so that the result is of the updates that count.
		return round.try(excluded)
	}
	return last, nil
}

// suspects returns the places in the round of devices' updates that are outliers: by at least one measure
// they are more than outlierTimes as long as the median of the round's other updates. The largest outlier
// comes first. The devices' updates have the places firstDevice to updateCount-1 in the round. Each measure has the
// lengths of all updates in another order, those of devices first: length i is that of place firstDevice+i, for each
// device. The first measure is the norm over the trained values, the others are the moves of each tensor of buffers.
func suspects(measures [][]float64, firstDevice, updateCount int) (places []int) {
	devices := updateCount - firstDevice
	excess := make([]float64, devices)
	for i := range devices {
		for _, lengths := range measures {
			excess[i] = max(excess[i], timesOthers(lengths, i))
		}
		if excess[i] > outlierTimes {
			places = append(places, firstDevice+i)
		}
	}
	norms := measures[0]
	slices.SortStableFunc(places, func(a, b int) int {
		i := a - firstDevice
		j := b - firstDevice
		return cmp.Or(cmp.Compare(excess[j], excess[i]), cmp.Compare(norms[j], norms[i]))
	})
	return places
}

// timesOthers returns the ratio of lengths[i] to the lower median of the other lengths. It is 0 if
// lengths[i] is 0 or there are no others, and +Inf if only the median is 0.
func timesOthers(lengths []float64, i int) float64 {
	others := slices.Sorted(slices.Values(slices.Delete(slices.Clone(lengths), i, i+1)))
	if len(others) == 0 || lengths[i] == 0 {
		return 0
	}
	return lengths[i] / others[(len(others)-1)/2]
}
