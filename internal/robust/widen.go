package robust

import "slices"

// Enough values are their own law: of n values the least and the greatest hold the next with
// probability (n-1)/(n+1) (Wilks 1941, Determination of sample sizes for setting tolerance
// limits, Ann. Math. Statist. 12), which is 0.9 of 19.
const Enough = 19

// wider is by how much n values of a normal law are moved from their mean, n being the index:
//
//	t · sqrt(1 + 1/n) / z
//
// The next value is within so many of their deviations of the mean in nine cases of ten, t being
// Student's at 0.95 with n-1 degrees of freedom; the greatest of them is expected at z, the
// normal law's quantile of (n - 3/8) / (n + 1/4) (Blom 1958, Statistical Estimates and
// Transformed Beta-Variables).
var wider = [Enough]float64{
	3: 3.8781, 2.5079, 1.9795, 1.6983, 1.5224, 1.4011, 1.3119, 1.2431, 1.1882, 1.1432, 1.1056, 1.0735, 1.0458, 1.0216, 1.0002, 1,
}

// Widen moves fewer than [Enough] values from their mean, so that those of a normal law hold the
// next one between their least and greatest nine times in ten. Without it few values are a law
// that is too narrow. Their mean stays; values above zero stay above a twentieth of it where
// they were. Fewer than three values say too little of a law and stay.
func Widen(values []float64) []float64 {
	n := len(values)
	if n < 3 || n >= Enough {
		return values
	}
	mean := 0.0
	for _, x := range values {
		mean += x / float64(n)
	}
	factor := wider[n]
	if least := slices.Min(values); least > 0 && least < mean {
		factor = max(1, min(factor, 0.95*mean/(mean-least)))
	}
	wide := make([]float64, n)
	for i, x := range values {
		wide[i] = mean + factor*(x-mean)
	}
	return wide
}
