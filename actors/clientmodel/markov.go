package clientmodel

import (
	"fmt"

	"fedpace/internal/keyed"
)

func init() {
	Availabilities.Register("markov", "stays and absences of exponentially distributed length, in equilibrium from time 0 on", Markov{})
}

// Markov is the two-state Markov chain in continuous time.
type Markov struct {
	OnSeconds  float64 `key:"on_seconds" range:"[1e-3,1e8]" unit:"seconds" help:"mean length of a stay"`
	OffSeconds float64 `key:"off_seconds" range:"[1e-3,1e8]" unit:"seconds" help:"mean length of an absence"`
}

func (m Markov) Presence(*Files) (Presence, error) {
	chain := newOnOff(keyed.Availability, m.OnSeconds, m.OffSeconds)
	return &chain, nil
}

func (m Markov) String() string {
	return fmt.Sprintf("markov (on for %g s, off for %g s in the mean: %.3g available)", m.OnSeconds, m.OffSeconds, m.OnSeconds/(m.OnSeconds+m.OffSeconds))
}
