package schedule

func init() {
	Ks.Register("linear", "goes from K_0 to another K in a straight line", LinearK{})
	Etas.Register("linear", "goes from eta_0 to another rate in a straight line", LinearEta{})
}

// LinearK and LinearEta go from K_0, and from eta_0, to another value in a straight line.
type (
	LinearK   = curveK[linear]
	LinearEta = curveEta[linear]
)

type linear struct{}

// between is the line from one value to the other.
func (linear) between(from, to, at, all float64) float64 {
	return (float64(from*(all-at)) + float64(to*at)) / all
}
