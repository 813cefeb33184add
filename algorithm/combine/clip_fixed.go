package combine

func init() { Clips.Register("fixed", "one bound for all rounds (Sun et al. 2019)", Fixed{}) }

// Fixed is the same bound in all rounds.
type Fixed struct {
	Norm float64 `key:"norm" is:"short" range:"(0,1e12]" help:"largest Euclidean norm of an update"`
}

// Bound implements [Clip]: it remembers nothing.
func (f Fixed) Bound(_, _ []float64) (bound float64, nextMemory []float64) { return f.Norm, nil }
