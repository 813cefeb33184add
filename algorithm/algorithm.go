package algorithm

import (
	"math"

	"fedpace/registry"
)

// Algorithm is one federated algorithm with its options: a server half and a
// client half. It holds no state and may be shared.
type Algorithm interface {
	// Server makes the server half for a model with this many parameters.
	Server(params int) ServerOptimizer
	// Client makes the client half for one worker and a model with this many parameters. It is nil
	// if gradients are taken as they are.
	Client(params int) Client
	// Weigh turns the accepted clients' weights, which sum to 1, into list, the weights of their updates
	// in the exact sum. scale is the factor by which Apply of the server half multiplies that sum. steps
	// are the numbers of local steps of the clients, and staleness the numbers of aggregations since
	// their base models; nil means that no update is stale.
	Weigh(weights []float64, steps, staleness []int) (list []float64, scale float64)
}

// Algorithms are those that a configuration can name. One whose clients keep a
// vector from task to task says so by [registry.Needs].ClientState; [ClientStates]
// keeps the vectors.
var Algorithms = registry.New[Algorithm]("algorithm", "algorithm")

// Client is the client half of an algorithm in one worker, which does one task
// after the other. Its steps are those of any optimizer, against a gradient that it
// corrects.
type Client interface {
	// Start begins a task. base is the global model; mean and state are c and the
	// client's c_i of [ClientStates], nil for an algorithm without client state.
	Start(base, mean, state []float32)
	// Correct replaces a minibatch's gradient at the local model. It rounds every
	// operation by itself, so that machines agree.
	Correct(local, gradient []float32)
	// End returns the client's next c_i after its local steps, of this number and rate, have led
	// from base to local. The caller may keep it. It is nil for an algorithm without client state.
	End(local []float32, steps int, rate float64) []float32
}

// Additive is a client half that adds mu (y − x_r) and a vector to the gradient at y, where x_r is the
// model of the task and the vector the same in all steps of a task. A trainer in another process can
// take such steps, since these two are all that it needs.
type Additive interface {
	Client
	// Terms returns mu and the vector of the task that was started last, which is valid until the next
	// task starts. A nil vector stands for zeros.
	Terms() (mu float32, vector []float32)
}

// Instance is an algorithm, and a compression of its updates, with their state in
// one run. It is not safe for concurrent use.
type Instance struct {
	Algorithm
	// Compression shortens what clients send, nil if updates are whole.
	Compression Compression
	Server      ServerOptimizer
	// ClientStates is what clients keep from task to task, nil if they keep nothing.
	ClientStates *ClientStates

	trainable int
}

// Apply makes the next model from a round's exact sum, in place, and updates the state of the server half.
// The server half moves the trained values by the sum times scale. The values behind those, the buffers,
// move by the sum itself times bufferScales, one factor for each; nil stands for factors of 1. Where
// clients send their buffers beside the sum, the sum has zeros for them, and they do not move.
func (i *Instance) Apply(model []float32, sum []int64, scale float64, bufferScales []float64) {
	if p, ok := i.Server.(*partlyTrained); ok {
		p.apply(model, sum, scale, bufferScales)
		return
	}
	i.Server.Apply(model, sum, scale)
}

// Decide replaces the sum of votes, in place, by the step that they decide for each trained
// parameter. It does nothing unless the compression makes votes of updates.
func (i *Instance) Decide(sum []int64) {
	if v, ok := i.Compression.(Voting); ok {
		v.Decide(sum[:i.trainable])
	}
}

// JoinStale adds stale updates to sum, the exact sum of a round's fresh updates, by a rule that compares
// them over the trained values. freshShare is the fresh updates' share of all weights. It returns the
// weight of each stale update and, last, that of all fresh updates together.
func (i *Instance) JoinStale(rule StaleWeigher, sum []int64, freshShare float64, stale []Stale) (weights []float64) {
	return rule.Join(sum, i.trainable, freshShare, stale)
}

// NewInstance makes an algorithm with the state that it has at the start of a run. The model has params
// values, of which the first trainable ones are trained; the others are averaged, and neither compressed
// nor seen by the algorithm. localValues is the number of values that local steps remember
// for each client, and population the number of clients. A nil compression sends whole updates. At most
// one of the algorithm and the compression keeps client state.
//
// What a client keeps from task to task is one vector: its control variate, or its residual of a compression, or
// neither, followed by what its local steps remember.
func NewInstance(
	algorithm Algorithm,
	compression Compression,
	params, trainable, localValues, population int,
) *Instance {
	instance := &Instance{
		Algorithm:   algorithm,
		Compression: compression,
		Server:      algorithm.Server(trainable),
		trainable:   trainable,
	}
	// The server's algorithm sees the trained values alone.
	if trainable < params {
		instance.Server = &partlyTrained{instance.Server, trainable, params}
	}
	switch {
	case HasControlVariates(algorithm):
		instance.ClientStates = NewClientStates(params, localValues, population)
	// Residuals have no mean at the server, so they count among the further values.
	case keepsResiduals(compression):
		instance.ClientStates = NewClientStates(0, params+localValues, population)
	case localValues > 0:
		instance.ClientStates = NewClientStates(0, localValues, population)
	}
	return instance
}

// keepsResiduals reports whether compression c has error feedback: each client keeps what is left out of
// its update, and adds it to the next one. c may be nil.
func keepsResiduals(c Compression) bool { return c != nil && registry.NeedsOf(c).ClientState }

// SumLength returns the length of the exact sum of a round for a model with this many parameters:
// the updates, followed by the changes of the clients' states if the algorithm has control
// variates.
func SumLength(a Algorithm, params int) int {
	if HasControlVariates(a) {
		return 2 * params
	}
	return params
}

// StateBytes returns the largest number of bytes that the state of a run can take: the vectors of the
// server and, with client state, one vector of float32 for each client, as if all had taken part. params is the
// number of parameters, clients that of all clients, and localValues the number of float32 values that
// local steps remember for each client. updates is the largest number of vectors of float64 that a
// [StaleWeigher] holds at once in a round: one for each stale update, and one for the sum of all fresh ones. It is 0
// if no update can be stale. The result is at most math.MaxInt64.
func StateBytes(algorithm Algorithm, compression Compression, params, localValues, clients, updates int) int64 {
	// perParameter is in bytes for each parameter, and perClient in bytes for each parameter and client. The server
	// half of a model of one parameter shows how many vectors of float64 it keeps.
	perParameter := float64(8 * float64(len(algorithm.Server(1).State())))
	perClient := 0.
	if HasControlVariates(algorithm) {
		// The server's control variate takes 8 bytes in float64, and 4 in the copy for the clients.
		perParameter = perParameter + 8 + 4
		perClient = 4
	}
	if keepsResiduals(compression) {
		perClient = 4
	}
	if _, ok := algorithm.(StaleWeigher); ok {
		perParameter += float64(8 * float64(updates))
	}
	bytes := float64(float64(params)*(perParameter+float64(perClient*float64(clients)))) +
		float64(4*float64(localValues)*float64(clients))
	if bytes >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(bytes)
}

// CheckState returns a [*registry.OptionError] if the state of a run could take more than limit bytes. The
// other parameters are those of [StateBytes].
func CheckState(algorithm Algorithm, c Compression, params, localValues, clients, updates int, limit int64) error {
	bytes := StateBytes(algorithm, c, params, localValues, clients, updates)
	if bytes <= limit {
		return nil
	}
	name, kind := LargestState(algorithm, c, localValues)
	count := clients
	counted := "clients"
	// The state of a StaleWeigher grows with the updates of a round, not with the clients.
	if _, ok := algorithm.(StaleWeigher); ok && kind == "algorithm" {
		count = updates
		counted = "updates in a round"
	}
	return registry.Errorf("limits.state_gb", "%.3g, but %s keeps up to %.3g GB for %d parameters and %d %s (raise "+
		"the limit, or take fewer %s or another %s)",
		float64(limit)/1e9, name, float64(bytes)/1e9, params, count, counted, counted, kind)
}

// LargestState returns the name of the component that keeps most of a run's state, and its kind in words:
// the optimizer of local steps, a compression with residuals, or else the algorithm. localValues is the
// number of values that local steps keep for each client; where clients stream (see [Streams]) these are
// copies of the model, which belong to the algorithm.
func LargestState(a Algorithm, c Compression, localValues int) (name, kind string) {
	_, copies := Streams(a)
	switch {
	case localValues > 0 && !copies:
		return "local", "optimizer"
	case keepsResiduals(c):
		return Compressions.NameOf(c), "compression"
	}
	return Algorithms.NameOf(a), "algorithm"
}
