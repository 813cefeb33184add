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

// Weigh implements [Algorithm]: it multiplies the weight of each update by (1+s)^-x for its staleness s, so that the
// weights may sum to less than 1. The sum of updates is not scaled: the second result is 1. A nil staleness means
// that no update is stale.
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

// nextSent returns the fragment that a client's next task sends, from what it keeps.
func (a Decoupled) nextSent(kept []float32) int { return int(a.Turn(kept) % uint64(a.Fragments)) }

// receivedVersion returns the version of the model of which a client has got a fragment last, from what it keeps (see
// [Decoupled.Copy]), which is not empty.
func (a Decoupled) receivedVersion(kept []float32, fragment int) uint64 {
	versions := kept[len(kept)-1-a.Fragments:]
	return uint64(math.Float32bits(versions[fragment]))
}

// Server implements [Algorithm].
func (a Decoupled) Server(params int) ServerOptimizer {
	outer := FedAvgM{Rate: a.Rate, Momentum: a.Momentum, Nesterov: true}
	return &decoupled{
		streamed:     streamed{momentum: momentum{outer, make([]float64, params)}, options: a.Streaming},
		moveVersions: make([]float64, params),
	}
}

// decoupled is the server half of [Decoupled]: a momentum for the whole model, of which a round moves some
// fragments.
type decoupled struct {
	streamed
	// moveVersions holds, in the places of each fragment's first parameters, the versions of the model that the
	// fragment's latest moves have made, in no order; 0 stands for no move. So many moves of a fragment are
	// remembered as it has parameters, but at most maxMoves.
	moveVersions []float64
	// movingFragments are the fragments that the next round moves, in ascending order, each once.
	movingFragments []int
}

// moveVersionsOf returns the part of moveVersions that is a fragment's.
func (d *decoupled) moveVersionsOf(fragment int) []float64 {
	start, end := d.options.Span(uint64(fragment), len(d.moveVersions))
	return d.moveVersions[start:min(end, start+maxMoves)]
}

// movesSince returns how often a fragment has moved since a version of the model: the number of remembered moves that
// have made a later version.
func (d *decoupled) movesSince(fragment int, version uint64) (moves int) {
	for _, made := range d.moveVersionsOf(fragment) {
		if uint64(made) > version {
			moves++
		}
	}
	return moves
}

// Apply implements [ServerOptimizer]: it moves the parameters and the momentum of movingFragments, of which the round
// has updates, and leaves all others. It remembers the version of the model that it makes as the latest move of each
// of these fragments.
func (d *decoupled) Apply(model []float32, sum []int64, scale float64) {
	checkLengths(len(model), len(sum), len(d.v))
	for _, fragment := range d.movingFragments {
		start, end := d.options.Span(uint64(fragment), len(model))
		part := momentum{d.FedAvgM, d.v[start:end]}
		part.Apply(model[start:end], sum[start:end], scale)
		// This move takes the place of the oldest. d.rounds counts the rounds before this one, so that the model that
		// this round makes has the version d.rounds + 1.
		versions := d.moveVersionsOf(fragment)
		oldest := slices.Index(versions, slices.Min(versions))
		versions[oldest] = float64(d.rounds + 1)
	}
}

// State returns the momentum and the moves of fragments.
func (d *decoupled) State() [][]float64 { return [][]float64{d.v, d.moveVersions} }

// Restore implements [ServerOptimizer]: versions are 0 or more.
func (d *decoupled) Restore(state [][]float64) error { return copyState(d.State(), state, 0) }

// Staleness returns how late an update of a client is. version is the number of the model from which the client's
// task has started, and aggregations how often the model was moved since then. The result is aggregations, except
// with [Decoupled], where each fragment of the model has an age of its own: there it is how often the fragment that
// the client sends has moved since the client got that fragment.
func (i *Instance) Staleness(client int, version uint64, aggregations int) int {
	server, ok := i.Server.(*decoupled)
	if !ok {
		return aggregations
	}
	a := i.Algorithm.(Decoupled)
	kept := i.ClientStates.Client(client).Values
	fragment := a.nextSent(kept)
	// A client's first task has all fragments from the model that it starts from.
	if len(kept) > 0 {
		version = a.receivedVersion(kept, fragment)
	}
	return server.movesSince(fragment, version)
}

// SetSenders is called before Apply with the clients whose updates are in the sum. A server half that moves only the
// fragments that these clients send notes those; all others ignore the call. What a client sends follows from the
// state that it keeps, so the states must not have been replaced yet by those after its task.
func (i *Instance) SetSenders(clients []int) {
	server, ok := i.Server.(*decoupled)
	if !ok {
		return
	}
	a := i.Algorithm.(Decoupled)
	server.movingFragments = server.movingFragments[:0]
	for _, client := range clients {
		server.movingFragments = append(server.movingFragments, a.nextSent(i.ClientStates.Client(client).Values))
	}
	slices.Sort(server.movingFragments)
	server.movingFragments = slices.Compact(server.movingFragments)
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

// CopyLength returns how many values a client keeps from task to task because it goes on with a copy of the model,
// which has params parameters. It is 0 with algorithms whose clients have no copy.
func CopyLength(a Algorithm, params int) int {
	if c, ok := a.(interface{ Copy(params int) int }); ok {
		return c.Copy(params)
	}
	return 0
}
