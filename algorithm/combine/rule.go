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
// A rule sees the trained values of a model alone, so that its lengths and distances are of those.
// Buffers, such as a batch norm's running variance, grow with the square of a feature's scale and
// would outweigh them. They are averaged beside the rule, with the shares that it returns.
type Rule interface {
	// Combine sets dst to the rule's update. Every update has the length of dst; they are in units
	// of 2^-44, below 2^61 in magnitude, at least one, in the order of their tasks, and not
	// changed. weights are the algorithm's, not negative, and sum to 1.
	//
	// shares are the weights with which the updates' buffers are averaged, not negative and with the
	// sum 1, such as 0 for an update that the rule has not chosen; nil means the algorithm's.
	Combine(dst []int64, updates [][]int64, weights []float64) (shares []float64)
}

// ByValue is a rule that works value by value. What it makes of one value does not depend on the
// others, so it combines buffers, too: its result lies between the values that clients sent.
type ByValue interface {
	Rule
	ByValue()
}

// Rules are those that a configuration can name.
var Rules = registry.New[Rule]("combining rule", "rule")

// Byzantine is how many of a round's updates a rule stands.
type Byzantine struct {
	Share float64 `key:"liars" default:"0.2" range:"[0,0.5)" help:"part of a round's updates that may be false"`
}

// Count is how many of n updates may be false: the share of them, rounded up.
func (l Byzantine) Count(n int) int {
	// A share is written in decimals, so 0.07 of 100 must be 7.
	const rounding = 1e-9
	return int(math.Ceil(float64(l.Share*float64(n)) - rounding))
}

// check returns an error if a round of this many updates has too many false ones, f, for a rule.
// The rule needs at least 2f + extra updates. rule is the rule's name.
func (l Byzantine) check(rule string, updates, extra int) error {
	if f := l.Count(updates); updates < 2*f+extra {
		return registry.Errorf("liars", "%g of %d updates are %d, with which %s needs %d updates or more (lower "+
			"it, or let more updates close a round)", l.Share, updates, f, rule, 2*f+extra)
	}
	return nil
}

// countsOnce says that a rule counts each update once, so that nobody has two voices who claims
// to have twice the samples.
type countsOnce struct{}

// Needs says that updates are weighted equally.
func (countsOnce) Needs() registry.Needs { return registry.Needs{EqualWeight: true} }

// perParameter is once of a rule that works parameter by parameter, of whose values few would be
// left after compression.
type perParameter struct{}

// ByValue implements [ByValue].
func (perParameter) ByValue() {}

// Needs implements [registry.Needs] of a component.
func (perParameter) Needs() registry.Needs { return registry.Needs{EqualWeight: true, Whole: true} }

// mix sets dst to the sum of the updates, each times its factor from 0 to 1 and rounded to
// even by itself: the sum does not depend on their order.
func mix(dst []int64, updates [][]int64, factors []float64) {
	parallel(len(dst), func(start, end int) {
		clear(dst[start:end])
		for j, u := range updates {
			if f := factors[j]; f != 0 {
				for i := start; i < end; i++ {
					dst[i] += int64(math.RoundToEven(f * float64(u[i])))
				}
			}
		}
	})
}

// byParameter sets each value of dst to what of makes of the updates' values there, which
// it may put into another order.
func byParameter(dst []int64, updates [][]int64, f func(values []int64) int64) {
	parallel(len(dst), func(start, end int) {
		values := make([]int64, len(updates))
		for i := start; i < end; i++ {
			for j, u := range updates {
				values[j] = u[i]
			}
			dst[i] = f(values)
		}
	})
}

// parallel calls f for contiguous parts that together cover 0 to n-1, one part for each core, at
// the same time. It returns when all calls have. end is the first index behind a part.
func parallel(n int, f func(start, end int)) {
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
	parallel(len(norms), func(start, end int) {
		for i := start; i < end; i++ {
			norms[i] = Norm(updates[i])
		}
	})
	return norms
}

// squaredDistances returns a symmetric matrix with the squared Euclidean distance of each two
// updates. The diagonal is 0.
func squaredDistances(updates [][]int64) [][]float64 {
	n := len(updates)
	d := make([][]float64, n)
	for i := range d {
		d[i] = make([]float64, n)
	}
	parallel(n*n, func(start, end int) {
		for k := start; k < end; k++ {
			i := k / n
			j := k % n
			// Of (i, j) and (j, i) one is calculated, so that each core gets about as many.
			if (i+j)%2 == 0 == (i > j) || i == j {
				continue
			}
			square := algorithm.SquaredDistance(updates[i], updates[j])
			d[i][j] = square
			d[j][i] = square
		}
	})
	return d
}
