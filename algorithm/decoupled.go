package algorithm

import (
	"math"
	"slices"

	"fedpace/registry"
)

// init registers the algorithm under the name by which a configuration chooses it. The text is its line
// in the list of such components.
func init() {
	Algorithms.Register(
		"decoupled",
		"streaming in which each client goes at its own pace (after Decoupled DiLoCo, Douillard et al. 2026)",
		Decoupled{},
	)
}

// Decoupled is [Streaming] without rounds that all clients share: DiLoCo for rounds that overlap, after
// Decoupled DiLoCo (Douillard et al. 2026). The j-th task of client r, counted from 0, sends fragment
// p = j mod P, whichever fragments others send at that time. The client's next task begins when that
// update is in the model, and mixes the fragment into the client's copy after τ steps, as [Streaming]
// does. A client remembers each fragment as it got it, a_r,p, with the version of the model that it came
// from. An update is how far the client has moved since:
//
//	d_r = x_r,p − a_r,p
//
// It is s rounds late if the model's fragment has moved s times since that version: each fragment has
// an age of its own. A round moves the fragments of which it has updates, each by
//
//	Δ_p = Σ w_r (1 + s_r)^-x d_r,  m_p ← μ m_p + Δ_p,  x_p ← x_p + η (Δ_p + μ m_p)
//
// where the sum is over the clients that send p, and the weights w of all clients of the round sum to 1, as
// in [FedBuff]: an update moves its fragment alike, whatever the others of its round send.
// Where all clients send the same fragments at the same time it is [Streaming].
type Decoupled struct {
	Streaming
	Exponent float64 `key:"staleness_exponent" default:"0.5" range:"[0,16]" help:"an update whose fragment has moved s times since weighs (1+s)^-x"`
}

// maxMoves is how many moves of a fragment are remembered at most, so an update is at most as late.
const maxMoves = 1024

// Needs says that a client's copy follows it from task to task.
func (Decoupled) Needs() registry.Needs {
	return registry.Needs{ClientState: true, Simulated: true}
}

// Weigh implements [Algorithm]: it lowers the weights of stale updates, so that they may sum to less than 1.
func (a Decoupled) Weigh(weights []float64, _, staleness []int) ([]float64, float64) {
	if staleness == nil {
		return weights, 1
	}
	return damp(weights, staleness, func(s int) float64 { return 1 / power(1+float64(s), a.Exponent) }), 1
}

// Copy returns how many values a client keeps from task to task: its copy of the params parameters, each
// parameter as it got it last, for each fragment the version that it was of, and how many tasks it has done.
func (a Decoupled) Copy(params int) int { return 2*params + a.Fragments + 1 }

// Turn returns how many tasks a client has done: the bits of the last value of what it keeps (see [Decoupled.Copy]).
// A client that keeps nothing yet has done none.
func (Decoupled) Turn(kept []float32) uint64 {
	if len(kept) == 0 {
		return 0
	}
	return uint64(math.Float32bits(kept[len(kept)-1]))
}

// sentBy returns the fragment that a client's next task sends, from what it keeps.
func (a Decoupled) sentBy(kept []float32) int { return int(a.Turn(kept) % uint64(a.Fragments)) }

// received returns the version of the model of which a client has got a fragment last, from what it keeps,
// which is not empty.
func (a Decoupled) received(kept []float32, fragment int) uint64 {
	versions := kept[len(kept)-1-a.Fragments:]
	return uint64(math.Float32bits(versions[fragment]))
}

// Server implements [Algorithm].
func (a Decoupled) Server(params int) ServerOptimizer {
	outer := FedAvgM{Rate: a.Rate, Momentum: a.Momentum, Nesterov: true}
	return &decoupled{
		streamed: streamed{momentum: momentum{outer, make([]float64, params)}, options: a.Streaming},
		moved:    make([]float64, params),
	}
}

// decoupled is the server half of [Decoupled]: a momentum for the whole model, of which a round moves some
// fragments.
type decoupled struct {
	streamed
	// moved holds, in the places of each fragment's first parameters, the versions that its latest moves
	// have made, in no order; 0 stands for no move. So many moves of a fragment are remembered as it has
	// parameters, but at most maxMoves.
	moved []float64
	// moving are the fragments that the next round moves, in ascending order, each once.
	moving []int
}

// movesOf returns the part of moved that is a fragment's.
func (d *decoupled) movesOf(fragment int) []float64 {
	start, end := d.options.Span(uint64(fragment), len(d.moved))
	return d.moved[start:min(end, start+maxMoves)]
}

// staleness returns how often a fragment has moved since a version of the model.
func (d *decoupled) staleness(fragment int, version uint64) (moves int) {
	for _, made := range d.movesOf(fragment) {
		if uint64(made) > version {
			moves++
		}
	}
	return moves
}

// Apply implements [ServerOptimizer]: it moves the parameters and the momentum of the fragments of which
// the round has updates, and leaves all others.
func (d *decoupled) Apply(model []float32, sum []int64, scale float64) {
	checkLengths(len(model), len(sum), len(d.v))
	for _, fragment := range d.moving {
		start, end := d.options.Span(uint64(fragment), len(model))
		part := momentum{d.FedAvgM, d.v[start:end]}
		part.Apply(model[start:end], sum[start:end], scale)
		moves := d.movesOf(fragment)
		oldest := slices.Index(moves, slices.Min(moves))
		moves[oldest] = float64(d.rounds + 1)
	}
}

// State returns the momentum and the moves of fragments.
func (d *decoupled) State() [][]float64 { return [][]float64{d.v, d.moved} }

// Restore implements [ServerOptimizer]: versions are 0 or more.
func (d *decoupled) Restore(state [][]float64) error { return copyState(d.State(), state, 0) }

// Staleness returns how late an update of a client is. The client's task has started from this version of
// the model, which is so many aggregations old: that number is the result, except with [Decoupled]. There it
// is how often the fragment that the client sends has moved since the client got it.
func (i *Instance) Staleness(client int, version uint64, aggregations int) int {
	server, ok := i.Server.(*decoupled)
	if !ok {
		return aggregations
	}
	a := i.Algorithm.(Decoupled)
	kept := i.ClientStates.Client(client).Values
	fragment := a.sentBy(kept)
	// A client's first task has all fragments from the model that it starts from.
	if len(kept) > 0 {
		version = a.received(kept, fragment)
	}
	return server.staleness(fragment, version)
}

// Senders notes whose updates the sum has that is applied next, for a server half that moves only what
// these clients send; others ignore it. It is called before the clients' states change.
func (i *Instance) Senders(clients []int) {
	server, ok := i.Server.(*decoupled)
	if !ok {
		return
	}
	a := i.Algorithm.(Decoupled)
	server.moving = server.moving[:0]
	for _, client := range clients {
		server.moving = append(server.moving, a.sentBy(i.ClientStates.Client(client).Values))
	}
	slices.Sort(server.moving)
	server.moving = slices.Compact(server.moving)
}

// Streams returns the options by which clients go on with copies of their own and send fragments of the
// model. ok is false for algorithms whose clients start each task from the model.
func Streams(a Algorithm) (options Streaming, ok bool) {
	switch a := a.(type) {
	case Streaming:
		return a, true
	case Decoupled:
		return a.Streaming, true
	}
	return Streaming{}, false
}

// CopyLength returns how many values a client keeps from task to task of a copy of the model that has
// params parameters, 0 with algorithms whose clients have none.
func CopyLength(a Algorithm, params int) int {
	if c, ok := a.(interface{ Copy(params int) int }); ok {
		return c.Copy(params)
	}
	return 0
}
