package algorithm_test

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	. "fedpace/algorithm"
	"fedpace/learn"
)

// Worked terms: roundToEven(2^44 · w · (x − model)).
func TestTerm(t *testing.T) {
	const unit = 0x1p-44
	for _, c := range []struct {
		w        float64
		x, model float32
		want     int64
	}{
		{1, 1, 0, 1 << 44},
		{1, 0, 1, -1 << 44},
		{0.25, 3, 1, 1 << 43},
		{1, 5, 5, 0},
		{0, 5, 1, 0},
		{1, 0.5 * unit, 0, 0}, // ties go to the even neighbour
		{1, 1.5 * unit, 0, 2},
		{1, 2.5 * unit, 0, 2},
		{1, 3.5 * unit, 0, 4},
		{1, -0.5 * unit, 0, 0},
		{1, -1.5 * unit, 0, -2},
		{1, -2.5 * unit, 0, -2},
		{0.5, 3 * unit, 0, 2}, // the weighted difference is what ties
		{1, 0x1.000002p-1 * unit, 0, 1},
		{1, 1e-30, 0, 0},
		{1. / 3, 1, 0, 5864062014805}, // 2^44/3 = 5864062014805.33
		{2. / 3, 1, 0, 11728124029611},
		{1, 131071.99, 0, 0x1.fffffep+16 * Unit}, // the float32 next below 2^17 is 131071.99
	} {
		sum := []int64{7}
		if err := Add(sum, c.w, []float32{c.x}, []float32{c.model}); err != nil {
			t.Fatal(err)
		}
		if got := sum[0] - 7; got != c.want {
			t.Errorf("w %v, x %v, model %v: term %d, want %d", c.w, c.x, c.model, got, c.want)
		}
	}
}

// models draws a global model and those of some clients, at most scale away.
func models(t *rapid.T) (model []float32, clients [][]float32, weights []float64) {
	width := rapid.IntRange(1, 20).Draw(t, "parameters")
	n := rapid.IntRange(1, 12).Draw(t, "clients")
	scale := math.Ldexp(1, rapid.IntRange(-50, 16).Draw(t, "log2 of the difference"))
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	value := func() float32 { return float32((2*r.Float64() - 1) * scale) }
	samples := make([]int, n)
	for range width {
		model = append(model, value())
	}
	for c := range n {
		x := make([]float32, width)
		for i := range x {
			x[i] = value()
		}
		clients = append(clients, x)
		samples[c] = 1 + r.IntN(1000)
	}
	weights = Equal(n)
	if rapid.Bool().Draw(t, "by samples") {
		var err error
		weights, err = BySamples(samples)
		if err != nil {
			t.Fatal(err)
		}
	}
	return model, clients, weights
}

// Whatever the order of clients and their grouping into partial sums, the sum
// is the same to the bit.
func TestSum_OrderAndGrouping(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		model, clients, weights := models(t)
		want := make([]int64, len(model))
		for c, x := range clients {
			if err := Add(want, weights[c], x, model); err != nil {
				t.Fatal(err)
			}
		}
		order := rapid.Permutation(indices(len(clients))).Draw(t, "order")
		groups := rapid.IntRange(1, len(clients)).Draw(t, "groups")
		partial := make([][]int64, groups)
		for g := range partial {
			partial[g] = make([]int64, len(model))
		}
		for _, c := range order {
			g := rapid.IntRange(0, groups-1).Draw(t, "group")
			if err := Add(partial[g], weights[c], clients[c], model); err != nil {
				t.Fatal(err)
			}
		}
		got := make([]int64, len(model))
		for _, p := range partial {
			if err := Merge(got, p); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func indices(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// Each term is what arbitrary precision makes of the formula, and the model
// that comes out is the weighted mean up to the roundings that are allowed.
func TestSum_ArbitraryPrecision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		model, clients, weights := models(t)
		sum := make([]int64, len(model))
		want := make([]int64, len(model))
		mean := make([]float64, len(model))
		for c, x := range clients {
			if err := Add(sum, weights[c], x, model); err != nil {
				t.Fatal(err)
			}
			for i := range x {
				want[i] += preciseTerm(weights[c], x[i], model[i])
				mean[i] += weights[c] * float64(x[i])
			}
		}
		if diff := cmp.Diff(want, sum); diff != "" {
			t.Fatal(diff)
		}
		next := slices.Clone(model)
		FedAvg{Rate: 1}.Server(1).Apply(next, sum, 1)
		for i := range next {
			size := math.Abs(float64(model[i])) + math.Abs(mean[i])
			allowed := float64(len(clients))*0x1p-45 + size*0x1p-24
			if math.Abs(float64(next[i])-mean[i]) > allowed {
				t.Fatalf("parameter %d becomes %v, the mean is %v", i, next[i], mean[i])
			}
		}
	})
}

func preciseTerm(w float64, x, model float32) int64 {
	exact := func(v float64) *big.Float { return new(big.Float).SetPrec(2000).SetFloat64(v) }
	d := exact(0).Sub(exact(float64(x)), exact(float64(model)))
	d64, _ := d.Float64()
	product := exact(0).Mul(exact(w), exact(d64))
	product.Mul(product, exact(0x1p44))
	p64, _ := product.Float64() // one rounding, to nearest even
	whole, _ := exact(p64).Int(nil)
	rest := exact(0).Sub(exact(p64), exact(0).SetInt(whole))
	odd := whole.Bit(0) == 1
	switch half := rest.Abs(rest).Cmp(exact(0.5)); {
	case half > 0 || half == 0 && odd:
		whole.Add(whole, big.NewInt(int64(math.Copysign(1, p64))))
	}
	return whole.Int64()
}

// Weights that sum to 1 keep the largest admissible differences, all of one
// sign, below the limit, in whichever partial sums.
func TestSum_BelowLimit(t *testing.T) {
	far := math.Nextafter32(MaxDifference, 0)
	rapid.Check(t, func(t *rapid.T) {
		samples := rapid.SliceOfN(rapid.IntRange(1, min(1<<40, math.MaxInt)), 1, 300).Draw(t, "samples")
		weights, err := BySamples(samples)
		if err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "equal") {
			weights = Equal(len(samples))
		}
		total := make([]int64, 2)
		for _, w := range weights {
			part := make([]int64, 2)
			if err := Add(part, w, []float32{far, -far}, []float32{0, 0}); err != nil {
				t.Fatal(err)
			}
			if err := Merge(total, part); err != nil {
				t.Fatal(err)
			}
		}
		if total[0] > 1<<61+1<<31 || total[1] != -total[0] {
			t.Fatalf("sum %d of differences of nearly 2^17 passes 2^61", total)
		}
	})
}

func TestMerge_Refuses(t *testing.T) {
	for _, c := range []struct {
		name         string
		dst, partial int64
		want         string
	}{
		{"a partial sum beyond the limit", 0, Limit + 1, "parameter 1 of a partial sum"},
		{"the least integer", 0, math.MinInt64, "parameter 1 of a partial sum"},
		{"a sum beyond the limit", Limit, 1, "parameter 1 of a sum comes to"},
		{"below it", -Limit, -1, "parameter 1 of a sum comes to"},
		{"a sum that was wrong before", -Limit - 1, 1, "parameter 1 of a sum is"},
	} {
		err := Merge([]int64{0, c.dst}, []int64{0, c.partial})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want it to say %q", c.name, err, c.want)
		}
	}
	dst := []int64{Limit - 1, -Limit + 1}
	if err := Merge(dst, []int64{1, -1}); err != nil {
		t.Errorf("sums at the limit: %v", err)
	}
}

// Merge finds exactly what [Limit] says, wherever the elements lie: it looks at
// most sums only as far as they are clearly inside.
func TestMerge_AroundLimits(t *testing.T) {
	edge := rapid.Custom(func(t *rapid.T) int64 {
		at := rapid.SampledFrom([]int64{0, 1 << 61, -1 << 61, Limit, -Limit, math.MaxInt64, math.MinInt64}).Draw(t, "at")
		return at + rapid.Int64Range(-3, 3).Draw(t, "beside")
	})
	inside := func(s int64) bool { return -Limit <= s && s <= Limit }
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 5).Draw(t, "n")
		dst := rapid.SliceOfN(edge, n, n).Draw(t, "sum")
		partial := rapid.SliceOfN(edge, n, n).Draw(t, "partial sum")
		want, fine := make([]int64, n), true
		for i := range want {
			want[i] = dst[i] + partial[i]
			fine = fine && inside(dst[i]) && inside(partial[i]) && inside(want[i])
		}
		if err := Merge(dst, partial); (err == nil) != fine {
			t.Fatalf("%v, want an error: %v", err, !fine)
		}
		if fine && !slices.Equal(dst, want) {
			t.Fatalf("the sum is %v, want %v", dst, want)
		}
	})
}

// Differences of 2^17 or more, or not finite, are refused by index, and
// nothing is added.
func TestSum_RefusedDifferences(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		x, model float32
		refused  bool
	}{
		{1 << 17, 0, true},
		{-1 << 17, 0, true},
		{1 << 16, -1 << 16, true},
		{1<<17 - 1, 0, false},
		{131071.99, 0, false},
		{1 << 30, 1 << 30, false}, // far from 0 together
		{nan, 0, true},
		{0, nan, true},
		{inf, 0, true},
		{inf, inf, true}, // their difference is not a number
		{math.MaxFloat32, -math.MaxFloat32, true},
	} {
		x := []float32{1, 2, c.x, c.x}
		model := []float32{0, 0, c.model, c.model}
		sum := []int64{5, 6, 7, 8}
		err := Add(sum, 0.5, x, model)
		var difference *DifferenceError
		if c.refused != errors.As(err, &difference) {
			t.Errorf("x %v, model %v: %v, want refused %v", c.x, c.model, err, c.refused)
			continue
		}
		if c.refused {
			if difference.Index != 2 || !strings.Contains(err.Error(), "parameter 2 ") {
				t.Errorf("x %v, model %v: %v, want it to name parameter 2", c.x, c.model, err)
			}
			if diff := cmp.Diff([]int64{5, 6, 7, 8}, sum); diff != "" {
				t.Errorf("a refused update was added: %s", diff)
			}
		}
	}
}

// The clients' own kernel computes the same terms and refuses the same.
func TestSum_KernelAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		model, clients, weights := models(t)
		if rapid.IntRange(0, 3).Draw(t, "spoilt") == 0 {
			i := rapid.IntRange(0, len(model)-1).Draw(t, "parameter")
			clients[0][i] = rapid.SampledFrom([]float32{float32(math.NaN()), 1e9, float32(math.Inf(-1))}).Draw(t, "value")
		}
		for c, x := range clients {
			want, got := make([]int64, len(model)), make([]int64, len(model))
			bad := -1
			var difference *DifferenceError
			if err := Add(want, weights[c], x, model); errors.As(err, &difference) {
				bad = difference.Index
			}
			if index := learn.AddExact(got, weights[c], x, model); index != bad {
				t.Fatalf("the kernel refuses parameter %d, want %d", index, bad)
			}
			if bad < 0 && !slices.Equal(got, want) {
				t.Fatalf("the kernel's terms are %v, want %v", got, want)
			}
		}
	})
}

func TestApply(t *testing.T) {
	model := []float32{1, -2, 0, 3}
	FedAvg{Rate: 1}.Server(1).Apply(model, []int64{Unit / 2, -Unit, 1, 0}, 1)
	if diff := cmp.Diff([]float32{1.5, -3, 0x1p-44, 3}, model); diff != "" {
		t.Error(diff)
	}
}

// One client of weight 1 is copied where its distance is a multiple of 2^-44.
func TestApply_OneClient(t *testing.T) {
	model, x := []float32{0.5, -0.25}, []float32{0.7, 0.1}
	sum := make([]int64, 2)
	if err := Add(sum, 1, x, model); err != nil {
		t.Fatal(err)
	}
	FedAvg{Rate: 1}.Server(1).Apply(model, sum, 1)
	if diff := cmp.Diff(x, model); diff != "" {
		t.Error(diff)
	}
}

func TestWeights(t *testing.T) {
	if diff := cmp.Diff([]float64{0.25, 0.25, 0.25, 0.25}, Equal(4)); diff != "" {
		t.Error(diff)
	}
	if got := Equal(0); len(got) != 0 {
		t.Errorf("Equal(0) = %v", got)
	}
	got, err := BySamples([]int{1, 3, 4})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]float64{0.125, 0.375, 0.5}, got); diff != "" {
		t.Error(diff)
	}
	refused := map[string][]int{
		"client 2 of 3 has 0":  {4, 0, 1},
		"client 1 of 1 has -5": {-5},
	}
	if math.MaxInt > math.MaxInt32 { // else no two clients have so many
		refused["9007199254740992 or more"] = []int{min(1<<52, math.MaxInt), min(1<<52, math.MaxInt)}
		refused["740992 or more"] = []int{math.MaxInt, math.MaxInt}
	}
	for want, samples := range refused {
		if _, err := BySamples(samples); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("BySamples(%v): %v, want it to say %q", samples, err, want)
		}
	}
}

// A client's weight does not depend on its place among the others.
func TestSum_WeightsInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples := rapid.SliceOfN(rapid.IntRange(1, 1e6), 1, 50).Draw(t, "samples")
		order := rapid.Permutation(indices(len(samples))).Draw(t, "order")
		shuffled := make([]int, len(samples))
		for i, j := range order {
			shuffled[i] = samples[j]
		}
		a, err := BySamples(samples)
		if err != nil {
			t.Fatal(err)
		}
		b, err := BySamples(shuffled)
		if err != nil {
			t.Fatal(err)
		}
		for i, j := range order {
			if b[i] != a[j] {
				t.Fatalf("client %d weighs %v in one order and %v in another", j, a[j], b[i])
			}
		}
	})
}

func TestSum_MisusePanics(t *testing.T) {
	one, two := make([]float32, 1), make([]float32, 2)
	for name, f := range map[string]func(){
		"Check":         func() { _ = Check(one, two) },
		"Add":           func() { _ = Add(make([]int64, 2), 1, one, one) },
		"Add to model":  func() { _ = Add(make([]int64, 1), 1, one, two) },
		"weight of 1.5": func() { _ = Add(make([]int64, 1), 1.5, one, one) },
		"weight of NaN": func() { _ = Add(make([]int64, 1), math.NaN(), one, one) },
		"Merge":         func() { _ = Merge(make([]int64, 1), make([]int64, 2)) },
		"Apply":         func() { FedAvg{Rate: 1}.Server(1).Apply(two, make([]int64, 1), 1) },
		"another size":  func() { FedAdam{Rate: 1, Tau: 1}.Server(3).Apply(two, make([]int64, 2), 1) },
		"and momentum":  func() { FedAvgM{Rate: 1}.Server(3).Apply(two, make([]int64, 2), 1) },
		"stale by -1":   func() { ByStaleness([]float64{1}, []int{-1}, 0.5) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

func BenchmarkMergeAndApply(b *testing.B) {
	const n = 209_662 // FEMNIST's parameters
	sum, part, model := make([]int64, n), make([]int64, n), make([]float32, n)
	for i := range part {
		part[i] = int64(i-n/2) << 4
	}
	b.SetBytes(8 * n)
	for b.Loop() {
		clear(sum)
		if err := Merge(sum, part); err != nil {
			b.Fatal(err)
		}
		FedAvg{Rate: 1}.Server(1).Apply(model, sum, 1)
	}
}
