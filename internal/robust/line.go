package robust

import (
	"math"
	"slices"
)

// maxPoints bounds the points of a line: a million pairs are sorted.
const maxPoints = 1500

// Slope is the slope of the line through some points: the median of the slopes of all pairs
// (Theil 1950, A rank-invariant method of linear regression analysis). Its interval has its
// ends among these slopes, as far from the middle as Kendall's statistic deviates, equal x
// being ties (Sen 1968, Estimates of the regression coefficient based on Kendall's tau, JASA
// 63, eq. 2.6 and section 4). Of more than 1,500 points every second, third or more counts.
// False: no two points have different x.
func Slope(x, y []float64, confidence float64) (Estimate, bool) {
	each := (len(x) + maxPoints - 1) / maxPoints
	var slopes []float64
	ties := map[float64]int{}
	n := 0
	for i := 0; i < len(x); i += each {
		n++
		ties[x[i]]++
		for j := 0; j < i; j += each {
			if x[i] != x[j] {
				slopes = append(slopes, (y[i]-y[j])/(x[i]-x[j]))
			}
		}
	}
	if len(slopes) == 0 {
		return Estimate{}, false
	}
	slices.Sort(slopes)
	kendall := func(n int) int { return n * (n - 1) * (2*n + 5) }
	variance := kendall(n)
	for _, t := range ties {
		variance -= kendall(t)
	}
	apart := deviations(confidence) * math.Sqrt(float64(variance)/18)
	pairs := float64(len(slopes))
	low, high := int((pairs-apart)/2), int(math.Ceil((pairs+apart)/2))
	last := len(slopes) - 1
	return Estimate{middle(slopes), slopes[min(max(low-1, 0), last)], slopes[min(max(high, 0), last)]}, true
}
