package round

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"fedpace/internal/keyed"
)

// A round of sites that add up, played beside the machine: all sites fetch the model, each waits
// for its slowest client so many times, and sends one update over its link and the server's,
// which those that send share equally.
func TestSites_TimeWrittenOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := config()
		c.Clients = rapid.IntRange(1, 30).Draw(t, "clients")
		c.Cohort = rapid.IntRange(1, c.Clients).Draw(t, "cohort")
		c.Train, c.Stop = false, Limits{Rounds: 4}
		c.SiteRounds = rapid.IntRange(1, 3).Draw(t, "rounds of a site")
		link := func(what string) int { return rapid.IntRange(0, 1e6).Draw(t, what) } // ns that one transfer takes it
		down, up, siteDown, siteUp := link("server's download"), link("server's upload"), link("a site's download"), link("a site's upload")
		s := server(siteDown, siteUp)
		c.Server = server(down, up)
		c.Server.Sites, c.Server.SiteDownload, c.Server.SiteUpload = rapid.IntRange(1, 6).Draw(t, "sites"), s.Download, s.Upload
		tasks := map[int]int{} // by client: how many it has had
		type ask struct{ client, nth, round int }
		var asked []ask
		takes := func(client, nth int) Time {
			return Time(keyed.Hash(1, keyed.Compute, uint64(client), uint64(nth)) % 2e6)
		}
		reports, _, _ := play(t, c, rand.New(rand.NewPCG(1, 1)), func(x Task) Plan {
			asked = append(asked, ask{x.Client, tasks[x.Client], x.Round})
			tasks[x.Client]++
			return Plan{Download: 1, Upload: 1, Compute: takes(x.Client, asked[len(asked)-1].nth)}
		})
		for _, r := range reports {
			cohort := map[int]map[int]int{} // by site and client: its first task of the round
			for _, a := range slices.Backward(asked) {
				if a.round == r.Round {
					site := a.client % c.Server.Sites
					if cohort[site] == nil {
						cohort[site] = map[int]int{}
					}
					cohort[site][a.client] = a.nth
				}
			}
			var ready []float64
			for _, clients := range cohort {
				at := math.Max(float64(siteDown), float64(down*len(cohort)))
				for k := range c.SiteRounds {
					slowest := Time(0)
					for client, first := range clients {
						slowest = max(slowest, 2+takes(client, first+k))
					}
					at += float64(slowest)
				}
				ready = append(ready, at)
			}
			want := sentAfter(ready, float64(up), float64(siteUp))
			if got := float64(r.End - r.Start); math.Abs(got-want) > 1e-9*want+float64(2+2*len(ready)) {
				t.Fatalf("round %d of %d sites takes %v ns, want %v", r.Round, len(ready), got, want)
			}
			if r.Cohort != c.Cohort*c.SiteRounds {
				t.Fatalf("%d tasks of %d clients in %d rounds of sites", r.Cohort, c.Cohort, c.SiteRounds)
			}
		}
	})
}

// A site's later rounds lower local steps as its first, in a machine that was restored, too.
func TestSites_Resumed(t *testing.T) {
	c := config()
	c.Clients, c.Cohort, c.Train, c.Stop, c.SiteRounds, c.Server.Sites = 12, 6, false, Limits{Rounds: 3}, 3, 2
	c.Expect = func(client, steps int) Time { return Time(5 + steps*(1+client)) }
	c.Select = chosen("fit", "least", 1)
	plan := func(x Task) Plan { return Plan{Download: 1, Compute: c.Expect(x.Client, x.LocalSteps), Upload: 1} }
	_, _, whole := play(t, c, rand.New(rand.NewPCG(1, 1)), plan)
	p := newPlayer(failing{t}, c, rand.New(rand.NewPCG(1, 1)), plan)
	for p.machine.Phase() != Stopped {
		p.turn(failing{t})
		p.cut(failing{t}, false)
	}
	if p.machine.stop.EndTime != whole.EndTime {
		t.Errorf("a run that is restored at each step ends at %v, want %v", p.machine.stop.EndTime, whole.EndTime)
	}
}

// sentAfter returns when the last of some transfers is complete that begin at these times. Each takes own ns by its own
// link, and alone ns by the link that all share equally, if it has that alone.
func sentAfter(begin []float64, alone, own float64) (now float64) {
	slices.Sort(begin)
	var left []float64 // parts of a transfer
	for len(begin) > 0 || len(left) > 0 {
		pace := max(own, alone*float64(len(left)), 1e-9) // ns that a whole transfer takes now
		sent, until := 0., math.Inf(1)
		if len(left) > 0 {
			sent = slices.Min(left)
			until = now + sent*pace
		}
		comes := len(begin) > 0 && begin[0] <= until
		if comes {
			until = begin[0]
			sent = (until - now) / pace
		}
		for i := range left {
			left[i] -= sent
		}
		now = until
		left = slices.DeleteFunc(left, func(part float64) bool { return part <= 1e-12 })
		if comes {
			left, begin = append(left, 1), begin[1:]
		}
	}
	return now
}
