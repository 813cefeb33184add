package aggregate

import (
	"context"
	"errors"

	"fedpace/algorithm"
	"fedpace/bus"
	"fedpace/coordinator/round"
)

// Client state is what clients keep from task to task: control variates, residuals of compressed
// updates, or what local steps remember. The coordinator keeps it between tasks, and publishes that
// of a round's clients while the round is trained.

// published are the states of clients that are on the bus for a round.
type published struct {
	models *models
	// serverVariate is the digest of the server's control variate, zero while there is none.
	serverVariate bus.Digest
	digests       []bus.Digest
}

// publishStates publishes on the bus the states that the simulated clients of a round keep between tasks,
// and the server's control variate if the algorithm has one. In each update it sets stateBefore, the digest
// by which a job names the client's state. The result is never nil; the caller closes it once all jobs are
// answered, also after an error, which takes the states off the bus again. It publishes nothing where
// clients keep no state.
func (a *Aggregator) publishStates(ctx context.Context, updates []clientUpdate) (*published, error) {
	onBus := &published{models: &a.models}
	states := a.algorithm.ClientStates
	if states == nil {
		return onBus, nil
	}
	// The server's part is the same for all clients, so it is published once.
	if serverVariate := states.Server(); serverVariate != nil {
		onBus.serverVariate = bus.DigestOf(serverVariate)
		if err := onBus.add(ctx, onBus.serverVariate, serverVariate); err != nil {
			return onBus, err
		}
	}
	for i := range updates {
		u := &updates[i]
		state := states.Client(u.task.Client)
		// A device keeps its own state, and a client without values has nothing to publish.
		if state.Values == nil || a.devices.IsDevice(u.task.Client) {
			continue
		}
		u.stateBefore = state.Digest
		if err := onBus.add(ctx, u.stateBefore, state.Values); err != nil {
			return onBus, err
		}
	}
	return onBus, nil
}

// add publishes a vector until the states are closed.
func (p *published) add(ctx context.Context, digest bus.Digest, values []float32) error {
	p.digests = append(p.digests, digest)
	return p.models.publish(ctx, digest, values)
}

// close takes all states that were added off the bus. It tries all of them and returns the errors
// together.
func (p *published) close(ctx context.Context) (err error) {
	for _, digest := range p.digests {
		err = errors.Join(err, p.models.unpublish(ctx, digest))
	}
	p.digests = nil
	return err
}

// method returns the part of a job message that describes what clients keep between tasks: how many values,
// and whether they are residuals of compressed updates or control variates. It is nil where clients keep
// nothing. serverVariate is the digest of the server's control variate, zero while there is none. base is
// the version of the model from which the job's tasks start.
func (a *Aggregator) method(serverVariate bus.Digest, base uint64) *bus.Method {
	states := a.algorithm.ClientStates
	if states == nil {
		return nil
	}
	// Rounds is how many rounds have made the base model. That is its version, as each round makes the next one. A
	// site's own model is made of the newest one.
	m := &bus.Method{Kept: uint32(states.Width()), Rounds: a.models.newest}
	if !isSiteVersion(base) {
		m.Rounds = base
	}
	if states.Residuals() {
		m.Residuals = true
		return m
	}
	m.Variates = true
	m.VariateDigest = serverVariate.Bytes()
	m.VariateWeight = states.Weight()
	return m
}

// advanceStates stores the states with which the clients of these updates have ended their tasks, and adds
// to the server's control variate the changes of the clients'. variateSum is the exact sum of those
// changes, empty if the algorithm has no control variates.
func (a *Aggregator) advanceStates(variateSum []int64, updates []clientUpdate) {
	if a.algorithm.ClientStates == nil {
		return
	}
	var clients []int
	var states []algorithm.ClientState
	for i := range updates {
		u := &updates[i]
		// A refused update leaves its client's state as it was.
		if u.stateAfter.Values != nil {
			clients = append(clients, u.task.Client)
			states = append(states, u.stateAfter)
		}
	}
	a.algorithm.ClientStates.Update(variateSum, clients, states)
}

// DeviceTask completes message, the message of task t to a real device: it names the model that the task
// starts from, and the state that the device keeps between tasks, which it publishes in case the device has
// lost it. It returns the values of that model that the device downloads, and whether the model is degraded
// (see [Guard]).
func (a *Aggregator) DeviceTask(
	ctx context.Context,
	t *round.Task,
	message *bus.Task,
) (base []float32, degraded bool, err error) {
	a.models.nameInTask(message, t.Model)
	if err := a.publishDeviceState(ctx, t.Client, message); err != nil {
		return nil, false, err
	}
	start := a.models.versions[t.Model]
	return start.params[:a.communicated], start.degraded, nil
}

// publishDeviceState names, in the message of a real device's task, the state that the device keeps between
// tasks (a control variate or residual), by its digest. Since the device may have lost it, the state is put
// on the bus in place of the one before, if it differs from that. A state with the zero digest is empty, and
// nothing is published for it.
func (a *Aggregator) publishDeviceState(ctx context.Context, client int, message *bus.Task) error {
	if a.algorithm.ClientStates == nil {
		return nil
	}
	state := a.algorithm.ClientStates.Client(client)
	digest := bus.Digest(state.Digest)
	message.KeptDigest = digest.Bytes()
	before := a.deviceStates[client]
	// The state is on the bus already.
	if digest == before {
		return nil
	}
	a.deviceStates[client] = digest
	if state.Values != nil {
		if err := a.models.publish(ctx, digest, state.Values); err != nil {
			return err
		}
	}
	if before.IsZero() {
		return nil
	}
	return a.models.unpublish(ctx, before)
}
