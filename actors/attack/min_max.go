package attack

import (
	"math"

	"fedpace/internal/portable"
)

// init registers the attack under the name by which a configuration chooses it.
func init() {
	Attacks.Register("min_max", "colludes: as wrong as an update can be within the honest ones' distances", MinMax{})
}

// MinMax is the min-max attack of colluders that know only their own honest updates
// (Shejwalkar and Houmansadr 2021, Manipulating the Byzantine: agnostic to the aggregation,
// and without the others' updates). All send
//
//	m + γ p,  γ = max { γ : max_i ‖m + γ p - u_i‖ ≤ max_ij ‖u_i - u_j‖ }
//
// where u_i are honest updates, m is their mean, and p is -m (unit), minus the standard
// deviations of the parameters (std), or -sign(m) (sign). The authors look for γ by halving
// an interval; each i bounds it by a root of a quadratic, of which it is the least.
//
// A colluder that is alone in a round sends its honest update: there is no distance between honest
// updates that its own could stay within.
type MinMax struct {
	Direction string `key:"direction" default:"std" words:"unit,std,sign" help:"direction of updates: their mean, deviations, or the mean's signs"`
	Known     int    `key:"knows" default:"16" range:"[2,256]" help:"colluders whose honest updates are known"`
}

// Behaviour implements [Attack]: the colluders of a round all send one update, made from the honest
// updates of at most Known of them.
func (m MinMax) Behaviour() Behaviour { return Behaviour{Collude: m.collude, MaxColluders: m.Known} }

// collude writes the update m + γ p to sent, for the honest updates of the colluders.
func (m MinMax) collude(sent []float32, honest [][]float32) {
	mean := make([]float64, len(sent))
	// away is the direction p.
	away := make([]float64, len(sent))
	for i := range sent {
		mean[i], away[i] = m.value(honest, i)
	}
	// squaredReach is the largest squared distance of two honest updates.
	squaredReach := 0.0
	for i, u := range honest {
		for _, v := range honest[:i] {
			squaredReach = max(squaredReach, portable.SquaredDistance(u, v))
		}
	}
	gamma := largestFactor(mean, away, honest, squaredReach)
	for i := range sent {
		sent[i] = float32(mean[i] + float64(gamma*away[i]))
	}
}

// value returns the mean of parameter i over the honest updates, and the parameter's component of
// the direction p. Only the direction matters, not its length.
func (m MinMax) value(honest [][]float32, i int) (mean, away float64) {
	n := float64(len(honest))
	for _, u := range honest {
		mean += float64(u[i])
	}
	mean /= n
	switch {
	case m.Direction == "unit":
		return mean, -mean
	case m.Direction == "sign" && mean != 0:
		return mean, math.Copysign(1, -mean)
	case m.Direction == "sign":
		return mean, 0
	}
	squares := 0.0
	for _, u := range honest {
		d := float64(u[i]) - mean
		squares += float64(d * d)
	}
	return mean, -math.Sqrt(squares / n)
}

// largestFactor returns the largest γ for which the squared distance of mean + γ away to each honest
// update is at most squaredReach. For each update u it solves
// γ² ‖p‖² + 2 γ p·(m - u) + ‖m - u‖² = squaredReach, where p is away, and takes the smallest root. It
// is 0 if away is 0.
func largestFactor(mean, away []float64, honest [][]float32, squaredReach float64) float64 {
	length := portable.Square(away)
	if length == 0 {
		return 0
	}
	gamma := math.Inf(1)
	for _, u := range honest {
		along := 0.0
		distance := 0.0
		for i, x := range u {
			d := mean[i] - float64(x)
			along += float64(away[i] * d)
			distance += float64(d * d)
		}
		root := math.Sqrt(max(0, float64(along*along)+float64(length*(squaredReach-distance))))
		gamma = min(gamma, (root-along)/length)
	}
	return max(0, gamma)
}
