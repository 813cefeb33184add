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

// trainVetted trains a round with updates of devices, which count as far as the guard lets them. It
// carries out the guard's verdict.
func (a *Aggregator) trainVetted(ctx context.Context, r Round) (Outcome, error) {
	start, err := a.heldOutLoss(ctx, r.Number, a.models.current())
	if err != nil {
		return Outcome{}, err
	}
	a.guard.remember(start, a.Params())
	decided, err := a.vet(ctx, r, start)
	if errors.Is(err, round.ErrDiverged) && start > a.guard.Best {
		// Simulated clients diverged from a model that is worse than the best. The round counts without
		// updates, and its loss of +Inf sends the run back to the best model.
		decided = verdict{trial: a.emptyTrial(len(r.Tasks), start)}
		decided.trial.loss = math.Inf(1)
		err = nil
	}
	if err != nil {
		return Outcome{}, err
	}
	if err := a.carryOut(decided, r, start); err != nil {
		return Outcome{}, err
	}
	o := a.outcome(r, decided.trial.sum)
	o.modelLoss = decided.trial.loss
	o.doubtful = a.guard.degraded(o.modelLoss)
	o.lost = a.guard.diverged(o.modelLoss)
	return o, nil
}

// vet tries a round and has the guard judge it. start is the loss of the model that it begins with.
func (a *Aggregator) vet(ctx context.Context, r Round, start float64) (verdict, error) {
	all, err := a.try(ctx, r, start, make([]bool, len(r.Tasks)))
	if err != nil {
		return verdict{}, err
	}
	// With differential privacy the clip bounds what an update can do, and the noise of each sum is
	// drawn anew: to try several would blame devices for the noise, and reveal more than one release.
	if a.learning.Privacy != nil {
		return verdict{trial: all}, nil
	}
	return a.guard.judge(&vetted{
		start:      start,
		updates:    len(r.Tasks),
		first:      a.devices.Split(r.Tasks),
		population: a.config.Round.Clients + a.config.Round.Devices.Count,
		try:        func(excluded []bool) (trial, error) { return a.try(ctx, r, start, excluded) },
	}, all)
}

// emptyTrial is a round without updates, after which the model stays. Each client counts with the
// loss of the model that the round begins with.
func (a *Aggregator) emptyTrial(tasks int, start float64) trial {
	sum := roundSum{
		values: a.emptySum(),
		scale:  1,
		loss:   start,
		losses: slices.Repeat([]float64{start}, tasks),
	}
	return trial{sum: sum, loss: start}
}

// try trains round r without the updates that excluded marks, and measures the model that would
// follow. start is the held-out loss of the model with which the round begins; it stands for the
// loss of an excluded client. The result holds the round's sum with a loss for every task of r, and
// the held-out loss of the would-be model. Nothing else changes.
func (a *Aggregator) try(ctx context.Context, r Round, start float64, excluded []bool) (trial, error) {
	counting := Round{Number: r.Number}
	for i, t := range r.Tasks {
		if !excluded[i] {
			counting.Tasks = append(counting.Tasks, t)
		}
	}
	if len(counting.Tasks) == 0 {
		return a.emptyTrial(len(r.Tasks), start), nil
	}
	sum, err := a.addUp(ctx, counting)
	if err != nil {
		return trial{}, err
	}
	a.devices.BoundLosses(counting.Tasks, sum.losses, start)
	sum.loss = meanLoss(sum.losses)
	// The losses of the clients that count are spread over all tasks, excluded ones between them.
	counted := sum.losses
	sum.losses = make([]float64, len(r.Tasks))
	for i := range r.Tasks {
		if excluded[i] {
			sum.losses[i] = start
			continue
		}
		sum.losses[i] = counted[0]
		counted = counted[1:]
	}
	next, err := a.preview(sum)
	if err != nil {
		return trial{}, err
	}
	loss, err := a.heldOutLoss(ctx, r.Number, next)
	return trial{sum: sum, loss: loss, norms: sum.devices.norms, moves: sum.devices.moves}, err
}

// preview returns the model that the server would make of a sum. The server's state stays as it is.
func (a *Aggregator) preview(sum roundSum) (model, error) {
	if a.guard.scratch == nil {
		a.guard.scratch = a.config.fresh(a.algorithm.Algorithm)
	}
	scratch := a.guard.scratch
	if err := scratch.Server.Restore(a.algorithm.Server.State()); err != nil {
		return model{}, err
	}
	params := slices.Clone(a.Params())
	scratch.Apply(params, sum.values[:len(params)], sum.scale, sum.bufferScales)
	copy(params[a.judged:], sum.buffers)
	return newModel(params), nil
}

// heldOutLoss returns the mean loss of a model on guardSamples held-out samples, +Inf if the loss or the
// model is not finite. The last result is remembered by the model's digest: the model that a round
// ends with is the one that the next round begins with. number is the round's.
func (a *Aggregator) heldOutLoss(ctx context.Context, number int, x model) (float64, error) {
	if x.digest == a.guard.measured {
		return a.guard.measuredLoss, nil
	}
	loss := math.Inf(1)
	if notFinite(x.params) == allFinite {
		var err error
		loss, err = a.measureLoss(ctx, number, x)
		if err != nil {
			return 0, err
		}
	}
	a.guard.measured = x.digest
	a.guard.measuredLoss = loss
	return loss, nil
}

// measureLoss has trainers measure the mean loss of a model on guardSamples held-out samples. The loss
// is +Inf where it is not finite.
func (a *Aggregator) measureLoss(ctx context.Context, number int, x model) (float64, error) {
	if err := a.models.offer(ctx, x); err != nil {
		return 0, err
	}
	shards := heldOutShards(a.learning.HeldOut, guardSamples)
	// A single job leaves no other one open when it fails.
	const jobs = 1
	scored, err := a.measure(ctx, bus.Evaluate, number, x.digest, jobs, shards)
	if errors.Is(err, round.ErrDiverged) {
		return math.Inf(1), nil
	}
	if err != nil {
		return 0, err
	}
	return meanOverShards(shards, scored), nil
}

// carryOut acts on a verdict about round r: it bans the devices that are to blame, and only reports
// the others that were excluded. A device is to blame if the model diverges with its update, where the
// round and the device's task both began with a model that was intact. start is the held-out loss of the
// model with which the round began. Of fewer than minToBlame updates any could be the outlier, so none is to blame.
func (a *Aggregator) carryOut(v verdict, r Round, start float64) error {
	for i, excluded := range v.excluded {
		if !excluded {
			continue
		}
		t := r.Tasks[i]
		fromIntact := !a.guard.degraded(start) && !a.models.versions[t.Model].doubtful
		toBlame := v.divergesWith && v.updates >= minToBlame
		// The device is left out of the round without a ban.
		if !fromIntact || !toBlame {
			a.devices.LeftOut(t.Client, r.Number, v.loss, v.trial.loss)
			continue
		}
		reason := fmt.Sprintf(
			"its update of round %d made the model diverge (a loss of %.3g on held-out samples, and %.3g without it)",
			r.Number,
			v.loss,
			v.trial.loss,
		)
		a.guard.Banned++
		if err := a.devices.Ban(t.Client, reason); err != nil {
			return err
		}
	}
	return nil
}
