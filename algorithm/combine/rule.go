package combine

import (
	"math"
	"runtime"
	"sync"

	"fedpace/algorithm"
	"fedpace/registry"
)

// Rule makes one update of those of a round. It holds no state and may be shared.
//
// A rule sees the trained values of a model alone. Buffers, such as a batch norm's running variance, grow
// with the square of a feature's scale and would outweigh those in norms and distances. They are averaged
// by the caller, with the shares that the rule returns.
type Rule interface {
	// Combine sets dst to the rule's update. There is at least one update; each has the length of dst,
	// values in units of 2^-44 below 2^61 in magnitude, and must not be changed. The updates are in the
	// order of their tasks. weights are those of the algorithm, not negative, and sum to 1.
	//
	// shares are the weights with which the updates' buffers are averaged, not negative and with the
	// sum 1, such as 0 for an update that the rule has not chosen; nil stands for weights.
	Combine(dst []int64, updates [][]int64, weights []float64) (shares []float64)
}

// ByValue marks a rule that combines each value of the updates without regard to the others. Such a rule
// combines buffers, too, since the result of each lies between the values that clients sent.
type ByValue interface {
	Rule
	// OfValues returns what the rule makes of the values that clients sent of one buffer: finite float32
	// numbers of any size, at least one, which it may put into another order.
	OfValues(values []float64) float64
}

// Rules are those that a configuration can name.
var Rules = registry.New[Rule]("combining rule", "rule")

// Byzantine is the option that says how many of a round's updates may be false, which a rule tolerates.
type Byzantine struct {
	Share float64 `key:"liars" default:"0.2" range:"[0,0.5)" help:"share of updates that may be Byzantine"`
}

// Count returns how many of n updates may be false: the share of them, rounded up.
func (l Byzantine) Count(n int) int {
	// 0.07 in float64 times 100 is a little more than 7, which must not become 8.
	const rounding = 1e-9
	return int(math.Ceil(float64(l.Share*float64(n)) - rounding))
}

// checkUpdates returns a [*registry.OptionError] if a rule, which this name stands for, does not tolerate
// the Byzantine share in a round of this many updates. If f of them may be false, the rule needs at least
// 2f + extra updates.
func (l Byzantine) checkUpdates(rule string, updates, extra int) error {
	if f := l.Count(updates); updates < 2*f+extra {
		return registry.Errorf("liars", "%g of %d updates are %d, with which %s needs %d updates or more (lower "+
			"it, or let more updates close a round)", l.Share, updates, f, rule, 2*f+extra)
	}
	return nil
}

// countsOnce is embedded by rules that count each update once: a client that claims twice the samples
// has no more influence than another.
type countsOnce struct{}

// Needs says that updates are weighted equally.
func (countsOnce) Needs() registry.Needs { return registry.Needs{EqualWeight: true} }

// perParameter is embedded by rules that count each update once and combine each parameter without regard
// to the others. After a compression that thins updates out, most values of a parameter would be 0.
type perParameter struct{}

// Needs says that updates are weighted equally and not thinned out.
func (perParameter) Needs() registry.Needs { return registry.Needs{EqualWeight: true, Whole: true} }

// weightedSum sets dst to the sum of the updates, each times its factor from 0 to 1. Each product is
// rounded to a whole number by itself, a half to the even one, so that the sum does not depend on the order
// of the updates.
func weightedSum(dst []int64, updates [][]int64, factors []float64) {
	inParallel(len(dst), func(start, end int) {
		clear(dst[start:end])
		for j, update := range updates {
			if factor := factors[j]; factor != 0 {
				for i := start; i < end; i++ {
					dst[i] += int64(math.RoundToEven(factor * float64(update[i])))
				}
			}
		}
	})
}

// byParameter sets dst[i] to combine of the values that the updates have for parameter i. combine may
// reorder the slice that it gets.
func byParameter(dst []int64, updates [][]int64, combine func(values []int64) int64) {
	inParallel(len(dst), func(start, end int) {
		values := make([]int64, len(updates))
		for i := start; i < end; i++ {
			for j, update := range updates {
				values[j] = update[i]
			}
			dst[i] = combine(values)
		}
	})
}

// inParallel divides the indices 0 to n-1 into contiguous ranges, one for each core, and calls f for all of
// them at the same time: start is the first index of a range, and end the one behind the last. It returns
// when all calls have.
func inParallel(n int, f func(start, end int)) {
	var all sync.WaitGroup
	parts := min(n, runtime.GOMAXPROCS(0))
	for i := range parts {
		all.Go(func() { f(i*n/parts, (i+1)*n/parts) })
	}
	all.Wait()
}

// Norm returns the Euclidean norm of an exact sum of weight 1, such as the trained values of an update.
func Norm(update []int64) float64 { return math.Sqrt(algorithm.SquaredNorm(update)) }

// Norms returns the Euclidean norm of each update. Each is added up in the order of the parameters,
// so that it is the same on every machine.
func Norms(updates [][]int64) []float64 {
	norms := make([]float64, len(updates))
	inParallel(len(norms), func(start, end int) {
		for i := start; i < end; i++ {
			norms[i] = Norm(updates[i])
		}
	})
	return norms
}

// squaredDistances returns a symmetric matrix of the squared Euclidean distances between updates, with
// zeros on the diagonal.
func squaredDistances(updates [][]int64) [][]float64 {
	n := len(updates)
	distances := make([][]float64, n)
	for i := range distances {
		distances[i] = make([]float64, n)
	}
	inParallel(n*n, func(start, end int) {
		for k := start; k < end; k++ {
			i := k / n
			j := k % n
			// Only one of (i, j) and (j, i) is calculated: above the diagonal where i+j is even, and below it
			// where i+j is odd. So each row, and each core, has about as many to do.
			isAbove := i < j
			isEven := (i+j)%2 == 0
			isCalculated := i != j && isAbove == isEven
			if !isCalculated {
				continue
			}
			square := algorithm.SquaredDistance(updates[i], updates[j])
			distances[i][j] = square
			distances[j][i] = square
		}
	})
	return distances
}
