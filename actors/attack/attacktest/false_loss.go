package attacktest

import (
	"math"

	"fedpace/actors/attack"
	"fedpace/internal/portable"
)

// init registers the attack under the name by which a configuration chooses it.
func init() {
	attack.Attacks.Register("false_loss", "reports another loss, trains honestly", FalseLoss{})
}

// FalseLoss reports factor · F^exponent + offset where its first minibatch had the loss F.
// Schedules that follow the loss, such as K_r-error, and selections by losses believe it.
// A schedule that follows F_r/F_0 does not see a factor, which both have; an offset holds K
// up, and an exponent above 1 brings it down. With factor 0 it reports the offset, whatever
// it has learned.
type FalseLoss struct {
	Factor   float64 `key:"factor" default:"10" range:"[0,1e6]" help:"factor of the loss"`
	Exponent float64 `key:"exponent" default:"1" range:"(0,100]" help:"power to which a loss above 0 is raised first"`
	Offset   float64 `key:"offset" default:"0" range:"[0,1e6]" help:"what is added to it last"`
}

// Behaviour implements [attack.Attack]: the client is honest but for the loss that it reports, which
// stays finite.
func (l FalseLoss) Behaviour() attack.Behaviour {
	return attack.Behaviour{Loss: func(honest float64) float64 {
		if l.Exponent != 1 && honest > 0 {
			honest = portable.Pow(honest, l.Exponent)
		}
		return min(math.MaxFloat64, float64(l.Factor*min(math.MaxFloat64, honest))+l.Offset)
	}}
}
