package attack

import (
	"math"

	"fedpace/internal/keyed"
	"fedpace/internal/portable"
)

// init registers the attack under the name by which a configuration chooses it.
func init() {
	Attacks.Register("noise", "adds normal noise to its update", Noise{})
}

// Noise adds a normal number of mean 0 to each of the d values of its update u (Xie et al.
// 2018, Generalized Byzantine-tolerant SGD, send nothing else). By update the
// standard deviation is size ‖u‖/sqrt(d), so that the noise is about size times as long as
// the update; by value it is the size itself.
type Noise struct {
	Size float64 `key:"size" default:"3" range:"(0,1e9]" help:"of the noise"`
	By   string  `key:"by" default:"update" words:"update,value" help:"size is over the update's length, or each value's deviation"`
}

// Behaviour implements [Attack]: the client adds noise to its honest update. Draw i of the task's key
// is the noise of value i.
func (n Noise) Behaviour() Behaviour {
	return Behaviour{Update: func(update []float32, key uint64) {
		std := n.Size
		if n.By == "update" {
			std *= math.Sqrt(portable.Square(update) / float64(len(update)))
		}
		for i, u := range update {
			update[i] = float32(float64(u) + float64(std*portable.Normal(keyed.Nth(key, uint64(i)))))
		}
	}}
}
