package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"fedpace/algorithm"
	"fedpace/bus"
	"fedpace/coordinator/round"
)

// The updates of real devices are their word. So a round that has some is tried before it
// counts: the coordinator measures the model that would come of it, on a few held-out samples.
// If half of what was learned is lost with it, the round is done without the devices whose updates
// are far longer than the others' and without which it is not. Those are banned whose updates would
// have made a sound model diverge. If a model is lost all the same, the run goes back to its best
// one. Nothing here depends on the order or the time in which anything comes, so a replay decides
// alike.

// Guard is what a run remembers to hold devices to.
type Guard struct {
	First  float64   // loss of the model that the first update of a device started from; 0: none was above 0
	Best   float64   // least loss of a model that a round with devices began with
	Good   []float32 // that model; nil: there was none
	Banned int       // devices whose updates made the model diverge
}

// guard is what the coordinator has measured to hold devices to.
type guard struct {
	Guard
	of      bus.Digest          // the model that was measured last
	loss    float64             // its loss, +Inf if it has none
	lengths []float64           // norms of the round's updates, devices' first, as they were sent
	doubts  bool                // whether the round's model is doubtful
	lost    bool                // whether it is lost
	scratch *algorithm.Instance // to try what the server makes of a sum; nil: not needed yet
}

const (
	guardSamples = 256 // held-out samples that a model is measured on
	diverges     = 4   // by how many times the first loss a model is lost
	outlying     = 4   // by how many times an update must be longer than the middle one of the others to be left out
	mostSuspects = 16  // devices of a round that are left out at most
)

// worse reports whether a model of this loss has lost half of what the best one has learned, at
// twice its loss or more.
func (g *Guard) worse(loss float64) bool {
	return g.First > 0 && !(loss <= max(2*g.Best, (g.First+g.Best)/2))
}

// diverged reports whether a model of this loss is far worse than an untrained one.
func (g *Guard) diverged(loss float64) bool {
	return g.First > 0 && !(loss <= diverges*g.First)
}

// train adds up the updates of the tasks as [learner.addUp], those of devices only as far as
// they do no harm.
func (l *learner) train(
	ctx context.Context,
	number int,
	tasks []round.Task,
) (loss float64, losses []float64, err error) {
	l.lost = false
	l.doubts = l.doubtful
	if l.config.Round.SiteRounds > 0 {
		return l.trainSites(ctx, number, tasks)
	}
	if l.devices.Split(tasks) == len(tasks) { // also of a run without devices
		return l.addUp(ctx, number, tasks)
	}
	start, err := l.lossOf(ctx, number, l.model)
	if err != nil {
		return 0, nil, err
	}
	if l.First == 0 && start > 0 {
		l.First = start
		l.Best = math.Inf(1)
	}
	if l.First > 0 && (start < l.Best || l.Good == nil) {
		l.Best = start
		l.Good = l.params
	}
	t := &trial{
		learner: l,
		number:  number,
		tasks:   tasks,
		start:   start,
		out:     make([]bool, len(tasks)),
	}
	// With differential privacy the clip bounds what an update can do, and the noise of each sum is
	// drawn anew: to try several would blame devices for it, and tell more than one release does.
	private := l.config.Learning.Privacy != nil
	if err = t.run(ctx); err == nil && !private && t.harmed() {
		err = t.leaveOut(ctx)
	}
	if errors.Is(err, ErrDiverged) && start > l.Best { // of simulated clients, from such a model
		t.nothing()
		t.comes = math.Inf(1)
		err = nil
	}
	l.doubts, l.lost = l.worse(t.comes), l.diverged(t.comes)
	return t.mean, t.losses, err
}

// trial is a round that is tried with some updates left out.
type trial struct {
	*learner
	number int
	tasks  []round.Task
	start  float64 // loss of the model that it begins with
	out    []bool  // by task: left out

	mean   float64
	losses []float64 // by task
	comes  float64   // loss of the model that would come of it
}

// harmed reports whether much is lost with the round.
func (t *trial) harmed() bool { return t.worse(t.comes) && !(t.comes <= t.start) }

// nothing is a round after which the model stays.
func (t *trial) nothing() {
	t.losses = slices.Repeat([]float64{t.start}, len(t.tasks))
	t.mean = t.start
	t.comes = t.start
	t.refused = nil
	clear(t.sum)
	if t.variates != nil {
		clear(t.variates.after)
	}
	t.clip.Forget() // the norms of those that are left out
	t.bound.Forget()
}

// run adds up what is not left out, and measures the model that would come of it.
func (t *trial) run(ctx context.Context) error {
	var kept []round.Task
	t.nothing() // also for the losses of those that are left out
	for i := range t.tasks {
		if !t.out[i] {
			kept = append(kept, t.tasks[i])
		}
	}
	if len(kept) == 0 {
		return nil
	}
	_, losses, err := t.addUp(ctx, t.number, kept)
	if err != nil {
		return err
	}
	t.devices.BoundLosses(kept, losses, t.start)
	simulated := t.devices.Split(kept)
	t.mean = meanTold(losses[:simulated], losses[simulated:])
	for i := range t.tasks {
		if !t.out[i] {
			t.losses[i] = losses[0]
			losses = losses[1:]
		}
	}
	next, err := t.next()
	if err != nil {
		return err
	}
	t.comes, err = t.lossOf(ctx, t.number, next)
	return err
}

// next is the model that the server would make of the sum, whose own state stays as it is.
func (l *learner) next() (x model, err error) {
	if l.scratch == nil {
		l.scratch = l.config.fresh(l.algorithm.Algorithm)
	}
	if err := l.scratch.Server.Restore(l.algorithm.Server.State()); err != nil {
		return x, err
	}
	x.params = slices.Clone(l.params)
	l.scratch.Server.Apply(x.params, l.sum[:len(x.params)], l.scale)
	x.digest = bus.DigestOf(x.params)
	return x, nil
}

// lossOf is a model's mean loss on a few held-out samples, +Inf if it is not finite.
func (l *learner) lossOf(ctx context.Context, number int, x model) (float64, error) {
	if x.digest == l.guard.of {
		return l.guard.loss, nil
	}
	sum := math.Inf(1)
	samples := 1
	if notFinite(x.params) < 0 {
		if err := l.models.offer(ctx, x); err != nil {
			return 0, err
		}
		all := shards(l.config.Learning.HeldOut, guardSamples, l.config.Round.Stop.PerSample > 0)
		// In one job: a job that fails leaves no other open.
		found, err := l.measure(ctx, bus.Evaluate, number, x.digest, 1, all)
		if err != nil && !errors.Is(err, ErrDiverged) {
			return 0, err
		}
		if err == nil {
			sum = 0
			samples = 0
			for i, s := range found {
				sum += s.LossSum
				samples += int(all[i].Count)
			}
		}
	}
	l.guard.of = x.digest
	l.guard.loss = sum / float64(samples)
	return l.guard.loss, nil
}

// suspects are the places of the devices' updates that are far longer than the middle one of the
// round's others, the longest first.
func (t *trial) suspects() (places []int) {
	first := t.devices.Split(t.tasks)
	for i := range t.tasks[first:] {
		others := slices.Sorted(slices.Values(slices.Delete(slices.Clone(t.lengths), i, i+1)))
		if n := len(others); n > 0 && t.lengths[i] > outlying*others[(n-1)/2] {
			places = append(places, first+i)
		}
	}
	slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(t.lengths[b-first], t.lengths[a-first]) })
	return places
}

// leaveOut tries the round without more and more suspects, and leaves them out if that helps. If it does
// not, or if half of all would have to go, the devices are not to blame, and the round counts as
// it is.
func (t *trial) leaveOut(ctx context.Context) error {
	suspects := t.suspects()
	updates := len(t.lengths)
	population := t.config.Round.Clients + t.config.Round.Devices.Count
	most := min(mostSuspects, max(1, len(t.tasks)/2), population/2-t.Banned, len(suspects))
	worst := t.comes
	tried := 0
	for ; t.harmed() && tried < most; tried++ {
		t.out[suspects[tried]] = true
		if err := t.run(ctx); err != nil {
			return err
		}
	}
	switch {
	case t.harmed() && tried == 0:
		return nil
	case t.harmed():
		clear(t.out)
		return t.run(ctx)
	}
	// An update may be large and do no harm: each but the last is tried again.
	sound := true
	for _, i := range suspects[:max(0, tried-1)] {
		t.out[i] = false
		if err := t.run(ctx); err != nil {
			return err
		}
		sound = !t.harmed()
		if !sound {
			t.out[i] = true
		}
	}
	if !sound {
		if err := t.run(ctx); err != nil {
			return err
		}
	}
	for i, left := range t.out {
		switch {
		case !left:
		case updates < 3 ||
			!t.diverged(worst) ||
			t.worse(t.start) ||
			t.models.list[t.tasks[i].Model].doubtful:
			t.devices.LeftOut(t.tasks[i].Client, t.number, worst, t.comes)
		default:
			reason := fmt.Sprintf("its update of round %d made the model diverge (a loss of %.3g on held-out samples, and %.3g without it)", t.number, worst, t.comes)
			t.Banned++
			if err := t.devices.Ban(t.tasks[i].Client, reason); err != nil {
				return err
			}
		}
	}
	return nil
}
