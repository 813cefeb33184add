package attack

func init() {
	Attacks.Register("sign_flip", "sends its update with the opposite sign", SignFlip{})
}

// SignFlip sends x - s (x_c - x) where an honest client sends its model x_c, s being the
// factor (Li et al. 2019, RSA: Byzantine-robust stochastic aggregation).
type SignFlip struct {
	Factor float64 `key:"factor" default:"1" range:"(0,1e6]" help:"what the update is multiplied by, besides its sign"`
}

func (s SignFlip) Acts() Acts { return Acts{Update: times(-s.Factor)} }
