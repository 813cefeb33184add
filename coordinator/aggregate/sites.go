package aggregate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"fedpace/algorithm"
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
// The first difference is added up as that of a client that sends to the server. Where a site has
// one round, x_s is x and the bits are the same.

// site returns the site of a client.
func (a *Aggregator) site(client int) int { return client % a.config.Round.Server.Sites }

// trainSites trains round r in a hierarchy of two levels: in each stage the clients of a site train
// from the site's own model, and all stages but the last move that model. The updates of the last
// stage become the sum of the round. It returns the round's outcome with a loss for each task. The
// sites' models leave the bus at the end, also after an error.
func (a *Aggregator) trainSites(ctx context.Context, r Round) (o Outcome, err error) {
	defer func() { err = errors.Join(err, a.models.releaseSites(context.WithoutCancel(ctx))) }()
	stages := a.siteStages(r.Tasks)
	last := len(stages) - 1
	losses := make([]float64, len(r.Tasks))
	var sum roundSum
	for k, places := range stages {
		stage := Round{Number: r.Number, Tasks: make([]round.Task, len(places))}
		for i, place := range places {
			stage.Tasks[i] = r.Tasks[place]
			// A stage before the last one needs the site's model as a base that can move.
			if err := a.startFromSite(ctx, &stage.Tasks[i], k < last); err != nil {
				return o, err
			}
		}
		var stageLosses []float64
		if k < last {
			stageLosses, err = a.siteRound(ctx, stage)
		} else {
			sum, err = a.addUp(ctx, stage)
			stageLosses = sum.losses
		}
		if err != nil {
			return o, err
		}
		for i, place := range places {
			losses[place] = stageLosses[i]
		}
	}
	o = a.outcome(r, sum)
	o.Losses = losses
	o.Loss = meanLoss(firstLosses(r.Tasks, losses))
	return o, nil
}

// firstLosses returns the loss of each client's first task, in task order. A client may have a task
// in each stage of a round, and only its first one starts from the round's model, of which the loss
// is reported.
func firstLosses(tasks []round.Task, losses []float64) (first []float64) {
	seen := map[int]bool{}
	for i, t := range tasks {
		if !seen[t.Client] {
			seen[t.Client] = true
			first = append(first, losses[i])
		}
	}
	return first
}

// startFromSite sets the base model of task t to the own model of its client's site. A site that has
// none yet gets a copy of the round's model if create is true; else the task keeps the round's model
// as its base.
func (a *Aggregator) startFromSite(ctx context.Context, t *round.Task, create bool) error {
	version := siteVersion(a.site(t.Client))
	_, exists := a.models.versions[version]
	if !exists && !create {
		return nil
	}
	if !exists {
		if err := a.models.add(ctx, version, a.models.current()); err != nil {
			return err
		}
	}
	t.Model = version
	return nil
}

// siteStages returns the places of the tasks by stage. A stage holds one round of each site that has
// one; a site's last round is in the last stage. Within a stage tasks are in the order of sites,
// but those of sites with a single round, which start from the round's model, precede the others.
func (a *Aggregator) siteStages(tasks []round.Task) (stages [][]int) {
	site := func(place int) int { return a.site(tasks[place].Client) }
	// siteRounds holds for each task the number of its site's own round.
	siteRounds := make([]int, len(tasks))
	// done counts the tasks of each client so far.
	done := map[int]int{}
	// lastRound holds the newest round of each site.
	lastRound := map[int]int{}
	for i, t := range tasks {
		siteRounds[i] = done[t.Client]
		done[t.Client]++
		lastRound[site(i)] = max(lastRound[site(i)], siteRounds[i])
	}
	stages = make([][]int, 1+slices.Max(siteRounds))
	for i, k := range siteRounds {
		if k == lastRound[site(i)] {
			k = len(stages) - 1
		}
		stages[k] = append(stages[k], i)
	}
	// order is 0 for all sites with a single round, whose tasks stay in their order.
	order := func(place int) int {
		if lastRound[site(place)] == 0 {
			return 0
		}
		return 1 + site(place)
	}
	for _, places := range stages {
		slices.SortStableFunc(places, func(i, j int) int { return cmp.Compare(order(i), order(j)) })
	}
	return stages
}

// siteRound trains one stage: it trains the tasks of r, each of which starts from its site's own
// model, and replaces each site's model by the weighted mean of its clients' results. It returns
// the loss of each task, in task order.
func (a *Aggregator) siteRound(ctx context.Context, r Round) ([]float64, error) {
	updates := newUpdates(r.Tasks)
	// sums holds one sum for each version of a site's model.
	sums := map[uint64][]int64{}
	// Tasks of one site start from one version. The shares of a site's updates sum to 1.
	sites := splitByBase(updates, 1)
	for _, s := range sites {
		if _, err := a.weigh(updates[s.start:s.end]); err != nil {
			return nil, err
		}
		sums[updates[s.start].task.Model] = make([]int64, len(a.Params()))
	}
	spans := splitByBase(updates, a.queue.trainingParts(localSteps(updates)))
	merge := func(part span, values []int64) error {
		return algorithm.Merge(sums[updates[part.start].task.Model], values)
	}
	if err := a.trainSimulated(ctx, r.Number, updates, spans, merge); err != nil {
		return nil, err
	}
	// Sites move in the order of their tasks, so that of several that diverge the same one is named.
	for _, s := range sites {
		ofSite := updates[s.start:s.end]
		version := ofSite[0].task.Model
		buffers := a.nextBuffers(a.models.versions[version].params, ofSite)
		if err := a.moveSite(ctx, r.Number, version, sums[version], buffers); err != nil {
			return nil, err
		}
	}
	return lossesOf(updates), nil
}

// moveSite replaces the own model of a site, which has this version, by one that the sum of its
// clients' updates has moved, and that has these buffers, if any. A value that is not finite is an
// error that wraps ErrDiverged. number is the round's.
func (a *Aggregator) moveSite(
	ctx context.Context,
	number int,
	version uint64,
	sum []int64,
	buffers []float32,
) error {
	// A published model is never changed, so the next one is a copy.
	params := slices.Clone(a.models.versions[version].params)
	algorithm.Default.Server(len(params)).Apply(params, sum, 1)
	copy(params[a.judged:], buffers)
	if i := notFinite(params); i != allFinite {
		return fmt.Errorf(
			"%w: parameter %d of the model of site %d in round %d is %g",
			round.ErrDiverged,
			i,
			version-firstSiteVersion,
			number,
			params[i],
		)
	}
	if err := a.models.release(ctx, version); err != nil {
		return err
	}
	return a.models.add(ctx, version, newModel(params))
}
