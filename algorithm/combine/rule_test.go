package combine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "fedpace/internal/testkit/testseed"

	"fedpace/algorithm"
)

// naive are the rules as their papers define them, in float64 and without regard to time:
// what they make of updates with weights that come to 1, of which so many may be false.
var naive = []struct {
	name string
	rule Rule
	of   func(updates [][]float64, weights []float64, liars int) []float64
}{
	{"median", Median{}, func(updates [][]float64, _ []float64, _ int) []float64 { return eachColumn(updates, middle) }},
	{"trimmed_mean", TrimmedMean{Byzantine: Byzantine{0.2}}, func(updates [][]float64, _ []float64, liars int) []float64 {
		return trimmedMean(updates, liars)
	}},
	{"krum", Krum{Byzantine: Byzantine{0.2}}, func(updates [][]float64, _ []float64, liars int) []float64 {
		return updates[krumOrder(updates, liars)[0]]
	}},
	{"multi_krum", MultiKrum{Byzantine: Byzantine{0.2}}, func(updates [][]float64, weights []float64, liars int) []float64 {
		return weightedMean(updates, weights, krumOrder(updates, liars)[:max(1, len(updates)-liars)])
	}},
	{"multi_krum keep 3", MultiKrum{Byzantine: Byzantine{0.2}, Keep: 3}, func(updates [][]float64, weights []float64, liars int) []float64 {
		return weightedMean(updates, weights, krumOrder(updates, liars)[:min(3, len(updates))])
	}},
	{"geometric_median", GeometricMedian{Iterations: 20000, Smoothing: 1e-9}, geometricMedian},
	{"nnm then trimmed_mean", NNM{Byzantine: Byzantine{0.2}}, func(updates [][]float64, _ []float64, liars int) []float64 {
		return trimmedMean(nearestMeans(updates, liars), liars)
	}},
	{"nnm then krum", NNM{Byzantine: Byzantine{0.2}, Then: "krum"}, func(updates [][]float64, _ []float64, liars int) []float64 {
		mixed := nearestMeans(updates, liars)
		return mixed[krumOrder(mixed, liars)[0]]
	}},
	{"nnm then median", NNM{Byzantine: Byzantine{0.2}, Then: "median"}, func(updates [][]float64, _ []float64, liars int) []float64 {
		return eachColumn(nearestMeans(updates, liars), middle)
	}},
}

func middle(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func trimmedMean(updates [][]float64, liars int) []float64 {
	return eachColumn(updates, func(x []float64) (sum float64) {
		for left := liars; left > 0 && len(x) > 2; left-- {
			x = x[1 : len(x)-1]
		}
		for _, v := range x {
			sum += v
		}
		return sum / float64(len(x))
	})
}

// nearestMeans are the means of Algorithm 2 of Allouah et al. (2023): the updates are sorted by
// their distance to each, and the first n - f are averaged.
func nearestMeans(updates [][]float64, liars int) (list [][]float64) {
	for _, u := range updates {
		order := numbers(len(updates))
		sort.SliceStable(order, func(a, b int) bool { return between(u, updates[order[a]]) < between(u, updates[order[b]]) })
		list = append(list, weightedMean(updates, algorithm.Equal(len(updates)), order[:max(1, len(updates)-liars)]))
	}
	return list
}

func eachColumn(updates [][]float64, of func(sorted []float64) float64) []float64 {
	out := make([]float64, len(updates[0]))
	for i := range out {
		var column []float64
		for _, u := range updates {
			column = append(column, u[i])
		}
		sort.Float64s(column)
		out[i] = of(column)
	}
	return out
}

func between(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += math.Pow(a[i]-b[i], 2)
	}
	return math.Sqrt(sum)
}

func weightedMean(updates [][]float64, weights []float64, which []int) []float64 {
	out, total := make([]float64, len(updates[0])), 0.0
	for _, c := range which {
		total += weights[c]
	}
	for _, c := range which {
		for i, x := range updates[c] {
			out[i] += weights[c] / total * x
		}
	}
	return out
}

// krumOrder is the definition of section 4: i → j for the n − f − 2 closest vectors j ≠ i.
func krumOrder(updates [][]float64, liars int) (order []int) {
	for _, u := range krumScores(updates, liars) {
		order = append(order, u.id)
	}
	return order
}

type scored struct {
	score float64
	id    int
}

// krumScores are the updates from the least score on.
func krumScores(updates [][]float64, liars int) (list []scored) {
	for i, u := range updates {
		var others []float64
		for j, v := range updates {
			if i != j {
				others = append(others, math.Pow(between(u, v), 2))
			}
		}
		sort.Float64s(others)
		sum := 0.0
		for k := 0; k < len(others) && k < max(1, len(updates)-liars-2); k++ {
			sum += others[k]
		}
		list = append(list, scored{sum, i})
	}
	sort.Slice(list, func(a, b int) bool {
		if list[a].score != list[b].score {
			return list[a].score < list[b].score
		}
		return list[a].id < list[b].id
	})
	return list
}

// geometricMedian descends the objective in the space of the parameters: Weiszfeld's steps
// from the coordinate-wise median on.
func geometricMedian(updates [][]float64, weights []float64, _ int) []float64 {
	v := eachColumn(updates, func(x []float64) float64 { return x[len(x)/2] })
	for range 20000 {
		next, total := make([]float64, len(v)), 0.0
		for c, u := range updates {
			w := weights[c] / math.Max(1e-9, between(v, u))
			total += w
			for i, x := range u {
				next[i] += w * x
			}
		}
		for i := range next {
			next[i] /= total
		}
		v = next
	}
	return v
}

// exact are updates in units of 2^-44.
func exact(updates [][]float64) [][]int64 {
	list := make([][]int64, len(updates))
	for c, u := range updates {
		for _, x := range u {
			list[c] = append(list[c], int64(math.RoundToEven(x*algorithm.Unit)))
		}
	}
	return list
}

func combined(rule Rule, updates [][]int64, weights []float64) []float64 {
	sum := make([]int64, len(updates[0]))
	for i := range sum {
		sum[i] = 77 // which the rule overwrites
	}
	rule.Combine(sum, updates, weights)
	out := make([]float64, len(sum))
	for i, s := range sum {
		out[i] = algorithm.Delta(s, 1)
	}
	return out
}

// drawn are n updates around (1, -1, 1, ...), of which some lie far away.
func drawn(n, params, liars int, seed uint64) [][]float64 {
	r := rand.New(rand.NewPCG(seed, 1))
	list := make([][]float64, n)
	for c := range list {
		for i := range params {
			x := float64(1-2*(i%2)) + r.NormFloat64()
			if c < liars {
				x = float64(1000*(1+c%2)) * (r.Float64() - 0.2)
			}
			list[c] = append(list[c], x)
		}
	}
	r.Shuffle(n, func(a, b int) { list[a], list[b] = list[b], list[a] })
	return list
}

func TestRules_AgreeWithPapers(t *testing.T) {
	for _, test := range naive {
		for _, n := range []int{1, 2, 3, 4, 5, 8, 11, 20} {
			for seed := range uint64(3) {
				if n == 2 && test.name == "geometric_median" { // which is all that is between them
					continue
				}
				liars := int(math.Ceil(0.2 * float64(n)))
				updates := drawn(n, 7, liars, seed)
				weights := algorithm.Equal(n)
				got, want := combined(test.rule, exact(updates), weights), test.of(updates, weights, liars)
				if d := between(got, want); !(d < 1e-6) {
					t.Errorf("%s of %d updates, seed %d: %v, want %v (apart %g)", test.name, n, seed, got, want, d)
				}
			}
		}
	}
}

// Weights by age: the geometric median and the mean of multi-Krum follow them.
func TestRules_AveragesFollowWeights(t *testing.T) {
	updates := drawn(9, 5, 2, 4)
	weights := []float64{0.2, 0.05, 0.1, 0.15, 0.1, 0.1, 0.05, 0.05, 0.2}
	for _, test := range naive {
		got, want := combined(test.rule, exact(updates), weights), test.of(updates, weights, 2)
		if d := between(got, want); !(d < 1e-6) {
			t.Errorf("%s: %v, want %v", test.name, got, want)
		}
	}
}

// At the geometric median the unit vectors towards the updates cancel (Pillutla et al. 2022,
// the optimality condition of Eq. 6), whatever way led there.
func TestGeometricMedian_ForcesCancel(t *testing.T) {
	updates := drawn(15, 30, 5, 9)
	v := combined(GeometricMedian{Iterations: 1000, Smoothing: 1e-9}, exact(updates), algorithm.Equal(15))
	force := make([]float64, len(v))
	for _, u := range updates {
		d := between(v, u)
		for i := range v {
			force[i] += (u[i] - v[i]) / d / 15
		}
	}
	if f := between(force, make([]float64, len(v))); f > 1e-9 {
		t.Errorf("a force of %g is left", f)
	}
}

func TestRules_WorkedValues(t *testing.T) {
	updates := [][]int64{{1, -5, 9}, {2, -5, 0}, {4, 8, 0}, {7, -6, -1 << 60}}
	for _, test := range []struct {
		rule Rule
		want []int64
	}{
		{Median{}, []int64{3, -5, 0}},
		{TrimmedMean{Byzantine: Byzantine{0.25}}, []int64{3, -5, 0}},
		{TrimmedMean{Byzantine: Byzantine{0}}, []int64{4, -2, -1 << 58}}, // (14/4, -8/4), rounded to even
		{TrimmedMean{Byzantine: Byzantine{0.49}}, []int64{3, -5, 0}},     // two are left at least
		{Krum{Byzantine: Byzantine{0}}, []int64{2, -5, 0}},
		{MultiKrum{Byzantine: Byzantine{0}, Keep: 2}, []int64{1, -4, 4}}, // of the first two: each half is rounded to even by itself
	} {
		got := make([]int64, 3)
		test.rule.Combine(got, updates, algorithm.Equal(4))
		if !slices.Equal(got, test.want) {
			t.Errorf("%+v: %v, want %v", test.rule, got, test.want)
		}
	}
}

func TestRules_HalvesRoundToEven(t *testing.T) {
	for x, want := range map[int64]int64{-3: -2, -2: -1, -1: 0, 0: 0, 1: 0, 2: 1, 3: 2, 5: 2, 1<<62 - 1: 1 << 61} {
		if got := halve(x); got != want {
			t.Errorf("half of %d is %d, want %d", x, got, want)
		}
	}
}

// Equal scores: the first update counts, as with the smallest identifier of the paper.
func TestRules_FirstOfEqualScores(t *testing.T) {
	updates := exact([][]float64{{9, 9}, {0, 1}, {1, 0}, {0, -1}, {-1, 0}})
	got := make([]int64, 2)
	Krum{Byzantine: Byzantine{0.2}}.Combine(got, updates, algorithm.Equal(5))
	if !slices.Equal(got, updates[1]) {
		t.Errorf("%v, want the first of the four that are alike, %v", got, updates[1])
	}
}

func TestRules_ByzantineCount(t *testing.T) {
	for _, test := range []struct {
		share float64
		n     int
		want  int
	}{{0.2, 40, 8}, {0.2, 38, 8}, {0.2, 1, 1}, {0, 40, 0}, {0.07, 100, 7}, {0.1, 30, 3}, {0.29, 100, 29}} {
		if got := (Byzantine{test.share}).Count(test.n); got != test.want {
			t.Errorf("%g of %d are %d, want %d", test.share, test.n, got, test.want)
		}
	}
}

// Who comes first does not matter, and a rule moves with its updates: to the unit by
// integers, to rounding otherwise.
func TestRules_OrderAndOrigin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "n")
		updates := drawn(n, 6, n/4, rapid.Uint64().Draw(t, "seed"))
		moved := rapid.SliceOfN(rapid.Float64Range(-100, 100), 6, 6).Draw(t, "moved")
		order := rapid.Permutation(numbers(n)).Draw(t, "order")
		var shuffled, shifted [][]float64
		for _, c := range order {
			shuffled = append(shuffled, updates[c])
		}
		for _, u := range updates {
			var s []float64
			for i, x := range u {
				s = append(s, x+moved[i])
			}
			shifted = append(shifted, s)
		}
		for _, test := range naive {
			// Of equal scores the first counts: those of the nearest two of few updates, and those of
			// means that leave out the same update.
			liars, scored := int(math.Ceil(0.2*float64(n))), updates
			if strings.HasPrefix(test.name, "nnm") {
				scored = nearestMeans(updates, liars)
			}
			if s := krumScores(scored, liars); strings.Contains(test.name, "krum") && n > 1 && (n <= 4 || s[1].score-s[0].score < 1e-9) {
				continue
			}
			want := combined(test.rule, exact(updates), algorithm.Equal(n))
			got := combined(test.rule, exact(shuffled), algorithm.Equal(n))
			if d := between(got, want); d > 1e-9 {
				t.Fatalf("%s of %d updates in another order: %v, want %v", test.name, n, got, want)
			}
			back := combined(test.rule, exact(shifted), algorithm.Equal(n))
			for i := range back {
				back[i] -= moved[i]
			}
			if d := between(back, want); d > 1e-6 {
				t.Fatalf("%s moved by %v: %v, want %v", test.name, moved, back, want)
			}
		}
	})
}

func numbers(n int) (list []int) {
	for i := range n {
		list = append(list, i)
	}
	return list
}

// Whatever 8 of 40 say, the result stays with the other 32, where the mean goes where the
// liars want it.
func TestRules_BoundByzantineClients(t *testing.T) {
	const n, liars, params = 40, 8, 20
	honest := drawn(n-liars, params, 0, 3)
	center := weightedMean(honest, algorithm.Equal(n-liars), numbers(n-liars))
	radius := 0.0
	for _, u := range honest {
		radius = max(radius, between(u, center))
	}
	for name, lie := range map[string]func(c, i int) float64{
		"far":       func(_, _ int) float64 { return 1e5 },
		"apart":     func(c, i int) float64 { return 1e5 * float64(1-2*((c+i)%2)) },
		"reversed":  func(_, i int) float64 { return -10 * center[i] },
		"a bit off": func(_, i int) float64 { return center[i] + 3 },
	} {
		updates := slices.Clone(honest)
		for c := range liars {
			var u []float64
			for i := range params {
				u = append(u, lie(c, i))
			}
			updates = append(updates, u)
		}
		for _, test := range naive {
			if d := between(combined(test.rule, exact(updates), algorithm.Equal(n)), center); d > radius {
				t.Errorf("%s where liars are %s: %g from the others' mean, whose updates are within %g", test.name, name, d, radius)
			}
		}
	}
}

func BenchmarkRules(b *testing.B) {
	const n, params = 40, 1 << 18
	r := rand.New(rand.NewPCG(1, 2))
	updates := make([][]int64, n)
	for c := range updates {
		for range params {
			updates[c] = append(updates[c], int64(r.NormFloat64()*algorithm.Unit))
		}
	}
	for _, name := range Rules.Names() {
		b.Run(fmt.Sprintf("%s/updates=%d/params=%d", name, n, params), func(b *testing.B) {
			rule, _ := Rules.Entry(name)
			if name == "geometric_median" {
				rule = GeometricMedian{Iterations: 100, Smoothing: 1e-6}
			}
			dst := make([]int64, params)
			for b.Loop() {
				rule.Combine(dst, updates, algorithm.Equal(n))
			}
		})
	}
}

// Where each client has samples of one class, a rule takes what most clients have in common, which
// is nothing. Behind the mixing it comes nearer to the mean of the honest.
func TestMixing_HeterogeneousClients(t *testing.T) {
	const n, liars, classes = 40, 8, 10
	r := rand.New(rand.NewPCG(5, 6))
	honest := make([][]float64, n-liars)
	for c := range honest {
		for i := range classes {
			x := 0.1 * r.NormFloat64()
			if i == c%classes {
				x += classes
			}
			honest[c] = append(honest[c], x)
		}
	}
	center := weightedMean(honest, algorithm.Equal(n-liars), numbers(n-liars))
	updates := slices.Clone(honest)
	for range liars {
		u := slices.Clone(center)
		for i := range u {
			u[i] *= -1
		}
		updates = append(updates, u)
	}
	off := func(rule Rule) float64 { return between(combined(rule, exact(updates), algorithm.Equal(n)), center) }
	share := Byzantine{0.2}
	for _, rule := range []Rule{Krum{Byzantine: share}, Median{}, TrimmedMean{Byzantine: share}} {
		name := Rules.NameOf(rule)
		alone, mixed := off(rule), off(NNM{Byzantine: share, Then: name})
		t.Logf("%s: %.3f from the honest mean, %.3f behind the mixing", name, alone, mixed)
		if !(mixed < alone/2) {
			t.Errorf("%s: %g from the honest mean, %g behind the mixing", name, alone, mixed)
		}
	}
}

// The mixed updates are held beside the others, and thinned ones are mixed where the rule behind
// takes them.
func TestMixing_Needs(t *testing.T) {
	if n, want := (Setup{Rule: NNM{}}).Bytes(10, 7), 2*(Setup{Rule: Krum{}}).Bytes(10, 7); n != want {
		t.Errorf("%d bytes, want %d", n, want)
	}
	c, ok := algorithm.Compressions.Entry("top_k")
	if !ok {
		t.Fatal("no top_k")
	}
	for then, fits := range map[string]bool{"trimmed_mean": false, "median": false, "krum": true, "multi_krum": true, "geometric_median": true} {
		if err := (Setup{Rule: NNM{Then: then}}).Check(algorithm.FedAvg{Rate: 1}, c); (err == nil) != fits {
			t.Errorf("%s: %v", then, err)
		}
		if err := (NNM{Byzantine: Byzantine{0.4}, Then: then}).Validate(10); (err != nil) != strings.Contains(then, "krum") {
			t.Errorf("%s of 10 of which 4 lie: %v", then, err)
		}
	}
}

// By default the geometric median stands nearly half of all lying, however far they lie: the
// step that leaves them is small then, so that it takes hundreds.
func TestGeometricMedian_NearHalfByzantine(t *testing.T) {
	const n, params = 100, 1000
	rule := NNM{Then: "geometric_median"}.thenRule() // which has the default steps
	for _, lie := range []int64{10, 1e4, 6e4} {
		r := rand.New(rand.NewPCG(1, 2))
		updates := make([][]int64, n)
		for i := range updates {
			updates[i] = make([]int64, params)
			for p := range updates[i] {
				updates[i][p] = int64(0.01 * r.NormFloat64() * algorithm.Unit)
				if i < 48 {
					updates[i][p] = lie * algorithm.Unit
				}
			}
		}
		got := make([]int64, params)
		rule.Combine(got, updates, algorithm.Equal(n))
		if norm, honest := Norm(got), Norm(updates[n-1]); norm > 4*honest {
			t.Errorf("lies of %d move the median by %g, an honest update has the norm %g", lie, norm, honest)
		}
	}
}
