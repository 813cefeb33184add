package selection

import (
	"math"
	"slices"
	"testing"
)

// told gives the order what is known of clients: the seconds that each one's task took, and its loss.
func (o *oortOrder) told(took, loss map[int]float64) {
	for client := range len(o.Clients) {
		if s, ok := took[client]; ok {
			o.Ended(client, 8, Time(s*1e9), true)
			o.Trained(client, loss[client])
		}
	}
}

// near reports whether a equals b but for rounding.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-12*max(1, math.Abs(b)) }

// By hand: ten samples each, T = 2 s, alpha = 2, round 50; clients were last asked in rounds 1
// and 4, and one took 5 s. U is 25, 30, 2.5 and 1000, of which 0.999 times the least is 2.4975; the
// rest up to the greatest is 997.5025.
func TestOort_Utilities(t *testing.T) {
	o := orderOf[*oortOrder](t, Oort{Seconds: 2, Window: 100, Penalty: 2, Clip: 1}, 3, make([]Time, 6)...)
	o.told(map[int]float64{0: 1, 1: 5}, map[int]float64{0: 2.5, 1: -3})
	for range 3 {
		o.Closed(0, math.NaN())
	}
	o.told(map[int]float64{2: 2, 3: 1}, map[int]float64{2: 0.25, 3: 100})
	known := []int32{0, 1, 2, 3}
	lnR := 3.912023005428146 // ln 50
	want := map[int32]float64{
		0: 22.5025/997.5025 + math.Sqrt(0.1*lnR),
		1: (27.5025/997.5025 + math.Sqrt(0.1*lnR)) * 4 / 25,
		2: 0.0025/997.5025 + math.Sqrt(0.1*lnR/4),
		3: 1 + math.Sqrt(0.1*lnR/4),
	}
	hold := func(what string) {
		t.Helper()
		for client, u := range o.utilities(50, known) {
			if !near(u, want[client]) {
				t.Errorf("%s: the utility of client %d is %v, want %v", what, client, u, want[client])
			}
		}
	}
	hold("as told")
	o.Clip = 0.75 // of four utilities, the third
	want[3] = 27.5025/997.5025 + math.Sqrt(0.1*lnR/4)
	hold("clipped")
	if got := (Oort{Penalty: 0}).slownessFactor(9, 1); got != 1 {
		t.Errorf("without a penalty the factor is %v", got)
	}
	// Of the two that fit, the second has about 0.34. The others have 0.313 and 0.104.
	for c, clients := range map[float64][]int32{0.95: {0, 3}, 0.9: {0, 3, 2}, 0.3: {0, 3, 2, 1}} {
		o.CutOff = c
		utility := o.utilities(50, known)
		if got := o.aboveCutOff([]int32{0, 3, 2, 1}, utility, 2); !slices.Equal(got, clients) {
			t.Errorf("c = %g admits %v of %v, want %v", c, got, utility, clients)
		}
	}
}

// The part of new clients falls by Decay a round, to Least; what one kind lacks the
// other gives.
func TestOort_Shares(t *testing.T) {
	o := orderOf[*oortOrder](t, Oort{Seconds: 1, Window: 100, Explore: 0.9, Decay: 0.5, MinEpsilon: 0.2}, 10, make([]Time, 6)...)
	for i, x := range []struct{ known, fresh, old, tried int }{
		{0, 50, 0, 10}, // at first all are new
		{20, 20, 6, 4}, // epsilon 0.45
		{20, 1, 9, 1},  // 0.225
		{3, 20, 3, 7},  // 0.2
		{20, 20, 8, 2}, // 0.2
	} {
		if old, tried := o.divideCohort(x.known, x.fresh); old != x.old || tried != x.tried {
			t.Errorf("round %d: %d known and %d new of %d and %d, want %d and %d", i+1, old, tried, x.known, x.fresh, x.old, x.tried)
		}
		o.Closed(0, math.NaN())
	}
}

// T grows by its first value after a window whose utility is less than that of the
// window before.
func TestOort_Pacer(t *testing.T) {
	o := orderOf[*oortOrder](t, Oort{Seconds: 2.5, Window: 2}, 1, make([]Time, 6)...)
	for i, x := range []struct{ loss, preferred float64 }{
		{3, 2.5}, {3, 2.5}, // 60
		{1, 2.5}, {5, 2.5}, // 60: no less
		{5, 2.5}, {0.5, 5}, // 55
		{4, 5}, {1, 7.5}, // 50
		{9, 7.5}, {9, 7.5}, // 180
	} {
		o.Trained(i%6, x.loss)
		if o.Closed(0, math.NaN()); o.Preferred != x.preferred {
			t.Errorf("after round %d tasks of %v s are preferred, want %v", i+1, o.Preferred, x.preferred)
		}
	}
}

// New clients are drawn with probabilities in proportion to their speed, known ones
// to their utility, if that is at least c of the last that fits. U is 10 times the loss: 4990
// is the least, 0.999 times that 4985.01, and the rest up to 10000 is 5014.99.
func TestOort_SpeedAndUtility(t *testing.T) {
	const rounds = 20_000
	o := orderOf[*oortOrder](t, Oort{Seconds: 1e6, Window: 1e6, Explore: 1, Clip: 1, CutOff: 0.2}, 1, 60, 30, 20, 15, 12, 10, 10, 10)
	draw := func(what string, weights ...float64) {
		t.Helper()
		count, want, total := make([]int, 8), make([]float64, 8), 0.0
		for _, w := range weights {
			total += w
		}
		for i, w := range weights {
			want[i] = rounds * w / total
		}
		for r := range rounds {
			for _, client := range cohortOf(o, 1000+r, 1) {
				count[client]++
			}
		}
		fair(t, what, count, want)
	}
	draw("by speed", 1, 2, 3, 4, 5, 6, 6, 6)
	o.Rounds = 1e12 // so that no uncertainty counts
	o.told(map[int]float64{2: 1, 3: 1, 4: 1, 5: 1, 7: 1}, map[int]float64{2: 700, 3: 1000, 4: 500, 5: 499, 7: 600})
	o.Epsilon = 0
	draw("by utility", 0, 0, 2014.99, 5014.99, 0, 0, 0, 1014.99) // 14.99 and 4.99 are below a fifth of 5014.99
}

// An order has every client that is free once. Those that were asked too often come
// last, the least often first; a cohort of ten with epsilon 0.5 has five new clients.
func TestOort_WholeOrder(t *testing.T) {
	o := orderOf[*oortOrder](t, Oort{Seconds: 1, Window: 10, Explore: 0.5, Decay: 1, Clip: 1, CutOff: 0.5, Picks: 2}, 10, make([]Time, 40)...)
	took, loss := map[int]float64{}, map[int]float64{}
	for client := range 20 {
		took[client], loss[client] = 1, float64(client)
	}
	o.told(took, loss)
	for _, client := range []int{19, 18, 18} { // the best of them
		o.Ended(client, 0, 0, false)
	}
	o.setup.Free = func(client int) bool { return client != 3 && client != 33 }
	for round := range 20 {
		all := cohortOf(o, round+2, 99)
		if n := len(all); n != 38 || slices.Contains(all, 3) || slices.Contains(all, 33) {
			t.Fatalf("%d clients: %v", n, all)
		}
		fresh := 0
		for _, client := range all[:10] {
			if client >= 20 {
				fresh++
			}
		}
		if fresh != 5 || !slices.Equal(all[36:], []int{19, 18}) {
			t.Errorf("%d new clients in the cohort of %v", fresh, all)
		}
		if slices.Sort(all); len(slices.Compact(all)) != 38 {
			t.Errorf("somebody is asked twice: %v", all)
		}
	}
}

// Of two clients with the same losses, the one whose last update is 500 rounds old is drawn more
// often than one of round 490: beside utilities of 400 to 900 the uncertainty counts.
func TestOort_Uncertainty(t *testing.T) {
	o := orderOf[*oortOrder](t, Oort{Seconds: 2, Window: 100, Penalty: 2, Clip: 1}, 3, make([]Time, 6)...)
	o.told(map[int]float64{0: 1}, map[int]float64{0: 60})
	o.Rounds = 489
	o.told(map[int]float64{1: 1, 2: 1, 3: 1}, map[int]float64{1: 60, 2: 40, 3: 90})
	u := o.utilities(501, []int32{0, 1, 2, 3})
	// (600 - 399.6)/(900 - 399.6) is 0.400; sqrt(0.1 ln 501) is 0.788, and 0.0356 by sqrt(490).
	if math.Abs(u[0]-1.1890) > 1e-4 || math.Abs(u[1]-0.4361) > 1e-4 {
		t.Errorf("utilities of %v", u)
	}
}
