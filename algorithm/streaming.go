package algorithm

import "fedpace/registry"

// init registers the algorithm under the name by which a configuration chooses it. The text is its line
// in the list of such components.
func init() {
	Algorithms.Register(
		"streaming",
		"a fragment of the model a round, while clients go on (Streaming DiLoCo, Douillard et al. 2025)",
		Streaming{},
	)
}

// Streaming is Streaming DiLoCo (Douillard et al. 2025, Algorithm 2). Each client r keeps a copy
// x_r of the model, with which its next task begins. The model is cut into P fragments. A
// round sends one of them, p = v mod P after v rounds, whose outer step is that of DiLoCo, with
// the mean over clients of x_r − x for Δ:
//
//	m_p ← μ m_p + Δ_p,  x_p ← x_p + η (Δ_p + μ m_p)
//
// So each is sent every P rounds: with K steps a round H is P K. What comes of it is in the
// client's copy τ steps later, while it has gone on:
//
//	x_r,p ← α x_r,p + (1 − α) x_p
//
// With one fragment, τ = 0 and α = 0 it is DiLoCo, [FedAvgM] with Nesterov's look ahead. A round
// of fewer steps than τ mixes at its end. A client that has missed rounds mixes what they have
// sent, too. The paper cuts between layers; here fragments are equal parts of the parameters in
// their order.
type Streaming struct {
	Rate      float64 `key:"server_rate" default:"0.7" range:"(0,1e6]" help:"learning rate of the outer step"`
	Momentum  float64 `key:"momentum" default:"0.9" range:"[0,1)" help:"momentum"`
	Fragments int     `key:"fragments" default:"3" range:"[1,10000]" help:"P, parts of the model"`
	Overlap   int     `key:"overlap" default:"5" range:"[0,1000000]" unit:"steps" help:"τ, local steps before a client needs the last round's fragment"`
	Mix       float64 `key:"mix" default:"0.5" range:"[0,1]" help:"α, weight of a client's own copy"`
	Uncorrected
}

// Needs says that a client's copy follows it from task to task.
func (Streaming) Needs() registry.Needs {
	return registry.Needs{ClientState: true, Simulated: true, Rounds: true}
}

// Weigh implements [Algorithm]: no update is stale where rounds do not overlap.
func (Streaming) Weigh(weights []float64, _, _ []int) ([]float64, float64) { return weights, 1 }

// Copy returns how many values a client keeps from task to task: its copy of the params parameters and,
// last, how many rounds had made the model when its latest task began.
func (Streaming) Copy(params int) int { return params + 1 }

// Span returns the fragment of the parameters, those from start to end-1, that clients send in the round
// after this many rounds: the fragments take turns, and are equally long up to one parameter.
func (s Streaming) Span(rounds uint64, params int) (start, end int) {
	fragment := int64(rounds % uint64(s.Fragments))
	fragments := int64(s.Fragments)
	start = int(fragment * int64(params) / fragments)
	end = int((fragment + 1) * int64(params) / fragments)
	return start, end
}

// Server implements [Algorithm].
func (s Streaming) Server(params int) ServerOptimizer {
	outer := FedAvgM{Rate: s.Rate, Momentum: s.Momentum, Nesterov: true}
	return &streamed{momentum: momentum{outer, make([]float64, params)}, options: s}
}

// streamed is the server half of [Streaming]: a momentum for the whole model, of which each round moves
// one fragment.
type streamed struct {
	momentum
	options Streaming
	// rounds is how many rounds have made the model.
	rounds uint64
}

// SetRounds notes how many rounds have made the model, which decides the fragment that moves next.
func (s *streamed) SetRounds(rounds uint64) { s.rounds = rounds }

// Apply implements [ServerOptimizer]: it moves the parameters and the momentum of the one fragment
// whose turn it is, and leaves all others.
func (s *streamed) Apply(model []float32, sum []int64, scale float64) {
	start, end := s.options.Span(s.rounds, len(model))
	part := momentum{s.FedAvgM, s.v[start:end]}
	part.Apply(model[start:end], sum[start:end], scale)
}

// HasControlVariates reports whether an algorithm's clients keep control variates, and send the change of
// theirs behind the update.
func HasControlVariates(a Algorithm) bool {
	// Clients that stream keep a copy of the model instead, which they do not send.
	_, copies := Streams(a)
	return registry.NeedsOf(a).ClientState && !copies
}

// SetRounds sets how many rounds have made the model, for a server half whose step depends on it; others
// ignore it. It is called before Apply.
func (i *Instance) SetRounds(rounds uint64) {
	if s, ok := i.Server.(interface{ SetRounds(uint64) }); ok {
		s.SetRounds(rounds)
	}
}
