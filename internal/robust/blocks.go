package robust

import "math"

// Limits of the blocks into which values are divided.
const (
	maxBlocks = 5
	minBlocks = 3
	// minBlockValues is the least number of values in a block.
	minBlockValues = 2
)

// studentFactor is the quantile of Student's t over that of the normal distribution, at the ends of a 90 %
// interval. The index is the number of degrees of freedom.
var studentFactor = [maxBlocks]float64{2: 2.919986 / 1.644854, 3: 2.353363 / 1.644854, 4: 2.131847 / 1.644854}

// Blocks says how values scatter of which those that are near in time have something in common.
type Blocks struct {
	// Next says how far the typical value of a later stretch of time may be from the median of all values: the
	// standard deviation of a normal distribution that has the same 90 % interval.
	Next float64
	// Rest are the values without the effects of their blocks, with the same mean: each is
	// divided by the effect of its block, which is the share b²/s² of how far the block's median is off.
	Rest []float64
}

// BlocksOf says how far a later stretch of time may be from the values seen so far, such as ratios of measured to
// expected times. It separates how the values, in the order of time, scatter between blocks of time from how they
// scatter within them, by the one-way random-effects model. Next of the result has how far a later block may be off, as
// a standard deviation, and Rest the values without their blocks' effects. The values must be above zero, as Rest
// divides by effects.
//
//	value = typical value + effect of its block + error
//
// Up to five blocks are equal parts of the time. With s² the variance of the k block medians, and w² the
// mean variance of such a median by the errors alone, the variance of the effects is b² = s² - w², or 0
// (the analysis of variance's estimate: Searle, Casella and McCulloch 1992, Variance Components, section
// 3.5; of medians in the place of means, so that a few outliers decide nothing). The typical value of
// another block deviates from that of all with the variance
//
//	t² b² (1 + 1/k) + w²/k
//
// t being Student's over the normal distribution's quantile, as b rests on few blocks. Effects that are as
// small as a block's w are overlooked in half of the cases: an interval of 90 % then holds in some 82 %.
// With fewer than six values nothing is known of blocks.
func BlocksOf(values []float64) Blocks {
	n := len(values)
	k := min(maxBlocks, n/minBlockValues)
	if k < minBlocks {
		if n < 2 {
			return Blocks{Rest: values}
		}
		return Blocks{Next: math.Sqrt(medianVarianceFactor(n)/float64(n)) * Deviation(values), Rest: values}
	}
	medians := make([]float64, k)
	rest := make([]float64, 0, n)
	// medianShare is the variance of a block's median divided by that of an error, in the mean over the blocks.
	medianShare := 0.0
	for i := range k {
		block := blockOf(values, i, k)
		medians[i] = Median(block)
		medianShare += medianVarianceFactor(len(block)) / float64(len(block)) / float64(k)
		for _, x := range block {
			rest = append(rest, x-medians[i])
		}
	}
	// The differences from the medians have lost a degree of freedom for each block.
	errorDeviation := Deviation(rest) * math.Sqrt(float64(n)/float64(n-k))
	errorVariance := float64(medianShare * errorDeviation * errorDeviation)
	mean := 0.0
	medianVariance := 0.0
	for _, m := range medians {
		mean += m / float64(k)
	}
	for _, m := range medians {
		medianVariance += float64((m - mean) * (m - mean) / float64(k-1))
	}
	// These are w², s² and b² of the formulas above.
	effectVariance := max(0, medianVariance-errorVariance)
	t := studentFactor[k-1]
	effects := float64(t * t * effectVariance * (1 + 1/float64(k)))
	found := Blocks{Next: math.Sqrt(effects + float64(errorVariance/float64(k))), Rest: values}
	if effectVariance == 0 {
		return found
	}
	found.Rest = removeEffects(values, medians, mean, effectVariance/medianVariance)
	return found
}

// blockOf returns block i, from 0, of values in k blocks of equal length, as far as their number allows.
func blockOf(values []float64, i, k int) []float64 {
	n := len(values)
	return values[i*n/k : (i+1)*n/k]
}

// removeEffects returns the values without the given share of their blocks' effects. medians are those of
// the blocks, and mean is their mean. A block whose median is m is divided by 1 + share (m - mean)/mean, so
// that its median moves towards mean by about that share. All values are then scaled so that their mean
// stays.
func removeEffects(values, medians []float64, mean, share float64) []float64 {
	n := len(values)
	k := len(medians)
	rest := make([]float64, 0, n)
	before := 0.0
	after := 0.0
	for i, m := range medians {
		for _, x := range blockOf(values, i, k) {
			rest = append(rest, x*mean/(mean+float64(share*(m-mean))))
			before = before + x
			after = after + rest[len(rest)-1]
		}
	}
	for i := range rest {
		rest[i] *= before / after
	}
	return rest
}

// medianVarianceFactor returns n times the variance of the median of n normal values, divided by the
// variance of one value: pi/2 for many values, and 1 for one or two, whose median is their mean.
func medianVarianceFactor(n int) float64 {
	if n <= 2 {
		return 1
	}
	return math.Pi / 2
}
