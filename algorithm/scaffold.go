package algorithm

import "fedpace/registry"

// init registers the algorithm under the name by which a configuration chooses it. The text is its line
// in the list of such components.
func init() {
	Algorithms.Register("scaffold", "control variates against drift (Karimireddy et al. 2020)", Scaffold{})
}

// Scaffold keeps a control variate c_i of every client and their mean c
// (Karimireddy et al. 2020, Eq. 3 to 5, [ClientStates]). A client's local steps are
//
//	y ← y − η (g(y) − c_i + c),
//
// and its next variate is that of option II,
//
//	c_i⁺ = c_i − c + (x − y)/(K η).
//
// The server is FedAvg's.
type Scaffold struct {
	Rate float64 `key:"server_rate" default:"1" range:"(0,1e6]" help:"learning rate at the server"`
}

// Needs says on what Scaffold rests. The server's variate c is the unweighted mean of the variates that clients keep,
// so it needs client state and equal weights. It supposes that a client's variate does not change while others train,
// so rounds must not overlap. And (x − y)/(K η) is the mean gradient of a task only if local steps are plain ones,
// without an optimizer of their own.
func (Scaffold) Needs() registry.Needs {
	return registry.Needs{
		ClientState: true,
		Simulated:   true,
		EqualWeight: true,
		Rounds:      true,
		PlainSteps:  true,
	}
}

// Server implements [Algorithm].
func (a Scaffold) Server(int) ServerOptimizer { return average{a.Rate} }

// Weigh implements [Algorithm]: no update is stale where rounds do not overlap.
func (Scaffold) Weigh(weights []float64, _, _ []int) ([]float64, float64) { return weights, 1 }

// Client implements [Algorithm].
func (Scaffold) Client(params int) Client { return &scaffoldClient{drift: make([]float32, params)} }

// scaffoldClient is the client half of [Scaffold], with what Start has been given.
type scaffoldClient struct {
	// base is the model x from which the task started, serverVariate is c, and clientVariate is c_i.
	base, serverVariate, clientVariate []float32
	// drift is c − c_i, which does not change during a task.
	drift []float32
}

// Start implements [Client] for a task that starts from the model base: serverVariate is the server's control variate
// c, and clientVariate the client's own, c_i. Their difference stays the same during the task, so it is computed
// once.
func (d *scaffoldClient) Start(base, serverVariate, clientVariate []float32) {
	d.base = base
	d.serverVariate = serverVariate
	d.clientVariate = clientVariate
	for i := range d.drift {
		d.drift[i] = serverVariate[i] - clientVariate[i]
	}
}

// Correct implements [Client]: it adds the difference c − c_i of the control variates to the
// gradient, in place, which cancels the client's own drift.
func (d *scaffoldClient) Correct(local, gradient []float32) {
	gradient = gradient[:len(local)]
	drift := d.drift[:len(local)]
	for i := range local {
		gradient[i] += drift[i]
	}
}

// End implements [Client]: it returns the client's next control variate, c_i − c + (x − y)/(K η)
// (option II), where the last term is the mean gradient of the K local steps.
func (d *scaffoldClient) End(local []float32, steps int, rate float64) []float32 {
	next := make([]float32, len(d.base))
	// The local steps use η rounded to float32.
	stepsTimesRate := float64(float64(steps) * float64(float32(rate)))
	for i := range next {
		meanGradient := (float64(d.base[i]) - float64(local[i])) / stepsTimesRate
		next[i] = float32(float64(d.clientVariate[i]) - float64(d.serverVariate[i]) + meanGradient)
	}
	return next
}

// Terms implements [Additive].
func (d *scaffoldClient) Terms() (mu float32, vector []float32) { return 0, d.drift }
