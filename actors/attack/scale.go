package attack

func init() {
	Attacks.Register("scale", "sends a multiple of its update", Scale{})
}

// Scale sends x + s (x_c - x). With s = N/n, where n updates are averaged at the server rate
// N/n of theirs, the attacker's model replaces the global one (Bagdasaryan et al. 2020, How
// to backdoor federated learning, eq. 3). [LabelFlip] has the same factor, for a model worth
// putting in its place.
type Scale struct {
	Factor float64 `key:"factor" default:"10" range:"[1,1e6]" help:"what the update is multiplied by"`
}

func (s Scale) Acts() Acts { return Acts{Update: times(s.Factor)} }
