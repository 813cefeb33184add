package statistics

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Worked by hand: of 1, 2 and 3 only +++ and --- come to 6, 2 of 8. Of 3, 1, 1 and -1, which come to 4,
// the sums of +3 with the others are 6, 4 (three times), 2 (three times) and 0: 4 of 8. Of 1, 2 and
// -3 all sums are at least 0. Five values of one sign have 2 of 32: no five have less.
func TestSigns_ByHand(t *testing.T) {
	for _, c := range []struct {
		values     []float64
		from, want float64
	}{
		{[]float64{1, 2, 3}, 0, 0.25},
		{[]float64{3, 1, 1, -1}, 0, 0.5},
		{[]float64{1, 2, -3}, 0, 1},
		{[]float64{0, 0}, 0, 1},
		{[]float64{1, 2, math.NaN(), 3, 0.5, 4}, 0, 0.0625},
		{[]float64{-0.1, 0, 0.1}, -0.2, 0.25}, // 0.1, 0.2 and 0.3 above
		{[]float64{0.1, 0.2, 0.3}, 0.2, 1},
		{[]float64{5}, 0, 1},
		{nil, 0, math.NaN()},
		{make([]float64, maxSigns+1), 0, math.NaN()},
	} {
		if got := SignFlip(c.values, c.from); got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("%v from %v: %v, want %v", c.values, c.from, got, c.want)
		}
	}
}

// Every p-value is that of a plain enumeration by the bits of a number, and where signs are chance it is
// at most p with a probability of at most p.
func TestSigns_Level(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	below := 0
	const sets = 2000
	for range sets {
		values := make([]float64, 1+r.IntN(9))
		observed := 0.0
		for i := range values {
			values[i] = math.Round(8 * r.NormFloat64()) // ties among sums
			observed += values[i]
		}
		count := 0
		for signs := range 1 << len(values) {
			sum := 0.0
			for i, v := range values {
				sum += v * float64(1-2*(signs>>i&1))
			}
			if math.Abs(sum) >= math.Abs(observed) {
				count++
			}
		}
		got := SignFlip(values, 0)
		if want := float64(count) / math.Exp2(float64(len(values))); got != want {
			t.Fatalf("%v: %v, want %v", values, got, want)
		}
		if got <= 0.05 {
			below++
		}
	}
	if most := 0.05 + 4*math.Sqrt(0.05*0.95/sets); float64(below)/sets > most {
		t.Errorf("p is at most 0.05 in %d of %d sets without a difference", below, sets)
	}
}
