package forecast

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"fedpace/actors/fleet"
	"fedpace/experiment/problem"
	"fedpace/internal/human"
	"fedpace/internal/keyed"
)

// Heterogeneity has the heterogeneity indices of a fleet: DevMC-R, StatMC-R and InterMC-R of FLHetBench (Zhang et
// al., CVPR 2024). They are from 0 to 1, and lower where devices are slower or more often absent. An index is
// nil if the configuration varies nothing of it.
type Heterogeneity struct {
	// Clients is the number of clients that take part, drawn from all.
	Clients int `json:"clients"`
	// Max is the index that this number of clients reaches if none is ever late or absent.
	Max float64 `json:"most"`
	// Devices is the index with the clients' speeds, and all always present (DevMC-R).
	Devices *float64 `json:"devices"`
	// Presence is the index with the clients' availability, and speeds of the benchmark (StatMC-R).
	Presence *float64 `json:"presence"`
	// DevicesAndPresence is the index with both (InterMC-R).
	DevicesAndPresence *float64 `json:"both"`
}

// The rounds of FLHetBench. Times are in nanoseconds of virtual time.
const (
	benchRounds = 3000
	benchCohort = 20
	// benchDeadline is the longest that a round lasts, and benchBreak the time between two rounds.
	benchDeadline = int64(120e9)
	benchBreak    = int64(20e9)
	// benchEnoughTasks is the number of tasks done in time above which more of one client count nothing.
	benchEnoughTasks = 600
	// benchHorizon is the latest time that the rounds can reach.
	benchHorizon = benchRounds*(benchBreak+benchDeadline) + benchDeadline

	// maxBenchClients bounds the clients that take part.
	maxBenchClients = 1000
	// maxLookUps bounds how often availability is looked up, for all clients together.
	maxLookUps = 1_000_000
)

// heterogeneityOf plays FLHetBench's rounds with a problem's clients: tasks of K_0 steps or, for presence
// alone, tasks of 10 to 120 s. It returns nil if the configuration varies neither speeds nor availability,
// and if availability changes so often that not even a cohort's could be looked up.
func heterogeneityOf(p *problem.Problem) *Heterogeneity {
	c := &p.Config
	steps := p.InitialSteps()
	random := func() *rand.Rand { return keyed.New(c.Seed, keyed.Heterogeneity) }
	clients := random().Perm(c.Clients)
	clients = clients[:min(len(clients), maxBenchClients)]
	stays := staysOf(p.Fleet, clients)
	// A client that is always present has one stay, from 0 on.
	isSometimesAway := slices.ContainsFunc(stays, func(times []int64) bool { return len(times) != 2 || times[0] != 0 })
	n := len(stays)
	// Clients come and go too often, or there are none.
	if n < min(benchCohort, len(clients)) || n == 0 {
		return nil
	}
	// If nobody is late or absent, each round has as many tasks done in time as its cohort has clients.
	mostTasks := benchRounds * min(n, benchCohort)
	u := &Heterogeneity{Clients: n, Max: benchIndex(n, mostTasks)}
	play := func(took func(i, round int, now int64) int64, stays [][]int64) float64 {
		return playBench(random(), n, took, stays)
	}
	// clientTime returns how long a task of clients[i] that begins at now takes, in nanoseconds, by its speed.
	clientTime := func(i, round int, now int64) int64 {
		d, err := p.Fleet.Durations(clients[i], uint64(round), steps, p.Bits, now)
		// The task would take years. Half of the largest time can be added to another without an overflow.
		if err != nil {
			return fleet.Never / 2
		}
		return d.Total()
	}
	variesSpeeds := len(c.Fleet) > 0 || c.Network.Links.File != "" || c.Compute.Measured != ""
	if variesSpeeds {
		u.Devices = new(play(clientTime, nil))
	}
	if isSometimesAway {
		// The benchmark's tasks take 10, 20, ..., 120 s. The index is the mean over these twelve.
		mean := 0.
		for seconds := int64(10); seconds <= 120; seconds += 10 {
			mean += play(func(int, int, int64) int64 { return seconds * 1e9 }, stays) / 12
		}
		u.Presence = &mean
	}
	switch {
	case u.Devices != nil && isSometimesAway:
		u.DevicesAndPresence = new(play(clientTime, stays))
	case u.Devices == nil && !isSometimesAway:
		return nil
	}
	return u
}

// staysOf returns when each of these clients comes and goes ([presenceTimes]), in their order. With all look-ups used
// up, the list ends before the first client whose times are not complete.
func staysOf(f *fleet.Fleet, clients []int) (stays [][]int64) {
	lookUpsLeft := maxLookUps
	for _, client := range clients {
		times := presenceTimes(f, client, &lookUpsLeft)
		if lookUpsLeft <= 0 {
			return stays
		}
		stays = append(stays, times)
	}
	return stays
}

// presenceTimes returns when the client comes and when it goes, in turn, in nanoseconds of virtual time up to
// benchHorizon: a stay from list[0] to list[1], one from list[2] to list[3], and so on. A stay that has no end by
// then ends at [fleet.Never]. Each look at the client's availability lowers *lookUpsLeft by one; at 0 the list ends
// early.
func presenceTimes(f *fleet.Fleet, client int, lookUpsLeft *int) (list []int64) {
	present := false
	for t := int64(0); t < benchHorizon && *lookUpsLeft > 0; t = f.NextChange(client, t) {
		*lookUpsLeft--
		if now := f.Available(client, t); now != present {
			list = append(list, t)
			present = now
		}
	}
	if present {
		list = append(list, fleet.Never)
	}
	return list
}

// playBench plays the rounds with n clients and returns their index. In each round up to [benchCohort]
// of the clients that are present, drawn at random, work until all are done, or until the deadline. A client
// that leaves goes on with its work when it is back. took returns how long the task of client i takes in a
// round that begins at now, in nanoseconds. stays has the times of each client by [presenceTimes]; nil means that
// all are always present. The index follows from how many tasks each client did within the deadline.
func playBench(random *rand.Rand, n int, took func(i, round int, now int64) int64, stays [][]int64) float64 {
	doneTasks := make([]int, n)
	// remaining has for each client the times of its stays that are not over.
	remaining := slices.Clone(stays)
	ready := make([]int, 0, n)
	now := int64(0)
	sum := 0
	for r := range benchRounds {
		now += benchBreak
		ready = ready[:0]
		for i := range n {
			if stays != nil {
				remaining[i] = staysFrom(remaining[i], now)
				// The first time is when the stay under way, or else the next one, begins.
				isPresent := len(remaining[i]) > 0 && remaining[i][0] <= now
				if !isPresent {
					continue
				}
			}
			ready = append(ready, i)
		}
		end := now
		// The cohort is drawn by the first steps of a shuffle of those that are ready.
		for j := range min(benchCohort, len(ready)) {
			swap := j + random.IntN(len(ready)-j)
			ready[j], ready[swap] = ready[swap], ready[j]
			i := ready[j]
			finished := now + took(i, r, now)
			if stays != nil {
				finished = finishTime(remaining[i], now, finished-now)
			}
			if finished <= now+benchDeadline {
				doneTasks[i]++
			}
			end = max(end, min(finished, now+benchDeadline))
		}
		now = end
	}
	for _, s := range doneTasks {
		sum += min(s, benchEnoughTasks)
	}
	return benchIndex(n, sum)
}

// staysFrom returns those stays that are not over at the time now. stays has the begin and the end of each, one stay
// after the other ([presenceTimes]).
func staysFrom(stays []int64, now int64) []int64 {
	for len(stays) > 0 && stays[1] <= now {
		stays = stays[2:]
	}
	return stays
}

// finishTime returns when a client has done its work, which takes the time work from now on while the client is
// present. stays are the client's times by [presenceTimes]. It returns [fleet.Never] if they do not suffice.
func finishTime(stays []int64, now, work int64) int64 {
	for ; len(stays) > 0; stays = stays[2:] {
		begin := max(now, stays[0])
		if work <= stays[1]-begin {
			return begin + work
		}
		work -= stays[1] - begin
	}
	return fleet.Never
}

// benchIndex is the index of n clients that together did sum tasks in time: ln(1 + sum) / ln(1 + 600 n), with
// sum at most 600 n.
func benchIndex(n, sum int) float64 {
	maximum := float64(benchEnoughTasks * n)
	return math.Log1p(min(float64(sum), maximum)) / math.Log1p(maximum)
}

// String returns a sentence with the indices that are known. It is empty for nil.
func (u *Heterogeneity) String() string {
	if u == nil {
		return ""
	}
	text := fmt.Sprintf(
		"In rounds of 120 s (FLHetBench) %s clients come to %.3f at most; with these",
		human.Thousands(int64(u.Clients)),
		u.Max,
	)
	for _, part := range []struct {
		name string
		v    *float64
	}{{"devices", u.Devices}, {"absences", u.Presence}, {"both", u.DevicesAndPresence}} {
		if part.v != nil {
			text += fmt.Sprintf(" %s %.3f,", part.name, *part.v)
		}
	}
	return text[:len(text)-1] + "."
}
