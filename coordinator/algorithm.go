package coordinator

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"fedpace/algorithm"
	"fedpace/bus"
	"fedpace/coordinator/round"
	"fedpace/registry"
)

// weigh returns the weights of the accepted updates in the exact sums, and which of them
// have one of their own. It keeps the factor that the server applies to the round's sum.
func (l *learner) weigh(number int, tasks []round.Task) (weights []float64, s singles, err error) {
	steps := make([]int, len(tasks))
	staleness := make([]int, len(tasks))
	samples := make([]int, len(tasks))
	weights = algorithm.Equal(len(tasks))
	of := l.config.Learning.Samples
	taken := l.config.Learning.Taken
	for i, t := range tasks {
		steps[i] = t.LocalSteps
		staleness[i] = t.Staleness
		if taken != nil {
			samples[i] = t.LocalSteps * taken(t.Client)
		} else if l.devices.Has(t.Client) {
			samples[i] = l.devices.Samples(t.Task)
		} else if of != nil {
			samples[i] = of(t.Client)
		}
	}
	if of != nil {
		l.devices.CapSamples(tasks, samples)
	}
	if of != nil || taken != nil {
		if weights, err = algorithm.BySamples(algorithm.Told(samples)); err != nil {
			return nil, s, err
		}
	}
	s = l.singleStale(tasks, weights)
	if s.place != nil {
		l.scale = 1
		return weights, s, nil
	}
	weights, l.scale = l.algorithm.Weigh(weights, steps, staleness)
	return weights, l.singleAll(number, tasks, weights), nil
}

// rebase makes a sum of weighted updates one of differences to the newest model, for an
// algorithm that mixes models, and of the updates that start from the own models of sites.
// Tasks with the same base model count together, in their order.
func (l *learner) rebase(tasks []round.Task, weights []float64) error {
	mixes := registry.NeedsOf(l.algorithm.Algorithm).NewestModel && !l.config.Learning.Combine.Single()
	of := map[uint64]float64{}
	for i, t := range tasks {
		if mixes && t.Staleness > 0 || t.Model >= firstSite {
			of[t.Model] += weights[i]
		}
	}
	for _, version := range slices.Sorted(maps.Keys(of)) {
		if err := l.rebaseOn(l.sum, version, of[version]); err != nil {
			return err
		}
	}
	return nil
}

// rebaseOn makes a sum of differences to an earlier model, whose weights come to this, one
// of differences to the newest.
func (l *learner) rebaseOn(sum []int64, version uint64, weight float64) error {
	if err := algorithm.Rebase(sum, weight, l.models.list[version].params, l.params); err != nil {
		return fmt.Errorf("%w: version %d of the model and the newest one: %w", ErrDiverged, version, err)
	}
	return nil
}

// variates are what clients keep from task to task, such as the control variates of one
// round's, on the bus while the round is trained.
type variates struct {
	of     *algorithm.Variates // nil: the algorithm has none
	bus    bus.Coordinator
	tasks  []round.Task
	server bus.Digest          // zero: none yet
	before []bus.Digest        // by task; zero: none yet, or of a device, which has it
	after  []algorithm.Variate // by task, as the sums bring them
}

// putVariates makes the variates that the tasks need available to trainers.
func (l *learner) putVariates(ctx context.Context, tasks []round.Task) (*variates, error) {
	v := &variates{
		of:     l.algorithm.Variates,
		bus:    l.bus,
		tasks:  tasks,
		before: make([]bus.Digest, len(tasks)),
		after:  make([]algorithm.Variate, len(tasks)),
	}
	if v.of == nil {
		return v, nil
	}
	var put []algorithm.Variate
	if c := v.of.Server(); c != nil {
		v.server = bus.DigestOf(c)
		put = append(put, algorithm.Variate{Digest: v.server, Values: c})
	}
	for i, t := range tasks[:l.devices.Split(tasks)] {
		if own := v.of.Client(t.Client); own.Values != nil {
			v.before[i] = own.Digest
			put = append(put, own)
		}
	}
	for _, x := range put {
		if err := l.bus.PutModel(ctx, x.Digest, x.Values); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// method is what the round's jobs say of their local steps.
func (v *variates) method() *bus.Method {
	if v.of == nil {
		return nil
	}
	if v.of.Residuals() {
		return &bus.Method{Residuals: true, Kept: uint32(v.of.Width())}
	}
	return &bus.Method{
		Variates:      true,
		Kept:          uint32(v.of.Width()),
		VariateDigest: v.server.Bytes(),
		VariateWeight: v.of.Weight(),
	}
}

// take keeps what task i's client ends with.
func (v *variates) take(i int, r *bus.Result, j int) {
	if v.of != nil {
		v.after[i] = algorithm.Variate{Digest: bus.DigestFrom(r.Clients[j].VariateDigest), Values: r.ClientStates[j]}
	}
}

// lend names in a device's task what the device keeps, which is on the bus for one that has lost it.
func (l *learner) lend(ctx context.Context, client int, m *bus.Task) error {
	if l.algorithm.Variates == nil {
		return nil
	}
	own := l.algorithm.Variates.Client(client)
	before := l.lent[client]
	m.KeptDigest = bus.Digest(own.Digest).Bytes()
	if own.Digest == before {
		return nil
	}
	l.lent[client] = own.Digest
	if !before.IsZero() && !slices.Contains(slices.Collect(maps.Values(l.lent)), before) {
		if err := l.bus.DeleteModel(ctx, before); err != nil {
			return err
		}
	}
	if own.Values == nil {
		return nil
	}
	return l.bus.PutModel(ctx, own.Digest, own.Values)
}

// update ends the round: the clients' variates and the server's move on, and
// those that were lent to trainers are taken back. keep are the digests in use.
func (v *variates) update(ctx context.Context, sum []int64, keep ...bus.Digest) error {
	if v.of == nil {
		return nil
	}
	var clients []int
	var after []algorithm.Variate
	for i, t := range v.tasks {
		if v.after[i].Values != nil { // else it was refused
			clients = append(clients, t.Client)
			after = append(after, v.after[i])
		}
	}
	v.of.Update(sum, clients, after)
	return v.takeBack(ctx, keep...)
}

// takeBack deletes what was lent to trainers, but for the digests in use.
func (v *variates) takeBack(ctx context.Context, keep ...bus.Digest) error {
	for _, d := range append(v.before, v.server) {
		if d.IsZero() || slices.Contains(keep, d) {
			continue
		}
		if err := v.bus.DeleteModel(ctx, d); err != nil {
			return err
		}
	}
	return nil
}
