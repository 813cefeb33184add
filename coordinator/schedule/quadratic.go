package schedule

import "math"

// init registers the schedule under the name by which a configuration chooses it. The text is its line
// in the list of schedules.
func init() {
	Ks.Register("quadratic", "grows as the rate falls: max(K_0, floor((alpha/eta_r)^2)), Gu et al. 2024", QuadraticK{})
}

// QuadraticK is the quadratic synchronization rule (Gu et al., ICLR 2024, Algorithm 2):
// max(K_0, floor((alpha/eta_r)²)). K_0 is its H_base.
type QuadraticK struct {
	Alpha float64 `key:"alpha" range:"(0,1000000]" help:"growth coefficient"`
	Max   int     `key:"max" is:"null" range:"[1,1000000]" help:"greatest K; null: none"`
}

// LocalSteps returns max(K_0, floor((alpha/eta_r)²)), at most Max; K_0 precedes Max if that is less. The formula and
// Max count steps or epochs. K_0 and the result count steps or, for epochs, parts of one ([Setup.PartsPerUnit]).
func (s QuadraticK) LocalSteps(p Progress) int {
	ratio := s.Alpha / p.LearningRate
	// A rounding error must not decide the whole number, as in [wholeSteps]: (0.3/0.1)² counts as 9.
	whole := math.Floor(float64(ratio*ratio) * (1 + tolerance))
	// Both minima keep a huge K within an int.
	k := min(whole, MaxK0) * float64(p.partsPerUnit())
	return withinBounds(p.K0, int(min(k, MaxK0+1)), s.Max*p.partsPerUnit())
}
