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

// work returns how long the client's task takes, without the stages of secure aggregation.
func (c *drawnClient) work() Time { return c.download + c.compute + c.upload }

// drawCohort draws 3 to 12 clients, some of which leave at any point of their work.
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
	setup, recovery, keys, signing        Time
}

// simulated plays a round stage by stage and member by member, as the protocol is described, without the machine's
// code. It returns what the round's report must say, and when each client's task ends.
func simulated(cohort []drawnClient, terms Secure) (e expectedRound, ends []Time) {
	ends = make([]Time, len(cohort))
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
		ends[i] = took
		if left {
			e.dropped++
		} else {
			ring = append(ring, i)
		}
	}
	e.keys = keysEnd
	if len(ring) < terms.Minimum || len(ring) <= terms.Threshold {
		e.cancelled = len(ring)
		e.unrecovered = 1
		e.setup = keysEnd
		e.end = keysEnd
		for _, i := range ring {
			ends[i] = keysEnd
		}
		return e, ends
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
		ends[i] = keysEnd + took
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
	for _, i := range ring {
		stays := cohort[i].leaves < 0 || cohort[i].leaves >= cohort[i].stages.Keys+cohort[i].stages.Shares
		if stays {
			ends[i] = e.setup
		}
	}
	if len(finished) < terms.Minimum {
		e.cancelled += len(finished)
		e.unrecovered = 1
		return e, ends
	}
	survives := map[int]bool{}
	for i := range finished {
		c := cohort[i]
		took, left := until(c, c.stages.Keys+c.stages.Shares, c.work())
		e.end = max(e.end, e.setup+took)
		ends[i] = e.setup + took
		if left {
			e.dropped++
		} else {
			survives[i] = true
		}
	}
	if len(survives) == 0 {
		return e, ends
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
	e.signing = signedAt - closed
	fail := func(at Time) (expectedRound, []Time) {
		e.end = at
		e.recovery = at - closed
		e.refused = e.accepted
		e.accepted = 0
		e.recovered = 0
		e.unrecovered = 1
		return e, ends
	}
	quorum := (len(ring)+terms.Colluders)/2 + 1
	if len(survives) < terms.Minimum || len(signed) < quorum {
		return fail(signedAt)
	}
	// Nobody signs a set of survivors with a gap in the ring that is wider than the rule of the test allows.
	for place := range ring {
		gap := 0
		for gap < len(ring) && !survives[ring[(place+gap)%len(ring)]] {
			gap++
		}
		if terms.Connected != nil && gap > widestGap {
			return fail(signedAt)
		}
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
	return e, ends
}

// widestGap is the most members in a row that may be missing where narrowGaps is the rule.
const widestGap = 1

// narrowGaps is a rule by which members sign a set of survivors: no two neighbours in the ring are missing.
func narrowGaps(survives []bool) bool {
	for place := range survives {
		next := (place + 1) % len(survives)
		if !survives[place] && !survives[next] && place != next {
			return false
		}
	}
	return true
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

// reportedRound returns those values of a round's report of which there are expected ones.
func reportedRound(r Report) expectedRound {
	return expectedRound{
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
		keys:        r.Secure.Keys,
		signing:     r.Secure.Survivors,
	}
}

// plans returns the event by which a drawn client plans its task.
func (c *drawnClient) plans(task Task) Event {
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
	return e
}

// playSecure plays one round of a cohort on a machine and returns its report.
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
		out, err := m.Step(&e)
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
		step(cohort[task.Task-1].plans(task))
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
		if random.IntN(3) == 0 {
			terms.Connected = narrowGaps
		}
		want, _ := simulated(cohort, terms)
		r := playSecure(t, cohort, terms)
		got := reportedRound(r)
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

// buffered plays rounds that overlap, without the machine's code: slots clients are at work at a time, and as soon as n
// of them have taken their steps these go through the stages together, one group after the other. tasks are the clients
// in the order in which they get tasks.
func buffered(tasks []drawnClient, slots, n, rounds int, terms Secure) (list []expectedRound) {
	// event is the end of a task's steps, of a task, or of a group whose sum is recovered.
	type event struct {
		at     Time
		number int
		what   func(now Time)
	}
	var events []event
	numbers := 0
	schedule := func(at Time, what func(now Time)) {
		numbers++
		events = append(events, event{at, numbers, what})
	}
	next := 0
	var ready []int
	// grouped says that a group is under way, and dropped counts those that left in their steps.
	grouped := false
	dropped := 0
	var ask func(now Time)
	var form func(now Time)
	ask = func(now Time) {
		task := next
		next++
		c := tasks[task]
		if c.leaves >= 0 && c.leaves < c.download+c.compute {
			schedule(now+c.leaves, func(now Time) {
				dropped++
				ask(now)
			})
			return
		}
		schedule(now+c.download+c.compute, func(now Time) {
			ready = append(ready, task)
			form(now)
		})
	}
	form = func(now Time) {
		if grouped || len(ready) < n {
			return
		}
		grouped = true
		group := slices.Sorted(slices.Values(ready[:n]))
		ready = ready[n:]
		var cohort []drawnClient
		for _, task := range group {
			// What a client has done before its group counts to when it leaves.
			c := tasks[task]
			if c.leaves >= 0 {
				c.leaves -= c.download + c.compute
			}
			c.download = 0
			c.compute = 0
			cohort = append(cohort, c)
		}
		e, ends := simulated(cohort, terms)
		left := len(ends)
		over := func(now Time) {
			e.end = now
			e.dropped += dropped
			dropped = 0
			list = append(list, e)
			grouped = false
			form(now)
		}
		for _, at := range ends {
			schedule(now+at, func(at Time) {
				left--
				switch {
				case left > 0:
					ask(at)
				case e.accepted+e.refused > 0:
					schedule(at+e.recovery, over)
					ask(at)
				default:
					over(at)
					ask(at)
				}
			})
		}
	}
	for range slots {
		ask(0)
	}
	for len(list) < rounds {
		i := 0
		for j, e := range events {
			if e.at < events[i].at || e.at == events[i].at && e.number < events[i].number {
				i = j
			}
		}
		e := events[i]
		events = slices.Delete(events, i, i+1)
		e.what(e.at)
	}
	return list
}

// playBuffered plays rounds that overlap on a machine, which at some steps is replaced by one restored from its state,
// and returns their reports. With devices its clients are real devices, none of which leaves: they answer once they
// have taken their steps, and again in their group.
func playBuffered(
	t *testing.T,
	random *rand.Rand,
	tasks []drawnClient,
	slots, n, rounds int,
	terms Secure,
	devices bool,
) (list []Report) {
	t.Helper()
	config := Config{
		Seed:    1,
		Clients: 5 * slots,
		Cohort:  slots,
		Closing: closing.Buffered{N: n},
		K:       schedule.FixedK{},
		Eta:     schedule.FixedEta{},
		Setup:   schedule.Setup{K0: 1, Eta0: 1},
		Window:  schedule.WindowConfig{Size: 1},
		Secure:  &terms,
		Stop:    Limits{Rounds: rounds},
	}
	firstTask := uint64(1)
	if devices {
		config.Devices = Devices{Count: config.Clients, Sampled: true, Liveness: 1}
		config.Clients = 0
		firstTask = FirstDeviceTask
	}
	m, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	var timers []Timer
	var asked []Task
	// grouped are the tasks of devices that were asked for their part in a group.
	var grouped []uint64
	step := func(e Event) {
		out, err := m.Step(&e)
		if err != nil {
			t.Fatal(err)
		}
		timers = append(timers, out.Timers...)
		asked = append(asked, slices.Clone(out.Tasks)...)
		for _, task := range out.Mask {
			grouped = append(grouped, task.Task)
			asked = append(asked, task)
		}
		if out.Report != nil {
			list = append(list, *out.Report)
		}
		if random.IntN(5) > 0 {
			return
		}
		m, err = Restore(config, m.State())
		if err != nil {
			t.Fatal(err)
		}
	}
	for client := range config.Devices.Count {
		step(Event{Kind: Joined, Client: client})
	}
	step(Event{Kind: Started})
	for len(list) < rounds {
		// Plans come in any order.
		for len(asked) > 0 {
			i := random.IntN(len(asked))
			task := asked[i]
			asked = slices.Delete(asked, i, i+1)
			plan := tasks[task.Task-firstTask].plans(task)
			switch {
			case !devices:
			case slices.Contains(grouped, task.Task):
				plan.Plan = Plan{Upload: plan.Plan.Upload}
			default:
				plan.Stages = nil
			}
			step(plan)
		}
		if len(list) == rounds {
			break
		}
		next := slices.MinFunc(timers, func(a, b Timer) int {
			if earlier(a, b) {
				return -1
			}
			return 1
		})
		timers = slices.DeleteFunc(timers, func(x Timer) bool { return x.Seq == next.Seq })
		step(Event{Kind: Due, Timer: next})
	}
	return list
}

// A hundred drawn runs of buffered rounds take as long as the simulation above says, with clients that leave
// in their steps, in any stage and in the recovery; and without such ones also where the clients are real devices.
func TestSecure_TimingOfBufferedRounds(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 1))
	const rounds = 6
	kinds := map[string]int{}
	for range 100 {
		n := 3 + random.IntN(6)
		slots := n + random.IntN(8)
		share := random.Float64() * 0.4
		devices := random.IntN(4) == 0
		if devices {
			share = 0
		}
		tasks := make([]drawnClient, 2000)
		for i := range tasks {
			draw := func() Time { return Time(1 + random.Int64N(1_000_000_000)) }
			c := drawnClient{
				stages:   Stages{Keys: draw(), Shares: draw(), Survivors: draw(), Recovery: draw()},
				download: draw(),
				compute:  draw(),
				upload:   draw(),
				leaves:   -1,
			}
			total := c.stages.Keys + c.stages.Shares + c.work() + c.stages.Survivors + c.stages.Recovery
			if random.Float64() < share {
				c.leaves = Time(random.Int64N(int64(total)))
			}
			tasks[i] = c
		}
		terms := Secure{Neighbours: 2 + 2*random.IntN(3), Minimum: 3}
		terms.Threshold = 2 + random.IntN(terms.Neighbours-1)
		want := buffered(tasks, slots, n, rounds, terms)
		for i, r := range playBuffered(t, random, tasks, slots, n, rounds, terms, devices) {
			got := reportedRound(r)
			if got != want[i] {
				t.Fatalf("%d of %d clients, terms %+v, round %d:\n got %+v\nwant %+v", n, slots, terms, i+1, got, want[i])
			}
			switch {
			case devices:
				kinds["devices"]++
			case got.refused > 0:
				kinds["not recovered"]++
			case got.unrecovered > 0:
				kinds["refused before the uploads"]++
			case got.recovered > 0:
				kinds["recovered"]++
			default:
				kinds["nobody left"]++
			}
		}
	}
	t.Log(kinds)
	for _, kind := range []string{"not recovered", "refused before the uploads", "recovered", "nobody left", "devices"} {
		if kinds[kind] < 10 {
			t.Errorf("only %d rounds of the kind %q were drawn", kinds[kind], kind)
		}
	}
}
