package algorithm_test

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	. "fedpace/algorithm"
)

// Wang et al. 2020, worked out: w = (1/2, 1/2), K = (1, 3). Z = 2/3, τ_eff = 2.
func TestNormalised_Worked(t *testing.T) {
	list, scale := Normalised([]float64{0.5, 0.5}, []int{1, 3})
	for i, want := range []float64{0.75, 0.25, 4. / 3} {
		if got := append(list, scale)[i]; math.Abs(got-want) > 1e-15 {
			t.Errorf("value %d is %v, want %v", i, got, want)
		}
	}
}

// sampled draws weights and local steps.
func sampled(t *rapid.T) (weights []float64, steps []int) {
	samples := rapid.SliceOfN(rapid.IntRange(1, 1e6), 1, 40).Draw(t, "samples")
	weights, err := BySamples(samples)
	if err != nil {
		t.Fatal(err)
	}
	for range samples {
		steps = append(steps, rapid.IntRange(1, 1<<24).Draw(t, "steps"))
	}
	return weights, steps
}

// The model moves by τ_eff Σ w_c (x_c − x)/K_c (with ‖a_c‖₁ = K_c), up to
// the unit of exact sums, and no sum passes the bound.
func TestNormalised_EqualsFedNova(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights, steps := sampled(t)
		list, scale := Normalised(weights, steps)
		far := math.Nextafter32(MaxDifference, 0)
		sum, bound := make([]int64, 1), make([]int64, 2)
		move, effective := 0.0, 0.0
		for i, w := range weights {
			x := float32(rapid.Float64Range(-10, 10).Draw(t, "x"))
			effective += w * float64(steps[i])
			move += w / float64(steps[i]) * float64(x)
			if err := Add(sum, list[i], []float32{x}, []float32{0}); err != nil {
				t.Fatal(err)
			}
			if err := Add(bound, list[i], []float32{far, -far}, []float32{0, 0}); err != nil {
				t.Fatal(err)
			}
		}
		if bound[0] > 1<<61+1<<41 || bound[1] != -bound[0] {
			t.Fatalf("a sum of %d", bound[0])
		}
		if scale < 1 {
			t.Fatalf("scale %v", scale)
		}
		model := []float32{0}
		FedAvg{Rate: 1}.Server(1).Apply(model, sum, scale)
		want := effective * move
		allowed := 1e-12*math.Abs(want) + 0x1p-24*math.Abs(want) + float64(len(weights))*scale*0x1p-44
		if math.Abs(float64(model[0])-want) > allowed {
			t.Fatalf("the model moves by %v, the paper says %v", model[0], want)
		}
	})
}

// With equal local steps FedNova is FedAvg, to the bit.
func TestNormalised_EqualSteps(t *testing.T) {
	weights, err := BySamples([]int{3, 5, 9})
	if err != nil {
		t.Fatal(err)
	}
	list, scale := Normalised(weights, []int{7, 7, 7})
	if !slices.Equal(list, weights) || scale != 1 {
		t.Errorf("%v, scale %v, want %v, 1", list, scale, weights)
	}
}

// FedBuff (Nguyen et al. 2022): s(τ) = 1/√(1+τ). Its update Σ s_c Δ_c / n is
// ours times the mean of s.
func TestByStaleness_EqualsFedBuff(t *testing.T) {
	got := ByStaleness(Equal(2), []int{0, 3}, 0.5)
	for i, want := range []float64{2. / 3, 1. / 3} {
		if math.Abs(got[i]-want) > 1e-15 {
			t.Errorf("weight %d is %v, want %v", i, got[i], want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		staleness := rapid.SliceOfN(rapid.IntRange(0, min(1<<31, math.MaxInt)), 1, 30).Draw(t, "staleness")
		exponent := rapid.SampledFrom([]float64{0, 0.25, 0.5, 1, 1.7, 3, 16}).Draw(t, "exponent")
		mean := 0.0
		s := make([]float64, len(staleness))
		for i, tau := range staleness {
			s[i] = math.Pow(1+float64(tau), -exponent)
			mean += s[i] / float64(len(s))
		}
		total := 0.0
		for i, w := range ByStaleness(Equal(len(s)), staleness, exponent) {
			total += w
			if want := s[i] / float64(len(s)); math.Abs(w*mean-want) > 1e-12*want {
				t.Fatalf("client %d weighs %v, want %v", i, w*mean, want)
			}
		}
		if math.Abs(total-1) > 1e-12 {
			t.Fatalf("the weights sum to %v", total)
		}
	})
}

// Where nobody is staler than others, weights stay what they are.
func TestByStaleness_EquallyStale(t *testing.T) {
	weights, err := BySamples([]int{3, 5, 9})
	if err != nil {
		t.Fatal(err)
	}
	if got := ByStaleness(weights, []int{4, 4, 4}, 0.5); !slices.Equal(got, weights) {
		t.Error(cmp.Diff(weights, got))
	}
	if got := ByStaleness(weights, []int{1, 2, 3}, 0); !slices.Equal(got, weights) {
		t.Error(cmp.Diff(weights, got))
	}
}

// Every weight is its client's, whatever the order of the list.
func TestWeights_AnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights, steps := sampled(t)
		staleness := make([]int, len(weights))
		for i := range staleness {
			staleness[i] = rapid.IntRange(0, 20).Draw(t, "staleness")
		}
		a := FedNova{Staleness: Default.Staleness}
		want, scale := a.Weigh(weights, steps, staleness)
		order := rapid.Permutation(indices(len(weights))).Draw(t, "order")
		w, k, s := make([]float64, len(order)), make([]int, len(order)), make([]int, len(order))
		for i, j := range order {
			w[i], k[i], s[i] = weights[j], steps[j], staleness[j]
		}
		got, second := a.Weigh(w, k, s)
		if second != scale {
			t.Fatalf("scale %v in one order, %v in another", scale, second)
		}
		for i, j := range order {
			if got[i] != want[j] {
				t.Fatalf("client %d weighs %v in one order and %v in another", j, want[j], got[i])
			}
		}
	})
}

// A client that does not tell its samples weighs as the mean of those that do.
func TestWeights_UnreportedSamples(t *testing.T) {
	for _, test := range []struct{ samples, want []int }{
		{[]int{10, 0, 21}, []int{10, 16, 21}},
		{[]int{0, 0}, []int{1, 1}},
		{[]int{5, 6}, []int{5, 6}},
		{nil, nil},
	} {
		if got := FillUnreported(slices.Clone(test.samples)); !slices.Equal(got, test.want) {
			t.Errorf("%v becomes %v, want %v", test.samples, got, test.want)
		}
	}
}
