package algorithm

// init registers the algorithm under the name by which a configuration chooses it. The text is its line
// in the list of such components.
func init() {
	Algorithms.Register("fedprox", "a pull towards the global model (Li et al. 2020)", FedProx{})
}

// FedProx has clients minimise F_c(x) + μ/2 ‖x − x_r‖² (Li et al. 2020, Eq. 2): a
// local step is y ← y − η (g(y) + μ (y − x_r)). The server is FedAvg's.
type FedProx struct {
	Rate float64 `key:"server_rate" default:"1" range:"(0,1e6]" help:"learning rate at the server"`
	Mu   float64 `key:"mu" default:"0.01" range:"[0,1e6]" help:"pull towards the global model"`
	Staleness
}

// Server implements [Algorithm].
func (a FedProx) Server(int) ServerOptimizer { return average{a.Rate} }

// Client implements [Algorithm]: it returns the pull towards the model of the task, or nil without
// a pull, since there is then nothing to correct.
func (a FedProx) Client(int) Client {
	if a.Mu == 0 {
		return nil
	}
	return &proximal{mu: float32(a.Mu)}
}

// proximal is the client half of [FedProx].
type proximal struct {
	mu   float32
	base []float32
}

// Start implements [Client].
func (p *proximal) Start(base, _, _ []float32) { p.base = base }

// Correct implements [Client]: it adds μ (y − x_r) to the gradient, in place, where y is the local model
// and x_r the one from which the task started.
func (p *proximal) Correct(local, gradient []float32) {
	gradient = gradient[:len(local)]
	base := p.base[:len(local)]
	for i := range local {
		gradient[i] += float32(p.mu * float32(local[i]-base[i]))
	}
}

// End implements [Client]: the client keeps nothing.
func (*proximal) End([]float32, int, float64) []float32 { return nil }

// Terms implements [Additive].
func (p *proximal) Terms() (mu float32, vector []float32) { return p.mu, nil }
