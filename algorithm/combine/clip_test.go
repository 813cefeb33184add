package combine

import (
	"math"
	"slices"
	"strings"
	"testing"

	"fedpace/algorithm"
)

func TestClip_ShortensToBound(t *testing.T) {
	updates := exact([][]float64{{3, 4}, {0.3, 0.4}, {0, 0}, {-30, 40}})
	c := Clipper{Rule: Fixed{Norm: 1}}
	c.Clip(updates)
	for i, want := range exact([][]float64{{0.6, 0.8}, {0.3, 0.4}, {0, 0}, {-0.6, 0.8}}) {
		for j := range want {
			if d := updates[i][j] - want[j]; d < -1 || d > 1 {
				t.Errorf("update %d became %v, want %v", i, updates[i], want)
			}
		}
	}
	for _, norm := range Norms(updates) {
		if norm > 1+1e-12 {
			t.Errorf("a norm of %v", norm)
		}
	}
}

// The bound of the first round is of that round alone; later ones remember the last norms,
// as they were sent.
func TestBound_FollowsMedianNorm(t *testing.T) {
	c := Clipper{Rule: MedianNorm{Times: 2, Updates: 4}}
	for round, test := range []struct {
		norms  []float64
		bound  float64
		memory []float64
	}{
		{[]float64{0, 0}, math.Inf(1), nil}, // nothing is known
		{[]float64{1, 2, 1e9, 3, 0}, 4, []float64{1, 2, 1e9, 3}},
		{[]float64{3, 1e9}, 6, []float64{1e9, 3, 3, 1e9}},
		{[]float64{4, 4, 4}, 8, []float64{1e9, 4, 4, 4}},
	} {
		bound, factors, next := c.Factors(test.norms)
		if again, _, _ := c.Factors(test.norms); again != bound {
			t.Errorf("round %d, trained again: a bound of %v, want %v", round, again, bound)
		}
		c.Advance(next)
		if bound != test.bound || !slices.Equal(c.Memory(), test.memory) {
			t.Errorf("round %d: a bound of %v that remembers %v, want %v and %v", round, bound, c.Memory(), test.bound, test.memory)
		}
		for i, f := range factors {
			if want := min(1, bound/max(test.norms[i], 1e-300)); f != want {
				t.Errorf("round %d: factor %v, want %v", round, f, want)
			}
		}
	}
}

// With times 1 the bound is the median of what clients send, and goes up with it.
func TestBound_MedianCanGrow(t *testing.T) {
	c := Clipper{Rule: MedianNorm{Times: 1, Updates: 6}}
	for round, want := range []float64{2, 2, 3, 4, 5} { // the lower middle of the last 6 norms and this round's 3
		n := float64(round)
		bound, _, next := c.Factors([]float64{n + 1, n + 2, n + 3})
		if bound != want {
			t.Errorf("round %d: a bound of %v, want %v", round, bound, want)
		}
		c.Advance(next)
	}
}

// Even who is alone, and lies, moves the bound by its multiple only when half of what is
// remembered is new.
func TestBound_GrowsSlowly(t *testing.T) {
	c := Clipper{Rule: MedianNorm{Times: 10, Updates: 100}}
	for range 100 {
		_, _, next := c.Factors([]float64{1})
		c.Advance(next)
	}
	for range 49 {
		_, _, next := c.Factors([]float64{1e6})
		c.Advance(next)
	}
	if bound, _, _ := c.Factors([]float64{1e6}); bound != 10 {
		t.Errorf("a bound of %v, want 10", bound)
	}
}

// Andrew et al. 2021, Algorithm 1: C ← C exp(−η (b − γ)).
func TestBound_FollowsQuantile(t *testing.T) {
	c := Clipper{Rule: Quantile{Quantile: 0.5, Initial: 0.1, Rate: 0.2}}
	want := 0.1
	norms := []float64{0.5, 1, 2, 4}
	for range 200 {
		bound, _, next := c.Factors(norms)
		if math.Abs(bound-want) > 1e-12*want {
			t.Fatalf("a bound of %v, want %v", bound, want)
		}
		within := 0.0
		for _, x := range norms {
			if x <= bound {
				within += 0.25
			}
		}
		want *= math.Exp(-0.2 * (within - 0.5))
		c.Advance(next)
	}
	if want < 0.9 || want > 2.1 {
		t.Errorf("it has come to %v, want the median, 1 to 2", want)
	}
}

func TestBound_Restored(t *testing.T) {
	c := Clipper{Rule: MedianNorm{Times: 2, Updates: 4}}
	for _, bad := range [][]float64{{math.NaN()}, {-1}, {math.Inf(1)}, make([]float64, maxMemory+1)} {
		if err := c.Restore(bad); err == nil {
			t.Errorf("%v is taken", bad[:1])
		}
	}
	if err := (&Clipper{}).Restore([]float64{1}); err == nil {
		t.Error("a run that clips nothing takes a memory")
	}
	if err := c.Restore([]float64{1, 3}); err != nil {
		t.Error(err)
	}
	if bound, _, _ := c.Factors([]float64{0, 2}); bound != 4 {
		t.Errorf("a bound of %v, want 4", bound)
	}
}

func TestClip_ImpossibleCombinations(t *testing.T) {
	trimmed := Setup{Rule: TrimmedMean{Byzantine: Byzantine{0.2}}}
	for _, test := range []struct {
		setup       Setup
		algorithm   algorithm.Algorithm
		compression algorithm.Compression
		want        string // "": it does
	}{
		{Setup{Devices: Fixed{1}}, algorithm.Scaffold{}, nil, ""},
		{trimmed, algorithm.FedAdam{}, nil, ""},
		{trimmed, algorithm.FedAsync{Mixing: 0.6}, nil, ""},
		{trimmed, algorithm.FedBuff{}, nil, ""},
		{trimmed, algorithm.Scaffold{}, nil, "aggregate.combine: is for updates of one vector"},
		{trimmed, algorithm.FedNova{}, nil, `aggregate.combine: "trimmed_mean" takes updates as they are, and fednova divides`},
		{trimmed, algorithm.REFL{}, nil, "aggregate.combine: does not go with refl"},
		{trimmed, algorithm.Default, algorithm.QSGD{Levels: 1}, "mostly 0 (remove compress, or use krum"},
		{Setup{Rule: Krum{}}, algorithm.Default, algorithm.QSGD{Levels: 1}, ""},
		{Setup{Rule: Krum{}}, algorithm.Default, algorithm.Sign{Step: 1}, "does not go with compress: sign"},
		{Setup{Clip: Fixed{1}}, algorithm.FedNova{}, nil, ""},
		{Setup{Clip: Fixed{1}}, algorithm.REFL{}, nil, "aggregate.clip: does not go with refl"},
		{Setup{Clip: Fixed{1}}, algorithm.Scaffold{}, nil, "aggregate.clip: is for updates of one vector"},
	} {
		err := test.setup.Check(test.algorithm, test.compression)
		if got := errorText(err); test.want == "" && err != nil || !strings.Contains(got, test.want) {
			t.Errorf("%+v with %T and %T: %q, want %q", test.setup, test.algorithm, test.compression, got, test.want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestBound_MemoryLimit(t *testing.T) {
	s := Setup{Rule: Median{}}
	if got := s.Bytes(1_000_000, 40); got != 320_000_000 {
		t.Errorf("%d bytes", got)
	}
	if got := (Setup{Devices: Fixed{1}}).Bytes(1_000_000, 40); got != 0 {
		t.Errorf("%d bytes where devices alone are clipped", got)
	}
	if got := s.Bytes(math.MaxInt, math.MaxInt); got != math.MaxInt64 {
		t.Errorf("%d bytes", got)
	}
	if err := s.CheckBytes(1_000_000, 40, 100, 320_000_100); err != nil {
		t.Error(err)
	}
	want := "limits.state_gb: 0.32, but median looks at each update of a round, 0.32 GB for 1000000 parameters and 40 updates (raise the limit, or lower cohort)"
	if got := errorText(s.CheckBytes(1_000_000, 40, 100, 320_000_099)); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Weights of stale updates that come to less than 1 make a smaller step.
func TestClip_DampedUpdatesMoveLess(t *testing.T) {
	updates := exact([][]float64{{1}, {2}, {30}})
	got := make([]int64, 1)
	Setup{Rule: Median{}}.Apply(got, updates, []float64{0.25, 0.125, 0.125})
	if want := int64(algorithm.Unit); got[0] != want {
		t.Errorf("%d, want half of the median, %d", got[0], want)
	}
	Setup{Clip: Fixed{1}}.Apply(got, updates, []float64{0.5, 0.25, 0})
	if want := int64(algorithm.Unit); got[0] != want {
		t.Errorf("%d, want the weighted sum, %d", got[0], want)
	}
}

// A round that is not taken leaves nothing to be remembered.
func TestClipper_UncountedRound(t *testing.T) {
	c := Clipper{Rule: MedianNorm{Times: 10, Updates: 5}}
	_, _, next := c.Factors([]float64{1, 2, 3})
	c.Advance(next)
	before := slices.Clone(c.Memory())
	c.Factors([]float64{1e6, 1e6, 1e6, 1e6})
	c.Advance(nil)
	if !slices.Equal(c.Memory(), before) || len(before) != 3 {
		t.Errorf("it remembers %v, want %v", c.Memory(), before)
	}
}
