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
	Share float64 `key:"liars" default:"0.2" range:"[0,0.5)" help:"share of updates that may be false"`
}

// Count returns how many of n updates may be false: the share of them, rounded up.
func (l Byzantine) Count(n int) int {
	// 0.07 in float64 times 100 is a little more than 7, which must not become 8.
	const rounding = 1e-9
	return int(math.Ceil(float64(l.Share*float64(n)) - rounding))
}

// check returns a [*registry.OptionError] unless a round of this many updates, of which f may be false,
// has at least the 2f + extra that the rule needs. rule is the rule's name.
func (l Byzantine) check(rule string, updates, extra int) error {
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

// byParameter sets each value of dst to f of the values that the updates have there. f may reorder the
// slice that it is given.
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
			// Only one of (i, j) and (j, i) is calculated. Which one alternates like the squares of a
			// chessboard, so that each core has about as many to do.
			calculatedAsJI := (i+j)%2 == 0 == (i > j)
			if calculatedAsJI || i == j {
				continue
			}
			square := algorithm.SquaredDistance(updates[i], updates[j])
			d[i][j] = square
			d[j][i] = square
		}
	})
	return d
}
