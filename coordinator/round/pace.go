package round

import "math"

// paceWindow is the number of rounds over which the pace is averaged: a newer round counts with
// 1/paceWindow, and in the first rounds all count alike.
const paceWindow = 10

// measurePace takes the round that has closed into the mean pace: the seconds of a round without computing,
// and the seconds of one local step. It does nothing unless a schedule reads the pace and an update of the
// round counts. The time without computing is that of the round or, where rounds overlap, of its slowest
// task, less the computing of that task.
func (m *Machine) measurePace() {
	round := &m.round
	isMeasured := m.needsPace && round.Slowest > 0 && round.K > 0
	if !isMeasured {
		return
	}
	length := round.Slowest
	if !m.roundsOverlap() {
		// The deadline may be later than the slowest update.
		length = max(length, round.End-round.Start)
	}
	computing := min(round.Computing, length)
	perRound := (length - computing).Seconds()
	perStep := computing.Seconds() / float64(round.K)
	// The mean is over all rounds until paceWindow are in it. From there on each round moves it by
	// the same share.
	round.Paced = min(round.Paced+1, paceWindow)
	weight := 1 / float64(round.Paced)
	round.Pace.Known = true
	round.Pace.Round += float64(weight * (perRound - round.Pace.Round))
	round.Pace.Step += float64(weight * (perStep - round.Pace.Step))
}

// Share returns which part of a run is over at the time now, from 0 to 1, by the limit that is nearest.
// stop has the totals of the rounds so far. A limit of 0 is not set. The result is NaN if no limit is set, or only
// targets are, which a run may reach at any time.
func (l *Limits) Share(now Time, stop *Stop) float64 {
	share := math.NaN()
	for _, x := range []struct{ done, limit int64 }{
		{int64(stop.Rounds), int64(l.Rounds)},
		{int64(now), int64(l.Time)},
		{int64(stop.Outcomes[Accepted]), int64(l.Accepted)},
		{stop.Samples, l.Samples},
		{stop.Samples * l.TokensPerSample, l.Tokens},
	} {
		share = largerPart(share, float64(x.done), float64(x.limit))
	}
	for _, b := range stop.Used.budgets(&l.Budget) {
		share = largerPart(share, b.used, b.limit)
	}
	return share
}

// largerPart returns the larger one of share, a part of the run that is over, and done/limit, at most 1.
// share is NaN as long as no part is known. A limit of 0 is not set, and share is returned.
func largerPart(share, done, limit float64) float64 {
	if limit == 0 {
		return share
	}
	part := min(1, done/limit)
	if part > share || math.IsNaN(share) {
		return part
	}
	return share
}
