package forecast

import (
	"fmt"
	"math"
	"math/rand/v2"

	"fedpace/actors/fleet"
	"fedpace/experiment/problem"
	"fedpace/internal/human"
	"fedpace/internal/keyed"
)

// Unlike says how unlike a fleet's devices and their presence are: DevMC-R, StatMC-R and InterMC-R
// of FLHetBench (Zhang et al., CVPR 2024), from 0 to 1, where clients do all that they are asked
// for. nil: nothing of it is configured.
type Unlike struct {
	// That take part, drawn from all.
	Clients int `json:"clients"`
	// What so many reach if none is ever late or away.
	Max                float64  `json:"most"`
	Devices            *float64 `json:"devices"`
	Presence           *float64 `json:"presence"`
	DevicesAndPresence *float64 `json:"both"`
}

// The rounds of FLHetBench, in nanoseconds of virtual time.
const (
	unlikeRounds, unlikeCohort = 3000, 20
	unlikeDeadline             = int64(120e9)
	unlikeBreak                = int64(20e9)
	unlikeEnough               = 600 // successes of a client that count
	unlikeHorizon              = unlikeRounds*(unlikeBreak+unlikeDeadline) + unlikeDeadline

	unlikeClients = 1000
	unlikeChanges = 1_000_000 // looks at when clients come and go, in all
)

// unlikeOf plays FLHetBench's rounds with a problem's clients: tasks of K_0 steps, or, for presence
// alone, of 10 to 120 s.
func unlikeOf(p *problem.Problem) *Unlike {
	c := &p.Config
	steps := p.InitialSteps()
	looks := unlikeChanges
	random := func() *rand.Rand { return keyed.New(c.Seed, keyed.Unlike) }
	clients := random().Perm(c.Clients)
	clients = clients[:min(len(clients), unlikeClients)]
	away := false
	stays := [][]int64{}
	for _, client := range clients {
		if list := staysOf(p.Fleet, client, &looks); looks > 0 {
			stays = append(stays, list)
			away = away || len(list) != 2 || list[0] > 0
		}
	}
	n := len(stays)
	if n < min(unlikeCohort, len(clients)) || n == 0 {
		return nil // they come and go all the time, or there is none
	}
	u := &Unlike{Clients: n, Max: successes(n, unlikeRounds*min(n, unlikeCohort))}
	play := func(took func(i, round int, now int64) int64, stays [][]int64) float64 {
		return unlikeRoundsOf(random(), n, took, stays)
	}
	clientTime := func(i, round int, now int64) int64 {
		d, err := p.Fleet.Durations(clients[i], uint64(round), steps, p.Bits, now)
		if err != nil { // it would take years
			return fleet.Never / 2
		}
		return d.Total()
	}
	if len(c.Fleet) > 0 || c.Network.Links.File != "" || c.Compute.Measured != "" {
		u.Devices = new(play(clientTime, nil))
	}
	if away {
		mean := 0.
		for seconds := int64(10); seconds <= 120; seconds += 10 {
			mean += play(func(int, int, int64) int64 { return seconds * 1e9 }, stays) / 12
		}
		u.Presence = &mean
	}
	switch {
	case u.Devices != nil && away:
		u.DevicesAndPresence = new(play(clientTime, stays))
	case u.Devices == nil && !away:
		return nil
	}
	return u
}

// staysOf is when a client comes and goes, in turn, for so many looks.
func staysOf(f *fleet.Fleet, client int, looks *int) (list []int64) {
	present := false
	for t := int64(0); t < unlikeHorizon && *looks > 0; t = f.NextChange(client, t) {
		*looks--
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

// unlikeRoundsOf plays the rounds of n clients: up to 20 of those that are there work until they are
// done, for 120 s at most; one that goes away works on when it is back. stays may be nil: all are there.
func unlikeRoundsOf(random *rand.Rand, n int, took func(i, round int, now int64) int64, stays [][]int64) float64 {
	done := make([]int, n)
	next := make([]int, n)
	ready := make([]int, 0, n)
	now := int64(0)
	sum := 0
	for r := range unlikeRounds {
		now += unlikeBreak
		ready = ready[:0]
		for i := range n {
			if stays != nil {
				for next[i] < len(stays[i]) && stays[i][next[i]+1] <= now {
					next[i] += 2
				}
				if next[i] == len(stays[i]) || stays[i][next[i]] > now {
					continue
				}
			}
			ready = append(ready, i)
		}
		end := now
		for j := range min(unlikeCohort, len(ready)) {
			swap := j + random.IntN(len(ready)-j)
			ready[j], ready[swap] = ready[swap], ready[j]
			i := ready[j]
			finished := now + took(i, r, now)
			if stays != nil {
				finished = finish(stays[i][next[i]:], now, finished-now)
			}
			if finished <= now+unlikeDeadline {
				done[i]++
			}
			end = max(end, min(finished, now+unlikeDeadline))
		}
		now = end
	}
	for _, s := range done {
		sum += min(s, unlikeEnough)
	}
	return successes(n, sum)
}

// finish is when work is done that goes on while its client is there, from a time on.
func finish(stays []int64, now, work int64) int64 {
	for ; len(stays) > 0; stays = stays[2:] {
		begin := max(now, stays[0])
		if work <= stays[1]-begin {
			return begin + work
		}
		work -= stays[1] - begin
	}
	return fleet.Never
}

// successes is the index: ln(1 + sum) / ln(1 + 600 n).
func successes(n, sum int) float64 {
	maximum := float64(unlikeEnough * n)
	return math.Log1p(min(float64(sum), maximum)) / math.Log1p(maximum)
}

// String says the index of the devices, of their presence and of both; empty where there is
// none.
func (u *Unlike) String() string {
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
