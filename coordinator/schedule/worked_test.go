package schedule

import (
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

type (
	LinearK        = curveK[linear]
	LinearEta      = curveEta[linear]
	CosineK        = curveK[cosine]
	CosineEta      = curveEta[cosine]
	ExponentialK   = curveK[exponential]
	ExponentialEta = curveEta[exponential]
)

// Values worked out by hand, for K_0 = 80 and eta_0 = 0.4 in an epoch that counts as
// one step.
func TestSchedules_KWorked(t *testing.T) {
	rounds := func(n int) Span { return Span{Rounds: n} }
	type at struct {
		p    Progress
		want int
	}
	r := func(n, want int) at { return at{Progress{Round: n}, want} }
	s := func(seconds float64, want int) at { return at{Progress{Round: 9, Seconds: seconds}, want} }
	for _, c := range []struct {
		name string
		k    K
		at   []at
	}{
		{"power 1/3 is Eq. 10", PowerK{Power: "1/3"}, []at{r(1, 80), r(2, 64), r(8, 40), r(9, 39), r(512_000, 1)}},
		{"power 1/2", PowerK{Power: "1/2", Min: 10}, []at{r(1, 80), r(2, 57), r(4, 40), r(16, 20), r(64, 10), r(65, 10), r(1e9, 10)}},
		{"power 0.5", PowerK{Power: "0.5"}, []at{r(4, 40), r(6400, 1), r(6399, 2)}},
		{"power 1", PowerK{Power: "1"}, []at{r(1, 80), r(3, 27), r(80, 1), r(79, 2), r(1e9, 1)}},
		{"power 0", PowerK{Power: "0"}, []at{r(1, 80), r(1e9, 80)}},
		{"power 2/3", PowerK{Power: "2/3"}, []at{r(8, 20), r(27, 9)}},
		{"growing", PowerK{Power: "-1/3", Max: 200}, []at{r(1, 80), r(8, 160), r(15, 198), r(16, 200), r(1e9, 200)}},
		{"growing linearly", PowerK{Power: "-1"}, []at{r(1, 80), r(3, 240), r(1e9, MaxK0+1)}},
		{"list", ListK{Values: []StepsFrom{{Value: 8}, {Value: 4}, {Value: 16}}}, []at{r(1, 8), r(2, 4), r(3, 16), r(4, 16)}},
		{"list by rounds", ListK{Values: []StepsFrom{{4, From{Round: 10}}, {2, From{Round: 20}}}}, []at{r(1, 80), r(9, 80), r(10, 4), r(19, 4), r(20, 2), r(99, 2)}},
		{"list by seconds", ListK{Values: []StepsFrom{{4, From{Seconds: 0.5}}, {2, From{Seconds: 60}}}}, []at{s(0, 80), s(0.4, 80), s(0.5, 4), s(59.9, 4), s(60, 2), s(1e9, 2)}},
		{"linear", LinearK{End: 20, Span: rounds(10)}, []at{r(1, 80), r(2, 74), r(6, 50), r(11, 20), r(12, 20)}},
		{"linear, rounded up", LinearK{End: 1, Span: rounds(3)}, []at{r(2, 54), r(3, 28), r(4, 1)}}, // 53.67, 27.33
		{"linear, growing", LinearK{End: 160, Span: Span{Seconds: 40}}, []at{s(0, 80), s(10, 100), s(40, 160), s(41, 160)}},
		{"cosine", CosineK{End: 20, Span: rounds(6)}, []at{r(1, 80), r(2, 76), r(3, 65), r(4, 50), r(5, 35), r(7, 20), r(8, 20)}}, // 75.98, 65, 50, 35
		{"exponential", ExponentialK{End: 5, Span: rounds(4)}, []at{r(1, 80), r(2, 40), r(3, 20), r(4, 10), r(5, 5), r(6, 5)}},
		{"exponential, growing", ExponentialK{End: 320, Span: Span{Seconds: 2}}, []at{s(0, 80), s(1, 160), s(2, 320), s(3, 320)}},
		{"exponential by whole factors", ExponentialK{End: 2560, Span: rounds(5)}, []at{r(2, 160), r(3, 320), r(4, 640), r(5, 1280), r(6, 2560)}},
		{"cube roots of cubes", ExpressionK{Formula: "k0 / cbrt(r)"}, []at{r(27, 27), r(64, 20), r(125, 16), r(512, 10), r(1000, 8)}},
		{"a third as a power", ExpressionK{Formula: "k0 / r ** (1/3)"}, []at{r(8, 40), r(64, 20), r(125, 16), r(1000, 8)}},
		{"decimals", ExpressionK{Formula: "100 * 0.07"}, []at{r(1, 7)}},
		{"just above a whole number", ExpressionK{Formula: "k0 + 1e-9"}, []at{r(1, 81)}},
		{"Eq. 10 as a formula", ExpressionK{Formula: "k0 / cbrt(r)"}, []at{r(1, 80), r(2, 64), r(8, 40)}},
		{"growing as a formula", ExpressionK{Formula: "min(k0 + 2 * r, 90)"}, []at{r(1, 82), r(5, 90), r(6, 90)}},
		{"formula of an unknown loss", ExpressionK{Formula: "k0 * F / F0"}, []at{r(3, 80), {Progress{Round: 9, HasLoss: true, Loss: 1, F0: 16}, 5}}},
		{"formula of an unknown accuracy", ExpressionK{Formula: "accuracy > 0.5 ? 2 : 3"}, []at{r(3, 80), {Progress{Round: 9, HasAccuracy: true, Accuracy: 0.6}, 2}}},
		{"formula below 1", ExpressionK{Formula: "-3"}, []at{r(1, 1)}},
		{"formula that is not a number", ExpressionK{Formula: "log(-r)"}, []at{r(1, 0)}},
		{"formula that is below all", ExpressionK{Formula: "log(r - 1)"}, []at{r(1, 0), r(2, 1)}},
		{"formula that is too much", ExpressionK{Formula: "1 / (r - 1)"}, []at{r(1, MaxK0+1), r(2, 1)}},
	} {
		k := kIn(c.k, Setup{K0: 80, Eta0: 0.4})
		parts := kIn(c.k, Setup{K0: 80 * Parts, Eta0: 0.4, PartsPerUnit: Parts})
		for _, at := range c.at {
			if got := k.LocalSteps(at.p); got != at.want {
				t.Errorf("%s: K = %d in round %d at %v s, want %d", c.name, got, at.p.Round, at.p.Seconds, at.want)
			}
			if at.want == 0 || at.want > MaxK0 || at.want == 1 {
				continue
			}
			// In thousandths it is less than one above: not rounded up to a whole one.
			if got := parts.LocalSteps(at.p); got > at.want*Parts || got <= (at.want-1)*Parts {
				t.Errorf("%s: %d thousandths in round %d, want above %d and up to %d", c.name, got, at.p.Round, at.want-1, at.want)
			}
		}
	}
}

func TestSchedules_EtaWorked(t *testing.T) {
	third := Warmup{Rounds: 4, StartFactor: 0.2, Then: ListEta{Values: []RateFrom{{Value: 0.5}, {Value: 1}}}}
	for _, c := range []struct {
		name string
		eta  Eta
		want map[int]float64 // by round
	}{
		{"power 1/2 is Eq. 12", PowerEta{Power: "1/2"}, map[int]float64{1: 0.4, 4: 0.2, 16: 0.1}},
		{"power 1, at least", PowerEta{Power: "1", Min: 0.05}, map[int]float64{1: 0.4, 2: 0.2, 8: 0.05, 9: 0.05}},
		{"growing", PowerEta{Power: "-1", Max: 1}, map[int]float64{1: 0.4, 2: 0.8, 3: 1}},
		{"list", ListEta{Values: []RateFrom{{0.2, From{Round: 3}}}}, map[int]float64{2: 0.4, 3: 0.2, 9: 0.2}},
		{"linear", LinearEta{End: 0.2, Span: Span{Rounds: 2}}, map[int]float64{1: 0.4, 2: (0.4 + 0.2) / 2, 3: 0.2, 9: 0.2}},
		{"cosine", CosineEta{End: 0.2, Span: Span{Rounds: 2}}, map[int]float64{1: 0.4, 2: 0.3, 3: 0.2, 9: 0.2}},
		{"exponential", ExponentialEta{End: 0.1, Span: Span{Rounds: 2}}, map[int]float64{1: 0.4, 2: 0.2, 3: 0.1}},
		{"warm-up", third, map[int]float64{1: 0.1, 2: 0.4, 3: 0.6, 4: 0.8, 5: 1, 6: 1}},
		{"formula", ExpressionEta{Formula: "eta0 / r"}, map[int]float64{1: 0.4, 2: 0.2}},
	} {
		eta := etaIn(c.eta, Setup{K0: 80, Eta0: 0.4})
		for r, want := range c.want {
			if got := eta.LearningRate(Progress{Round: r}); math.Abs(got-want) > 1e-15 {
				t.Errorf("%s: eta = %v in round %d, want %v", c.name, got, r, want)
			}
		}
	}
	last := etaIn(ExpressionEta{Formula: "eta / 2"}, Setup{K0: 1, Eta0: 0.4})
	if a, b := last.LearningRate(Progress{Round: 1}), last.LearningRate(Progress{Round: 2, Previous: Decision{LocalSteps: 1, LearningRate: 0.4}}); a != 0.4 || b != 0.2 {
		t.Errorf("half of the last rate is %v, then %v", a, b)
	}
}

// Curves end at their end, and for good, and are not rounded up from what is a whole
// number on the way.
func TestCurve_KMeetsWholeNumbers(t *testing.T) {
	rounds, seconds := func(n int) Span { return Span{Rounds: n} }, func(s float64) Span { return Span{Seconds: s} }
	for _, c := range []struct {
		name string
		k0   int
		k    K
		want map[float64]int // by the round, or by seconds
	}{
		{"exponential to 7", 25, ExponentialK{End: 7, Span: rounds(10)}, map[float64]int{1: 25, 11: 7, 5000: 7}},
		{"exponential by thirds", 27, ExponentialK{End: 1, Span: rounds(3)}, map[float64]int{1: 27, 2: 9, 3: 3, 4: 1}},
		{"linear in decimal seconds", 50, LinearK{End: 3, Span: seconds(86.4)}, map[float64]int{0: 50, 86.4: 3, 1e6: 3}},
		{"linear by a third of the time", 90, LinearK{End: 3, Span: seconds(0.3)}, map[float64]int{0.1: 61, 0.2: 32, 0.3: 3}},
		{"linear, growing", 3, LinearK{End: 90, Span: seconds(0.3)}, map[float64]int{0.1: 32, 0.2: 61, 0.3: 90}},
		{"cosine", 9, CosineK{End: 1, Span: rounds(6)}, map[float64]int{1: 9, 3: 7, 4: 5, 5: 3, 7: 1, 8: 1}},
	} {
		k := kIn(c.k, Setup{K0: c.k0, Eta0: 1})
		for at, want := range c.want {
			if got := k.LocalSteps(Progress{Round: max(1, int(at)), Seconds: at}); got != want {
				t.Errorf("%s: K = %d at %v, want %d", c.name, got, at, want)
			}
		}
	}
}

// A straight line is the least K with n K >= (n - i) K_0 + i to, and equal factors are the
// least with K^n >= K_0^(n-i) to^i, in whole numbers.
func TestCurve_KOfWholeNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k0, to := rapid.Int64Range(1, 100).Draw(t, "K_0"), rapid.Int64Range(1, 100).Draw(t, "to")
		n := rapid.Int64Range(1, 6).Draw(t, "rounds")
		i := rapid.Int64Range(0, n).Draw(t, "rounds before")
		way := LinearK{End: int(to), Span: Span{Rounds: int(n)}}
		power := func(x, n int64) *big.Int { return new(big.Int).Exp(big.NewInt(x), big.NewInt(n), nil) }
		product := new(big.Int).Mul(power(k0, n-i), power(to, i))
		for name, c := range map[string]struct {
			k      K
			enough func(k int64) bool
		}{
			"linear":      {way, func(k int64) bool { return n*k >= (n-i)*k0+i*to }},
			"exponential": {ExponentialK(way), func(k int64) bool { return power(k, n).Cmp(product) >= 0 }},
		} {
			k := kIn(c.k, Setup{K0: int(k0), Eta0: 1})
			got := int64(k.LocalSteps(Progress{Round: int(i + 1)}))
			if !c.enough(got) || got > 1 && c.enough(got-1) {
				t.Errorf("%s: K = %d is not the least that is enough", name, got)
			}
		}
	})
}

// At both ends a rate is what is written, to the bit.
func TestCurve_EtaMeetsEnds(t *testing.T) {
	for _, way := range []LinearEta{{End: 0.07, Span: Span{Rounds: 10}}, {End: 3, Span: Span{Seconds: 86.4}}, {End: 7, Span: Span{Rounds: 10}}, {End: 1e-300, Span: Span{Rounds: 3}}} {
		for name, s := range map[string]Eta{"linear": way, "cosine": CosineEta(way), "exponential": ExponentialEta(way)} {
			eta := etaIn(s, Setup{K0: 1, Eta0: 25})
			for at, want := range map[float64]float64{0: 25, 86.4: way.End, 1e6: way.End} {
				if got := eta.LearningRate(Progress{Round: 1 + int(at), Seconds: at}); got != want {
					t.Errorf("%s, %+v: eta = %v at %v, want %v", name, way, got, at, want)
				}
			}
		}
	}
}

// With the cube root a formula is Eq. 10, also where the root is a whole number.
func TestFormula_EqualsRounds(t *testing.T) {
	for _, k0 := range []int{1, 50, 80, 1000} {
		k := kIn(ExpressionK{Formula: "k0 / cbrt(r)"}, Setup{K0: k0, Eta0: 1})
		for r := 1; r <= 10_000; r += 1 + (k0+r)%7*(r/1000) {
			if got, want := k.LocalSteps(Progress{Round: r}), kIn(RoundsK{}, Setup{K0: k0}).LocalSteps(Progress{Round: r}); got != want {
				t.Fatalf("K_0 = %d: K = %d in round %d, K_r-rounds has %d", k0, got, r, want)
			}
		}
	}
}

// A rate of 0 is known, too: it does not begin again.
func TestEta_ZeroIsKnown(t *testing.T) {
	rates := func(s Eta) (list []float64) {
		eta := etaIn(s, Setup{K0: 80, Eta0: 0.5})
		var last Decision
		for r := range 6 {
			last = Decision{LocalSteps: 1, LearningRate: eta.LearningRate(Progress{Round: r + 1, Previous: last})}
			list = append(list, last.LearningRate)
		}
		return list
	}
	if got, want := rates(ExpressionEta{Formula: "max(0, eta - 0.25)"}), []float64{0.5, 0.25, 0, 0, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("rates are %v, want %v", got, want)
	}
	// A formula after a warm-up goes on from its own rate, which is halved: of 0.5 0.25
	// 0.125 ... a quarter, a half, three quarters, and then all.
	got := rates(Warmup{Rounds: 3, StartFactor: 0.25, Then: ExpressionEta{Formula: "eta / 2"}})
	if want := []float64{0.125, 0.125, 0.09375, 0.0625, 0.03125, 0.015625}; !slices.Equal(got, want) {
		t.Errorf("rates after a warm-up are %v, want %v", got, want)
	}
	k := kIn(ExpressionK{Formula: "eta == 0 ? 3 : 2"}, Setup{K0: 80, Eta0: 0.5})
	if got := k.LocalSteps(Progress{Round: 1}); got != 3 {
		t.Errorf("K = %d at the rate 0, want 3", got)
	}
}

// The general power is the paper's where that is: bit for bit.
func TestPower_EqualsRounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k0 := rapid.IntRange(1, MaxK0).Draw(t, "K_0")
		p := Progress{Round: rapid.IntRange(1, min(maxRounds, math.MaxInt)).Draw(t, "r")}
		k := kIn(PowerK{Power: "1/3"}, Setup{K0: k0, Eta0: 0.4})
		eta := etaIn(PowerEta{Power: "0.5"}, Setup{K0: k0, Eta0: 0.4})
		if got, want := k.LocalSteps(p), kIn(RoundsK{}, Setup{K0: k0}).LocalSteps(p); got != want {
			t.Errorf("K = %d, K_r-rounds has %d", got, want)
		}
		if got, want := eta.LearningRate(p), etaIn(RoundsEta{}, Setup{Eta0: 0.4}).LearningRate(p); math.Abs(got-want) > 1e-15*want {
			t.Errorf("eta = %v, eta_r-rounds has %v", got, want)
		}
	})
}

// AdaComm with K_0 = 16 and T_0 = 10 s: sqrt(F/F_0) 16, or half of the last K.
func TestAdaComm_Worked(t *testing.T) {
	k := kIn(AdaComm{Seconds: 10, Gamma: 0.5}, Setup{K0: 16, Eta0: 1})
	last := Decision{}
	for i, c := range []struct {
		seconds, ratio float64 // ratio 0: not known
		want           int
	}{
		{0, 0, 16},
		{4, 0, 16},
		{11, 0, 16}, // a new interval, and no loss yet
		{15, 0.5, 16},
		{20, 0.25, 8},   // sqrt(1/4) 16
		{29, 0.01, 8},   // in the same interval
		{30, 0.1406, 6}, // sqrt(0.1406) 16 = 5.9995
		{41, 0.9, 3},    // would rise to 16: half of 6
		{50, 0.0625, 2}, // 4 is more than 3: half of it, rounded up
		{60, 0.003906, 1},
		{70, 2, 1},
		{1000, 0, 1},
	} {
		p := Progress{Round: i + 1, Seconds: c.seconds, HasLoss: c.ratio > 0, LossRatio: c.ratio, Previous: last}
		if got := k.LocalSteps(p); got != c.want {
			t.Errorf("K = %d at %v s, want %d", got, c.seconds, c.want)
		}
		last = Decision{LocalSteps: c.want, Seconds: c.seconds}
	}
}

// Options that do not fit each other are refused by name.
func TestOptions_Refused(t *testing.T) {
	for want, s := range map[string]any{
		"power: \"x\" is not a power":           PowerK{Power: "x"},
		"power: \"1/0\"":                        PowerK{Power: "1/0"},
		"power: \"5\"":                          PowerEta{Power: "5"},
		"power: \"1/101\"":                      PowerK{Power: "1/101"},
		"power: \"1e400000000\"":                PowerK{Power: "1e400000000"},
		"power: \"\"":                           PowerK{},
		"max: 2 is less than min, 3":            PowerK{Power: "1", Min: 3, Max: 2},
		"max: 0.1 is less than min, 0.2":        PowerEta{Power: "1", Min: 0.2, Max: 0.1},
		"values: is empty":                      ListK{},
		"values[1]: is not of the form":         ListK{Values: []StepsFrom{{Value: 1}, {1, From{Round: 3}}}},
		"values[0].from_seconds":                ListK{Values: []StepsFrom{{1, From{Round: 1, Seconds: 1}}}},
		"values[1]: does not begin after":       ListEta{Values: []RateFrom{{1, From{Round: 3}}, {1, From{Round: 3}}}},
		"values[2]: does not begin after":       ListEta{Values: []RateFrom{{1, From{Seconds: 3}}, {1, From{Seconds: 4}}, {1, From{Seconds: 2}}}},
		"rounds: is not set, nor is seconds":    LinearK{},
		"seconds: 2 goes with no rounds":        CosineEta{Span: Span{1, 2}},
		"then.formula: character 1":             Warmup{Rounds: 1, Then: ExpressionEta{Formula: "x"}},
		"formula: character 1: unknown name k_": ExpressionK{Formula: "k_"},
	} {
		err := Validate(s)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", s, err, want)
		}
	}
}

// A formula needs what it reads, and a warm-up what comes after it.
func TestNeeds_FollowReads(t *testing.T) {
	for text, want := range map[string]Needs{
		"k0 / r + t":            {},
		"F":                     {Losses: true},
		"1 / F0":                {Losses: true},
		"accuracy":              {Validation: true, Accuracy: true},
		"converged ? 1 : k":     {Validation: true},
		"straggler_share * eta": {Stragglers: true},
	} {
		k, eta := ExpressionK{Formula: text}.Needs(), NeedsOf(Warmup{Rounds: 1, StartFactor: 0.5, Then: ExpressionEta{Formula: text}}, Setup{})
		if k != want || eta != want {
			t.Errorf("%s needs %+v and %+v, want %+v", text, k, eta, want)
		}
	}
}
