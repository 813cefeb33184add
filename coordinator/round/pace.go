package round

import "math"

// paceRounds is the number of rounds over which the pace is averaged: a newer round counts with
// 1/paceRounds, and in the first rounds all count alike.
const paceRounds = 10

// measurePace takes the round that has closed into the mean pace, if a schedule reads that and an
// update of the round counts. The time that does not grow with K is what the round, or where rounds
// overlap its slowest task, took beside computing.
func (m *Machine) measurePace() {
	r := &m.round
	isMeasured := m.needsPace && r.Slowest > 0 && r.K > 0
	if !isMeasured {
		return
	}
	length := r.Slowest
	if m.overlapping == nil {
		// The deadline may be later than the slowest update.
		length = max(length, r.End-r.Start)
	}
	computing := min(r.Computing, length)
	perRound := (length - computing).Seconds()
	perStep := computing.Seconds() / float64(r.K)
	// The mean is over all rounds until paceRounds are in it. From there on each round moves it by
	// the same share.
	r.Paced = min(r.Paced+1, paceRounds)
	weight := 1 / float64(r.Paced)
	r.Pace.Known = true
	r.Pace.Round += float64(weight * (perRound - r.Pace.Round))
	r.Pace.Step += float64(weight * (perStep - r.Pace.Step))
}

// Share returns which part of a run is over at the time now, from 0 to 1, by the limit that the run is
// nearest to. stop has the sums of the rounds so far. The result is NaN if the run has no limits, or only
// targets, since it is not known when the run reaches those.
func (l *Limits) Share(now Time, stop *Stop) float64 {
	share := math.NaN()
	for _, x := range []struct{ done, limit int64 }{
		{int64(stop.Rounds), int64(l.Rounds)},
		{int64(now), int64(l.Time)},
		{int64(stop.Outcomes[Accepted]), int64(l.Accepted)},
		{stop.Samples, l.Samples},
		{stop.Samples * l.TokensPerSample, l.Tokens},
	} {
		share = nearer(share, float64(x.done), float64(x.limit))
	}
	for _, b := range stop.Used.budgets(&l.Budget) {
		share = nearer(share, b.used, b.limit)
	}
	return share
}

// nearer returns the greater one of two parts of a run that are over: share, NaN while none is known,
// and done/limit, at most 1. A limit of 0 is not set, and leaves share.
func nearer(share, done, limit float64) float64 {
	if limit == 0 {
		return share
	}
	part := min(1, done/limit)
	if part > share || math.IsNaN(share) {
		return part
	}
	return share
}
