package schedule

func init() {
	Ks.Register("exponential", "goes from K_0 to another K by equal factors in equal times", ExponentialK{})
	Etas.Register("exponential", "goes from eta_0 to another rate by equal factors in equal times", ExponentialEta{})
}

// ExponentialK and ExponentialEta go from K_0, and from eta_0, to another value by equal
// factors in equal times.
type (
	ExponentialK   = curveK[exponential]
	ExponentialEta = curveEta[exponential]
)

type exponential struct{}

// between is from (to/from)^(at/all).
func (exponential) between(from, to, at, all float64) float64 {
	return float64(from * pow(to/from, at/all))
}
