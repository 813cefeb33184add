package algorithm

import (
	"math"
	"slices"
	"testing"
)

// exact is a sum that stands for these moves.
func exact(moves ...float64) (sum []int64) {
	for _, m := range moves {
		sum = append(sum, int64(math.RoundToEven(m*Unit)))
	}
	return sum
}

// Behind what is trained the model moves by the sum itself, whatever the server and its
// scale; the server's state has nothing of it.
func TestPartly_FrozenParameters(t *testing.T) {
	for name, a := range map[string]Algorithm{
		"fedavg": FedAvg{Rate: 3}, "fedavgm": FedAvgM{Rate: 1, Momentum: 0.5}, "fedadam": FedAdam{Rate: 0.1, Beta1: 0.9, Beta2: 0.99, Tau: 1e-3},
	} {
		whole, part := NewInstance(a, nil, 2, 2, 0, 4), NewInstance(a, nil, 4, 2, 0, 4)
		x, y := []float32{1, 2}, []float32{1, 2, 3, -4}
		for range 3 {
			whole.Server.Apply(x, exact(0.25, -0.5), 2)
			part.Server.Apply(y, exact(0.25, -0.5, 0.125, -1), 2)
		}
		if !slices.Equal(y[:2], x) || y[2] != 3.375 || y[3] != -7 {
			t.Errorf("%s: %v, want %v, 3.375 and -7", name, y, x)
		}
		state := part.Server.State()
		for i, v := range state {
			if len(v) != 4 || !slices.Equal(v[:2], whole.Server.State()[i]) || v[2] != 0 || v[3] != 0 {
				t.Errorf("%s: state %v, want %v and zeros", name, v, whole.Server.State()[i])
			}
		}
		again := NewInstance(a, nil, 4, 2, 0, 4)
		if err := again.Server.Restore(state); err != nil {
			t.Fatal(err)
		}
		z := slices.Clone(y)
		part.Server.Apply(y, exact(1, 1, 1, 1), 1)
		again.Server.Apply(z, exact(1, 1, 1, 1), 1)
		if !slices.Equal(y, z) {
			t.Errorf("%s: %v after a resume, want %v", name, z, y)
		}
		for i := range state {
			state[i] = state[i][:3]
		}
		if err := again.Server.Restore(state); len(state) > 0 && err == nil {
			t.Errorf("%s: a state of another length is taken", name)
		}
	}
}

// Votes and deviations are those of what is trained.
func TestPartly_FrozenDecidesNothing(t *testing.T) {
	sign := NewInstance(Default, Sign{Step: 0.5}, 3, 2, 0, 4)
	sum := exact(0.01, -0.3, 0.2)
	sign.Decide(sum)
	if !slices.Equal(sum, exact(0.5, -0.5, 0.2)) {
		t.Errorf("votes: %v", sum)
	}
	refl := REFL{Rate: 1, Beta: 0.35, Divisor: 1}
	join := func(rest float64) []int64 {
		sum := exact(1, 2, rest)
		stale := []Stale{{Update: exact(3, -1, rest), Share: 0.25, Staleness: 1}, {Update: exact(2, 2, -5*rest), Share: 0.25, Staleness: 2}}
		NewInstance(refl, nil, 3, 2, 0, 4).JoinStale(refl, sum, 0.5, stale)
		return sum[:2]
	}
	if a, b := join(0), join(1000); !slices.Equal(a, b) {
		t.Errorf("REFL: %v with a large running mean, %v without", b, a)
	}
}
