package statistics

import (
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
}

// EstimateMean leaves out what is NaN.
func EstimateMean(values []float64) Estimated {
	known := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	e := Estimated{Mean: math.NaN(), Half: math.NaN(), N: len(known)}
	if e.N > 0 {
		e.Mean = stat.Mean(known, nil)
	}
	if e.N > 1 {
		t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(e.N - 1)}.Quantile(0.975)
		e.Half = t * stat.StdErr(stat.StdDev(known, nil), float64(e.N))
	}
	return e
}

// String writes the mean with five digits.
func (e Estimated) String() string { return e.Digits(5) }

// Digits writes the mean with so many digits and half of its interval, where there
// is one; "-" for none.
func (e Estimated) Digits(n int) string {
	switch {
	case e.N == 0:
		return "-"
	case math.IsNaN(e.Half):
		return fmt.Sprintf("%.*g", n, e.Mean)
	}
	return fmt.Sprintf("%.*g ± %.2g", n, e.Mean, e.Half)
}
