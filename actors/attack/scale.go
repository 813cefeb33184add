package attack

// init registers the attacks of this file under the names by which a configuration chooses them.
func init() {
	Attacks.Register("sign_flip", "sends the opposite of its update", SignFlip{})
	Attacks.Register("scale", "sends a multiple of its update", Scale{})
}

// Scale sends x + s (x_c - x). With s = N/n, where n updates are averaged at the server rate
// N/n of theirs, the attacker's model replaces the global one (Bagdasaryan et al. 2020, How
// to backdoor federated learning, eq. 3). [LabelFlip] has the same factor, for a model worth
// putting in its place.
type Scale struct {
	Factor float64 `key:"factor" default:"10" range:"[1,1e6]" help:"factor of the update"`
}

// Behaviour implements [Attack]: the client multiplies its honest update by Factor.
func (s Scale) Behaviour() Behaviour { return Behaviour{Update: times(s.Factor)} }

// SignFlip sends x - s (x_c - x) where an honest client sends its model x_c, s being the
// factor (Li et al. 2019, RSA: Byzantine-robust stochastic aggregation).
type SignFlip struct {
	Factor float64 `key:"factor" default:"1" range:"(0,1e6]" help:"factor of the update, besides its sign"`
}

// Behaviour implements [Attack]: the client multiplies its honest update by -Factor.
func (s SignFlip) Behaviour() Behaviour { return Behaviour{Update: times(-s.Factor)} }

// times returns an attack on an update ([Behaviour]) that multiplies it by a factor. It draws nothing at random, so
// it ignores the key.
func times(factor float64) func([]float32, uint64) {
	return func(update []float32, _ uint64) {
		for i, u := range update {
			update[i] = float32(factor * float64(u))
		}
	}
}
