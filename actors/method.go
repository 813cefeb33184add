package actors

import (
	"fmt"

	"fedpace/actors/learn"
)

// Method is how a job's local steps differ from plain SGD. The zero value is
// plain SGD.
type Method struct {
	// Proximal is FedProx's mu (Li et al. 2020, Eq. 2): a local step is
	// y ← y − η (g(y) + mu (y − x)), x being the base model.
	Proximal float64

	// Variates says that local steps are SCAFFOLD's, y ← y − η (g(y) − c_i + c)
	// (Karimireddy et al. 2020, Eq. 3), and that each client gets a new control
	// variate, c_i − c + (x − y_K)/(K η) (Eq. 4, option II).
	Variates bool
	// Variate is c; nil: zero. Assignment.Variate is c_i.
	Variate []float32
	// VariateWeight is the weight of c_i⁺ − c_i in the exact sum: 1/N.
	VariateWeight float64
}

// SumLength is the length of a job's exact sum: the updates of all parameters
// and, with control variates, then the changes of those.
func (m *Method) SumLength(params int) int {
	if m.Variates {
		return 2 * params
	}
	return params
}

func (m *Method) plain() bool { return m.Proximal == 0 && !m.Variates }

// proximalStep is x ← x − rate (g + mu (x − base)). Every operation is rounded
// by itself, so that machines agree.
func proximalStep(x, g, base []float32, rate, mu float32) {
	g, base = g[:len(x)], base[:len(x)]
	for i := range x {
		pull := float32(mu * float32(x[i]-base[i]))
		x[i] -= float32(rate * float32(g[i]+pull))
	}
}

// driftStep is y ← y − rate (g + drift), where drift = c − c_i does not change
// during a client's steps.
func driftStep(y, g, drift []float32, rate float32) {
	g, drift = g[:len(y)], drift[:len(y)]
	for i := range y {
		y[i] -= float32(rate * float32(g[i]+drift[i]))
	}
}

// variates is a worker's memory for SCAFFOLD.
type variates struct {
	zero  []float32 // never written to
	drift []float32
}

func (v *variates) of(c []float32) []float32 {
	if c == nil {
		return v.zero
	}
	return c
}

// start prepares a client's steps.
func (v *variates) start(m *Method, a *Assignment) {
	c, own := v.of(m.Variate), v.of(a.Variate)
	for i := range v.drift {
		v.drift[i] = c[i] - own[i]
	}
}

// end returns the client's next variate and adds its change to sum. bad is the
// first parameter whose change is refused, or -1.
func (v *variates) end(m *Method, a *Assignment, base, local []float32, sum []int64) (next []float32, bad int) {
	c, own := v.of(m.Variate), v.of(a.Variate)
	next = make([]float32, len(base))
	way := float64(float64(a.LocalSteps) * float64(float32(a.Rate))) // K η, with the η of the steps
	for i := range next {
		moved := (float64(base[i]) - float64(local[i])) / way
		next[i] = float32(float64(own[i]) - float64(c[i]) + moved)
	}
	return next, learn.AddExact(sum, m.VariateWeight, next, own)
}

// check refuses what would index out of range or divide by zero.
func (m *Method) check(params int, work []Assignment, sum []int64) error {
	if want := m.SumLength(params); len(sum) != want {
		return fmt.Errorf("actors: a sum of %d values, want %d", len(sum), want)
	}
	if !m.Variates {
		return nil
	}
	if m.Variate != nil && len(m.Variate) != params {
		return fmt.Errorf("actors: the server's control variate has %d values, want %d", len(m.Variate), params)
	}
	if m.Proximal != 0 {
		return fmt.Errorf("actors: local steps with control variates and mu %g, want one of the two", m.Proximal)
	}
	for _, a := range work {
		if a.Variate != nil && len(a.Variate) != params {
			return fmt.Errorf("actors: task %d: the control variate of client %d has %d values, want %d", a.Task, a.Client, len(a.Variate), params)
		}
		if a.LocalSteps < 1 || !(float32(a.Rate) > 0) {
			return fmt.Errorf("actors: task %d, client %d: %d local steps at rate %g leave no control variate", a.Task, a.Client, a.LocalSteps, a.Rate)
		}
	}
	return nil
}
