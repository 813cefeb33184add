package algorithm_test

import (
	"math"
	"testing"

	. "fedpace/algorithm"
)

// Worked by hand. Of three updates of length 1 that are at right angles the mean has the squared length
// 1/3: the step is 1 / (2/3) = 1.5 times as long, and with ε = 1/6 no longer. Of equal updates it would be
// half. Of (3, 0) with the weight 3/4 and (0, 4) with 1/4 the mean is (9/4, 1), its square 97/16, and the
// squares come to 43/4: 86/97 is below 1. Of (3, 0) and (-1, 0) with 1/2 each it is 5 / (2 · 1).
func TestFedExp_StretchByHand(t *testing.T) {
	exact := func(values ...float64) (u []int64) {
		for _, v := range values {
			u = append(u, int64(v*Unit))
		}
		return u
	}
	third, sixth := 1./3, 1./6
	for _, c := range []struct {
		updates [][]int64
		weights []float64
		mean    []int64
		epsilon float64
		want    float64
	}{
		{[][]int64{exact(1, 0, 0), exact(0, 1, 0), exact(0, 0, 1)}, []float64{third, third, third}, exact(third, third, third), 1e-30, 1.5},
		{[][]int64{exact(1, 0, 0), exact(0, 1, 0), exact(0, 0, 1)}, []float64{third, third, third}, exact(third, third, third), sixth, 1},
		{[][]int64{exact(1, 2), exact(1, 2)}, []float64{0.5, 0.5}, exact(1, 2), 1e-30, 1},
		{[][]int64{exact(3, 0), exact(0, 4)}, []float64{0.75, 0.25}, exact(2.25, 1), 1e-30, 1},
		{[][]int64{exact(3, 0), exact(-1, 0)}, []float64{0.5, 0.5}, exact(1, 0), 1e-30, 2.5},
		{[][]int64{exact(3, 0), exact(-3, 0)}, []float64{0.5, 0.5}, exact(0, 0), 0.5, 9},
	} {
		if got := (FedExP{Epsilon: c.epsilon}).Stretch(c.updates, c.weights, c.mean); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v: %v, want %v", c.updates, got, c.want)
		}
		// What is not trained says nothing.
		n := len(c.mean)
		more := make([][]int64, len(c.updates))
		for i, u := range c.updates {
			more[i] = append(u[:n:n], Unit<<10)
		}
		of := NewInstance(FedExP{Epsilon: c.epsilon}, nil, n+1, n, 0, 5)
		if got := of.Stretch(more, c.weights, append(c.mean[:n:n], Unit)); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v with a value that is not trained: %v, want %v", c.updates, got, c.want)
		}
	}
	if got := whole(Default, nil, 1, 5).Stretch([][]int64{{Unit}, {-Unit}}, []float64{0.5, 0.5}, []int64{0}); got != 1 {
		t.Errorf("FedAvg stretches its step by %v", got)
	}
}
