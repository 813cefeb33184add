package coordinator

import (
	"slices"

	"fedpace/coordinator/aggregate"
	"fedpace/coordinator/round"
)

// apart are the stale updates of a round whose algorithm looks at each by itself, so
// that each has a sum of its own. Its zero value is a round without.
type apart struct {
	of    aggregate.Apart // nil: updates are added up, whether stale or not
	fresh float64         // the other updates' share of the weights
	stale []aggregate.Stale
	place []int // by task: among stale; -1: it is fresh
}

// setApart takes the stale updates of the tasks apart, if their algorithm wants that
// and some are fresh. Of weights that come to 1 it makes those of the sums.
func (l *learner) setApart(tasks []round.Task, weights []float64) (a apart) {
	of, ok := l.algorithm.Algorithm.(aggregate.Apart)
	isStale := func(t round.Task) bool { return t.Staleness > 0 }
	isFresh := func(t round.Task) bool { return t.Staleness == 0 }
	if !ok || !slices.ContainsFunc(tasks, isStale) || !slices.ContainsFunc(tasks, isFresh) {
		return a
	}
	a.of, a.place = of, make([]int, len(tasks))
	var fresh []float64
	for i, t := range tasks {
		if a.place[i] = -1; isFresh(t) {
			fresh = append(fresh, weights[i])
			continue
		}
		a.place[i] = len(a.stale)
		a.stale = append(a.stale, aggregate.Stale{Share: weights[i], Staleness: t.Staleness})
		weights[i] = 1
	}
	a.fresh = total(fresh)
	for i, t := range tasks {
		if isFresh(t) {
			weights[i] = min(1, weights[i]/a.fresh)
		}
	}
	return a
}

// spans cuts the tasks of simulated clients into jobs: one for each that is apart.
func (a *apart) spans(tasks []round.Task, parts int) []span {
	var list []span
	first := 0 // task that is not apart: the list ascends by model
	for a.of != nil && first < len(tasks) && a.place[first] >= 0 {
		list = append(list, span{first, first + 1})
		first++
	}
	for _, s := range splitByModel(tasks[first:], parts) {
		list = append(list, span{first + s.from, first + s.to})
	}
	return list
}

// merge adds the sum of a span of the tasks to that of the round, or keeps it.
func (a *apart) merge(sum []int64, part span, values []int64) error {
	if a.of != nil && a.place[part.from] >= 0 {
		a.stale[a.place[part.from]].Update = slices.Clone(values)
		return nil
	}
	return aggregate.Merge(sum, values)
}

// addDevices adds the updates of devices, whose tasks are those from first on.
func (l *learner) addDevices(a *apart, tasks []round.Task, weights, losses []float64, first int) error {
	base := func(version uint64) []float32 { return l.models.list[version].params }
	for ; a.of != nil && first < len(tasks) && a.place[first] >= 0; first++ {
		own, part := make([]int64, len(l.sum)), span{first, first + 1}
		if err := l.devices.Add(own, tasks[part.from:part.to], weights[part.from:], losses[part.from:], base); err != nil {
			return err
		}
		if err := a.merge(l.sum, part, own); err != nil {
			return err
		}
	}
	return l.devices.Add(l.sum, tasks[first:], weights[first:], losses[first:], base)
}

// join completes the round's sum.
func (a *apart) join(algorithm *aggregate.Instance, sum []int64) {
	if a.of != nil {
		algorithm.Join(a.of, sum, a.fresh, a.stale)
	}
}
