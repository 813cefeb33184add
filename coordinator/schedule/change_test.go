package schedule

import (
	"math"
	"math/rand/v2"
	"testing"
)

// lossesOf returns the loss of round i of a run, from 0.
type lossesOf func(i int) float64

// independent returns losses that the function draws for each round by itself.
func independent(draw func() float64) lossesOf { return func(int) float64 { return draw() } }

// correlated returns normal losses of which neighbours have this correlation.
func correlated(r *rand.Rand, correlation float64) lossesOf {
	var loss float64
	noise := math.Sqrt(1 - correlation*correlation)
	return func(int) float64 {
		loss = correlation*loss + noise*r.NormFloat64()
		return loss
	}
}

// alarmRate returns the part of so many runs of so many rounds that has an alarm.
func alarmRate(runs, rounds int, loss lossesOf) float64 {
	var withAlarm int
	for range runs {
		var test ChangeTest
		hasAlarm := false
		for i := range rounds {
			hasAlarm = test.Observe(loss(i)) || hasAlarm
		}
		if hasAlarm {
			withAlarm++
		}
	}
	return float64(withAlarm) / float64(runs)
}

// Among 2000 runs of 1000 rounds whose losses do not change, so many have an alarm, by how losses scatter.
// The rates in docs/auto.md are those that this test prints (go test -v).
func TestChangeTest_FalseAlarms(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name string
		loss lossesOf
		most float64
	}{
		{"normal", independent(r.NormFloat64), 0.001},
		{"falling", func(i int) float64 { return 2*math.Exp(-float64(i)/100) + 0.1*r.NormFloat64() }, 0},
		{"exponential", independent(r.ExpFloat64), 0.03},
		{"log-normal, sigma 1", independent(func() float64 { return math.Exp(r.NormFloat64()) }), 0.1},
		{"correlation 0.3", correlated(r, 0.3), 0.005},
		{"correlation 0.5", correlated(r, 0.5), 0.05},
		{"correlation 0.7", correlated(r, 0.7), 0.4},
	} {
		rate := alarmRate(2000, 1000, c.loss)
		t.Logf("%-20s %5.2f %% of runs of 1000 rounds have an alarm", c.name, 100*rate)
		if rate > c.most {
			t.Errorf("%s: %g of the runs have an alarm, want at most %g", c.name, rate, c.most)
		}
	}
}

// Most rises by three standard deviations that stay give an alarm within ten rounds, and a single loss,
// however high, gives none. After the alarm the new losses are the reference. The rates in docs/auto.md are
// those that this test prints (go test -v).
func TestChangeTest_Rises(t *testing.T) {
	const runs = 1000
	for _, c := range []struct {
		rise          float64
		least, atMost float64
	}{{1.5, 0, 0.05}, {2, 0.1, 0.4}, {3, 0.95, 1}, {4, 0.99, 1}} {
		r := rand.New(rand.NewPCG(3, 4))
		var soon, ever, again int
		for range runs {
			var test ChangeTest
			for i := range 200 {
				loss := r.NormFloat64()
				if i == 50 {
					loss = 1e6
				}
				if test.Observe(loss) {
					t.Fatalf("an alarm in round %d, after a single high loss in round 50", i)
				}
			}
			var alarms int
			for i := range 200 {
				if !test.Observe(c.rise + r.NormFloat64()) {
					continue
				}
				alarms++
				if i < 10 {
					soon++
				}
			}
			if alarms > 0 {
				ever++
			}
			if alarms > 1 {
				again++
			}
		}
		part := float64(ever) / runs
		t.Logf("rise by %.1f deviations: %4.1f %% noticed within ten rounds, %5.1f %% ever", c.rise,
			100*float64(soon)/runs, 100*part)
		if part < c.least || part > c.atMost || again > 2 {
			t.Errorf("of rises by %g a part %g was noticed, want %g to %g; %d twice", c.rise, part, c.least, c.atMost, again)
		}
	}
}

// The test is what its definition says, written out: reference and sum from all losses so far.
func TestChangeTest_WrittenOut(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var test ChangeTest
	var counted []float64 // The losses since the last alarm, with high ones cut.
	var sum float64
	var alarms int
	for i := range 2000 {
		loss := 1 + r.NormFloat64()
		if i%400 > 200 {
			loss += 4
		}
		weights := weightsOf(len(counted))
		var mean, variance float64
		for j, x := range counted {
			mean += weights[j] * x
		}
		for j, x := range counted {
			variance += weights[j] * (x - mean) * (x - mean)
		}
		cut := loss
		if len(counted) >= 10 {
			cut = min(loss, mean+4*math.Sqrt(variance))
			sum = max(0, sum+(cut-mean)/math.Sqrt(variance)-1)
		}
		counted = append(counted, cut)
		want := sum > 8
		if want {
			alarms++
			counted = nil
			sum = 0
		}
		if got := test.Observe(loss); got != want || math.Abs(test.Rise-sum) > 1e-9 {
			t.Fatalf("round %d: alarm %t, rise %g; want %t, %g", i, got, test.Rise, want, sum)
		}
	}
	if alarms != 5 {
		t.Errorf("%d alarms at five changes", alarms)
	}
}

// weightsOf returns the weights of n losses in the reference: 1/n each up to 30 losses; then each newer one
// has 1/30, and the older ones share the rest as they did before.
func weightsOf(n int) []float64 {
	weights := make([]float64, n)
	for i := range weights {
		share := 1 / float64(min(i+1, 30))
		for j := range i {
			weights[j] *= 1 - share
		}
		weights[i] = share
	}
	return weights
}

// Rounds without a loss change nothing, equal losses are no rise, and a rise of losses that never scattered
// is one.
func TestChangeTest_WithoutScatter(t *testing.T) {
	var test ChangeTest
	for range 100 {
		if test.Observe(2) || test.Observe(math.NaN()) {
			t.Fatal("an alarm at equal losses")
		}
	}
	if test.Rise != 0 || test.Mean != 2 || test.Variance != 0 {
		t.Errorf("equal losses are remembered as %+v", test)
	}
	for i := range 3 {
		if alarm := test.Observe(2.5); alarm != (i == 2) {
			t.Errorf("alarm %t at the rise number %d", alarm, i+1)
		}
	}
}
