package statistics

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/stat/distuv"
)

// Estimated is the mean of a quantity over seeds with its 95 % confidence interval (Student's t).
type Estimated struct {
	// Mean is the mean. It is NaN if no seed has a value.
	Mean float64
	// Half is half of the width of the interval. It is NaN with fewer than two values, and 0 if all
	// values are equal.
	Half float64
	// N is the number of seeds that have a value.
	N int
	// FirstStage is the number of values whose deviation decided how many there are (see [TwoStage]). It is
	// 0 if none did.
	FirstStage int
}

// EstimateMean returns the mean of values with its interval. Values that are NaN are left out.
func EstimateMean(values []float64) Estimated {
	known := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	estimated := Estimated{Mean: math.NaN(), Half: math.NaN(), N: len(known)}
	if estimated.N > 0 {
		estimated.Mean = mean(known)
	}
	if estimated.N > 1 {
		estimated.Half = studentQuantile(estimated.N) * Deviation(known) / math.Sqrt(float64(estimated.N))
		// Values that differ by their rounding alone count as equal.
		if estimated.Half < 1e-12*math.Abs(estimated.Mean) {
			estimated.Half = 0
		}
	}
	return estimated
}

// TwoStage returns the mean of values whose number was chosen by the deviation of the first ones (Stein
// 1945). The interval follows from the deviation of these first ones alone, and so keeps its level for
// normal values however many were added. If first is below 2, or the first values are all equal, or a value
// is NaN, it is the interval of [EstimateMean].
func TwoStage(values []float64, first int) Estimated {
	e := EstimateMean(values)
	if first >= 2 && e.N > first && e.N == len(values) {
		if half := EstimateMean(values[:first]).Half; half > 0 {
			e.FirstStage = first
			e.Half = half * math.Sqrt(float64(first)/float64(e.N))
		}
	}
	return e
}

// Enough returns the number of values, those of the first stage included, for which half of the width of
// [TwoStage]'s interval is at most halfWidth. first has the values of the first stage, at least two.
func Enough(first []float64, halfWidth float64) int {
	wanted := studentQuantile(len(first)) * Deviation(first) / halfWidth
	return max(len(first), int(min(math.Ceil(wanted*wanted), math.MaxInt32)))
}

// studentQuantile returns Student's quantile of a two-sided 95 % interval for a deviation estimated from n
// values. It has ten digits, so that the machine's logarithm does not show.
func studentQuantile(n int) float64 {
	return tenDigits(distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(n - 1)}.Quantile(0.975))
}

// tenDigits rounds x to ten significant digits.
func tenDigits(x float64) float64 {
	short, err := strconv.ParseFloat(strconv.FormatFloat(x, 'e', 9, 64), 64)
	if err != nil {
		// This cannot fail, because it reads what it wrote.
		panic(err)
	}
	return short
}

// mean is the mean of values, added in order so that all machines have the same bits; NaN of none.
func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// Deviation is the standard deviation of values; NaN of fewer than two. The mean's rounding is taken
// out of the squares (Chan, Golub and LeVeque 1983, equation 1.7).
func Deviation(values []float64) float64 {
	if len(values) < 2 {
		return math.NaN()
	}
	m := mean(values)
	squares := 0.0
	rest := 0.0
	for _, v := range values {
		d := v - m
		squares += float64(d * d)
		rest += d
	}
	n := float64(len(values))
	return math.Sqrt((squares - float64(rest*rest)/n) / (n - 1))
}

// Parts returns what a mean adds to the name of its column in a table, and its numbers.
func (e Estimated) Parts() ([]string, []float64) {
	return []string{"", "_ci95", "_n"}, []float64{e.Mean, e.Half, float64(e.N)}
}

// P is the two-sided p-value of Student's t test that the mean is zero: 0.05 where an end of
// the interval is zero. It is NaN for fewer than two values, and for values that are all equal.
func (e Estimated) P() float64 {
	if e.N < 2 || e.Half == 0 {
		return math.NaN()
	}
	// The deviation was estimated from the values of the first stage alone, if there were two stages.
	values := cmp.Or(e.FirstStage, e.N)
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(values - 1)}
	return tenDigits(2 * t.Survival(math.Abs(e.Mean)/e.Half*t.Quantile(0.975)))
}

// Holm returns the p-values of tests that are reported together, adjusted so that the probability of
// rejecting any true null hypothesis at a level is at most that level (Holm, 1979). NaN stands for no test and
// stays.
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

// Digits writes the mean and half of its interval's width, as in 0.7312 ± 0.0041. The half has two digits,
// and the mean ends at the same decimal place, but has at most n digits. Without an interval, for a single
// value or equal ones, it is the mean with n digits; without a value it is "-".
func (e Estimated) Digits(n int) string {
	switch {
	case e.N == 0:
		return "-"
	case math.IsNaN(e.Half) || e.Half == 0:
		return fmt.Sprintf("%.*g", n, e.Mean)
	}
	// The half width with two digits is written as 4.1e-03; its power of ten stands behind the first four characters.
	const mantissa = len("4.1e")
	var exponent int
	if _, err := fmt.Sscanf(fmt.Sprintf("%.1e", e.Half)[mantissa:], "%d", &exponent); err != nil ||
		exponent < -9 ||
		math.Abs(e.Mean) >= math.Pow10(exponent-1+n) {
		return fmt.Sprintf("%.*g ± %.2g", n, e.Mean, e.Half)
	}
	unit := math.Pow10(exponent - 1)
	places := max(0, 1-exponent)
	// Adding 0 turns -0 into 0.
	rounded := func(v float64) float64 { return float64(math.Round(v/unit)*unit) + 0 }
	return fmt.Sprintf("%.*f ± %.*f", places, rounded(e.Mean), places, rounded(e.Half))
}

// maxSigns bounds the values all of whose signs are tried.
const maxSigns = 20

// SignFlip returns the exact two-sided p-value of the sign-flip test (Fisher, 1935), whose null hypothesis
// is that the distribution of differences is symmetric about center. It is the share of all 2^n choices of
// the signs of the n values difference - center for which the sum of these is at least as far from zero as
// it is. The test assumes no distribution, and the p-value is at least 2^(1-n). A difference of NaN is left
// out. The result is NaN without values, and for more than maxSigns of them.
func SignFlip(differences []float64, center float64) float64 {
	var known []float64
	sum := 0.0
	size := 0.0
	for _, d := range differences {
		d -= center
		if !math.IsNaN(d) {
			known = append(known, d)
			sum = sum + d
			size = size + math.Abs(d)
		}
	}
	n := len(known)
	if n == 0 || n > maxSigns {
		return math.NaN()
	}
	// Sums that differ by their rounding alone count as equal.
	threshold := math.Abs(sum) - float64(1e-12*size)
	// count returns the number of choices of the signs of rest with which the sum reaches the threshold.
	var count func(rest []float64, sum float64) float64
	count = func(rest []float64, sum float64) float64 {
		if len(rest) > 0 {
			return count(rest[1:], sum+rest[0]) + count(rest[1:], sum-rest[0])
		}
		if math.Abs(sum) >= threshold {
			return 1
		}
		return 0
	}
	// With the other sign of the first value, the sums are the same but for their signs.
	return count(known[1:], known[0]) / math.Ldexp(1, n-1)
}

// maxDecisive bounds the number of values that [Decisive] asks for.
const maxDecisive = 100_000

// Decisive returns the smallest number of values with which the 95 % interval of their mean would exclude
// zero, if mean and deviation stayed as they are in these differences; at least 2, and at most
// [maxDecisive], which stands for more. It is 0 if that cannot be estimated: fewer than two differences are
// known, or their mean is zero.
func Decisive(differences []float64) int {
	known := slices.DeleteFunc(slices.Clone(differences), math.IsNaN)
	if len(known) < 2 {
		return 0
	}
	distance := math.Abs(mean(known))
	if distance == 0 {
		return 0
	}
	deviation := Deviation(known)
	excludesZero := func(n int) bool { return studentQuantile(n)*deviation/math.Sqrt(float64(n)) < distance }
	// The half width falls with n, so the smallest number is found by bisection.
	below := 1
	enough := maxDecisive
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
