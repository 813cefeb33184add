package selection

import (
	"slices"
	"testing"
)

// listed returns the clients of each tier.
func (o *tiered) listed() (list [][]int32) {
	for i := range o.Groups {
		list = append(list, o.Groups[i].members)
	}
	return list
}

// Six clients in three tiers, fastest first: {4, 1}, {3, 5}, {0, 2}. Client 1 is
// then measured to take 3.5 times as long as expected, in the mean of tasks of any
// length: 70, which is slower than all but client 2, of whom a late task tells
// nothing.
func TestTifl_MeasuredTimes(t *testing.T) {
	o := orderOf[*tiered](t, Tifl{Tiers: 3, Interval: 2}, 2, 50, 20, 75, 30, 10, 40)
	o.setup.Expect = func(client, steps int) Time { return o.expected[client] * Time(steps) / 8 }
	if got, want := o.listed(), [][]int32{{1, 4}, {3, 5}, {0, 2}}; !slices.EqualFunc(got, want, slices.Equal) {
		t.Fatalf("tiers %v, want %v", got, want)
	}
	o.Ended(1, 8, 80, true)
	o.Ended(1, 4, 30, true)
	o.Ended(2, 8, 1, false)
	o.Closed(1, 1)
	if got := o.listed()[0]; !slices.Equal(got, []int32{1, 4}) {
		t.Errorf("the first tier is %v before its time", got)
	}
	o.Closed(2, 1)
	if got, want := o.listed(), [][]int32{{3, 4}, {0, 5}, {1, 2}}; !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("tiers %v, want %v", got, want)
	}
}

// Tiers are equally probable until, I rounds after the first I, the tier that was
// drawn last is no better: then 1/2, 1/3 and 1/6 from the highest loss to the lowest.
// Within a tier clients are equally probable.
func TestTifl_LossesOfTiers(t *testing.T) {
	const rounds = 60_000
	o := orderOf[*tiered](t, Tifl{Tiers: 3, Interval: 2}, 1, 1, 2, 3, 4, 5, 6)
	draw := func(what string, tiers [3]float64) {
		t.Helper()
		tier, client, want := make([]int, 3), make([]int, 6), make([]float64, 6)
		for r := range rounds {
			for _, c := range cohortOf(o, r+1, 1) {
				tier[o.Current]++
				client[c]++
			}
		}
		for i := range want {
			want[i] = rounds * tiers[i/2] / 2
		}
		fair(t, what+", tiers", tier, []float64{rounds * tiers[0], rounds * tiers[1], rounds * tiers[2]})
		fair(t, what+", clients", client, want)
	}
	draw("at first", [3]float64{1. / 3, 1. / 3, 1. / 3})
	for client, loss := range []float64{3, 1, 4, 6, 2, 3} { // means 2, 5, 2.5
		o.Trained(client, loss)
	}
	o.Closed(2, 1) // nothing to compare with
	draw("after I rounds", [3]float64{1. / 3, 1. / 3, 1. / 3})
	o.Current = 0
	o.Trained(0, 2.9) // the tier has got better
	o.Closed(4, 1)
	draw("where the tier is better", [3]float64{1. / 3, 1. / 3, 1. / 3})
	o.Closed(5, 1)
	o.Closed(6, 1) // it has not
	draw("where it is not", [3]float64{1. / 6, 1. / 2, 1. / 3})
}

// A tier that pays its last credit is not drawn until the others have paid theirs.
func TestTifl_Credits(t *testing.T) {
	o := orderOf[*tiered](t, Tifl{Tiers: 3, Interval: 1000, Credits: 4}, 2, 1, 2, 3, 4, 5, 6)
	count := make([]int, 3)
	for r := 1; r <= 36; r++ {
		if got := cohortOf(o, r, 2); len(got) != 2 || o.Clients[got[0]].Tier != int32(o.Current) || o.Clients[got[1]].Tier != int32(o.Current) {
			t.Fatalf("round %d of tier %d asks %v", r, o.Current, got)
		}
		count[o.Current]++
		o.Closed(r, 1)
		if r%12 == 0 && (count[0] != r/3 || count[1] != r/3) {
			t.Errorf("after %d rounds the tiers were drawn %v times", r, count)
		}
	}
}

// Where nobody of a tier is free another is the round's; where too few are, the next
// one gives the others. An order has every client once.
func TestTifl_AsksFreeClients(t *testing.T) {
	o := orderOf[*tiered](t, Tifl{Tiers: 3, Interval: 1000}, 2, 1, 2, 3, 4, 5, 6)
	o.setup.Free = func(client int) bool { return client > 1 }
	for r := range 100 {
		if all := cohortOf(o, r+1, 9); o.Current == 0 || o.Clients[all[0]].Tier != int32(o.Current) {
			t.Fatalf("round %d is of tier %d and asks %v", r, o.Current, all)
		}
	}
	o.setup.Free = func(int) bool { return true }
	all := cohortOf(o, 1, 9)
	if !slices.Equal(slices.Sorted(slices.Values(all)), []int{0, 1, 2, 3, 4, 5}) {
		t.Errorf("the order is %v", all)
	}
	for i, client := range all {
		if o.Clients[client].Tier != o.Clients[all[i/2*2]].Tier {
			t.Errorf("the order %v mixes tiers", all)
		}
	}
}
