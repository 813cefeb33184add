package statistics

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Estimated is the mean of a quantity over seeds with the half width of its
// 95 % confidence interval (Student's t). N seeds have a value; with none the
// mean is NaN, with one the half width is.
type Estimated struct {
	Mean, Half float64
	N          int
	First      int // values whose deviation decided how many there are (see [TwoStage]); 0: none did
}

// EstimateMean leaves out what is NaN.
func EstimateMean(values []float64) Estimated {
	known := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	e := Estimated{Mean: math.NaN(), Half: math.NaN(), N: len(known)}
	if e.N > 0 {
		e.Mean = stat.Mean(known, nil)
	}
	if e.N > 1 {
		e.Half = quantile(e.N) * stat.StdErr(stat.StdDev(known, nil), float64(e.N))
		if e.Half < 1e-12*math.Abs(e.Mean) { // values that are equal but for their rounding
			e.Half = 0
		}
	}
	return e
}

// TwoStage is the mean of values of which the first decided how many there are (Stein 1945): the
// interval follows from the deviation of the first alone, and keeps its level for normal values
// however many were added. First values that are all alike say nothing of the others.
func TwoStage(values []float64, first int) Estimated {
	e := EstimateMean(values)
	if first >= 2 && e.N > first && e.N == len(values) {
		if half := EstimateMean(values[:first]).Half; half > 0 {
			e.First = first
			e.Half = half * math.Sqrt(float64(first)/float64(e.N))
		}
	}
	return e
}

// Enough is how many values there must be, those of the first stage included, for half of the
// interval of [TwoStage] to be at most so wide.
func Enough(first []float64, half float64) int {
	wanted := quantile(len(first)) * stat.StdDev(first, nil) / half
	return max(len(first), int(min(math.Ceil(wanted*wanted), math.MaxInt32)))
}

// quantile is that of Student's t for the 95 % interval of the deviation of so many values.
func quantile(n int) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(n - 1)}.Quantile(0.975)
}

// Deviation is the standard deviation of values; NaN of fewer than two.
func Deviation(values []float64) float64 { return stat.StdDev(values, nil) }

// Parts are the numbers of a mean in a table.
func (e Estimated) Parts() ([]string, []float64) {
	return []string{"", "_ci95", "_n"}, []float64{e.Mean, e.Half, float64(e.N)}
}

// P is the two-sided p-value of Student's t test that the mean is zero: 0.05 where an end of
// the interval is zero. It is NaN of fewer than two seeds, and of seeds that do not differ.
func (e Estimated) P() float64 {
	if e.N < 2 || e.Half == 0 {
		return math.NaN()
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(cmp.Or(e.First, e.N) - 1)}
	return 2 * t.Survival(math.Abs(e.Mean)/e.Half*t.Quantile(0.975))
}

// Holm adjusts the p-values of tests that are reported together, so that of true null
// hypotheses any is rejected at a level with at most that probability (Holm, 1979). NaN is no
// test and stays.
func Holm(p []float64) []float64 {
	adjusted := slices.Clone(p)
	var order []int
	for i, v := range p {
		if !math.IsNaN(v) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	least := 0.0
	for rank, i := range order {
		least = max(least, min(1, float64(len(order)-rank)*p[i]))
		adjusted[i] = least
	}
	return adjusted
}

// String writes the mean with five digits.
func (e Estimated) String() string { return e.Digits(5) }

// Digits writes the mean, with so many digits or as many as its interval carries, which are two of its
// half's, and that half, where there is one; "-" for none.
func (e Estimated) Digits(n int) string {
	switch {
	case e.N == 0:
		return "-"
	case math.IsNaN(e.Half) || e.Half == 0: // one seed, or all alike
		return fmt.Sprintf("%.*g", n, e.Mean)
	}
	var exponent int
	if _, err := fmt.Sscanf(fmt.Sprintf("%.1e", e.Half)[4:], "%d", &exponent); err != nil ||
		exponent < -9 ||
		math.Abs(e.Mean) >= math.Pow10(exponent-1+n) {
		return fmt.Sprintf("%.*g ± %.2g", n, e.Mean, e.Half)
	}
	unit := math.Pow10(exponent - 1)
	places := max(0, 1-exponent)
	rounded := func(v float64) float64 { return float64(math.Round(v/unit)*unit) + 0 } // no -0
	return fmt.Sprintf("%.*f ± %.*f", places, rounded(e.Mean), places, rounded(e.Half))
}

// mostSigns bounds the values whose signs are all tried.
const mostSigns = 20

// SignFlip is the two-sided p-value of the test that differences are as likely above a value as as far
// below it (Fisher, 1935): how often, of all signs that they could have, their sum is at least as far
// from zero. It assumes no law, and of n values it is at least 2^(1-n). NaN is left out; without
// values, or of more than 20, it is NaN.
func SignFlip(differences []float64, from float64) float64 {
	var known []float64
	sum := 0.0
	size := 0.0
	for _, d := range differences {
		d -= from
		if !math.IsNaN(d) {
			known = append(known, d)
			sum = sum + d
			size = size + math.Abs(d)
		}
	}
	n := len(known)
	if n == 0 || n > mostSigns {
		return math.NaN()
	}
	least := math.Abs(sum) - float64(1e-12*size) // sums that are equal but for their rounding are equal
	var count func(rest []float64, sum float64) float64
	count = func(rest []float64, sum float64) float64 {
		if len(rest) > 0 {
			return count(rest[1:], sum+rest[0]) + count(rest[1:], sum-rest[0])
		}
		if math.Abs(sum) >= least {
			return 1
		}
		return 0
	}
	return count(known[1:], known[0]) / math.Exp2(float64(n-1)) // the other half has the same sums
}

// mostDecisive bounds the number of values that [Decisive] asks for.
const mostDecisive = 100_000

// Decisive is the smallest number of values with which the 95 % interval of their mean would exclude zero
// if mean and deviation stayed as they are in these differences. It is at least 2. It is 0 if the
// differences say nothing about it: fewer than two are known, or their mean is zero; and [mostDecisive] if
// more would be needed.
func Decisive(differences []float64) int {
	known := slices.DeleteFunc(slices.Clone(differences), math.IsNaN)
	if len(known) < 2 {
		return 0
	}
	distance := math.Abs(stat.Mean(known, nil))
	if distance == 0 {
		return 0
	}
	deviation := stat.StdDev(known, nil)
	excludesZero := func(n int) bool { return quantile(n)*deviation/math.Sqrt(float64(n)) < distance }
	// The half width falls with n, so the smallest number is found by bisection.
	below := 1
	enough := mostDecisive
	for enough-below > 1 {
		middle := (below + enough) / 2
		if excludesZero(middle) {
			enough = middle
		} else {
			below = middle
		}
	}
	return enough
}
