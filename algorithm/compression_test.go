package algorithm_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	. "fedpace/algorithm"
	"fedpace/internal/keyed"
	_ "fedpace/internal/testkit/testseed"
	"fedpace/registry"
)

// vector is an update of unequal values, some of them zero.
func vector(n int) []float32 {
	r := rand.New(rand.NewPCG(3, 4))
	v := make([]float32, n)
	for i := range v {
		if i%7 != 3 {
			v[i] = float32(r.NormFloat64() * math.Pow(2, float64(i%5)))
		}
	}
	return v
}

func norm2(v []float32) (sum float64) {
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	return sum
}

// moments draws a compression often: the mean of each value, and the mean of the
// squared distance.
func moments(c Compression, v []float32, draws int) (mean []float64, distance float64) {
	compressor := c.Compressor(len(v))
	mean = make([]float64, len(v))
	for n := range draws {
		got := slices.Clone(v)
		compressor.Compress(got, keyed.Source(7, keyed.Compression, 5, uint64(n)))
		for i, x := range got {
			mean[i] += float64(x) / float64(draws)
			distance += (float64(x) - float64(v[i])) * (float64(x) - float64(v[i])) / float64(draws)
		}
	}
	return mean, distance
}

// The mean and the variance of each quantiser are those of its lemma.
func TestCompressions_KeepTheirLemmas(t *testing.T) {
	const d, draws = 60, 20_000
	v := vector(d)
	// The variance of QSGD is the sum of ‖v‖²/s² p (1 − p), p being the chance of the
	// upper level.
	rounding := func(v []float32, s float64) (sum float64) {
		norm := math.Sqrt(norm2(v))
		for _, x := range v {
			a := math.Abs(float64(x)) / norm * s
			p := a - math.Floor(a)
			sum += norm * norm / (s * s) * p * (1 - p)
		}
		return sum
	}
	buckets := 0.0
	for part := range slices.Chunk(v, 16) {
		buckets += rounding(part, 3)
	}
	lemma := func(s float64) float64 { return min(d/(s*s), math.Sqrt(d)/s) * norm2(v) }
	for name, x := range map[string]struct {
		c        Compression
		variance float64
		most     float64 // what the lemma allows
		unbiased bool
	}{
		"qsgd, 1 level":      {QSGD{Levels: 1}, rounding(v, 1), lemma(1), true},
		"qsgd, 4 levels":     {QSGD{Levels: 4}, rounding(v, 4), lemma(4), true},
		"qsgd in buckets":    {QSGD{Levels: 3, Bucket: 16}, buckets, lemma(3), true},
		"random k, unbiased": {RandomK{Share: 0.2}, (d/12. - 1) * norm2(v), math.Inf(1), true},
		"random k, feedback": {RandomK{Share: 0.2, Feedback: true}, (1 - 12./d) * norm2(v), (1 - 12./d) * norm2(v) * 1.05, false},
		"all of them":        {RandomK{Share: 1}, 0, 0, true},
	} {
		mean, distance := moments(x.c, v, draws)
		if math.Abs(distance-x.variance) > 0.05*x.variance {
			t.Errorf("%s: mean squared distance %g, want %g", name, distance, x.variance)
		}
		if distance > x.most {
			t.Errorf("%s: mean squared distance %g is above the lemma's %g", name, distance, x.most)
		}
		// A mean of so many draws is within five of its standard deviations, of which
		// no value's is above that of the whole.
		if within := 5 * math.Sqrt(x.variance/draws); x.unbiased {
			for i := range v {
				if math.Abs(mean[i]-float64(v[i])) > within+1e-6 {
					t.Errorf("%s: the mean of value %d is %g, want %g", name, i, mean[i], v[i])
				}
			}
		}
	}
	for i, m := range first(moments(RandomK{Share: 0.2, Feedback: true}, v, draws)) { // a fifth of each is sent
		if math.Abs(m-0.2*float64(v[i])) > 0.03*math.Abs(float64(v[i])) {
			t.Errorf("random k with feedback: the mean of value %d is %g, want %g", i, m, 0.2*v[i])
		}
	}
}

func first(mean []float64, _ float64) []float64 { return mean }

// TopK keeps what a stable sort by magnitude puts first, which is all that its
// contraction ‖v − p‖² <= (1 − k/d) ‖p‖² asks.
func TestTopK_KeepsLargest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.OneOf(rapid.Float32Range(-1e5, 1e5), rapid.SampledFrom([]float32{0, 1, -1, 1e-40, -1e-40})), 1, 70).Draw(t, "values")
		thousandths := rapid.IntRange(1, 1000).Draw(t, "thousandths")
		share, k := float64(thousandths)/1000, (thousandths*len(values)+999)/1000
		order := indices(len(values))
		slices.SortStableFunc(order, func(a, b int) int {
			return cmp.Compare(math.Abs(float64(values[b])), math.Abs(float64(values[a])))
		})
		want := make([]float32, len(values))
		for _, i := range order[:k] {
			want[i] = values[i]
		}
		got := slices.Clone(values)
		TopK{Share: share}.Compressor(len(values)).Compress(got, nil)
		if !slices.Equal(got, want) {
			t.Fatalf("top %d of %v: %v, want %v", k, values, got, want)
		}
		left := slices.Clone(values)
		for i := range left {
			left[i] -= got[i]
		}
		if most := (1 - float64(k)/float64(len(values))) * norm2(values); norm2(left) > most*(1+1e-9) {
			t.Fatalf("%g is left out, at most %g should be", norm2(left), most)
		}
	})
}

// Four bits hold the level that is nearest, of blocks that each have a scale, which is searched
// for here among all.
func TestFourBit_NearestLevel(t *testing.T) {
	levels := map[string][]float64{"e3m0": {0}, "int4": nil}
	for k := range 8 {
		levels["int4"] = append(levels["int4"], float64(k)/7)
		if k < 7 {
			levels["e3m0"] = append(levels["e3m0"], math.Pow(2, -float64(k)))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.OneOf(rapid.Float32Range(-1e3, 1e3), rapid.Float32Range(-1, 1), rapid.SampledFrom([]float32{0, 1e-30})), 1, 70).Draw(t, "values")
		block := rapid.IntRange(1, 80).Draw(t, "block")
		for format, all := range levels {
			got := slices.Clone(values)
			FourBit{Format: format, Block: block}.Compressor(len(values)).Compress(got, nil)
			for i, x := range values {
				from := i / block * block
				scale := 0.
				for _, y := range values[from:min(from+block, len(values))] {
					scale = max(scale, math.Abs(float64(y)))
				}
				least := math.Inf(1)
				for _, l := range all {
					least = min(least, math.Abs(math.Abs(float64(x))-l*scale))
				}
				if d := math.Abs(float64(got[i]) - float64(x)); d > least*(1+1e-6)+1e-7*scale || float64(got[i])*float64(x) < 0 {
					t.Fatalf("%s in blocks of %d: %g becomes %g, the nearest level is %g away", format, block, x, got[i], least)
				}
			}
		}
	})
}

// Three clients vote on four parameters, the second with as much weight as the others
// together; the sum moves each parameter by a step of 0.25, or not at all.
func TestSign_Majority(t *testing.T) {
	sum, zero := make([]int64, 4), make([]float32, 4)
	c := Sign{Step: 0.25}
	for i, update := range [][]float32{{3, -1, 0, 1e-30}, {-1e-3, -2, 5, 7}, {100, 1, 0, -2}} {
		c.Compressor(4).Compress(update, nil)
		if err := Add(sum, []float64{0.25, 0.5, 0.25}[i], update, zero); err != nil {
			t.Fatal(err)
		}
	}
	c.Decide(sum)
	for i, want := range []float64{0, -0.25, 0.25, 0.25} {
		if got := Delta(sum[i], 1); got != want {
			t.Errorf("parameter %d moves by %g, want %g", i, got, want)
		}
	}
}

// Sizes of an update of 1,000 values, counted by hand.
func TestCompression_Sizes(t *testing.T) {
	for _, x := range []struct {
		c    Compression
		want int64
	}{
		{QSGD{Levels: 1}, 1000*2 + 32},
		{QSGD{Levels: 15}, 1000*5 + 32},
		{QSGD{Levels: 16, Bucket: 300}, 1000*6 + 4*32},
		{TopK{Share: 0.01}, 10 * (32 + 10)},
		{TopK{Share: 1e-9}, 32 + 10},
		{TopK{Share: 0.76}, 760 * (32 + 10)},
		{TopK{Share: 0.77}, 1000 * 32}, // 32,340 with places
		{TopK{Share: 1}, 1000 * 32},
		{RandomK{Share: 0.0101}, 11 * 32},
		{RandomK{Share: 0.007}, 7 * 32},
		{RandomK{Share: 0.07}, 70 * 32},
		{RandomK{Share: 0.57}, 570 * 32},
		{RandomK{Share: 0.5700000001}, 571 * 32},
		{RandomK{Share: math.SmallestNonzeroFloat64}, 32},
		{RandomK{Share: 1}, 1000 * 32},
		{Sign{Step: 1}, 1000},
		{FourBit{Block: 300}, 1000*4 + 4*32},
		{FourBit{Block: 1_000_000}, 1000*4 + 32},
		{SparseLoCo{Share: 0.02, Chunk: 4096}, 20*(2+10) + 128},
		{SparseLoCo{Share: 0.02, Chunk: 256}, (3*6+5)*(2+8) + 128},
	} {
		if got := x.c.Bits(1000); got != x.want {
			t.Errorf("%s: %d bits, want %d", Compressions.Text(x.c), got, x.want)
		}
	}
}

// The move that votes decide is the model's, unless the algorithm changes it.
func TestCompression_KeptVotes(t *testing.T) {
	for _, name := range Algorithms.Names() {
		a := made(t, name)
		vectors, votes := CheckCompression(a, QSGD{Levels: 1}), CheckCompression(a, Sign{Step: 1})
		if two := name == "scaffold"; (vectors != nil) != two || (votes != nil) != (two || name == "fedasync" || name == "fednova") || CheckCompression(a, nil) != nil {
			t.Errorf("%s: %v, with votes %v", name, vectors, votes)
		}
	}
}

// Residuals are counted before a run, and take what was counted.
func TestResiduals_Counted(t *testing.T) {
	const params, clients = 7, 5
	c := TopK{Share: 0.1, Feedback: true}
	if got, want := StateBytes(Default, c, params, 0, clients, 0), int64(4*params*clients); got != want {
		t.Errorf("%d bytes, want %d", got, want)
	}
	err := CheckState(Default, c, 1e6, 0, 1000, 0, 1e9)
	if err == nil || err.Error() != "limits.state_gb: 1, but top_k keeps up to 4 GB for 1000000 parameters and 1000 clients (raise the limit, or take fewer clients or another compression)" {
		t.Error(err)
	}
	if got := StateBytes(Default, TopK{Share: 0.1}, params, 0, clients, 0); got != 0 {
		t.Errorf("without feedback %d bytes", got)
	}
	v := whole(Default, c, params, clients).ClientStates
	v.Update(nil, []int{3}, []ClientState{{Values: vector(params)}})
	again := NewClientStates(0, params, clients)
	if err := again.Restore(v.State()); err != nil || !slices.Equal(again.Client(3).Values, vector(params)) {
		t.Errorf("%v: client 3 keeps %v", err, again.Client(3).Values)
	}
	for want, err := range map[string]error{
		"algorithm: a state of residuals of compressed updates, or what steps remember, where the clients keep control variates": NewClientStates(params, 0, clients).Restore(v.State()),
		"algorithm: a state of control variates, where the clients keep residuals of compressed updates, or what steps remember": again.Restore(NewClientStates(params, 0, clients).State()),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, c := range []Compression{TopK{Share: 2}, RandomK{}, QSGD{Levels: 70000}, Sign{}} {
		if err := registry.Check(c); err == nil {
			t.Errorf("%#v is taken", c)
		}
	}
}

func BenchmarkCompress(b *testing.B) {
	v := vector(1 << 20)
	for _, c := range []Compression{QSGD{Levels: 7}, TopK{Share: 0.01}, RandomK{Share: 0.01}, Sign{Step: 1}} {
		b.Run(Compressions.NameOf(c), func(b *testing.B) {
			compressor, draws, update := c.Compressor(len(v)), keyed.Source(1, keyed.Compression), make([]float32, len(v))
			b.SetBytes(4 * int64(len(v)))
			for b.Loop() {
				copy(update, v)
				compressor.Compress(update, draws)
			}
		})
	}
}
