package coordinator

import (
	"math"
	"slices"

	"fedpace/algorithm"
	"fedpace/algorithm/combine"
	"fedpace/coordinator/round"
	"fedpace/learn"
	"fedpace/registry"
)

// singles are the updates of a round that have a sum of their own: all of them where the
// run combines updates by a rule or clips them or its algorithm looks at each, and stale ones
// where the algorithm looks at these. Its zero value is a round whose updates are added up.
type singles struct {
	place   []int               // by task: among updates; -1: it is added up. nil: all are
	updates [][]int64           // exact sums of weight 1
	join    func([]int64) error // completes the round's sum; nil: it is complete
}

// take makes the updates of some tasks single.
func (s *singles) take(tasks []round.Task, which func(round.Task) bool) {
	s.place = make([]int, len(tasks))
	for i, t := range tasks {
		s.place[i] = -1
		if which(t) {
			s.place[i] = len(s.updates)
			s.updates = append(s.updates, nil)
		}
	}
}

// singleAll prepares a round whose updates are clipped, combined by a rule or looked at by the
// algorithm, if the run does so, and made private. They are clipped as they were sent. An
// algorithm that mixes models sees them as differences to the newest one.
func (l *learner) singleAll(number int, tasks []round.Task, weights []float64) (s singles) {
	of := l.config.Learning.Combine
	if !of.Single() {
		return s
	}
	s.take(tasks, func(round.Task) bool { return true })
	shares := slices.Clone(weights)
	for i := range weights {
		weights[i] = 1
	}
	mixes := registry.NeedsOf(l.algorithm.Algorithm).NewestModel
	s.join = func(sum []int64) error {
		l.clip.Clip(s.updates)
		for i, t := range tasks {
			if mixes && t.Staleness > 0 {
				if err := l.rebaseOn(s.updates[i], t.Model, 1); err != nil {
					return err
				}
			}
		}
		private := l.config.Learning.Privacy
		if private != nil {
			shares = slices.Repeat([]float64{private.Share()}, len(shares))
		}
		of.Apply(sum, s.updates, shares)
		l.scale *= l.algorithm.Stretch(s.updates, shares, sum)
		if private != nil {
			private.Add(number, sum[:learn.Travels(l.config.Learning.Model)])
		}
		return nil
	}
	return s
}

// singleStale prepares a round whose algorithm looks at each stale update by itself, if it
// does so and some are fresh. Those are added up with weights that come to 1.
func (l *learner) singleStale(tasks []round.Task, weights []float64) (s singles) {
	isStale := func(t round.Task) bool { return t.Staleness > 0 }
	isFresh := func(t round.Task) bool { return t.Staleness == 0 }
	of, ok := l.algorithm.Algorithm.(algorithm.Apart)
	if !ok || !slices.ContainsFunc(tasks, isStale) || !slices.ContainsFunc(tasks, isFresh) {
		return s
	}
	s.take(tasks, isStale)
	var stale []algorithm.Stale
	share := 0.0 // of the fresh ones
	for i, t := range tasks {
		if s.place[i] < 0 {
			share += weights[i]
			continue
		}
		stale = append(stale, algorithm.Stale{Share: weights[i], Staleness: t.Staleness})
		weights[i] = 1
	}
	for i := range tasks {
		if s.place[i] < 0 {
			weights[i] = min(1, weights[i]/share)
		}
	}
	s.join = func(sum []int64) error {
		for i := range stale {
			stale[i].Update = s.updates[i]
		}
		l.algorithm.Join(of, sum, share, stale)
		return nil
	}
	return s
}

// alone reports whether a task's update is single.
func (s *singles) alone(task int) bool { return s.place != nil && s.place[task] >= 0 }

// spans cuts the tasks of simulated clients into jobs: one for each that is single. These
// come first, since the list ascends by model.
func (s *singles) spans(tasks []round.Task, parts int) []span {
	var list []span
	first := 0
	for ; first < len(tasks) && s.alone(first); first++ {
		list = append(list, span{first, first + 1})
	}
	for _, x := range splitByModel(tasks[first:], parts) {
		list = append(list, span{first + x.from, first + x.to})
	}
	return list
}

// merge adds the sum of a span of the tasks to that of the round, or keeps it.
func (s *singles) merge(sum []int64, part span, values []int64) error {
	if s.alone(part.from) {
		own := make([]int64, len(values))
		s.updates[s.place[part.from]] = own
		return algorithm.Merge(own, values)
	}
	return algorithm.Merge(sum, values)
}

// addDevices clips the updates of devices, whose tasks are those from first on, and adds
// them.
func (l *learner) addDevices(s *singles, tasks []round.Task, weights, losses []float64, first int) error {
	base := func(version uint64) []float32 { return l.models.list[version].params }
	clipped, err := l.clipDevices(s, tasks, weights, first, base)
	if err != nil {
		return err
	}
	own := func(i int, weight float64) ([]int64, error) {
		sum := make([]int64, len(l.sum))
		return sum, l.devices.Add(sum, tasks[i:i+1], []float64{weight}, losses[i:], base)
	}
	for ; first < len(tasks) && s.alone(first); first++ {
		if s.updates[s.place[first]], err = own(first, clipped[first]); err != nil {
			return err
		}
	}
	rule := l.config.Learning.Combine.OfThem
	if rule == nil || len(tasks)-first < combine.Enough {
		return l.devices.Add(l.sum, tasks[first:], clipped[first:], losses[first:], base)
	}
	updates := make([][]int64, len(tasks)-first)
	for i := range updates {
		if updates[i], err = own(first+i, clipped[first+i]/weights[first+i]); err != nil {
			return err
		}
	}
	of := make([]int64, len(l.sum))
	combine.Setup{Rule: rule}.Apply(of, updates, weights[first:])
	return algorithm.Merge(l.sum, of)
}

// clipDevices returns the weights with which devices' updates are as long as they may be.
// The norms of simulated clients are a measure, too.
func (l *learner) clipDevices(
	s *singles,
	tasks []round.Task,
	weights []float64,
	first int,
	base func(version uint64) []float32,
) ([]float64, error) {
	l.lengths = nil
	if first == len(tasks) {
		l.bound.Forget() // those of a trial that counted more
		return weights, nil
	}
	norms, err := l.devices.Norms(tasks[first:], base)
	if err != nil {
		return nil, err
	}
	l.lengths = append(norms, l.norms(s, weights[:first])...)
	bound, factors := l.bound.Factors(l.lengths)
	l.devices.Clipped(tasks[first:], norms, bound)
	clipped := slices.Clone(weights)
	for i := range norms {
		clipped[first+i] *= factors[i]
	}
	return clipped, nil
}

// norms are those of the first updates of a round, which have these weights. Of n that were
// added up each counts as √n times their mean, as long as it would be if they had nothing
// in common: no less than what they are in the mean square.
func (l *learner) norms(s *singles, weights []float64) (norms []float64) {
	n := 0
	share := 0.0
	for i, w := range weights {
		if s.alone(i) {
			norms = append(norms, combine.Norm(s.updates[s.place[i]]))
		} else {
			n = n + 1
			share = share + w
		}
	}
	if n > 0 {
		norms = append(norms, slices.Repeat([]float64{combine.Norm(l.sum) / share * math.Sqrt(float64(n))}, n)...)
	}
	return norms
}
