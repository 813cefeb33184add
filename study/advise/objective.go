package advise

import (
	"errors"

	"fedpace/config"
	"fedpace/coordinator/theory"
	"fedpace/experiment/convex"
	"fedpace/experiment/problem"
)

// Objective is a convex task at the model from which its runs start.
type Objective struct {
	*convex.Problem
	// Initial holds the parameters of the first round's model, as runs hold it.
	Initial []float32
	// Start is the same model in double precision, as the formulas take it.
	Start []float64
	// Theorem1 holds the constants of Theorem 1. Its G and variance are the larger of those at
	// Start and at the optimum.
	Theorem1 theory.Constants
}

// OpenObjective reads the objective function of configuration c, whose task must be convex, with
// its initial model and the constants of Theorem 1. The caller closes its Set.
func OpenObjective(c config.Config) (*Objective, error) {
	p, err := problem.Open(c)
	if err != nil {
		return nil, err
	}
	problem, err := p.Convex()
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	start := convex.Widen(p.Initial)
	return &Objective{
		Problem:  problem,
		Initial:  p.Initial,
		Start:    start,
		Theorem1: problem.Constants(start, c.Cohort),
	}, nil
}

// Spaced returns increasing whole numbers from 1 to n, each about factor times the one before it and
// at least one more. The last is n.
func Spaced(n int, factor float64) []int {
	// factor may be an nth root, and a power of it a rounding error below n.
	const rounding = 1e-6
	var list []int
	for x := 1.0; x < float64(n)-rounding; x = max(x*factor, x+1) {
		list = append(list, int(x))
	}
	return append(list, n)
}
