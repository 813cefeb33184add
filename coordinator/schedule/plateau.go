package schedule

import "slices"

// PlateauConfig says when a validation error counts as converged. The paper
// gives no rule.
type PlateauConfig struct {
	// Patience is the number of evaluations without improvement that count as convergence, at least
	// 1.
	Patience int
	// MinDelta is the improvement that must be exceeded to count, in the unit of the error; 0 lets
	// any count.
	MinDelta float64
}

// Plateau says when the validation error has converged: its best value has not
// improved by more than MinDelta in the last Patience evaluations. Converged
// once is converged for good, for 'step' decays once. Its fields are all that it
// remembers, without NaN as those of [Window].
type Plateau struct {
	// Best holds the best error so far, as it was after each of the last
	// Patience+1 evaluations, oldest first. So it never ascends.
	Best      []float64
	Converged bool

	config PlateauConfig
}

// NewPlateau returns a plateau that has observed no evaluation.
func NewPlateau(c PlateauConfig) Plateau { return RestorePlateau(c, Plateau{}) }

// RestorePlateau returns a copy of a plateau, as a checkpoint holds it, that follows the configuration from
// here on.
func RestorePlateau(config PlateauConfig, plateau Plateau) Plateau {
	plateau.Best = slices.Clone(plateau.Best)
	plateau.config = config
	return plateau
}

// Observe takes the validation error of the next evaluation, for example 1 minus the accuracy. The
// error has converged once the best value has improved by no more than MinDelta over Patience
// evaluations, and stays so.
func (p *Plateau) Observe(validationError float64) {
	if observed := len(p.Best); observed > 0 {
		validationError = min(validationError, p.Best[observed-1])
	}
	// The list of best values so far has at most Patience + 1 entries.
	if len(p.Best) > p.config.Patience {
		p.Best = p.Best[1:]
	}
	p.Best = append(p.Best, validationError)
	observed := len(p.Best)
	flat := observed > p.config.Patience && p.Best[0]-p.Best[observed-1] <= p.config.MinDelta
	p.Converged = p.Converged || flat
}
