package combine

import (
	"math"

	"fedpace/actors/algorithm"
)

func Norm(update []int64) float64 { return math.Sqrt(algorithm.SquaredNorm(update)) }

// Norms are those of updates, each added up in the order of the parameters.
func Norms(updates [][]int64) []float64 {
	norms := make([]float64, len(updates))
	parallel(len(norms), func(from, to int) {
		for i := from; i < to; i++ {
			norms[i] = Norm(updates[i])
		}
	})
	return norms
}

// squaredDistances are those of each two updates, in a symmetric matrix.
func squaredDistances(updates [][]int64) [][]float64 {
	n := len(updates)
	d := make([][]float64, n)
	for i := range d {
		d[i] = make([]float64, n)
	}
	parallel(n*n, func(from, to int) {
		for k := from; k < to; k++ {
			i, j := k/n, k%n
			if (i+j)%2 == 0 == (i > j) || i == j { // one of (i, j) and (j, i), evenly spread
				continue
			}
			sum := 0.0
			for p, u := range updates[i] {
				x := float64(u-updates[j][p]) / algorithm.One
				sum += float64(x * x)
			}
			d[i][j], d[j][i] = sum, sum
		}
	})
	return d
}
