package schedule

import (
	"fmt"
	"slices"
)

// MaxPatience bounds PlateauConfig.Patience.
const MaxPatience = 1_000_000

// PlateauConfig says when a validation error counts as converged. The paper
// gives no rule.
type PlateauConfig struct {
	Patience int     // evaluations, 1 to MaxPatience
	MinDelta float64 // improvement that counts, in the error's unit; 0: any
}

// Plateau says when the validation error has converged: its best value has not
// improved by more than MinDelta in the last Patience evaluations. Converged
// once is converged for good, for 'step' decays once.
type Plateau struct {
	config PlateauConfig
	state  PlateauState
}

// PlateauState is all that a plateau remembers.
type PlateauState struct {
	// Best holds the best error so far, as it was after each of the last
	// Patience+1 evaluations, oldest first. So it never ascends.
	Best      []float64
	Converged bool
}

// NewPlateau returns a plateau that has observed no evaluation.
func NewPlateau(c PlateauConfig) (*Plateau, error) { return RestorePlateau(c, PlateauState{}) }

// RestorePlateau returns a plateau that goes on from a state. It returns an
// error for a state that such a plateau cannot have come to.
func RestorePlateau(c PlateauConfig, s PlateauState) (*Plateau, error) {
	switch {
	case c.Patience < 1 || c.Patience > MaxPatience:
		return nil, fmt.Errorf("schedule: a patience of %d evaluations, want 1 to %d", c.Patience, MaxPatience)
	case !finite(c.MinDelta) || c.MinDelta < 0:
		return nil, fmt.Errorf("schedule: min_delta %v, want 0 or more", c.MinDelta)
	case len(s.Best) > c.Patience+1:
		return nil, fmt.Errorf("schedule: plateau state: %d evaluations remembered, want %d at most", len(s.Best), c.Patience+1)
	}
	for i, b := range s.Best {
		if !finite(b) || i > 0 && b > s.Best[i-1] {
			return nil, fmt.Errorf("schedule: plateau state: best error %v at %d does not descend", b, i)
		}
	}
	s.Best = slices.Clone(s.Best)
	p := &Plateau{config: c, state: s}
	if !s.Converged && p.flat() || s.Converged && len(s.Best) <= c.Patience {
		return nil, fmt.Errorf("schedule: plateau state: converged is %v after best errors %v", s.Converged, s.Best)
	}
	return p, nil
}

// State returns a copy of what the plateau remembers.
func (p *Plateau) State() PlateauState {
	s := p.state
	s.Best = slices.Clone(s.Best)
	return s
}

// Observe adds the next evaluation's validation error, for example 1 minus the
// accuracy. It panics when the error is not finite.
func (p *Plateau) Observe(validationError float64) {
	if !finite(validationError) {
		panic("schedule: validation error is not finite")
	}
	s := &p.state
	if n := len(s.Best); n > 0 {
		validationError = min(validationError, s.Best[n-1])
	}
	if len(s.Best) > p.config.Patience {
		s.Best = s.Best[1:]
	}
	s.Best = append(s.Best, validationError)
	s.Converged = s.Converged || p.flat()
}

// flat is the rule, for the evaluations that are remembered.
func (p *Plateau) flat() bool {
	best := p.state.Best
	return len(best) > p.config.Patience && best[0]-best[len(best)-1] <= p.config.MinDelta
}

// Converged reports whether the validation error has converged.
func (p *Plateau) Converged() bool { return p.state.Converged }
