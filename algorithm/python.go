package algorithm

import (
	"fmt"
	"math"
	"slices"

	"fedpace/policy"
)

// init registers the algorithm under the name by which a configuration chooses it. The text is its line
// in the list of such components.
func init() {
	Algorithms.Register(
		"python",
		"weights and the server's step by a Python subclass of fedpace.Aggregation",
		Python{},
	)
}

// Python is an algorithm whose server is a class in Python: it weighs the updates of a round, or moves
// the model by their mean, or both. Where the class lacks one of these methods, [FedAvg] with rate 1
// stands in for it.
type Python struct {
	policy.Python
	Vectors int `key:"vectors" default:"0" range:"[0,8]" help:"model-sized vectors that the server keeps"`
	Uncorrected
	Staleness
}

// Kind names the base class in Python.
func (Python) Kind() string { return "Aggregation" }

// Server implements [Algorithm] for a model of this many parameters. A class without a method step
// gets plain averaging. Others keep as many vectors of state as the option asks for, which start at
// zero.
func (a Python) Server(params int) ServerOptimizer {
	if a.Asker() != nil && !a.Asker().Has("step") {
		return average{1}
	}
	server := &pythonServer{policy: a.Python}
	for range a.Vectors {
		server.state = append(server.state, make([]float64, params))
	}
	return server
}

// Weigh implements [Algorithm]: the Python class gets the weights as staleness has lowered them,
// and answers with its own, which are made to sum to 1. Weights below 0, or with the sum 0, are
// reported as a failure. If the class fails, the weights stay.
func (a Python) Weigh(weights []float64, steps, staleness []int) (list []float64, scale float64) {
	weights, scale = a.Staleness.Weigh(weights, steps, staleness)
	if a.Asker() == nil || !a.Asker().Has("weigh") {
		return weights, scale
	}
	question := struct {
		Weights   []float64 `json:"weights"`
		Steps     []int     `json:"steps"`
		Staleness []int     `json:"staleness"`
	}{weights, steps, staleness}
	if !a.Asker().Ask("weigh", question, &list) {
		return weights, scale
	}
	sum := 0.0
	for _, w := range list {
		sum += w
	}
	isWeighing := len(list) == len(weights) && slices.Min(list) >= 0 && sum > 0 && !math.IsInf(sum, 0)
	if !isWeighing {
		a.Asker().Fail("weigh", "%d weights with the sum %g: want %d, none below 0, with a sum above 0",
			len(list), sum, len(weights))
		return weights, scale
	}
	// A sum that differs from 1 by rounding alone is left as it is.
	if math.Abs(sum-1) > 1e-12 {
		for i := range list {
			list[i] /= sum
		}
	}
	return list, scale
}

// String returns the algorithm's name, with its class, for a summary.
func (a Python) String() string { return fmt.Sprintf("python (%v)", a.Python) }

// pythonServer is the server half of [Python].
type pythonServer struct {
	policy policy.Python
	state  [][]float64
	// delta is the memory of the mean update.
	delta []float64
}

// Apply implements [ServerOptimizer]: the class reads the mean update, and writes the model and the
// state in place. A failure of the class, or a state with a value that is not finite, is reported to the
// policy's process, which ends the run. Where no process is bound, it averages.
func (s *pythonServer) Apply(model []float32, sum []int64, scale float64) {
	checkLengths(len(model), len(sum), len(sum))
	if s.policy.Asker() == nil {
		average{1}.Apply(model, sum, scale)
		return
	}
	s.delta = slices.Grow(s.delta[:0], len(sum))[:len(sum)]
	for i, units := range sum {
		s.delta[i] = Delta(units, scale)
	}
	vectors := &policy.Vectors{Read: []any{s.delta}, Written: []any{model}}
	// The state of the class is handed over behind the model, and is written in place.
	for _, v := range s.state {
		vectors.Written = append(vectors.Written, v)
	}
	var nothing []int
	if !s.policy.Asker().AskVectors("step", struct{}{}, vectors, &nothing) {
		return
	}
	for _, v := range s.state {
		if i := slices.IndexFunc(v, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }); i >= 0 {
			s.policy.Asker().Fail("step", "a vector of its state has %g for parameter %d", v[i], i)
			return
		}
	}
}

// State implements [ServerOptimizer].
func (s *pythonServer) State() [][]float64 { return s.state }

// Restore implements [ServerOptimizer].
func (s *pythonServer) Restore(state [][]float64) error {
	return copyState(s.state, state, math.Inf(-1))
}
