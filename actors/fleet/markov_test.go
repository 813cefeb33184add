package fleet

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"

	"fedpace/internal/keyed"
)

// The chain's law: in equilibrium at any time, and P(on at t+s | state at t) =
// pi + (1 - pi) e^{-(a+b)s} after on, pi - pi e^{-(a+b)s} after off.
func TestMarkov_ChainTransitions(t *testing.T) {
	for _, mean := range [][2]float64{{3, 7}, {7, 500}, {500, 7}} {
		checkTransitions(t, mean[0], mean[1])
	}
}

// checkTransitions holds a chain with these mean stays and absences to its law.
func checkTransitions(t *testing.T, on, off float64) {
	t.Helper()
	const clients = 200_000
	m := newPresenceChain(on, off)
	pi, rate := on/(on+off), 1/on+1/off
	for _, lag := range []float64{0.01, 0.5, 2, 10} {
		var after [2]struct{ n, on float64 }
		for client := range clients {
			at := int64(client) * 37_000_003
			i := 0
			if m.Present(1, client, at) {
				i = 1
			}
			after[i].n++
			if m.Present(1, client, at+nanoseconds(lag)) {
				after[i].on++
			}
		}
		stays := math.Exp(-rate * lag)
		for i, p := range []float64{pi - pi*stays, pi + (1-pi)*stays} {
			// The normal law is that of enough of both outcomes.
			if after[i].n*min(p, 1-p) < 30 {
				continue
			}
			if z := (after[i].on/after[i].n - p) / math.Sqrt(p*(1-p)/after[i].n); math.Abs(z) > 5 {
				t.Errorf("%g s after state %d: on with %.5f, want %.5f (%.1f sd)", lag, i, after[i].on/after[i].n, p, z)
			}
		}
		if z := (after[1].n/clients - pi) / math.Sqrt(pi*(1-pi)/clients); math.Abs(z) > 5 {
			t.Errorf("on with %.5f, want %.5f (%.1f sd)", after[1].n/clients, pi, z)
		}
	}
}

// Stays and absences of one client are exponential with their means.
func TestMarkov_ChainStays(t *testing.T) {
	for _, mean := range [][2]float64{{30, 70}, {1, 100}, {100, 1}, {0.01, 5000}} {
		checkStays(t, mean[0], mean[1])
	}
}

// checkStays holds the lengths of stays and absences of a chain with these means to their law.
func checkStays(t *testing.T, on, off float64) {
	t.Helper()
	const n = 30_000
	m := newPresenceChain(on, off)
	var stays, absences []float64
	at := m.Change(1, 7, 0)
	for len(stays) < n {
		state := m.Present(1, 7, at)
		until := m.Change(1, 7, at)
		if m.Present(1, 7, until) == state {
			t.Fatalf("nothing changes at %d", until)
		}
		if state {
			stays = append(stays, float64(until-at)/second)
		} else {
			absences = append(absences, float64(until-at)/second)
		}
		at = until
	}
	if d := distance(stays, distuv.Exponential{Rate: 1 / on}.CDF, nil); d > critical(len(stays)) {
		t.Errorf("stays: distance %.3g to the exponential law of mean %g, want at most %.3g", d, on, critical(n))
	}
	if d := distance(absences, distuv.Exponential{Rate: 1 / off}.CDF, nil); d > critical(len(absences)) {
		t.Errorf("absences: distance %.3g to the exponential law of mean %g, want at most %.3g", d, off, critical(n))
	}
}

// Neighbouring clients' chains are independent.
func TestMarkov_ChainsOfClientsAreIndependent(t *testing.T) {
	const n = 100_000
	m := newOnOff(keyed.Availability, 50, 50)
	for _, lag := range []int{1, 2, 1000} {
		same := 0.0
		for client := range n {
			if m.Present(1, client, 123*second) == m.Present(1, client+lag, 123*second) {
				same++
			}
		}
		if z := (same/n - 0.5) * 2 * math.Sqrt(n); math.Abs(z) > 5 {
			t.Errorf("clients %d apart agree in %g of the cases (%.1f sd)", lag, same/n, z)
		}
	}
}

// Looking back from the next point finds that point, and nothing lies between.
func TestMarkov_PointsBackAndForth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mean := rapid.SampledFrom([]float64{1e-3, 1, 1e5, maxSeconds}).Draw(t, "mean")
		m := newOnOff(keyed.Slowdown, mean, mean*rapid.SampledFrom([]float64{0.5, 1}).Draw(t, "ratio"))
		client := rapid.IntRange(0, min(1<<40, math.MaxInt)).Draw(t, "client")
		at := rapid.OneOf(rapid.Int64Range(0, 10*m.window), rapid.Int64Range(0, maxTime)).Draw(t, "t")
		last, next := m.point(1, client, at, -1), m.point(1, client, at, +1)
		if last.time > at || next.time <= at {
			t.Fatalf("around %d: %+v and %+v", at, last, next)
		}
		if again := m.point(1, client, next.time, -1); again != next {
			t.Fatalf("next is %+v, looking back from there %+v", next, again)
		}
		if again := m.point(1, client, next.time-1, -1); again != last {
			t.Fatalf("last is %+v, just before the next %+v", last, again)
		}
		if again := m.point(1, client, last.time, +1); again != next {
			t.Fatalf("next is %+v, from the last point on %+v", next, again)
		}
	})
}

// slow returns the slowdown s ready for use.
func slow(t testing.TB, s SlowPeriods) *slowPeriods {
	c, err := s.Slowing()
	if err != nil {
		t.Fatal(err)
	}
	return c.(*slowPeriods)
}

// Work against a walk along the chain in steps of a microsecond, which can be
// wrong by one step at every change.
func TestMarkov_StretchFollowsSpells(t *testing.T) {
	s := slow(t, SlowPeriods{EverySeconds: 0.05, ForSeconds: 0.02, Factor: Uniform{Min: 2, Max: 6}})
	const step = 1000
	for client := range 40 {
		start := int64(client) * 7_777_777
		const work = 30_000_000
		left, at, changes := float64(work), start, 0
		before := s.chain.point(1, client, start, -1)
		for left > 0 {
			p := s.chain.point(1, client, at, -1)
			if p != before {
				before = p
				changes++
			}
			factor := 1.0
			if s.chain.draw(p) {
				factor = s.factor.Quantile(keyed.Nth(p.windowKey, drawFactor+p.number))
			}
			left -= step / factor
			at += step
		}
		got := s.Stretch(1, client, start, work)
		if gap := math.Abs(float64(got - (at - start))); gap > float64(6*step*(changes+2)) {
			t.Errorf("client %d: %d ns, a walk takes %d (%d changes)", client, got, at-start, changes)
		}
	}
}

// In the long run work takes its time over the mean pace, and with a spell now
// and then most short work is untouched, to the nanosecond.
func TestMarkov_StretchInLongRun(t *testing.T) {
	s := slow(t, SlowPeriods{EverySeconds: 10, ForSeconds: 2, Factor: Constant{Value: 5}})
	if want := 0.8 + 0.2/5; math.Abs(s.meanPace-want) > 1e-12 {
		t.Errorf("pace %g, want %g", s.meanPace, want)
	}
	const clients, work = 3000, 300 * second
	sum := 0.0
	for client := range clients {
		sum += float64(s.Stretch(1, client, int64(client), work)) / work
	}
	if ratio := sum / clients * s.meanPace; math.Abs(ratio-1) > 0.02 {
		t.Errorf("long work takes %g of what the pace says", ratio)
	}
	untouched := 0.0
	for client := range 100_000 {
		switch got := s.Stretch(1, client, 1e12, 1_000_003); {
		case got == 1_000_003:
			untouched++
		case got < 1_000_003:
			t.Fatalf("client %d: %d ns for 1000003", client, got)
		}
	}
	if p := untouched / 100_000; math.Abs(p-0.8) > 0.01 {
		t.Errorf("%g of short work is untouched, want nearly 0.8", p)
	}
}

// More work never ends earlier, and nothing takes less than its own time.
func TestMarkov_StretchGrowsWithWork(t *testing.T) {
	s := slow(t, SlowPeriods{EverySeconds: 3, ForSeconds: 1, Factor: Pareto{Min: 1, Shape: 1.5}})
	rapid.Check(t, func(t *rapid.T) {
		client := rapid.IntRange(0, 1<<30).Draw(t, "client")
		start := rapid.Int64Range(0, maxTime).Draw(t, "start")
		a := rapid.Int64Range(0, 1000*second).Draw(t, "a")
		b := a + rapid.Int64Range(0, 1000*second).Draw(t, "more")
		x, y := s.Stretch(1, client, start, a), s.Stretch(1, client, start, b)
		if x < a || y < x {
			t.Fatalf("%d ns of work take %d, %d take %d", a, x, b, y)
		}
	})
}

func TestMarkov_StretchBeyondBounds(t *testing.T) {
	s := slow(t, SlowPeriods{EverySeconds: 3, ForSeconds: 2, Factor: Constant{Value: 1e6}})
	if got := s.Stretch(1, 1, 0, maxSeconds*second); got != -1 {
		t.Errorf("three years of work at a millionth of the pace: %d", got)
	}
}
