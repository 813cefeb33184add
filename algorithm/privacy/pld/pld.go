package pld

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/dsp/fourier"
)

// Mechanism is the sampled Gaussian mechanism.
type Mechanism struct {
	// Sigma is the noise's deviation in units of how far a client moves the sum.
	Sigma float64
	// Rate is the probability q that a client is in a round, above 0 and at most 1.
	Rate float64
}

// The grid and its limits.
const (
	// interval is the distance of losses on the grid. It grows where the grid would be longer than
	// maxPoints.
	interval  = 1e-4
	maxPoints = 1 << 22
	// tail is the probability of losses beyond the window, which counts to delta in full.
	tail = 1e-11
	// smallestDelta is the smallest delta for which rounding of the transforms does not matter.
	smallestDelta = 1e-9
	// maxLoss is the largest loss of one round that is looked at.
	maxLoss = 300
)

// Epsilon returns the smallest epsilon for which this many rounds are (epsilon, delta)-differentially
// private, to about 1e-4. The error says what is out of the range of this accountant; the Rényi one has no
// such range.
func (m Mechanism) Epsilon(rounds int, delta float64) (float64, error) {
	switch {
	case !(m.Sigma > 0) || !(m.Rate > 0 && m.Rate <= 1) || rounds < 1:
		return 0, fmt.Errorf("pld: noise %g, rate %g, %d rounds", m.Sigma, m.Rate, rounds)
	case delta < smallestDelta || delta >= 1:
		return 0, fmt.Errorf("pld: delta %g, want %g to 1", delta, smallestDelta)
	}
	largest := 0.0
	for _, d := range []direction{{m, false}, {m, true}} {
		epsilon, err := d.epsilon(rounds, delta)
		if err != nil {
			return 0, err
		}
		largest = max(largest, epsilon)
	}
	return largest, nil
}

// direction is one of the two orders of neighbouring sets of clients, which differ by one additional client: a loss
// compares the output with the first set to that with the second.
type direction struct {
	Mechanism
	// clientInSecond says that the second set has the additional client; otherwise the first has it.
	clientInSecond bool
}

// normalUpperTail returns the probability of more than x under the standard normal distribution.
func normalUpperTail(x float64) float64 { return math.Erfc(x/math.Sqrt2) / 2 }

// delta returns the exact delta of one round at epsilon, which may be negative: the most by which the
// probability of an event under the first distribution exceeds e^epsilon times that under the second. The
// output of the set with the additional client is (1 − q) N(0, σ²) + q N(1, σ²), that of the other
// set N(0, σ²). The event is that of outputs on one side of the point at which the densities have the
// ratio e^epsilon.
func (d direction) delta(epsilon float64) float64 {
	q := d.Rate
	s := d.Sigma
	// outputOf returns the output at which the mixture's density is e^loss times that of N(0, σ²). ok is
	// false if there is none, as the ratio of the densities is above 1 − q everywhere.
	outputOf := func(loss float64) (x float64, ok bool) {
		ratio := (math.Expm1(loss) + q) / q
		if ratio <= 0 {
			return 0, false
		}
		return float64(s*s*math.Log(ratio)) + 0.5, true
	}
	if d.clientInSecond {
		x, ok := outputOf(-epsilon)
		// Every loss is below epsilon.
		if !ok {
			return 0
		}
		mixture := float64((1-q)*normalUpperTail(-x/s)) + float64(q*normalUpperTail((1-x)/s))
		return max(0, normalUpperTail(-x/s)-math.Exp(epsilon)*mixture)
	}
	x, ok := outputOf(epsilon)
	// Every loss is above epsilon, so the event is certain: delta is 1 − e^epsilon.
	if !ok {
		return -math.Expm1(epsilon)
	}
	mixture := float64((1-q)*normalUpperTail(x/s)) + float64(q*normalUpperTail((x-1)/s))
	return max(0, mixture-math.Exp(epsilon)*normalUpperTail(x/s))
}

// distribution is a privacy loss distribution on a grid: probabilities[i] is that of the loss (firstIndex +
// i)·lossStep, and infiniteLoss that of an infinite loss.
type distribution struct {
	lossStep      float64
	firstIndex    int
	probabilities []float64
	infiniteLoss  float64
}

// discretise returns the distribution of one round's privacy loss on a grid, the multiples of step from low
// to high. Its curve of delta over e^epsilon connects the exact curve at the points of the grid by lines.
// The exact curve is convex, so the lines are never below it, and epsilon is not understated.
func (d direction) discretise(step, low, high float64) distribution {
	first := int(math.Floor(low / step))
	last := int(math.Ceil(high / step))
	r := distribution{
		lossStep:      step,
		firstIndex:    first,
		probabilities: make([]float64, last-first+1),
	}
	lossOf := func(i int) float64 { return float64(i) * step }
	// slope is that of delta over e^epsilon between the points i and i + 1 of the grid.
	slope := func(i int) float64 {
		return (d.delta(lossOf(i+1)) - d.delta(lossOf(i))) / (math.Exp(lossOf(i)) * math.Expm1(step))
	}
	r.infiniteLoss = d.delta(lossOf(last))
	total := r.infiniteLoss
	// The distribution's curve is a line between two points of the grid, and constant beyond the last one.
	// The probability of a point is e^loss times the change of the slope there.
	above := 0.0
	for i := last; i > first; i-- {
		below := slope(i - 1)
		p := max(0, math.Exp(lossOf(i))*(above-below))
		r.probabilities[i-first] = p
		total += p
		above = below
	}
	r.probabilities[0] = max(0, 1-total)
	return r
}

// lossBounds returns two losses between which the loss of one round lies, except with a probability so
// small that over all rounds it is a hundredth of tail.
func (d direction) lossBounds(rounds int) (low, high float64, err error) {
	limit := tail / 100 / float64(rounds)
	high = 1.0 / 64
	for d.delta(high) > limit {
		high *= 1.25
		if high > maxLoss {
			return 0, 0, fmt.Errorf("pld: losses of a round beyond %d: there is too little noise", maxLoss)
		}
	}
	low = -1.0 / 64
	// In the other direction of the two sets each loss has the other sign, so the losses below low are those above
	// −low there. The delta of the other direction at −low is (delta(low) − (1 − e^low))/e^low.
	for d.delta(low)+math.Expm1(low) > limit*math.Exp(low) {
		low *= 1.25
		if low < -maxLoss {
			return 0, 0, fmt.Errorf("pld: losses of a round below -%d: there is too little noise", maxLoss)
		}
	}
	return low, high, nil
}

// epsilon returns the epsilon of this number of rounds at delta, for one of the two orders of the neighbouring sets.
func (d direction) epsilon(rounds int, delta float64) (float64, error) {
	low, high, err := d.lossBounds(rounds)
	if err != nil {
		return 0, err
	}
	// A coarse grid tells where the sum of all rounds lies, and so how fine the real grid can be: its step is interval,
	// or larger where the losses of one round or their sum would take more than half of maxPoints.
	coarse := d.discretise((high-low)/(1<<12), low, high)
	lowest, highest := coarse.sumBounds(rounds)
	step := max(interval, (highest-lowest)/(maxPoints/2), (high-low)/(maxPoints/2))
	single := d.discretise(step, low, high)
	all := single.compose(rounds, lowest, highest)
	return all.epsilon(delta), nil
}

// sumBounds returns bounds between which the sum of the losses of all rounds lies; the probability to be beyond
// either is at most tail. By Chernoff's bound, a sum of losses is above (rounds·logMoment(order) + ln(1/tail))/order
// with a probability of at most tail, for every order above 0; the best of some orders is taken, and likewise below.
func (p *distribution) sumBounds(rounds int) (low, high float64) {
	low = math.Inf(-1)
	high = math.Inf(1)
	bound := math.Log(1 / tail)
	for order := 1.0 / 1024; order <= 1024; order *= 1.25 {
		up := float64(float64(rounds)*p.logMoment(order)) + bound
		down := float64(float64(rounds)*p.logMoment(-order)) + bound
		high = min(high, up/order)
		low = max(low, -down/order)
	}
	// The grid divides a loss between the two points around it, so that of each round moves by at most a step.
	slack := float64(rounds) * p.lossStep
	return low - slack, high + slack
}

// logMoment returns the logarithm of the mean of e^(order · loss) over the finite losses, where the loss of index i
// is (firstIndex + i)·lossStep. The largest exponent is taken out of the sum, so that nothing overflows.
func (p *distribution) logMoment(order float64) float64 {
	largest := math.Inf(-1)
	for i, probability := range p.probabilities {
		if probability > 0 {
			largest = max(largest, order*float64(p.firstIndex+i)*p.lossStep+math.Log(probability))
		}
	}
	sum := 0.0
	for i, probability := range p.probabilities {
		if probability > 0 {
			sum += math.Exp(order*float64(p.firstIndex+i)*p.lossStep + math.Log(probability) - largest)
		}
	}
	return largest + math.Log(sum)
}

// compose returns the distribution of the sum of the losses of all rounds, between the bounds low and high,
// which it exceeds on either side with a probability of at most tail.
func (p *distribution) compose(rounds int, low, high float64) distribution {
	first := int(math.Floor(low / p.lossStep))
	last := int(math.Ceil(high / p.lossStep))
	points := 1
	for points < max(last-first+1, len(p.probabilities)) {
		points *= 2
	}
	// The Fourier transform adds losses modulo the number of points, so that a loss has its place in a ring, which
	// it shares with all that differ by a multiple of points. What a place of the result has counts for the only such
	// loss from first on.
	placeOf := func(loss int) int { return (loss%points + points) % points }
	ring := make([]float64, points)
	for i, probability := range p.probabilities {
		ring[placeOf(p.firstIndex+i)] += probability
	}
	transform := fourier.NewFFT(points)
	coefficients := transform.Coefficients(nil, ring)
	for i, c := range coefficients {
		coefficients[i] = complexPower(c, rounds)
	}
	ring = transform.Sequence(ring, coefficients)
	sum := distribution{
		lossStep:      p.lossStep,
		firstIndex:    first,
		probabilities: make([]float64, points),
		// A sum is infinite if the loss of any round is. The sums outside of the window count as infinite, too.
		infiniteLoss: -math.Expm1(float64(rounds)*math.Log1p(-p.infiniteLoss)) + 2*tail,
	}
	for i := range points {
		sum.probabilities[i] = max(0, ring[placeOf(first+i)]/float64(points))
	}
	return sum
}

// complexPower returns c to the power n, a whole number of at least 1, by repeated squaring.
func complexPower(c complex128, n int) complex128 {
	result := complex(1, 0)
	for ; n > 0; n /= 2 {
		if n%2 == 1 {
			result *= c
		}
		c *= c
	}
	return result
}

// epsilon returns the smallest epsilon, at least 0, at which the distribution's delta is at most delta. The delta at
// ε is mass − e^ε·weighted, where mass is the probability of losses above ε, infinite ones included, and weighted is
// the sum of e^-loss over the finite ones, each times its probability. probabilities[i] is that of the loss
// (firstIndex + i)·lossStep.
func (p *distribution) epsilon(delta float64) float64 {
	mass := p.infiniteLoss
	weighted := 0.0
	for i := len(p.probabilities) - 1; i >= 0; i-- {
		loss := float64(p.firstIndex+i) * p.lossStep
		if loss < 0 {
			break
		}
		// The delta of this loss is too large, and that of the next one above is not: between the two the
		// formula holds with the losses above, and is solved for ε.
		if mass-math.Exp(loss)*weighted > delta {
			return math.Log((mass - delta) / weighted)
		}
		mass += p.probabilities[i]
		weighted += p.probabilities[i] * math.Exp(-loss)
	}
	// The delta of ε = 0 may be too large, too.
	if mass-weighted > delta {
		return math.Log((mass - delta) / weighted)
	}
	return 0
}
