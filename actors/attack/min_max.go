package attack

import (
	"math"

	"fedpace/internal/portable"
)

// init registers the attack under the name by which a configuration chooses it.
func init() {
	Attacks.Register("min_max", "colludes: as wrong as possible within honest updates' distances", MinMax{})
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
	Direction string `key:"direction" default:"std" words:"unit,std,sign" help:"direction: mean, deviations, or the mean's signs"`
	Known     int    `key:"knows" default:"16" range:"[2,256]" help:"colluders whose honest updates are known"`
}

// Behaviour implements [Attack]: the colluders of a round all send one update, made from the honest
// updates of at most Known of them.
func (m MinMax) Behaviour() Behaviour { return Behaviour{Collude: m.collude, MaxColluders: m.Known} }

// collude writes to sent the update m + γ p that all colluders send. honest are their honest updates, m is
// the mean of those, and p the direction in which the attack moves it (see [MinMax]).
func (m MinMax) collude(sent []float32, honest [][]float32) {
	mean := make([]float64, len(sent))
	direction := make([]float64, len(sent))
	for i := range sent {
		mean[i], direction[i] = m.meanAndDirection(honest, i)
	}
	// squaredDiameter is the largest squared distance of two honest updates.
	squaredDiameter := 0.0
	for i, u := range honest {
		for _, v := range honest[:i] {
			squaredDiameter = max(squaredDiameter, portable.SquaredDistance(u, v))
		}
	}
	gamma := largestFactor(mean, direction, honest, squaredDiameter)
	for i := range sent {
		sent[i] = float32(mean[i] + float64(gamma*direction[i]))
	}
}

// meanAndDirection returns the mean of parameter i over the honest updates, and the parameter's component
// of the direction p that the option names. p need not have length 1, because [largestFactor] chooses γ to fit it.
func (m MinMax) meanAndDirection(honest [][]float32, i int) (mean, direction float64) {
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
	// The direction is std: minus the parameter's standard deviation.
	squares := 0.0
	for _, u := range honest {
		d := float64(u[i]) - mean
		squares += float64(d * d)
	}
	return mean, -math.Sqrt(squares / n)
}

// largestFactor returns the largest γ for which mean + γ direction is no farther from any honest update
// than the square root of maxSquaredDistance. For each update u it solves
//
//	γ² ‖p‖² + 2 γ p·(m - u) + ‖m - u‖² = maxSquaredDistance
//
// where m is mean and p is direction, for the larger root. The smallest of these roots holds for all
// updates. The result is 0 if direction is 0.
func largestFactor(mean, direction []float64, honest [][]float32, maxSquaredDistance float64) float64 {
	squaredNorm := portable.Square(direction)
	if squaredNorm == 0 {
		return 0
	}
	gamma := math.Inf(1)
	for _, u := range honest {
		// dot is p·(m - u).
		dot := 0.0
		squaredDistance := 0.0
		for i, x := range u {
			d := mean[i] - float64(x)
			dot += float64(direction[i] * d)
			squaredDistance += float64(d * d)
		}
		discriminant := float64(dot*dot) + float64(squaredNorm*(maxSquaredDistance-squaredDistance))
		// It is below 0 by rounding alone: the mean is no farther from u than the farthest honest update.
		root := math.Sqrt(max(0, discriminant))
		gamma = min(gamma, (root-dot)/squaredNorm)
	}
	return max(0, gamma)
}
