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
	// server is the digest of the server's control variate, zero while there is none.
	server  bus.Digest
	digests []bus.Digest
}

// publishStates puts on the bus the states that the simulated clients of a round have kept since
// their last task, and the server's part of these states if the algorithm has one. It notes the
// digest of each state in the client's update, by which a job names it. The caller closes the
// result once all jobs are answered, also after an error, which takes the states off the bus again.
func (a *Aggregator) publishStates(ctx context.Context, updates []clientUpdate) (*published, error) {
	p := &published{models: &a.models}
	states := a.algorithm.ClientStates
	if states == nil {
		return p, nil
	}
	// The server's part is the same for all clients, so it is published once.
	if c := states.Server(); c != nil {
		p.server = bus.DigestOf(c)
		if err := p.add(ctx, p.server, c); err != nil {
			return p, err
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
		if err := p.add(ctx, u.stateBefore, state.Values); err != nil {
			return p, err
		}
	}
	return p, nil
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

// method returns the part of a round's job messages that describes the clients' states: how many
// values each holds, and whether they are residuals or control variates. It is nil where clients keep
// no state. serverState is the digest of the server's control variate, zero while there is none.
func (a *Aggregator) method(serverState bus.Digest) *bus.Method {
	states := a.algorithm.ClientStates
	if states == nil {
		return nil
	}
	m := &bus.Method{Kept: uint32(states.Width()), Rounds: a.models.newest}
	if states.Residuals() {
		m.Residuals = true
		return m
	}
	m.Variates = true
	m.VariateDigest = serverState.Bytes()
	m.VariateWeight = states.Weight()
	return m
}

// advanceStates ends a round: the clients of its updates keep what their tasks left them with. sum is
// the exact sum of the changes of their control variates, empty where there are none.
func (a *Aggregator) advanceStates(sum []int64, updates []clientUpdate) {
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
	a.algorithm.ClientStates.Update(sum, clients, states)
}

// DeviceTask completes the message of a device's task: which model it starts from, and what the
// device has kept, which is published for one that has lost it. It returns the values of that model
// that the device fetches, and whether the model is doubtful.
func (a *Aggregator) DeviceTask(
	ctx context.Context,
	t *round.Task,
	message *bus.Task,
) (base []float32, doubtful bool, err error) {
	a.models.nameInTask(message, t.Model)
	if err := a.publishDeviceState(ctx, t.Client, message); err != nil {
		return nil, false, err
	}
	start := a.models.versions[t.Model]
	return start.params[:a.communicated], start.doubtful, nil
}

// publishDeviceState names in a device's task the state that the client has kept since its last
// task. It publishes the state if it differs from the one on the bus for this client, and takes the
// older one off the bus. A state with the zero digest is empty, and nothing is published for it.
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
