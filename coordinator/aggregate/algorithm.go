package aggregate

import (
	"fmt"
	"math"
)

// Algorithm is everything in which one federated algorithm differs from
// another, with its state. It is not safe for concurrent use.
type Algorithm struct {
	Name    string
	Options Options // resolved: no number that the algorithm takes is nil

	// Server makes the next model of the exact sum.
	Server Server
	// Proximal is FedProx's mu (Li et al. 2020, Eq. 2): clients minimise
	// F_c(x) + mu/2 ‖x − x_r‖². 0: none.
	Proximal float64
	// Variates are SCAFFOLD's control variates; nil: none.
	Variates *Variates

	normalise bool
	staleness float64
}

// New makes an algorithm for a model of so many parameters and a population of
// so many clients. Its errors are [*OptionError], see [Resolve].
func New(name string, params, population int, o Options) (*Algorithm, error) {
	if params < 1 || population < 1 {
		panic("aggregate: New for no parameters or no clients")
	}
	o, err := Resolve(name, o)
	if err != nil {
		return nil, err
	}
	a := &Algorithm{Name: name, Options: o}
	if o.Staleness != nil {
		a.staleness = *o.Staleness
	}
	switch rate := *o.ServerRate; name {
	case FedAvgM:
		a.Server = NewMomentum(params, rate, *o.Momentum)
	case FedAdagrad:
		a.Server = NewAdagrad(params, rate, *o.Beta1, *o.Tau)
	case FedAdam:
		a.Server = NewAdam(params, rate, *o.Beta1, *o.Beta2, *o.Tau)
	case FedYogi:
		a.Server = NewYogi(params, rate, *o.Beta1, *o.Beta2, *o.Tau)
	default:
		a.Server = Average{rate}
	}
	switch name {
	case FedProx:
		a.Proximal = *o.Mu
	case Scaffold:
		a.Variates = NewVariates(params, population)
	case FedNova:
		a.normalise = true
	}
	return a, nil
}

// SumLength is the length of the exact sum for a model of so many parameters:
// with control variates their changes follow the updates.
func (a *Algorithm) SumLength(params int) int {
	if a.Variates != nil {
		return 2 * params
	}
	return params
}

// Weigh turns the accepted clients' weights, which sum to 1, into those of the
// exact sum, and returns the factor that Server.Apply takes with it. steps are
// the clients' local steps, staleness the aggregations since each base model;
// nil: no client's is stale.
func (a *Algorithm) Weigh(weights []float64, steps, staleness []int) (list []float64, scale float64) {
	if staleness != nil {
		weights = ByStaleness(weights, staleness, a.staleness)
	}
	if a.normalise {
		return Normalised(weights, steps)
	}
	return weights, 1
}

// Setting is what else of a run an algorithm depends on.
type Setting struct {
	BySamples bool // aggregate.weights: samples
	Buffered  bool // close.rule: buffered
}

// CheckSetting returns an [*OptionError] for a setting in which the algorithm does not
// do what its paper says.
func CheckSetting(algorithm string, s Setting) error {
	if algorithm != Scaffold {
		return nil
	}
	switch {
	case s.BySamples: // c would not be the mean gradient that c_i are taken off
		return &OptionError{"aggregate.weights", "samples, but scaffold's control variates are an unweighted mean (use equal)"}
	case s.Buffered: // c would have to be kept with every base model
		return &OptionError{"close.rule", "buffered, but scaffold's control variates belong to rounds (use all, deadline or first, or another algorithm)"}
	}
	return nil
}

// StateBytes is the most memory that an algorithm's state comes to: the
// server's vectors and, for SCAFFOLD, one vector of float32 for each client
// that takes part. It is 0 for an unknown algorithm and math.MaxInt64 beyond
// what int64 holds.
func StateBytes(algorithm string, params, clients int) int64 {
	perParameter, perClient := 0., 0.
	switch algorithm {
	case FedAvgM:
		perParameter = 8
	case FedAdagrad, FedAdam, FedYogi:
		perParameter = 16
	case Scaffold:
		// c is kept in float64 and handed out in float32.
		perParameter, perClient = 12, 4
	}
	bytes := float64(params) * (perParameter + float64(perClient*float64(clients)))
	if bytes >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(bytes)
}

// CheckState returns an [*OptionError] when an algorithm's state would pass a
// limit in bytes.
func CheckState(algorithm string, params, clients int, limit int64) error {
	if n := StateBytes(algorithm, params, clients); n > limit {
		return &OptionError{"limits.state_gb", fmt.Sprintf("%.3g, but %s keeps up to %.3g GB for %d parameters and %d clients (raise the limit, or take fewer clients or another algorithm)",
			float64(limit)/1e9, algorithm, float64(n)/1e9, params, clients)}
	}
	return nil
}
