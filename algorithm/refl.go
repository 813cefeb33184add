package algorithm

import (
	"math"
	"slices"
)

// init registers the algorithm under the name by which a configuration chooses it. The text is its line
// in the list of such components.
func init() {
	Algorithms.Register("refl", "stale updates count by age and by what they add (Abdelmoniem et al. 2023)", REFL{})
}

// REFL is the staleness-aware aggregation of REFL (Abdelmoniem et al. 2023). A fresh
// update has the weight 1, a stale one
//
//	w_s = (1 − β)/(τ_s + 1) + β (1 − e^(−Λ_s/Λ_max)/d)
//	Λ_s = ‖û − (u_s + n û)/(n + 1)‖² / ‖û‖²
//
// where u_s is the update, τ_s its staleness, û the mean of the n fresh updates, and
// Λ_max the largest Λ of the round. All are divided by their sum. The first part damps
// by age. The second boosts updates that differ from the fresh ones, and so bring what
// those lack. d is 1, in the program that its authors published 10. There Λ compares
// models; here it compares updates, each with the model from which it started.
//
// Where a round has no fresh update there is no û: the first part counts alone. With
// weights by samples û is the weighted mean, and the share of a client's samples is a
// factor of its weight.
type REFL struct {
	Rate    float64 `key:"server_rate" default:"1" range:"(0,1e6]" help:"learning rate at the server"`
	Beta    float64 `key:"beta" default:"0.35" range:"[0,1]" help:"part of a stale update's weight by what it adds"`
	Divisor float64 `key:"boost_divisor" default:"1" range:"[1,1e6]" help:"d in 1 - exp(-deviation)/d, the weight by what it adds"`
	Uncorrected
}

// Server implements [Algorithm].
func (a REFL) Server(int) ServerOptimizer { return average{a.Rate} }

// Weigh implements [Algorithm], for rounds whose updates are all fresh or all stale: by age alone.
func (a REFL) Weigh(weights []float64, steps, staleness []int) ([]float64, float64) {
	return Staleness{1}.Weigh(weights, steps, staleness)
}

// Join implements [StaleWeigher]: it turns sum from the mean of the fresh updates into the weighted mean of all
// updates. The fresh ones together have the weight freshShare, and a stale update has its share of the weights,
// times
//
//	(1 − β)/(staleness + 1) + β (1 − e^(−distance/largest)/d)
//
// where distance is its squared distance from the mean of the fresh updates, over the first trainable values,
// and largest is the largest such distance of the round. All weights are then divided by their sum. Join
// returns them, the stale updates' in their order and that of the fresh ones last.
func (a REFL) Join(sum []int64, trainable int, freshShare float64, stale []Stale) []float64 {
	distances := make([]float64, len(stale))
	joinedWeights := make([]float64, len(stale)+1)
	for i, s := range stale {
		distances[i] = SquaredDistance(s.Update[:trainable], sum[:trainable])
	}
	// The paper's Λ_s compares the mean of the n fresh updates with what it would be with the stale one.
	// These differ by the distance of the two, times a factor that is the same for all stale updates. So
	// Λ_s/Λ_max is the ratio of the distances.
	largest := slices.Max(distances)
	for i, s := range stale {
		ratio := 0.0
		if largest > 0 {
			ratio = distances[i] / largest
		}
		damping := 1 / float64(s.Staleness+1)
		novelty := 1 - ExpMinus(ratio)/a.Divisor
		joinedWeights[i] = s.Share * (float64((1-a.Beta)*damping) + float64(a.Beta*novelty))
	}
	freshIndex := len(stale)
	joinedWeights[freshIndex] = freshShare
	normalise(joinedWeights)
	scaleSum(sum, sum, joinedWeights[freshIndex])
	scaled := make([]int64, len(sum))
	for i, s := range stale {
		scaleSum(scaled, s.Update, joinedWeights[i])
		for j, x := range scaled {
			sum[j] += x
		}
	}
	return joinedWeights
}

// StaleWeigher is an algorithm that weighs each stale update of a round by how it compares with the
// fresh ones of that round.
type StaleWeigher interface {
	Algorithm
	// Join adds stale updates to sum, in place. Before, sum is the exact sum of the round's fresh updates,
	// whose weights in it sum to 1; freshShare is their share of all weights. The weights follow from the
	// first trainable parameters, and the others are added with the same ones. Join returns the weights,
	// which sum to 1: that of each stale update and, last, that of the fresh ones together.
	Join(sum []int64, trainable int, freshShare float64, stale []Stale) (weights []float64)
}

// Stale is a stale update by itself.
type Stale struct {
	// Update is the update as an exact sum of weight 1.
	Update []int64
	// Share is the update's share of all weights of the round, those of the fresh updates included.
	Share float64
	// Staleness is the number of aggregations since the model from which its client started.
	Staleness int
}

// SquaredDistance returns the squared Euclidean distance of two exact sums of equal length, in
// units of the parameters, added in their order.
func SquaredDistance(x, y []int64) (sum float64) {
	for i := range x {
		d := float64(x[i]-y[i]) / Unit
		sum += float64(d * d)
	}
	return sum
}

// scaleSum sets dst to w times an exact sum, for w from 0 to 1, where each product is rounded, a half to
// the even number.
func scaleSum(dst, sum []int64, w float64) {
	for i, s := range sum {
		dst[i] = int64(math.RoundToEven(w * float64(s)))
	}
}

// ExpMinus returns e^-r for r from 0 to 1, by 20 terms of the series, whose rest is below what float64
// resolves. Unlike math.Exp its result is the same on every machine, since it only adds, multiplies and
// divides.
func ExpMinus(r float64) float64 {
	sum := 1.0
	for k := 20.0; k > 0; k-- {
		sum = 1 - float64(r*sum)/k
	}
	return sum
}
