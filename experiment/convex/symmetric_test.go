package convex

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"fedpace/internal/vector"
)

// positive returns a random positive definite matrix of n rows, here and as gonum has it. Its smallest
// eigenvalue is at least 0.1.
func positive(r *rand.Rand, n int) (*symmetric, *mat.SymDense) {
	half := mat.NewDense(n, n, random(r, n*n, 1))
	var square mat.Dense
	square.Mul(half, half.T())
	m := newSymmetric(n)
	theirs := mat.NewSymDense(n, nil)
	for i := range n {
		for j := range i + 1 {
			v := square.At(i, j)
			if i == j {
				v += 0.1
			}
			m.add(i, j, v)
			theirs.SetSym(i, j, v)
		}
	}
	return m, theirs
}

// Solutions and largest eigenvalues are gonum's, which has its own factorisations, for matrices of
// sizes around the four sums of a product.
func TestSymmetric_AgainstGonum(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 3, 4, 5, 8, 9, 33, 61} {
		m, theirs := positive(r, n)
		var eigen mat.EigenSym
		if !eigen.Factorize(theirs, false) {
			t.Fatal("gonum finds no eigenvalues")
		}
		values := eigen.Values(nil)
		solved, _ := positive(r, n)
		copy(solved.lower, m.lower)
		near(t, fmt.Sprintf("the largest eigenvalue of %d", n), m.largestEigenvalue(), values[n-1], 1e-13)
		b := random(r, n, 1)
		var want mat.VecDense
		var factor mat.Cholesky
		if !factor.Factorize(theirs) || factor.SolveVecTo(&want, mat.NewVecDense(n, b)) != nil {
			t.Fatal("gonum solves nothing")
		}
		got, err := solved.solve(b)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			near(t, fmt.Sprintf("value %d of a solution of %d", i, n), got[i], want.AtVec(i), 1e-9)
		}
	}
}

// The matrix (4 2; 2 3) has L = (2 0; 1 √2) and the eigenvalues (7 ± √17)/2. Its product with (1, −1) is
// (2, −1).
func TestSymmetric_WorkedByHand(t *testing.T) {
	two := func() *symmetric { return &symmetric{n: 2, lower: []float64{4, 0, 2, 3}} }
	x, err := two().solve([]float64{2, -1})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "the first value", x[0], 1, 1e-15)
	near(t, "the second value", x[1], -1, 1e-15)
	near(t, "the largest eigenvalue", two().largestEigenvalue(), (7+math.Sqrt(17))/2, 1e-15)
	// A diagonal matrix, also with eigenvalues below zero, needs no reflection.
	diagonal := &symmetric{n: 3, lower: []float64{-3, 0, 0, 0, -1, 0, 0, 0, -2}}
	near(t, "the largest of -3, -1 and -2", diagonal.largestEigenvalue(), -1, 0)
	if got := newSymmetric(2).largestEigenvalue(); got != 0 {
		t.Errorf("the zero matrix has the eigenvalue %g", got)
	}
	// (1 2; 2 1) has the eigenvalue −1.
	_, err = (&symmetric{n: 2, lower: []float64{1, 0, 2, 1}}).solve([]float64{1, 1})
	if err == nil || !strings.Contains(err.Error(), "pivot 2 of 2 is -3") {
		t.Errorf("a matrix that is not positive definite: %v", err)
	}
}

// Minima and constants of the problems have these bits on every machine; .ci/long plays the test on
// arm64, too, whose compiler fuses multiplications with additions and whose exponential is not amd64's.
func TestProblems_FixedBits(t *testing.T) {
	want := map[string]string{
		"quadratic":                 "8544582c74d6939e",
		"logistic, a class missing": "ab86e08fb7f7ea12",
		"logistic":                  "571d24f5f6fc7587",
	}
	for _, p := range problems {
		problem, _, model := read(t, p.of, p.model, 5)
		k := problem.Constants(make([]float64, model.Params()), 3)
		bits := fnv.New64a()
		bits.Write(vector.Bytes(problem.Star))
		bits.Write(vector.Bytes([]float64{problem.FStar, problem.Gamma, problem.L, problem.Mu, k.G, k.Variance}))
		if got := fmt.Sprintf("%016x", bits.Sum64()); got != want[p.name] {
			t.Errorf("%s has the bits %s, want %s", p.name, got, want[p.name])
		}
	}
}
