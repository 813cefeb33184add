package round

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"fedpace/coordinator/closing"
	"fedpace/coordinator/schedule"
)

// ownRound is one own round of a site, as the machine has asked for it: its clients' tasks in their order, and what
// was drawn for each.
type ownRound struct {
	clients []int
	drawn   []drawnClient
}

// siteCohort are terms that follow from a site's number of clients.
func siteCohort(members int) *Secure {
	return &Secure{
		Neighbours: max(2, min(4, members-1)),
		Threshold:  2,
		Minimum:    3 + members%2,
		Connected:  narrowGaps,
	}
}

// playSecureSites plays one round of sites that have so many own rounds each, and returns its report with the own
// rounds of each site. The machine goes on from its state, as a checkpoint has it, after each of its steps.
func playSecureSites(t *testing.T, random *rand.Rand, clients, sites, rounds int) (Report, map[int][]ownRound) {
	t.Helper()
	c := Config{
		Seed:       1,
		Clients:    clients,
		Cohort:     clients,
		Closing:    closing.All{},
		K:          schedule.FixedK{},
		Eta:        schedule.FixedEta{},
		Setup:      schedule.Setup{K0: 1, Eta0: 1},
		Window:     schedule.WindowConfig{Size: 1},
		Secure:     &Secure{Neighbours: 2, Threshold: 2, Minimum: 3, OfSite: siteCohort},
		Stop:       Limits{Rounds: 1},
		SiteRounds: rounds,
		Server:     Bandwidth{Sites: sites},
	}
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	played := map[int][]ownRound{}
	var timers []Timer
	var report *Report
	step := func(e Event) []Task {
		out, err := m.Step(&e)
		if err != nil {
			t.Fatal(err)
		}
		timers = append(timers, out.Timers...)
		if out.Report != nil {
			report = out.Report
		}
		tasks := slices.Clone(out.Tasks)
		m, err = Restore(c, m.State())
		if err != nil {
			t.Fatal(err)
		}
		return tasks
	}
	// plan answers new tasks. Those of a site that come at once are its next own round.
	plan := func(tasks []Task) {
		began := map[int]bool{}
		for _, task := range tasks {
			site := task.Client % sites
			if !began[site] {
				played[site] = append(played[site], ownRound{})
				began[site] = true
			}
			own := &played[site][len(played[site])-1]
			own.clients = append(own.clients, task.Client)
			own.drawn = append(own.drawn, drawCohort(random)[0])
		}
		next := map[int]int{}
		for _, task := range tasks {
			site := task.Client % sites
			own := &played[site][len(played[site])-1]
			step(own.drawn[next[site]].plans(task))
			next[site]++
		}
	}
	plan(step(Event{Kind: Started}))
	for report == nil {
		next := slices.MinFunc(timers, func(a, b Timer) int {
			if earlier(a, b) {
				return -1
			}
			return 1
		})
		timers = slices.DeleteFunc(timers, func(x Timer) bool { return x.Seq == next.Seq })
		plan(step(Event{Kind: Due, Timer: next}))
	}
	return *report, played
}

// Each own round of a site is timed as a round of its clients alone, in which they aggregate securely. A site goes on
// with those whose updates count, and ends after an own round that could not be recovered.
func TestSecure_TimingOfSites(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 4))
	kinds := map[string]int{}
	for range 300 {
		sites := 1 + random.IntN(3)
		rounds := 1 + random.IntN(3)
		clients := sites * (2 + random.IntN(8))
		report, played := playSecureSites(t, random, clients, sites, rounds)
		var want expectedRound
		for _, site := range slices.Sorted(maps.Keys(played)) {
			ended := Time(0)
			// left are the clients that the site's next own round should have.
			var left []int
			for number, own := range played[site] {
				if got := slices.Sorted(slices.Values(own.clients)); number > 0 && !slices.Equal(got, left) {
					t.Fatalf("site %d goes on with %v, want %v", site, got, left)
				}
				terms := *siteCohort(len(own.clients))
				e, _ := simulated(own.drawn, terms)
				ended += e.end
				want.accepted += e.accepted
				want.dropped += e.dropped
				want.refused += e.refused
				want.cancelled += e.cancelled
				want.members += e.members
				want.recovered += e.recovered
				want.unrecovered += e.unrecovered
				want.setup = max(want.setup, e.setup)
				want.recovery = max(want.recovery, e.recovery)
				want.keys = max(want.keys, e.keys)
				want.signing = max(want.signing, e.signing)
				left = uploaders(own, e)
				last := number == len(played[site])-1
				if over := len(left) == 0 || number == rounds-1; over != last {
					t.Fatalf("site %d has %d own rounds, of which number %d left %v", site, len(played[site]), number, left)
				}
				kinds[[]string{"recovered", "unrecovered"}[e.unrecovered]]++
			}
			want.end = max(want.end, ended)
		}
		if got := reportedRound(report); got != want {
			t.Fatalf("%d clients of %d sites with %d own rounds: %+v, want %+v", clients, sites, rounds, got, want)
		}
	}
	if kinds["recovered"] < 100 || kinds["unrecovered"] < 100 {
		t.Errorf("own rounds of each kind: %v, want 100 of each at least", kinds)
	}
}

// uploaders returns the clients, ascending, whose updates count in an own round that came to e.
func uploaders(own ownRound, e expectedRound) (list []int) {
	if e.accepted == 0 {
		return nil
	}
	for i, c := range own.drawn {
		s := c.stages
		if c.leaves < 0 || c.leaves >= s.Keys+s.Shares+c.work() {
			list = append(list, own.clients[i])
		}
	}
	slices.Sort(list)
	return list
}
