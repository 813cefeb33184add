package schedule

import (
	"fmt"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	_ "fedpace/internal/testkit/testseed"
)

// Table 3, dSGD: K_r = 1, eta_r = eta_0.
// maxRounds is as far as cubedTimes has room for.
const maxRounds = 1 << 37

func TestTable3_DSGD(t *testing.T) {
	for _, r := range []int{1, 8, 1e9} {
		if got := (DSGD{}).LocalSteps(Progress{Round: r, HasLoss: true, LossRatio: 3, Converged: true}); got != 1 {
			t.Errorf("K_%d = %d, want 1", r, got)
		}
	}
}

// Table 3, K-eta-fixed: K_r = K_0, eta_r = eta_0.
func TestTable3_Fixed(t *testing.T) {
	for _, p := range []Progress{{Round: 1}, {Round: 1e9}, {Round: 9, HasLoss: true, LossRatio: 0.1, Converged: true}} {
		if got := kIn(FixedK{}, Setup{K0: 80}).LocalSteps(p); got != 80 {
			t.Errorf("%+v: K = %d, want 80", p, got)
		}
		if got := etaIn(FixedEta{}, Setup{Eta0: 0.3}).LearningRate(p); got != 0.3 {
			t.Errorf("%+v: eta = %v, want 0.3", p, got)
		}
	}
}

// Table 3, K_r-rounds (Eq. 10): K_r = ceil(cbrt(1/r) K_0).
func TestTable3_KRounds(t *testing.T) {
	for _, c := range []struct{ k0, r, want int }{
		{80, 1, 80},
		{80, 2, 64}, // 63.496
		{80, 7, 42}, // 41.82
		{80, 8, 40}, // exactly: the cube root of 8 is whole
		{80, 9, 39},
		{80, 64, 20},
		{80, 512, 10},
		{80, 1000, 8},
		{80, 1001, 8}, // 7.997
		{80, 512_000, 1},
		{80, 511_999, 2},
		{80, 1e9, 1},
		{50, 125, 10},
		{60, 27, 20},
		{1, 1, 1},
		{1, 1e9, 1},
		{1e6, 1e9, 1000},
		{1e6, 1e9 - 1, 1001},
		{MaxK0, 1, MaxK0},
		{MaxK0, 8, MaxK0 / 2},
		{MaxK0, min(maxRounds, math.MaxInt), 208_064}, // 2^30 / 2^(37/3) = 208063.8
	} {
		if c.r == math.MaxInt {
			continue // an int of 32 bits
		}
		if got := kIn(RoundsK{}, Setup{K0: c.k0}).LocalSteps(Progress{Round: c.r}); got != c.want {
			t.Errorf("K_0 %d, r %d: K = %d, want %d", c.k0, c.r, got, c.want)
		}
	}
}

// The definition in whole numbers of any size: K is the least with K³ r >= K_0³.
func TestKRounds_Least(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k0 := rapid.IntRange(1, MaxK0).Draw(t, "K_0")
		r := rapid.IntRange(1, min(maxRounds, math.MaxInt)).Draw(t, "r")
		if rapid.Bool().Draw(t, "a whole cube root") {
			root := rapid.IntRange(1, 5000).Draw(t, "root")
			r, k0 = root*root*root, min(k0, MaxK0/root)*root
		}
		cube := func(k int, times int) *big.Int {
			b := big.NewInt(int64(k))
			b = new(big.Int).Mul(b, new(big.Int).Mul(b, b))
			return b.Mul(b, big.NewInt(int64(times)))
		}
		k := kIn(RoundsK{}, Setup{K0: k0}).LocalSteps(Progress{Round: r})
		if k < 1 || cube(k, r).Cmp(cube(k0, 1)) < 0 {
			t.Fatalf("K = %d is too small", k)
		}
		if k > 1 && cube(k-1, r).Cmp(cube(k0, 1)) >= 0 {
			t.Fatalf("K = %d is not the least", k)
		}
	})
}

// Table 3, K_r-error (Eq. 13): K_r = ceil(cbrt(F_r/F_0) K_0), and K_0 while
// Eq. 15 cannot be computed.
func TestTable3_KError(t *testing.T) {
	for _, c := range []struct {
		k0    int
		ratio float64
		want  int
	}{
		{80, 1, 80},
		{80, 0.125, 40},
		{80, math.Nextafter(0.125, 1), 41},
		{80, 0.5, 64}, // 63.496
		{80, 0.9, 78}, // 77.24
		{80, 8, 160},  // no cap: the paper has none
		{80, 1e-9, 1}, // 0.08
		{80, 0, 1},
		{80, -1, 1},
		{1, 1, 1},
		{1e6, 0.001, 100_000}, // the product rounds to 1e15
		{1e6, 1, 1e6},
		{80, 1e300, MaxK0 + 1},
		{80, math.Inf(1), MaxK0 + 1},
	} {
		if got := kIn(ErrorK{}, Setup{K0: c.k0}).LocalSteps(Progress{Round: 101, HasLoss: true, LossRatio: c.ratio}); got != c.want {
			t.Errorf("K_0 %d, F_r/F_0 %v: K = %d, want %d", c.k0, c.ratio, got, c.want)
		}
	}
	if got := kIn(ErrorK{}, Setup{K0: 80}).LocalSteps(Progress{Round: 100, LossRatio: 0.125}); got != 80 {
		t.Errorf("K = %d without a loss, want K_0 = 80", got)
	}
}

// Away from whole cubes the answer is the formula's.
func TestKError_Formula(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k0 := rapid.IntRange(1, 1e6).Draw(t, "K_0")
		ratio := rapid.Float64Range(1e-6, 4).Draw(t, "F_r/F_0")
		x := math.Cbrt(ratio) * float64(k0)
		if math.Abs(x-math.Round(x)) < 1e-9*x {
			t.Skip("too near a whole number for floating point to tell")
		}
		if got := kIn(ErrorK{}, Setup{K0: k0}).LocalSteps(Progress{HasLoss: true, LossRatio: ratio}); got != int(math.Ceil(x)) {
			t.Fatalf("K = %d, want ceil(%v)", got, x)
		}
	})
}

// Table 3, K_r-step and eta_r-step: K_0/10 (rounded up) and eta_0/10 once
// converged, or after a given round.
func TestTable3_Step(t *testing.T) {
	for _, c := range []struct {
		decay   int
		at      Progress
		decayed bool
	}{
		{0, Progress{Round: 1}, false},
		{0, Progress{Round: 1e9}, false},
		{0, Progress{Round: 2, Converged: true}, true},
		{10, Progress{Round: 10}, false},
		{10, Progress{Round: 11}, true},
		{10, Progress{Round: 5, Converged: true}, false}, // the given round alone decides
	} {
		k, eta := 80, 0.3
		if c.decayed {
			k, eta = 8, 0.3/10
		}
		if got := kIn(StepK{}, Setup{K0: 80, DecayRound: c.decay}).LocalSteps(c.at); got != k {
			t.Errorf("decay round %d, %+v: K = %d, want %d", c.decay, c.at, got, k)
		}
		if got := etaIn(StepEta{}, Setup{Eta0: 0.3, DecayRound: c.decay}).LearningRate(c.at); got != eta {
			t.Errorf("decay round %d, %+v: eta = %v, want %v", c.decay, c.at, got, eta)
		}
	}
	for k0, want := range map[int]int{1: 1, 9: 1, 10: 1, 11: 2, 50: 5, 55: 6, 60: 6, 80: 8} {
		if got := kIn(StepK{}, Setup{K0: k0}).LocalSteps(Progress{Round: 1, Converged: true}); got != want {
			t.Errorf("K_0 %d decays to %d, want %d", k0, got, want)
		}
	}
}

// Table 3, eta_r-rounds (Eq. 12): eta_r = sqrt(1/r) eta_0.
func TestTable3_EtaRounds(t *testing.T) {
	for r, want := range map[int]float64{1: 0.3, 4: 0.3 / 2, 100: 0.3 / 10, 1e8: 0.3 / 1e4, 2: 0.3 / math.Sqrt2} {
		if got := etaIn(RoundsEta{}, Setup{Eta0: 0.3}).LearningRate(Progress{Round: r}); math.Abs(got-want) > 1e-15*want {
			t.Errorf("eta_%d = %v, want %v", r, got, want)
		}
	}
}

// Table 3, eta_r-error (Eq. 14): eta_r = sqrt(F_r/F_0) eta_0.
func TestTable3_EtaError(t *testing.T) {
	for ratio, want := range map[float64]float64{1: 0.3, 0.25: 0.15, 4: 0.6, 0: 0, -1: 0} {
		if got := etaIn(ErrorEta{}, Setup{Eta0: 0.3}).LearningRate(Progress{Round: 101, HasLoss: true, LossRatio: ratio}); got != want {
			t.Errorf("F_r/F_0 %v: eta = %v, want %v", ratio, got, want)
		}
	}
	if got := etaIn(ErrorEta{}, Setup{Eta0: 0.3}).LearningRate(Progress{Round: 100, LossRatio: 0.25}); got != 0.3 {
		t.Errorf("eta = %v without a loss, want eta_0 = 0.3", got)
	}
}

// Tables 1 and 2, in whole bits and nanoseconds.
type task struct {
	name string
	bits int64 // Table 1, as printed
	k0   int
	beta int64 // ns a step, Table 2
}

var tasks = []task{
	{"Sent140", 320_000, 60, 5_200_000},
	{"FEMNIST", 6_710_000, 80, 17_000_000},
	{"CIFAR100", 40_000_000, 50, 310_000_000},
	{"Shakespeare", 5_210_000, 80, 1_500_000_000},
}

// round returns W_r, the time of a round with k local steps by Eq. 3 and 4, for equal clients at D = 20 Mbps and U = 5
// Mbps.
func (t task) round(k int) int64 { return t.bits*50 + t.bits*200 + t.beta*int64(k) }

// play returns the number of rounds that end in the time of 10,000 rounds of K-eta-fixed (Eq. 5), and their steps in
// proportion to those of K-eta-fixed.
func (t task) play(s K) (rounds int, relative float64) {
	left := 10_000 * t.round(t.k0)
	var steps int64
	for r := 1; ; r++ {
		k := s.LocalSteps(Progress{Round: r})
		if left -= t.round(k); left < 0 {
			return r - 1, float64(steps) / float64(10_000*t.k0)
		}
		steps += int64(k)
	}
}

// Eq. 5: W = R(|x|/D + |x|/U) + beta sum K_r, for 10,000 rounds of K_0.
func TestEquation5(t *testing.T) {
	for i, minutes := range []float64{65.33, 506.25, 4250, 20217.08} {
		if got := float64(10_000*tasks[i].round(tasks[i].k0)) / 60e9; math.Abs(got-minutes) > 0.005 {
			t.Errorf("%s: %.2f minutes, want %.2f", tasks[i].name, got, minutes)
		}
	}
}

// Table 4 needs no training for K_r-rounds, nor for K_r-step once the round of
// its decay is known; and dSGD's rounds follow from Eq. 5 alone.
func TestTable4(t *testing.T) {
	sent, femnist, cifar, shakespeare := tasks[0], tasks[1], tasks[2], tasks[3]
	cifar320 := cifar
	cifar320.name, cifar320.bits = "CIFAR100 at 320 Mb", 320_000_000
	for _, c := range []struct {
		task     task
		schedule K
		rounds   int
		relative string // to as many digits as are known
	}{
		{sent, kIn(RoundsK{}, Setup{K0: 60}), 40_856, "0.2088"}, // paper: 0.21
		{femnist, kIn(RoundsK{}, Setup{K0: 80}), 17_203, "0.1115"},
		{cifar, kIn(RoundsK{}, Setup{K0: 50}), 23_275, "0.1435"}, // paper: 0.090, unexplained
		{cifar320, kIn(RoundsK{}, Setup{K0: 50}), 11_763, "0.0897"},
		{shakespeare, kIn(RoundsK{}, Setup{K0: 80}), 245_895, "0.7440"},

		{sent, kIn(StepK{}, Setup{K0: 60, DecayRound: 5_058}), 22_479, "0.680"},
		{femnist, kIn(StepK{}, Setup{K0: 80, DecayRound: 3_273}), 14_540, "0.440"},
		{cifar, kIn(StepK{}, Setup{K0: 50, DecayRound: 2_300}), 19_300, "0.400"},
		{shakespeare, kIn(StepK{}, Setup{K0: 80, DecayRound: 5_461}), 46_851, "0.960"},

		{sent, DSGD{}, 46_009, ""},
		{femnist, DSGD{}, 17_925, ""},
		{cifar, DSGD{}, 24_733, ""},
		{shakespeare, DSGD{}, 432_836, ""},

		{femnist, kIn(FixedK{}, Setup{K0: 80}), 10_000, "1.0000"},
	} {
		rounds, relative := c.task.play(c.schedule)
		text := ""
		if c.relative != "" {
			text = fmt.Sprintf("%.*f", len(c.relative)-2, relative)
		}
		if rounds != c.rounds || text != c.relative {
			t.Errorf("%s, %T: %d rounds, %v relative steps, want %d and %s", c.task.name, c.schedule, rounds, relative, c.rounds, c.relative)
		}
	}
}
