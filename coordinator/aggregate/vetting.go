package aggregate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"fedpace/algorithm"
	"fedpace/bus"
	"fedpace/coordinator/round"
)

// guard is what the aggregator holds the updates of devices to.
type guard struct {
	Guard
	// measured is the digest of the model that was measured last.
	measured bus.Digest
	// measuredLoss is the held-out loss of that model.
	measuredLoss float64
	// scratch is an instance of the algorithm for trying what the server makes of a sum, nil until
	// it is needed.
	scratch *algorithm.Instance
}

// trainVetted trains a round with updates of real devices, of which only those count that the guard lets
// count. It bans the devices that the guard finds to blame. The outcome says whether the model that the round makes is
// degraded or has diverged (see [Guard]); the caller goes back to the best model after a divergence.
func (a *Aggregator) trainVetted(ctx context.Context, r Round) (Outcome, error) {
	startLoss, err := a.heldOutLoss(ctx, r.Number, a.models.current())
	if err != nil {
		return Outcome{}, err
	}
	a.guard.remember(startLoss, a.Params())
	judged, err := a.trainTrial(ctx, r, startLoss)
	if errors.Is(err, round.ErrDiverged) && startLoss > a.guard.Best {
		// Simulated clients diverged from a model that is worse than the best. The round counts without
		// updates, and its loss of +Inf sends the run back to the best model.
		judged = verdict{trial: a.emptyTrial(len(r.Tasks), startLoss)}
		judged.trial.loss = math.Inf(1)
		err = nil
	}
	if err != nil {
		return Outcome{}, err
	}
	if err := a.punish(judged, r, startLoss); err != nil {
		return Outcome{}, err
	}
	o := a.outcome(r, judged.trial.sum)
	o.modelLoss = judged.trial.loss
	o.degraded = a.guard.degraded(o.modelLoss)
	o.diverged = a.guard.diverged(o.modelLoss)
	return o, nil
}

// trainTrial trains a round with all of its updates and has the guard judge it. startLoss is the held-out
// loss of the model with which the round begins. With differential privacy all updates count.
func (a *Aggregator) trainTrial(ctx context.Context, round Round, startLoss float64) (verdict, error) {
	all, err := a.try(ctx, round, startLoss, make([]bool, len(round.Tasks)))
	if err != nil {
		return verdict{}, err
	}
	// With differential privacy the clip bounds what an update can do, and the noise of each sum is
	// drawn anew: to try several would blame devices for the noise, and reveal more than one release.
	if a.learning.Privacy != nil {
		return verdict{trial: all}, nil
	}
	return a.guard.judge(&vettedRound{
		startLoss:   startLoss,
		updateCount: len(round.Tasks),
		firstDevice: a.devices.Split(round.Tasks),
		population:  a.config.Round.Clients + a.config.Round.Devices.Count,
		try:         func(excluded []bool) (trial, error) { return a.try(ctx, round, startLoss, excluded) },
	}, all)
}

// emptyTrial returns the trial of a round in which no update counts, so that the model stays. tasks is the
// number of the round's tasks, each of which gets startLoss, the held-out loss of the model with which the
// round begins.
func (a *Aggregator) emptyTrial(tasks int, startLoss float64) trial {
	sum := roundSum{
		values: a.emptySum(),
		scale:  1,
		loss:   startLoss,
		losses: slices.Repeat([]float64{startLoss}, tasks),
	}
	return trial{sum: sum, loss: startLoss}
}

// try trains a round without the updates that excluded marks, and measures the model that would follow.
// startLoss is the held-out loss of the model with which the round begins, and stands for the loss of an
// excluded client. The trial has the round's sum, with a loss for every task, and the held-out loss of
// the model that the sum would make. The aggregator's models and state stay as they are.
func (a *Aggregator) try(ctx context.Context, round Round, startLoss float64, excluded []bool) (trial, error) {
	counting := Round{Number: round.Number}
	for i, t := range round.Tasks {
		if !excluded[i] {
			counting.Tasks = append(counting.Tasks, t)
		}
	}
	if len(counting.Tasks) == 0 {
		return a.emptyTrial(len(round.Tasks), startLoss), nil
	}
	sum, err := a.addUp(ctx, counting)
	if err != nil {
		return trial{}, err
	}
	a.devices.BoundLosses(counting.Tasks, sum.losses, startLoss)
	sum.loss = meanLoss(sum.losses)
	// The losses of the clients that count are spread over all tasks, excluded ones between them.
	countingLosses := sum.losses
	sum.losses = make([]float64, len(round.Tasks))
	for i := range round.Tasks {
		if excluded[i] {
			sum.losses[i] = startLoss
			continue
		}
		sum.losses[i] = countingLosses[0]
		countingLosses = countingLosses[1:]
	}
	next, err := a.preview(sum)
	if err != nil {
		return trial{}, err
	}
	loss, err := a.heldOutLoss(ctx, round.Number, next)
	return trial{sum: sum, loss: loss, norms: sum.devices.norms, moves: sum.devices.moves}, err
}

// preview returns the model that the server would make of a sum, without changing the state of the server's
// optimizer.
func (a *Aggregator) preview(sum roundSum) (model, error) {
	if a.guard.scratch == nil {
		a.guard.scratch = a.config.freshInstance(a.algorithm.Algorithm)
	}
	scratch := a.guard.scratch
	if err := scratch.Server.Restore(a.algorithm.Server.State()); err != nil {
		return model{}, err
	}
	params := slices.Clone(a.Params())
	scratch.Apply(params, sum.values[:len(params)], sum.scale, sum.bufferScales)
	copy(params[a.updateLength:], sum.buffers)
	return newModel(params), nil
}

// heldOutLoss returns the mean loss of model x on guardSamples held-out samples, +Inf if the loss or the
// model is not finite. The newest result is kept by the model's digest, because the model with which one
// round ends is the one with which the next begins. roundNumber is the round's.
func (a *Aggregator) heldOutLoss(ctx context.Context, roundNumber int, x model) (float64, error) {
	if x.digest == a.guard.measured {
		return a.guard.measuredLoss, nil
	}
	loss := math.Inf(1)
	if firstNotFinite(x.params) == allFinite {
		var err error
		loss, err = a.measureLoss(ctx, roundNumber, x)
		if err != nil {
			return 0, err
		}
	}
	a.guard.measured = x.digest
	a.guard.measuredLoss = loss
	return loss, nil
}

// measureLoss has trainers measure the mean loss of model x, which is published for that as a candidate, on
// guardSamples held-out samples. A loss that is not finite is +Inf. roundNumber is the round's.
func (a *Aggregator) measureLoss(ctx context.Context, roundNumber int, x model) (float64, error) {
	if err := a.models.publishCandidate(ctx, x); err != nil {
		return 0, err
	}
	shards := heldOutShards(a.learning.HeldOut, guardSamples)
	// A single job leaves no other one open when it fails.
	const jobs = 1
	scored, err := a.measure(ctx, bus.Evaluate, roundNumber, x.digest, jobs, shards)
	if errors.Is(err, round.ErrDiverged) {
		return math.Inf(1), nil
	}
	if err != nil {
		return 0, err
	}
	return meanOverShards(shards, scored), nil
}

// punish bans the devices that a verdict about a round blames, and informs the user of the others that were
// excluded. A device is to blame if the model diverges with its update, although the round and the device's
// task both began with a model that was not degraded. startLoss is the held-out loss of the model with
// which the round began. Of fewer than minToBlame updates any could be the outlier, so no device is to
// blame.
//
// v.loss is the held-out loss of the model that all updates make, and v.trial.loss that of the model without the
// excluded ones.
func (a *Aggregator) punish(v verdict, round Round, startLoss float64) error {
	for i, excluded := range v.excluded {
		if !excluded {
			continue
		}
		task := round.Tasks[i]
		fromIntact := !a.guard.degraded(startLoss) && !a.models.versions[task.Model].degraded
		toBlame := v.divergesWith && v.updates >= minToBlame
		// The device is left out of the round without a ban.
		if !fromIntact || !toBlame {
			a.devices.NoteExclusion(task.Client, round.Number, v.loss, v.trial.loss)
			continue
		}
		reason := fmt.Sprintf(
			"its update of round %d made the model diverge (a loss of %.3g on held-out samples, and %.3g without it)",
			round.Number,
			v.loss,
			v.trial.loss,
		)
		a.guard.Banned++
		if err := a.devices.Ban(task.Client, reason); err != nil {
			return err
		}
	}
	return nil
}
