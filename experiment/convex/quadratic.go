package convex

import (
	"fmt"
	"slices"

	"fedpace/data/federated"
	"fedpace/learn"
)

// quadratic is ½ (x − b̄_c)ᵀ A_c (x − b̄_c) + floor_c for each client, A_c by its
// eigenvalues a and its reflection v.
type quadratic struct {
	// size is the dimension of the model.
	size int
	// a and v hold for each client the eigenvalues and the direction of the reflection; b holds the
	// mean of the samples' centres.
	a, v, b [][]float64
	// floor is f_c* of each client: the value that the noise of its samples leaves at the minimum.
	floor []float64
	// noise is the variance of a sample's gradient for each client, which is the same everywhere.
	noise []float64
}

// readQuadratic reads the clients' quadratic objectives ½ (x − b)ᵀ A (x − b) from a set. A sample
// holds three vectors of the model's dimension: its own centre, and the diagonal a and the
// direction v, which all samples of a client share. The matrix is A_c = H diag(a) H with the
// Householder reflection H along v.
func readQuadratic(set federated.Set, kind learn.Quadratic) (*quadratic, error) {
	n := kind.Dimension
	q := &quadratic{size: n}
	for c := range set.Clients() {
		batch, err := clientSamples(set, c, 3*n)
		if err != nil {
			return nil, err
		}
		// sample returns the values of sample i: n of its centre, n of the diagonal, and n of the direction.
		sample := func(i int) []float32 { return batch.X[i*3*n:][:3*n] }
		centre := func(i int) []float32 { return sample(i)[:n] }
		a := Widen(sample(0)[n : 2*n])
		v := Widen(sample(0)[2*n:])
		// The centre of the client's objective is the mean of the centres of its samples.
		b := make([]float64, n)
		for i := range batch.N {
			for j := range n {
				b[j] += float64(centre(i)[j]) / float64(batch.N)
			}
		}
		q.a = append(q.a, a)
		q.v = append(q.v, v)
		q.b = append(q.b, b)
		// The centres of the samples scatter around b. This adds a constant, floor, to the
		// objective and gives stochastic gradients the variance noise.
		floor := 0.0
		noise := 0.0
		offset := make([]float64, n)
		g := make([]float64, n)
		for i := range batch.N {
			subtract(offset, Widen(centre(i)), b)
			q.apply(g, c, offset)
			for j := range n {
				floor += offset[j] * g[j] / 2 / float64(batch.N)
			}
			noise += norm2(g) / float64(batch.N)
		}
		q.floor = append(q.floor, floor)
		q.noise = append(q.noise, noise)
	}
	return q, nil
}

// apply writes A_c u = H diag(a) H u to dst, where H = I − 2vvᵀ is a Householder reflection and v
// has the norm 1. u and dst must not overlap.
func (q *quadratic) apply(dst []float64, c int, u []float64) {
	a := q.a[c]
	v := q.v[c]
	// The first reflection, H u, needs the component of u along v.
	along := 0.0
	for j := range u {
		along += float64(v[j] * u[j])
	}
	// The second reflection needs the component of diag(a) H u along v.
	back := 0.0
	for j := range u {
		dst[j] = a[j] * (u[j] - float64(2*along*v[j]))
		back += float64(v[j] * dst[j])
	}
	addScaled(dst, float64(-2*back), v)
}

// gradient writes ∇f_c(x) = A_c (x − b_c) into dst.
func (q *quadratic) gradient(dst []float64, c int, x []float64) {
	u := make([]float64, q.size)
	subtract(u, x, q.b[c])
	q.apply(dst, c, u)
}

// value is f_c(x) = (x − b_c)ᵀ A_c (x − b_c) / 2 plus the client's floor.
func (q *quadratic) value(c int, x []float64) (f float64) {
	g := make([]float64, q.size)
	q.gradient(g, c, x)
	for j := range g {
		f += float64(g[j] * (x[j] - q.b[c][j]))
	}
	return float64(f/2) + q.floor[c]
}

// variance returns the variance of client c's stochastic gradients, which is the same at every
// point.
func (q *quadratic) variance(c int, _ []float64) float64 { return q.noise[c] }

// curvature returns the largest and the smallest eigenvalue of all clients' matrices, which bound
// the curvature.
func (q *quadratic) curvature() (l, mu float64) {
	all := slices.Concat(q.a...)
	return slices.Max(all), slices.Min(all)
}

// minimise returns the minimum x of the weighted sum of the clients' objectives, which solves Σ w A
// x = Σ w A b. weights has one element for each client. The minimum of a single client is its
// centre b. The result must not be changed.
func (q *quadratic) minimise(weights []float64) ([]float64, error) {
	isWeighted := func(w float64) bool { return w != 0 }
	// With one client alone nothing has to be solved.
	first := slices.IndexFunc(weights, isWeighted)
	if first >= 0 && !slices.ContainsFunc(weights[first+1:], isWeighted) {
		return q.b[first], nil
	}
	m := newSymmetric(q.size)
	target := make([]float64, q.size)
	e := make([]float64, q.size)
	column := make([]float64, q.size)
	for c, w := range weights {
		// Column j of A is A times the unit vector e_j. Each value of the symmetric
		// matrix is added once.
		for j := range e {
			e[j] = 1
			q.apply(column, c, e)
			e[j] = 0
			for i := 0; i <= j; i++ {
				m.add(i, j, float64(w*column[i]))
			}
		}
		q.apply(column, c, q.b[c])
		addScaled(target, w, column)
	}
	x, err := m.solve(target)
	if err != nil {
		return nil, fmt.Errorf("convex: the sum of the clients' matrices: %w", err)
	}
	return x, nil
}
