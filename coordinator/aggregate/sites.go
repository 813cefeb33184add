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

// siteOf returns the site of a client.
func (a *Aggregator) siteOf(client int) int { return client % a.config.Round.Server.Sites }

// trainSites trains round r by hierarchical FedAvg, in stages: in each stage the clients of a site train
// from the site's own model. All stages but the last move that model; the updates of the last one become
// the sum of the round. The outcome has a loss for each task of r. The sites' models leave the bus at the
// end, also after an error.
func (a *Aggregator) trainSites(ctx context.Context, r Round) (outcome Outcome, err error) {
	defer func() { err = errors.Join(err, a.models.releaseSites(context.WithoutCancel(ctx))) }()
	stages := a.siteStages(r.Tasks)
	last := len(stages) - 1
	losses := make([]float64, len(r.Tasks))
	var sum roundSum
	for stageNumber, taskPlaces := range stages {
		stage := Round{Number: r.Number, Tasks: make([]round.Task, len(taskPlaces))}
		for i, place := range taskPlaces {
			stage.Tasks[i] = r.Tasks[place]
			// A stage before the last one needs the site's model as a base that can move.
			if err := a.startFromSite(ctx, &stage.Tasks[i], stageNumber < last); err != nil {
				return outcome, err
			}
		}
		var stageLosses []float64
		if stageNumber < last {
			stageLosses, err = a.trainSiteStage(ctx, stage)
		} else {
			sum, err = a.addUp(ctx, stage)
			stageLosses = sum.losses
		}
		if err != nil {
			return outcome, err
		}
		for i, place := range taskPlaces {
			losses[place] = stageLosses[i]
		}
	}
	outcome = a.outcome(r, sum)
	outcome.Losses = losses
	outcome.Loss = meanLoss(firstLosses(r.Tasks, losses))
	return outcome, nil
}

// firstLosses returns the loss of the first task of each client, in task order. A client has one task in
// each of its site's rounds, and only the first starts from the model of the round, whose loss is reported.
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

// startFromSite makes a task start from the own model of its client's site. If the site has none yet, it
// gets a copy of the newest model if create is true; otherwise the task keeps its base model, the newest one.
func (a *Aggregator) startFromSite(ctx context.Context, task *round.Task, create bool) error {
	version := siteVersion(a.siteOf(task.Client))
	_, hasModel := a.models.versions[version]
	if !hasModel && !create {
		return nil
	}
	if !hasModel {
		if err := a.models.add(ctx, version, a.models.current()); err != nil {
			return err
		}
	}
	task.Model = version
	return nil
}

// siteStages divides the tasks of a round of hierarchical FedAvg into stages that can be trained one after
// the other. A site, such as a base station, has several own rounds within the round, in each of which its
// clients have one task. A stage has at most one own round of each site, and the last stage has the last own
// round of every site.
//
// A stage is given as the places of its tasks in the list. Within it tasks are sorted by site, but those of
// sites with a single own round, which start from the newest model, come first.
func (a *Aggregator) siteStages(tasks []round.Task) (stages [][]int) {
	site := func(place int) int { return a.siteOf(tasks[place].Client) }
	siteRounds := ownRounds(tasks)
	// lastRound holds the last own round of each site.
	lastRound := map[int]int{}
	for place, siteRound := range siteRounds {
		lastRound[site(place)] = max(lastRound[site(place)], siteRound)
	}
	stages = make([][]int, 1+slices.Max(siteRounds))
	for place, siteRound := range siteRounds {
		stage := siteRound
		if siteRound == lastRound[site(place)] {
			stage = len(stages) - 1
		}
		stages[stage] = append(stages[stage], place)
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

// ownRounds returns for each task of a round in which own round of its client's site it was, from 0: as many as the
// client had tasks before, since a client with a task in one own round had one in all before it.
func ownRounds(tasks []round.Task) []int {
	rounds := make([]int, len(tasks))
	// tasksBefore counts the tasks of each client so far.
	tasksBefore := map[int]int{}
	for place, t := range tasks {
		rounds[place] = tasksBefore[t.Client]
		tasksBefore[t.Client]++
	}
	return rounds
}

// trainSiteStage trains one stage but the last. round.Tasks are those of the stage: each is trained from its site's
// own model, and each site's model is replaced by the weighted mean of its clients' models. The result has the loss
// of each of these tasks, in the same order.
func (a *Aggregator) trainSiteStage(ctx context.Context, round Round) ([]float64, error) {
	updates := newUpdates(round.Tasks)
	// sums holds one sum for each version of a site's model.
	sums := map[uint64][]int64{}
	// scales holds for each version the factor that its site applies to the sum.
	scales := map[uint64]float64{}
	// Tasks of one site start from one version, so a single part for each version has the updates of one site.
	const parts = 1
	sites := splitByBase(updates, parts)
	for _, site := range sites {
		// The shares of a site's updates sum to 1.
		weighing, err := a.weigh(updates[site.start:site.end])
		if err != nil {
			return nil, err
		}
		version := updates[site.start].task.Model
		scales[version] = weighing.scale
		sums[version] = make([]int64, len(a.Params()))
	}
	spans := splitByBase(updates, a.queue.trainingJobCount(localSteps(updates)))
	merge := func(part span, values []int64) error {
		return algorithm.Merge(sums[updates[part.start].task.Model], values)
	}
	if err := a.trainSimulated(ctx, round.Number, updates, spans, merge); err != nil {
		return nil, err
	}
	// Sites move in the order of their tasks, so that of several that diverge the same one is named.
	for _, site := range sites {
		ofSite := updates[site.start:site.end]
		version := ofSite[0].task.Model
		buffers := a.nextBuffers(a.models.versions[version].params, ofSite)
		if err := a.moveSite(ctx, round.Number, version, sums[version], scales[version], buffers); err != nil {
			return nil, err
		}
	}
	return lossesOf(updates), nil
}

// moveSite replaces the own model of a site, the version with this number, by the next one: sum is the
// exact sum of its clients' weighted updates, to which the site applies scale, and buffers are the next values
// of the buffers, which lie in the model behind what updates move; nil if clients send none. A value that is not
// finite is an error that wraps [round.ErrDiverged]. roundNumber is the round's.
func (a *Aggregator) moveSite(
	ctx context.Context,
	roundNumber int,
	version uint64,
	sum []int64,
	scale float64,
	buffers []float32,
) error {
	// A published model is never changed, so the next one is a copy.
	params := slices.Clone(a.models.versions[version].params)
	algorithm.Default.Server(len(params)).Apply(params, sum, scale)
	copy(params[a.updateLength:], buffers)
	if i := firstNotFinite(params); i != allFinite {
		return fmt.Errorf(
			"%w: parameter %d of the model of site %d in round %d is %g",
			round.ErrDiverged,
			i,
			version-firstSiteVersion,
			roundNumber,
			params[i],
		)
	}
	if err := a.models.release(ctx, version); err != nil {
		return err
	}
	return a.models.add(ctx, version, newModel(params))
}
