package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"fedpace/algorithm"
	"fedpace/bus"
	"fedpace/coordinator/round"
)

// Sites that add up before they send are hierarchical FedAvg (Liu et al. 2020, Algorithm 1). In
// all of its rounds but the last a site s moves its own model by its clients' updates,
//
//	x_s ← x_s + Σ_c w_c/W_s (x_c − x_s)
//
// and the sum that it sends after the last one, with the weight of its clients, makes
//
//	x ← x + Σ_s Σ_c w_c/W ((x_c − x_s) + (x_s − x))
//
// The first difference is added up as that of a client that sends to the server, whose bits are
// those of this one where x_s is x: where a site has one round.

// firstSite is the version of the model that is the own one of site 0, beyond those of rounds.
const firstSite = 1 << 60

// trainSites adds up the updates of the tasks as [learner.addUp], by way of their sites.
func (l *learner) trainSites(
	ctx context.Context,
	number int,
	tasks []round.Task,
) (loss float64, losses []float64, err error) {
	defer func() { err = errors.Join(err, l.forgetSites(context.WithoutCancel(ctx))) }()
	var first, told []float64
	losses = make([]float64, len(tasks))
	stages := l.siteStages(tasks)
	for k, places := range stages {
		own := make([]round.Task, len(places))
		for i, place := range places {
			own[i] = tasks[place]
			version := firstSite + uint64(own[i].Client%l.config.Round.Server.Sites)
			if _, has := l.models.list[version]; k < len(stages)-1 && !has {
				if err := l.models.add(ctx, version, l.model); err != nil {
					return 0, nil, err
				}
			}
			if _, has := l.models.list[version]; has {
				own[i].Model = version
			}
		}
		if k < len(stages)-1 {
			told, err = l.siteRound(ctx, number, own)
		} else {
			_, told, err = l.addUp(ctx, number, own)
		}
		if err != nil {
			return 0, nil, err
		}
		for i, place := range places {
			losses[place] = told[i]
		}
	}
	asked := map[int]bool{}
	for i, t := range tasks { // the first of each client starts from the round's model
		if !asked[t.Client] {
			asked[t.Client] = true
			first = append(first, losses[i])
		}
	}
	return meanTold(first, nil), losses, nil
}

// siteStages says in which round of its site each task is, by the places of tasks; those of the
// last round of any site are the last. Each is in the order of sites.
func (l *learner) siteStages(tasks []round.Task) (stages [][]int) {
	site := func(i int) int { return tasks[i].Client % l.config.Round.Server.Sites }
	of := make([]int, len(tasks))
	before := map[int]int{}
	last := map[int]int{}
	for i, t := range tasks {
		of[i] = before[t.Client]
		before[t.Client]++
		last[site(i)] = max(last[site(i)], of[i])
	}
	stages = make([][]int, 1+slices.Max(of))
	for i, k := range of {
		if k == last[site(i)] {
			k = len(stages) - 1
		}
		stages[k] = append(stages[k], i)
	}
	// A site with one round sends what starts from the round's model, which goes before its own.
	for _, places := range stages {
		slices.SortStableFunc(places, func(i, j int) int {
			return cmp.Or(
				cmp.Compare(min(1, last[site(i)]), min(1, last[site(j)])),
				cmp.Compare(min(1, last[site(i)])*site(i), min(1, last[site(j)])*site(j)),
			)
		})
	}
	return stages
}

// siteRound moves the sites' own models, from which the tasks start, and returns the clients'
// losses.
func (l *learner) siteRound(ctx context.Context, number int, tasks []round.Task) (losses []float64, err error) {
	var weights []float64
	sums := map[uint64][]int64{}
	for _, s := range splitByModel(tasks, 1) {
		w, _, err := l.weigh(number, tasks[s.from:s.to])
		if err != nil {
			return nil, err
		}
		weights = append(weights, w...)
		sums[tasks[s.from].Model] = make([]int64, len(l.params))
	}
	variates, err := l.putVariates(ctx, tasks)
	if err != nil {
		return nil, err
	}
	_, losses, err = l.trainAll(ctx, number, tasks, splitByModel(tasks, l.parts()), weights, variates, func(s span, values []int64) error {
		return algorithm.Merge(sums[tasks[s.from].Model], values)
	})
	if err != nil {
		return nil, err
	}
	for version, sum := range sums {
		next := slices.Clone(l.models.list[version].params)
		algorithm.Default.Server(len(next)).Apply(next, sum, 1)
		if i := notFinite(next); i >= 0 {
			return nil, fmt.Errorf(
				"%w: parameter %d of the model of site %d in round %d is %g",
				ErrDiverged,
				i,
				version-firstSite,
				number,
				next[i],
			)
		}
		if err := errors.Join(
			l.models.release(ctx, version),
			l.models.add(ctx, version, model{digest: bus.DigestOf(next), params: next}),
		); err != nil {
			return nil, err
		}
	}
	return losses, nil
}

// forgetSites deletes the sites' own models.
func (l *learner) forgetSites(ctx context.Context) (err error) {
	for _, version := range slices.Sorted(maps.Keys(l.models.list)) {
		if version >= firstSite {
			err = errors.Join(err, l.models.release(ctx, version))
		}
	}
	return err
}
