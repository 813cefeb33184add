package convex

import (
	"fmt"
	"math"
)

// symmetric is a symmetric matrix of n rows. Its values have the same bits on every machine: all sums
// are added in one order, and products are rounded before they are added. Libraries add in the order
// that the vector instructions of a machine ask for, so that their last digits differ.
type symmetric struct {
	n int
	// lower holds the rows one behind the other, n values each, of which those up to the diagonal count.
	lower []float64
}

// newSymmetric returns the matrix of n rows whose values are 0.
func newSymmetric(n int) *symmetric { return &symmetric{n: n, lower: make([]float64, n*n)} }

// row returns the values of row i up to the diagonal.
func (m *symmetric) row(i int) []float64 { return m.lower[i*m.n:][:i+1] }

// add adds v to the values in row i, column j and in row j, column i, which are one.
func (m *symmetric) add(i, j int, v float64) { m.lower[max(i, j)*m.n+min(i, j)] += v }

// solve returns the x for which m·x = b, by Cholesky's factorisation m = L·Lᵀ (Golub and Van Loan 2013,
// section 4.2). It is an error if the matrix is not positive definite. The matrix is overwritten by L.
func (m *symmetric) solve(b []float64) ([]float64, error) {
	// Row i of m becomes row i of L, from the values of the rows of L above it. Both have i+1 values.
	for i := range m.n {
		row := m.row(i)
		for j := range i {
			row[j] = (row[j] - dot(row[:j], m.row(j)[:j])) / m.row(j)[j]
		}
		square := row[i] - dot(row[:i], row[:i])
		if !(square > 0) {
			return nil, fmt.Errorf("the matrix is not positive definite: pivot %d of %d is %g", i+1, m.n, square)
		}
		row[i] = math.Sqrt(square)
	}
	x := make([]float64, m.n)
	// L·y = b is solved from the first row on; x holds y.
	for i := range x {
		row := m.row(i)
		x[i] = (b[i] - dot(row[:i], x[:i])) / row[i]
	}
	// Lᵀ·x = y is solved from the last row back. Row i of L is column i of Lᵀ.
	for i := m.n - 1; i >= 0; i-- {
		row := m.row(i)
		x[i] /= row[i]
		addScaled(x[:i], -x[i], row[:i])
	}
	return x, nil
}

// largestEigenvalue returns the largest eigenvalue of the matrix, and overwrites the matrix. It makes the matrix
// tridiagonal, bisects an interval in which the largest eigenvalue of that lies until the ends are neighbouring
// float64, and returns the higher end.
func (m *symmetric) largestEigenvalue() float64 {
	diagonal, offDiagonal := m.tridiagonal()
	// Gershgorin's discs contain all eigenvalues, and the largest eigenvalue is at least the largest value of the
	// diagonal. So it is from low to high.
	low := math.Inf(-1)
	high := math.Inf(-1)
	for i, d := range diagonal {
		reach := math.Abs(offDiagonal[i])
		if i > 0 {
			reach += math.Abs(offDiagonal[i-1])
		}
		low = max(low, d)
		high = max(high, d+reach)
	}
	// The interval is halved until no number is left in it.
	for {
		middle := low + float64((high-low)/2)
		areNeighbours := !(low < middle && middle < high)
		if areNeighbours {
			return high
		}
		if isAbove(middle, diagonal, offDiagonal) {
			high = middle
		} else {
			low = middle
		}
	}
}

// tridiagonal returns the diagonal of a tridiagonal matrix with the eigenvalues of m, and the values beside it:
// offDiagonal[i] stands in row i, column i+1 and in row i+1, column i, and the last is 0. Householder's reflections
// clear one row and column after the other (Golub and Van Loan 2013, section 8.3). m is overwritten.
func (m *symmetric) tridiagonal() (diagonal, offDiagonal []float64) {
	diagonal = make([]float64, m.n)
	offDiagonal = make([]float64, m.n)
	v := make([]float64, m.n)
	p := make([]float64, m.n)
	for k := m.n - 1; k >= 0; k-- {
		row := m.row(k)
		diagonal[k] = row[k]
		if k == 0 {
			break
		}
		// Only the first k rows and columns are left. The reflection I − 2vvᵀ/vᵀv maps x, row k without its diagonal,
		// to alpha times the last unit vector. The sign of alpha is such that nothing cancels in v.
		v := v[:k]
		copy(v, row[:k])
		alpha := -math.Copysign(math.Sqrt(norm2(v)), v[k-1])
		offDiagonal[k-1] = alpha
		v[k-1] -= alpha
		square := norm2(v)
		if square == 0 {
			continue
		}
		// With p = 2·m·v/vᵀv and w = p − (pᵀv/vᵀv)·v the reflected matrix is m − vwᵀ − wvᵀ. p becomes w. Of each row
		// the values up to the diagonal are kept, of which row i has i+1.
		p := p[:k]
		m.times(p, v)
		for i := range p {
			p[i] *= 2 / square
		}
		addScaled(p, -dot(p, v)/square, v)
		w := p
		for i := range k {
			addScaled(m.row(i), -v[i], w[:i+1])
			addScaled(m.row(i), -w[i], v[:i+1])
		}
	}
	return diagonal, offDiagonal
}

// times writes to dst the product of v and the upper left part of m that has as many rows and columns as v.
func (m *symmetric) times(dst, v []float64) {
	clear(dst)
	for i := range v {
		// row has the values of columns 0 to i, the last of them on the diagonal.
		row := m.row(i)
		dst[i] += dot(row, v[:i+1])
		// The values left of the diagonal are those above it in column i, too.
		addScaled(dst[:i], v[i], row[:i])
	}
}

// isAbove reports whether x is above all eigenvalues of a tridiagonal matrix: whether all pivots of
// the matrix less x on its diagonal are negative (Sylvester's law of inertia).
func isAbove(x float64, diagonal, offDiagonal []float64) bool {
	pivot := diagonal[0] - x
	for i := 1; pivot < 0 && i < len(diagonal); i++ {
		pivot = diagonal[i] - x - float64(offDiagonal[i-1]*offDiagonal[i-1])/pivot
	}
	return pivot < 0
}

// dot returns the sum of the products of the elements of two vectors of the same length. Four partial
// sums take every fourth product each, so that one addition does not wait for the one before.
func dot(x, y []float64) float64 {
	y = y[:len(x)]
	a := 0.0
	b := 0.0
	c := 0.0
	d := 0.0
	i := 0
	for ; i+4 <= len(x); i += 4 {
		a += float64(x[i] * y[i])
		b += float64(x[i+1] * y[i+1])
		c += float64(x[i+2] * y[i+2])
		d += float64(x[i+3] * y[i+3])
	}
	for ; i < len(x); i++ {
		a += float64(x[i] * y[i])
	}
	return (a + b) + (c + d)
}
