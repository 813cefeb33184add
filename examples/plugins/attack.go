package plugins

import "fedpace/actors/attack"

func init() {
	attack.Attacks.Register("stubborn", "sends a part of its update, and tells a loss of 1", Stubborn{})
}

// Stubborn wants the model and the schedule to stay as they are.
type Stubborn struct {
	Part float64 `key:"part" default:"0" range:"[0,1]" help:"part of the update that is sent"`
}

// Behaviour returns what the attacking clients do otherwise than honest ones: they send the part Part of their
// update, and tell a training loss of 1 whatever theirs is.
func (s Stubborn) Behaviour() attack.Behaviour {
	return attack.Behaviour{
		Update: func(update []float32, _ uint64) {
			for i := range update {
				update[i] *= float32(s.Part)
			}
		},
		Loss: func(float64) float64 { return 1 },
	}
}
