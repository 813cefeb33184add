package round

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"fedpace/coordinator/closing"
	"fedpace/coordinator/fairshare"
)

// server returns a bandwidth with which a transfer that has the server alone takes these nanoseconds each way. With 0,
// transfers that way are not shared.
func server(download, upload int) Bandwidth {
	need := func(ns int) fairshare.Work {
		w, err := fairshare.Need(int64(ns), 1000) // bits, and as many go through it in a nanosecond
		if err != nil {
			panic(err)
		}
		return w
	}
	return Bandwidth{Download: need(download), Upload: need(upload)}
}

// Equal clients wait for each other: each transfer of a round takes a client's
// own time or, where that is more, as many times its time alone on the server
// as there are clients.
func TestLink_EqualClients(t *testing.T) {
	for _, x := range []struct{ cohort, down, up int }{{1, 20, 40}, {3, 20, 40}, {40, 20, 0}, {40, 0, 7}, {4, 25, 15}} {
		c := config()
		c.Clients, c.Cohort, c.Server, c.Train = 40, x.cohort, server(x.down, x.up), false
		c.Stop = Limits{Rounds: 3}
		plan := Plan{Download: 100, Compute: 1000, Upload: 60}
		want := max(plan.Download, Time(x.cohort*x.down)) + plan.Compute + max(plan.Upload, Time(x.cohort*x.up))
		reports, _, _ := play(t, c, rand.New(rand.NewPCG(1, 1)), func(Task) Plan { return plan })
		for _, r := range reports {
			if got := r.End - r.Start; got != want {
				t.Errorf("%+v: round %d takes %d ns, want %d", x, r.Round, got, want)
			}
		}
	}
}

// A server that nothing slows down is none: every round is what it is without.
func TestLink_VastServer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, plan := world(t)
		c.SiteRounds = 0
		c.Devices = Devices{} // which come and go by how often the clock has moved
		c.Server, c.Leaves, c.Devices, c.Batteries = Bandwidth{}, nil, Devices{}, nil
		// By itself a transfer without a length takes no time at all, and on the
		// server a nanosecond; and a client that leaves at the very time of
		// another's update has left before it.
		slow := func(x Task) Plan {
			p := plan(x)
			p.Download++
			p.Compute++
			p.Drops = false
			return p
		}
		want, _, wantStop := play(t, c, rand.New(rand.NewPCG(1, 1)), slow)
		c.Server = Bandwidth{Download: fairshare.Work{Lo: 1 << 40}, Upload: fairshare.Work{Lo: 1 << 40}} // 2^-23 ns
		got, _, gotStop := play(t, c, rand.New(rand.NewPCG(1, 1)), slow)
		if len(got) != len(want) || gotStop.EndTime != wantStop.EndTime || gotStop.Outcomes != wantStop.Outcomes {
			t.Fatalf("%d rounds until %+v, without a server %d until %+v", len(got), gotStop, len(want), wantStop)
		}
		for i := range got {
			if !sameReport(got[i], want[i]) {
				t.Fatalf("%+v, without a server %+v", got[i], want[i])
			}
		}
	})
}

// What a client did before it was told to stop can be told from how long its
// phases would have been. The first has the server for itself until 51 ns, and
// half of its upload done; the other half takes 100 ns beside the second, which
// is then stopped after half of its own.
func TestLink_PartOfTransfer(t *testing.T) {
	c := config()
	c.Clients, c.Cohort, c.Closing, c.Server, c.Train = 2, 2, closing.First{N: 1}, server(0, 100), false
	c.Stop = Limits{Rounds: 1}
	p := newPlayer(t, c, rand.New(rand.NewPCG(1, 1)), func(x Task) Plan {
		return Plan{Compute: Time(1 + 50*(x.Task-1)), Upload: 100}
	})
	var ended []TaskReport
	for p.machine.Phase() != Stopped {
		p.turn(t)
		for _, e := range p.machine.effects.Ended {
			e.Client = 0 // drawn
			ended = append(ended, e)
		}
	}
	want := []TaskReport{
		{Task: 1, LocalSteps: 8, Outcome: Accepted, End: 151, Plan: Plan{Compute: 1, Upload: 150}},
		{Task: 2, LocalSteps: 8, Outcome: Cancelled, End: 151, Plan: Plan{Compute: 51, Upload: 200}},
	}
	if diff := cmp.Diff(want, ended); diff != "" {
		t.Error(diff)
	}
}
