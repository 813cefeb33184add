package algorithm

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math"
	"slices"
)

// ClientState is the vector that one client keeps from task to task. Messages name it by its digest.
// Values are never written to.
type ClientState struct {
	Digest [sha256.Size]byte
	// Values holds the state, nil for all zeros, as before a client's first task.
	Values []float32
}

// ClientStates keeps a vector for each client that took part. With SCAFFOLD (Karimireddy et al. 2020) the
// vector begins with the client's control variate c_i, and the mean c of all c_i over the population of N
// clients is kept, too. A round whose clients have the next variates c_i⁺ moves the mean by
//
//	c ← c + 1/N Σ (c_i⁺ − c_i),
//
// summed exactly as models are: each term has the weight 1/N.
//
// With error feedback the vector begins with the client's residual of compressed updates, of which there
// is no mean: c is empty, and a round has no sum for it. The values that local steps remember come last,
// or are all that a vector has.
type ClientStates struct {
	// width is the length of a client's vector, and population the number of clients.
	width, population int
	// server is the server's control variate c, empty if there is none.
	server []float64
	// clients are the states of the clients, by number, whose vectors are not all 0.
	clients map[int]ClientState
}

// NewClientStates makes the states of a population of clients, all zero. A client's vector has variates
// values, whose mean over all clients is kept at the server, followed by further values. variates is 0 if
// no mean is kept.
func NewClientStates(variates, further, population int) *ClientStates {
	return &ClientStates{
		width:      variates + further,
		population: population,
		server:     make([]float64, variates),
		clients:    map[int]ClientState{},
	}
}

// Width returns the length of a client's vector.
func (v *ClientStates) Width() int { return v.width }

// Residuals reports whether no mean of the vectors is kept, as for all but control variates.
func (v *ClientStates) Residuals() bool { return len(v.server) == 0 }

// Kind returns what the vectors are called in messages.
func (v *ClientStates) Kind() string { return stateKind(v.Residuals()) }

// stateKind returns in words what a client keeps: with residuals what has no mean at the server, otherwise
// control variates.
func stateKind(residuals bool) string {
	if residuals {
		return "residuals of compressed updates, or what steps remember"
	}
	return "control variates"
}

// Weight returns 1/N, the weight of a client's c_i⁺ − c_i in the exact sum.
func (v *ClientStates) Weight() float64 { return 1 / float64(v.population) }

// Server returns the server's control variate c in float32, as clients use it, in a new slice. It
// is nil as long as c is zero.
func (v *ClientStates) Server() []float32 {
	c := make([]float32, len(v.server))
	for i, x := range v.server {
		c[i] = float32(x)
	}
	if allZero(c) {
		return nil
	}
	return c
}

// Client returns the state of the client with this number; its values are nil while all are zero.
func (v *ClientStates) Client(client int) ClientState { return v.clients[client] }

// Update ends a round: clients are those that took part, and next[i] is the new state of clients[i], which
// is kept and must not be written to again. sum is the exact sum of the changes of their control variates,
// each with the weight 1/N of [ClientStates.Weight], so it is the change of the mean over all N clients; it
// is empty if no mean is kept. Update panics if lengths differ.
func (v *ClientStates) Update(sum []int64, clients []int, next []ClientState) {
	if len(sum) != len(v.server) || len(clients) != len(next) {
		panic("algorithm: Update of slices of different lengths")
	}
	for i, s := range sum {
		v.server[i] += Delta(s, 1)
	}
	for i, n := range next {
		if len(n.Values) != v.width {
			panic("algorithm: a client's vector of another length")
		}
		v.clients[clients[i]] = n
		// A client without a vector counts as one with zeros, so that zeros need no memory.
		if allZero(n.Values) {
			delete(v.clients, clients[i])
		}
	}
}

// allZero reports whether all values are 0.
func allZero(values []float32) bool {
	return !slices.ContainsFunc(values, func(x float32) bool { return x != 0 })
}

// SavedStates is what a checkpoint keeps. Its slices are those in use: valid
// until the next Update, not to be changed.
type SavedStates struct {
	Server []float64
	// Clients are the clients with a state, in ascending order.
	Clients []int
	Values  []ClientState
	// Residuals is true if the states are residuals of compression, so that there is no c.
	Residuals bool
}

// State returns what a checkpoint must hold: c and the states of the clients that have one, in
// ascending order of the clients. It shares memory with v.
func (v *ClientStates) State() SavedStates {
	s := SavedStates{Server: v.server, Residuals: v.Residuals(), Clients: slices.Sorted(maps.Keys(v.clients))}
	for _, c := range s.Clients {
		s.Values = append(s.Values, v.clients[c])
	}
	return s
}

// Restore takes over a state that State returned in a run with an equal configuration; the clients' vectors
// are not copied. It is an error, and changes nothing, if the state does not fit.
func (v *ClientStates) Restore(states SavedStates) error {
	if states.Residuals != v.Residuals() {
		return fmt.Errorf("algorithm: a state of %s, where the clients keep %s", stateKind(states.Residuals), v.Kind())
	}
	if len(states.Server) != len(v.server) || len(states.Clients) != len(states.Values) {
		return fmt.Errorf("algorithm: a server's control variate of %d values and %d of %d clients, want %d values "+
			"and as many variates as clients",
			len(states.Server), len(states.Values), len(states.Clients), len(v.server))
	}
	for i, x := range states.Server {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("algorithm: the server's control variate holds %v for parameter %d", x, i)
		}
	}
	// All clients are checked before the first is taken over.
	clients := make(map[int]ClientState, len(states.Clients))
	for i, client := range states.Clients {
		if client < 0 ||
			client >= v.population ||
			i > 0 && client <= states.Clients[i-1] {
			return fmt.Errorf(
				"algorithm: control variate %d is of client %d, want ascending clients below %d",
				i,
				client,
				v.population,
			)
		}
		if len(states.Values[i].Values) != v.width {
			return fmt.Errorf(
				"algorithm: what client %d keeps has %d values, want %d",
				client,
				len(states.Values[i].Values),
				v.width,
			)
		}
		clients[client] = states.Values[i]
	}
	copy(v.server, states.Server)
	v.clients = clients
	return nil
}
