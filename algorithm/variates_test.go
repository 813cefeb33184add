package algorithm_test

import (
	"crypto/sha256"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	. "fedpace/algorithm"
	"fedpace/learn"
)

// named gives a variate some digest.
func named(values ...float32) ClientState {
	v := ClientState{Values: values}
	for _, x := range values {
		v.Digest = sha256.Sum256(append(v.Digest[:], byte(math.Float32bits(x)>>16)))
	}
	return v
}

// c is the mean of all c_i, those of clients that never took part being zero
// (Karimireddy et al. 2020, Eq. 5), however long the run.
func TestVariates_ServerIsMeanOfClients(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const params = 3
		n := rapid.IntRange(1, 8).Draw(t, "population")
		v := NewClientStates(params, 0, n)
		rounds := rapid.IntRange(1, 6).Draw(t, "rounds")
		for range rounds {
			cohort := rapid.Permutation(indices(n)).Draw(t, "order")[:rapid.IntRange(1, n).Draw(t, "cohort")]
			sum, next := make([]int64, params), make([]ClientState, len(cohort))
			for i, c := range cohort {
				values := rapid.SliceOfN(rapid.Float32Range(-4, 4), params, params).Draw(t, "variate")
				old := v.Client(c).Values
				if old == nil {
					old = make([]float32, params)
				}
				if bad := learn.AddExact(sum, v.Weight(), values, old); bad >= 0 {
					t.Fatal("refused")
				}
				next[i] = named(values...)
			}
			v.Update(sum, cohort, next)
		}
		server := v.Server()
		if server == nil {
			server = make([]float32, params)
		}
		for j := range params {
			mean := 0.0
			for c := range n {
				if own := v.Client(c).Values; own != nil {
					mean += float64(own[j]) / float64(n)
				}
			}
			if d := math.Abs(float64(server[j]) - mean); d > 0x1p-24*math.Abs(mean)+float64(rounds*n)*0x1p-44 {
				t.Fatalf("c is %v for parameter %d, the mean of the c_i is %v", server[j], j, mean)
			}
		}
	})
}

// Only clients that took part cost memory, and a variate of zero costs none.
func TestVariates_ZeroIsNotKept(t *testing.T) {
	v := NewClientStates(2, 0, 1000)
	if v.Server() != nil || v.Client(3).Values != nil || bytesOf(v) != 16 {
		t.Fatalf("%v, %v, %d bytes", v.Server(), v.Client(3), bytesOf(v))
	}
	v.Update([]int64{Unit, 0}, []int{3, 4}, []ClientState{named(1, 0), named(0, 0)})
	if diff := cmp.Diff([]float32{1, 0}, v.Server()); diff != "" {
		t.Error(diff)
	}
	if bytesOf(v) != 16+8 || v.Client(4).Values != nil {
		t.Errorf("%v, %d bytes", v.Client(4), bytesOf(v))
	}
	v.Update([]int64{-Unit, 0}, []int{3}, []ClientState{named(0, 0)})
	if v.Server() != nil || bytesOf(v) != 16 {
		t.Errorf("%v, %d bytes", v.Server(), bytesOf(v))
	}
}

func TestVariates_RestoredContinue(t *testing.T) {
	a, b := NewClientStates(2, 0, 10), NewClientStates(2, 0, 10)
	a.Update([]int64{5, 7}, []int{8, 2}, []ClientState{named(1, 2), named(3, 4)})
	if diff := cmp.Diff([]int{2, 8}, a.State().Clients); diff != "" {
		t.Error(diff)
	}
	if err := b.Restore(a.State()); err != nil {
		t.Fatal(err)
	}
	for _, v := range []*ClientStates{a, b} {
		v.Update([]int64{1, 1}, []int{2}, []ClientState{named(9, 9)})
	}
	if diff := cmp.Diff(a.State(), b.State()); diff != "" {
		t.Error(diff)
	}
	for want, spoil := range map[string]func(*SavedStates){
		"a server's control variate of 1": func(s *SavedStates) { s.Server = s.Server[:1] },
		"1 of 2 clients":                  func(s *SavedStates) { s.Values = s.Values[:1] },
		"holds NaN for parameter 1":       func(s *SavedStates) { s.Server = []float64{0, math.NaN()} },
		"control variate 1 is of client 10": func(s *SavedStates) {
			s.Clients = []int{2, 10}
		},
		"control variate 1 is of client 2": func(s *SavedStates) { s.Clients = []int{2, 2} },
		"client 8 keeps has 1 values":      func(s *SavedStates) { s.Values = []ClientState{s.Values[0], named(1)} },
	} {
		s := a.State()
		s.Clients, s.Values = slices.Clone(s.Clients), slices.Clone(s.Values)
		spoil(&s)
		if err := b.Restore(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want it to say %q", err, want)
		}
	}
	if diff := cmp.Diff(a.State(), b.State()); diff != "" {
		t.Errorf("a refused state left its traces: %s", diff)
	}
}

// bytesOf is what variates take.
func bytesOf(v *ClientStates) int64 {
	s := v.State()
	return int64(len(s.Server)) * (8 + 4*int64(len(s.Clients)))
}
