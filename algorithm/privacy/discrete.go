package privacy

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"

	"fedpace/algorithm"
	"fedpace/registry"
)

// Distributed is noise that many clients add to their updates together: the noise of one client hides
// little, and that of all hides any single update in their sum, of which secure aggregation shows no part
// (Kairouz, Liu, Steinke 2021). Its zero value is no noise.
type Distributed struct {
	Clip  float64 `key:"clip" is:"null" range:"(0,1e4]" help:"clipping norm at clients"`
	Noise float64 `key:"noise_multiplier" is:"null" range:"[0.01,1e4]" help:"deviation of the noise of the minimum of survivors, in clips"`
}

// On reports whether clients add noise.
func (d Distributed) On() bool { return d.Clip > 0 && d.Noise > 0 }

// Validate returns a [*registry.OptionError] when the options do not fit each other.
func (d Distributed) Validate() error {
	return registry.Below("distributed", checkNoise(d.Clip, d.Noise))
}

// largestDeviation is the largest deviation of one client's noise, in steps of its grid: products of the
// sampler then fit 64 bits.
const largestDeviation = 1 << 24

// smallestDeviation is the smallest one. On a coarser grid rounding would lengthen updates too much.
const smallestDeviation = 1 << 8

// Grid returns the grid on which each client rounds its update and adds its noise, such that the noise of this many
// clients together has the deviation Noise·Clip. share is the weight of each client in the sum. The grid is as fine
// as the sampler allows: its step is the smallest with which the noise of one client is at most largestDeviation
// steps. It is an error if that noise is fewer than smallestDeviation units of sums.
func (d Distributed) Grid(clients int, share float64) (Grid, error) {
	// units is the deviation of one client's noise in units of sums: variances add, so that of one client is the
	// whole variance over the number of clients.
	units := d.Noise * d.Clip / math.Sqrt(float64(clients)) * share * algorithm.Unit
	g := Grid{Clip: d.Clip}
	g.Step = uint64(max(1, math.Ceil(units/largestDeviation)))
	g.Deviation = uint64(math.Ceil(units / float64(g.Step)))
	if g.Deviation < smallestDeviation {
		return g, fmt.Errorf("the noise of one of %d clients is %.3g units of 2^-44 of a sum, want at least %d",
			clients, units, smallestDeviation)
	}
	return g, nil
}

// Grid says how a client rounds its update and adds noise. All of its numbers are whole but the clip, so
// that the noise is exact. Its zero value is no noise.
type Grid struct {
	// Clip is the norm to which the update is shortened before it is rounded.
	Clip float64
	// Step is the distance of the grid's points, in units of 2^-44 of the weighted sum.
	Step uint64
	// Deviation is the parameter sigma of the discrete Gaussian noise on each value, in steps.
	Deviation uint64
}

// On reports whether the client adds noise.
func (g Grid) On() bool { return g.Deviation > 0 }

// Validate refuses a grid on which the sampler is not exact.
func (g Grid) Validate() error {
	if !(g.Clip > 0 && g.Clip <= 1e4) || g.Step < 1 || g.Step > algorithm.Unit || g.Deviation < 1 ||
		g.Deviation > largestDeviation {
		return fmt.Errorf("privacy: noise of the clip %g, the step %d and the deviation %d: want a clip of at most "+
			"1e4, a step of 1 to 2^44 and a deviation of 1 to %d", g.Clip, g.Step, g.Deviation, largestDeviation)
	}
	return nil
}

// Norm returns an upper bound of the Euclidean norm, in steps of the grid, of a rounded update with this
// many values and this weight in the sum. Each value moves by at most half a step when it is rounded; the
// last factor covers the rounding of float64.
func (g Grid) Norm(share float64, values int) float64 {
	n := float64(values)
	return g.Clip*share*algorithm.Unit/float64(g.Step)*(1+float64((n+8)*0x1p-52)) + math.Sqrt(n)/2
}

// Add adds a client's update, with noise, to a sum modulo 2^64: the difference of after from before is
// shortened to the clip, multiplied by share, rounded to the grid, and gets discrete Gaussian noise.
// Rounding comes before the noise, so that the noise is a whole number of steps. The noise follows from
// key; whoever knows that can subtract it. A difference that is not finite is an error, and leaves sum as
// it is. It panics if the lengths differ.
func (g Grid) Add(sum []int64, share float64, after, before []float32, key Secret) error {
	if len(sum) != len(after) || len(after) != len(before) {
		panic("privacy: Add of slices of different lengths")
	}
	factor, err := clipFactor(after, before, g.Clip)
	if err != nil {
		return err
	}
	scale := float64(factor*share) * (algorithm.Unit / float64(g.Step))
	number := uint64(0)
	var all sync.WaitGroup
	for part := range slices.Chunk(sum, blockSize) {
		first := int(number) * blockSize
		source := rand.NewChaCha8(deriveKey(key, number, nil))
		number++
		all.Go(func() {
			for i := range part {
				difference := float64(after[first+i]) - float64(before[first+i])
				rounded := int64(math.RoundToEven(float64(scale * difference)))
				part[i] += (rounded + discreteGaussian(source, g.Deviation)) * int64(g.Step)
			}
		})
	}
	all.Wait()
	return nil
}

// discreteGaussian returns a number x of the discrete Gaussian distribution, with a probability in
// proportion to e^(−x²/(2σ²)) for every whole x. It takes whole random numbers alone, so the distribution
// is exact but for |x| above 200 σ, which has a probability below e^-20000 (Canonne, Kamath, Steinke 2020,
// Algorithm 3; its t is σ here). sigma is at most largestDeviation.
func discreteGaussian(source *rand.ChaCha8, sigma uint64) int64 {
	for {
		// Y is discrete Laplace of the scale σ, and is kept with the probability e^(−(|Y| − σ)²/(2σ²)).
		size, ok := laplaceSize(source, sigma)
		// The draw was rejected, or is too large.
		if !ok {
			continue
		}
		negative := source.Uint64()>>63 == 1
		// Zero has one sign.
		if negative && size == 0 {
			continue
		}
		distance := max(size, sigma) - min(size, sigma)
		if !bernoulliExp(source, distance*distance, 2*sigma*sigma) {
			continue
		}
		if negative {
			return -int64(size)
		}
		return int64(size)
	}
}

// laplaceSize draws a whole number x ≥ 0 with a probability in proportion to e^(−x/scale) (Canonne,
// Kamath, Steinke 2020, Algorithm 2). ok is false if the draw is rejected or is above 200 scales: the
// caller then draws again.
func laplaceSize(source *rand.ChaCha8, scale uint64) (x uint64, ok bool) {
	low := uniformBelow(source, scale)
	if !bernoulliExp(source, low, scale) {
		return 0, false
	}
	high := uint64(0)
	for bernoulliExp(source, 1, 1) {
		high++
	}
	const maxScales = 200
	return low + high*scale, high < maxScales
}

// bernoulliExp returns true with the probability e^(−numerator/denominator), else false (Canonne, Kamath, Steinke
// 2020, Algorithm 1). The denominator is at most 2^49, so that its product with the number of the turn, which is
// hardly ever above 20, fits 64 bits.
func bernoulliExp(source *rand.ChaCha8, numerator, denominator uint64) bool {
	// A factor e^−1 for each whole denominator in the numerator leaves an exponent of at most 1.
	for ; numerator > denominator; numerator -= denominator {
		if !bernoulliExp(source, 1, 1) {
			return false
		}
	}
	// With γ = numerator/denominator, turn k leads to another turn with the probability γ/k. So there are more than
	// k turns with the probability γ^k/k!, and their number is odd with the probability 1 − γ + γ²/2! −
	// … = e^−γ.
	turn := uint64(1)
	for uniformBelow(source, denominator*turn) < numerator {
		turn++
	}
	return turn%2 == 1
}

// uniformBelow returns a whole number below n, each with the same probability (Lemire 2019). n is at
// least 1.
func uniformBelow(source *rand.ChaCha8, n uint64) uint64 {
	// Of one number no random bits are needed.
	if n == 1 {
		return 0
	}
	high, low := bits.Mul64(source.Uint64(), n)
	if low < n {
		// excess is 2^64 mod n, as -n is 2^64 - n. To reject so many values of low leaves each result as many.
		for excess := -n % n; low < excess; {
			high, low = bits.Mul64(source.Uint64(), n)
		}
	}
	return high
}
