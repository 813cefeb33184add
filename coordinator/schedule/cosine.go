package schedule

func init() {
	Ks.Register("cosine", "goes from K_0 to another K by half a cosine", CosineK{})
	Etas.Register("cosine", "goes from eta_0 to another rate by half a cosine", CosineEta{})
}

// CosineK and CosineEta go from K_0, and from eta_0, to another value by half a cosine
// (Loshchilov and Hutter, ICLR 2017, Eq. 5, without restarts).
type (
	CosineK   = curveK[cosine]
	CosineEta = curveEta[cosine]
)

type cosine struct{}

// between is to + (from - to)(1 + cos(pi at/all))/2.
func (cosine) between(from, to, at, all float64) float64 {
	return to + float64((from-to)*(1+cosPi(at/all)))/2
}
