package round

import (
	"math/rand/v2"
	"slices"
	"testing"

	"fedpace/coordinator/closing"
	"fedpace/coordinator/schedule"
)

// drawnClient is a client of a drawn cohort: how long everything takes it, and after how much work it
// leaves (never: a negative number).
type drawnClient struct {
	stages                    Stages
	download, compute, upload Time
	leaves                    Time
}

func (c *drawnClient) work() Time { return c.download + c.compute + c.upload }

// drawCohort draws up to 12 clients, of which some leave at any point of their work.
func drawCohort(random *rand.Rand) []drawnClient {
	list := make([]drawnClient, 3+random.IntN(10))
	share := random.Float64() * 0.5
	for i := range list {
		draw := func() Time { return Time(1 + random.IntN(50)) }
		c := drawnClient{
			stages:   Stages{Keys: draw(), Shares: draw(), Survivors: draw(), Recovery: draw()},
			download: draw(),
			compute:  draw(),
			upload:   draw(),
			leaves:   -1,
		}
		s := c.stages
		total := s.Keys + s.Shares + c.work() + s.Survivors + s.Recovery
		if random.Float64() < share {
			c.leaves = Time(random.Int64N(int64(total)))
		}
		list[i] = c
	}
	return list
}

// expectedRound is what a round should come to.
type expectedRound struct {
	end                                   Time
	accepted, dropped, refused, cancelled int
	members, recovered, unrecovered       int
	setup, recovery                       Time
}

// simulated plays a round stage by stage, member by member, as the protocol is described. It knows
// nothing of the machine's code.
func simulated(cohort []drawnClient, terms Secure) (e expectedRound) {
	// until returns how long a client's part takes that begins after done units of work, and whether
	// the client leaves in it.
	until := func(c drawnClient, done, part Time) (Time, bool) {
		if c.leaves >= 0 && c.leaves < done+part {
			return c.leaves - done, true
		}
		return part, false
	}
	var ring []int
	keysEnd := Time(0)
	for i, c := range cohort {
		took, left := until(c, 0, c.stages.Keys)
		keysEnd = max(keysEnd, took)
		if left {
			e.dropped++
		} else {
			ring = append(ring, i)
		}
	}
	if len(ring) < terms.Minimum || len(ring) <= terms.Threshold {
		e.cancelled = len(ring)
		e.unrecovered = 1
		e.setup = keysEnd
		e.end = keysEnd
		return e
	}
	neighbours := map[int][]int{}
	for place, i := range ring {
		seen := map[int]bool{i: true}
		for d := 1; d <= (terms.Neighbours+1)/2; d++ {
			for _, other := range []int{ring[(place+d)%len(ring)], ring[((place-d)%len(ring)+len(ring))%len(ring)]} {
				if !seen[other] {
					seen[other] = true
					neighbours[i] = append(neighbours[i], other)
				}
			}
		}
	}
	finished := map[int]bool{}
	e.setup = keysEnd
	for _, i := range ring {
		took, left := until(cohort[i], cohort[i].stages.Keys, cohort[i].stages.Shares)
		e.setup = max(e.setup, keysEnd+took)
		if left {
			e.dropped++
		} else {
			finished[i] = true
		}
	}
	for again := true; again; {
		again = false
		var lonely []int
		for i := range finished {
			if countIn(neighbours[i], finished) < terms.Threshold {
				lonely = append(lonely, i)
			}
		}
		for _, i := range lonely {
			delete(finished, i)
			e.cancelled++
			again = true
		}
	}
	e.members = len(finished)
	e.end = e.setup
	if len(finished) < terms.Minimum {
		e.cancelled += len(finished)
		e.unrecovered = 1
		return e
	}
	survives := map[int]bool{}
	for i := range finished {
		c := cohort[i]
		took, left := until(c, c.stages.Keys+c.stages.Shares, c.work())
		e.end = max(e.end, e.setup+took)
		if left {
			e.dropped++
		} else {
			survives[i] = true
		}
	}
	if len(survives) == 0 {
		return e
	}
	e.accepted = len(survives)
	e.recovered = len(finished) - len(survives)
	closed := e.end
	signed := map[int]bool{}
	signedAt := closed
	for i := range survives {
		c := cohort[i]
		took, left := until(c, c.stages.Keys+c.stages.Shares+c.work(), c.stages.Survivors)
		signedAt = max(signedAt, closed+took)
		if !left {
			signed[i] = true
		}
	}
	fail := func(at Time) expectedRound {
		e.end = at
		e.recovery = at - closed
		e.refused = e.accepted
		e.accepted = 0
		e.recovered = 0
		e.unrecovered = 1
		return e
	}
	quorum := (len(ring)+terms.Colluders)/2 + 1
	if len(survives) < terms.Minimum || len(signed) < quorum {
		return fail(signedAt)
	}
	answers := map[int]Time{}
	last := signedAt
	for i := range signed {
		c := cohort[i]
		took, left := until(c, c.stages.Keys+c.stages.Shares+c.work()+c.stages.Survivors, c.stages.Recovery)
		last = max(last, signedAt+took)
		if !left {
			answers[i] = signedAt + took
		}
	}
	e.end = signedAt
	for i := range finished {
		wanted := survives[i] || countIn(neighbours[i], survives) > 0
		if !wanted {
			continue
		}
		var times []Time
		for _, other := range neighbours[i] {
			if at, ok := answers[other]; ok {
				times = append(times, at)
			}
		}
		if len(times) < terms.Threshold {
			return fail(last)
		}
		slices.Sort(times)
		e.end = max(e.end, times[terms.Threshold-1])
	}
	e.recovery = e.end - closed
	return e
}

// countIn counts the members of a list that are in a set.
func countIn(list []int, set map[int]bool) (n int) {
	for _, i := range list {
		if set[i] {
			n++
		}
	}
	return n
}

// playSecure plays one round of a cohort on a machine.
func playSecure(t *testing.T, cohort []drawnClient, terms Secure) Report {
	t.Helper()
	m, err := New(Config{
		Seed:    1,
		Clients: len(cohort),
		Cohort:  len(cohort),
		Closing: closing.All{},
		K:       schedule.FixedK{},
		Eta:     schedule.FixedEta{},
		Setup:   schedule.Setup{K0: 1, Eta0: 1},
		Window:  schedule.WindowConfig{Size: 1},
		Secure:  &terms,
		Stop:    Limits{Rounds: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	var timers []Timer
	var report *Report
	step := func(e Event) []Task {
		out, err := m.Step(e)
		if err != nil {
			t.Fatal(err)
		}
		timers = append(timers, out.Timers...)
		if out.Report != nil {
			report = out.Report
		}
		return slices.Clone(out.Tasks)
	}
	for _, task := range step(Event{Kind: Started}) {
		// The machine asks clients in an order of its own, and the n-th task is the n-th of the cohort.
		c := &cohort[task.Task-1]
		e := Event{
			Kind:   Planned,
			Task:   task.Task,
			Client: task.Client,
			Plan:   Plan{Download: c.download, Compute: c.compute, Upload: c.upload},
			Stages: &c.stages,
		}
		if c.leaves >= 0 {
			e.Plan.Drops = true
			e.Plan.Dropout = c.leaves
		}
		step(e)
	}
	for report == nil {
		next := slices.MinFunc(timers, func(a, b Timer) int {
			if earlier(a, b) {
				return -1
			}
			return 1
		})
		timers = slices.DeleteFunc(timers, func(x Timer) bool { return x.Seq == next.Seq })
		step(Event{Kind: Due, Timer: next})
	}
	return *report
}

func TestSecure_TimingOfDrawnCohorts(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 3))
	kinds := map[string]int{}
	for range 400 {
		cohort := drawCohort(random)
		terms := Secure{
			Neighbours: 2 + 2*random.IntN(4),
			Minimum:    3,
			Colluders:  random.IntN(2),
		}
		terms.Threshold = 2 + random.IntN(terms.Neighbours-1)
		want := simulated(cohort, terms)
		r := playSecure(t, cohort, terms)
		got := expectedRound{
			end:         r.End,
			accepted:    r.Outcomes[Accepted],
			dropped:     r.Outcomes[Dropped],
			refused:     r.Outcomes[Refused],
			cancelled:   r.Outcomes[Cancelled],
			members:     r.Secure.Members,
			recovered:   r.Secure.Recovered,
			unrecovered: r.Secure.Unrecovered,
			setup:       r.Secure.Setup,
			recovery:    r.Secure.Recovery,
		}
		if got != want {
			t.Fatalf("%d clients, terms %+v:\n got %+v\nwant %+v\n%+v", len(cohort), terms, got, want, cohort)
		}
		switch {
		case want.refused > 0:
			kinds["not recovered"]++
		case want.cancelled > 0 && want.accepted == 0:
			kinds["refused before the tasks"]++
		case want.recovered > 0:
			kinds["recovered"]++
		default:
			kinds["nobody left"]++
		}
	}
	t.Log(kinds)
	for _, kind := range []string{"not recovered", "refused before the tasks", "recovered", "nobody left"} {
		if kinds[kind] < 10 {
			t.Errorf("only %d rounds of the kind %q were drawn", kinds[kind], kind)
		}
	}
}
