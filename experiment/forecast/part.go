package forecast

import (
	"context"
	"math"

	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
	"fedpace/coordinator/selection"
	"fedpace/experiment/problem"
	"fedpace/internal/keyed"
	"fedpace/registry"
)

// mostPlayed is about how many tasks are played to foresee a run: a second.
const mostPlayed = 1_000_000

// play foresees a run by playing it. Who is drawn and how long tasks take follow from the seed, so
// all rounds come to what they will in the run. Of more than so many tasks some rounds are played,
// evenly over the run, for each of 19 other seeds.
func (f *Forecast) play(ctx context.Context, p *problem.Problem, limit round.Time, tasks int) error {
	untrained := *p
	untrained.Config.Untrained()
	maxRounds := max(1, tasks/tasksOf(&untrained.Config))
	if len(p.Config.Devices.Names) == 0 && !registry.NeedsOf(p.Config.Select).Losses {
		all, _, err := playPart(ctx, &untrained, limit, 1, 0, maxRounds, 0)
		if err != nil || all != nil {
			if f.set(all); err == nil {
				err = f.gain(ctx, &untrained, limit)
			}
			return err
		}
	}
	var totals [3][]float64
	// each part begins where the last one ended: other spells and absences
	by := 1.0
	begin := round.Time(0)
	for draw := 1; draw <= fewDraws; draw++ {
		part, length, err := playPart(ctx, &untrained, limit, by, draw, max(1, maxRounds/fewDraws), begin)
		begin += length
		if err != nil {
			return err
		}
		if part == nil {
			by = 2 * by
			begin = 0
			draw = 0
			totals = [3][]float64{}
		}
		if by > maxWalked {
			return errNoEnd
		}
		for i, v := range part {
			totals[i] = append(totals[i], v)
		}
	}
	// Another part would differ from the median of n by the parts' variance times 1 + π/2n, the run,
	// which is as long as by parts, times 1/by + π/2n.
	rounds := intervalOf(totals[0])
	seconds := intervalOf(totals[1])
	median := math.Pi / 2 / fewDraws
	for _, v := range []*Interval{&rounds, &seconds} {
		near := math.Sqrt((1/by + median) / (1 + median))
		v.P05 = v.P50 + near*(v.P05-v.P50)
		v.P95 = v.P50 + near*(v.P95-v.P50)
	}
	f.set([]float64{rounds.P50, seconds.P50, intervalOf(totals[2]).P50})
	f.About = true
	f.VirtualWithin = &seconds
	if untrained.Config.Stop.Rounds == 0 {
		f.RoundsWithin = &rounds
		f.VirtualWithin = nil
	}
	return nil
}

// set takes rounds, seconds and steps.
func (f *Forecast) set(v []float64) {
	if v != nil {
		f.Rounds, f.Virtual, f.Steps = int(math.Round(v[0])), v[1], int64(math.Round(v[2]))
	}
}

// playPart estimates a run that is too long to be played. It plays about one of every by rounds and
// multiplies what they gave. draw chooses which rounds; draw 0 plays the run itself from its start.
// limit is the run's end in virtual time (0: none), and begin is the moment of the run at which
// clients' absences and slow spells are taken up. It returns the run's rounds, seconds and local
// steps, and how long the played part was; nil if more than maxRounds rounds would have to be
// played.
func playPart(
	ctx context.Context,
	p *problem.Problem,
	limit round.Time,
	by float64,
	draw, maxRounds int,
	begin round.Time,
) ([]float64, round.Time, error) {
	c, err := roundsOf(p, limit)
	n := int(math.Ceil(float64(c.Stop.Rounds) / by))
	if err != nil || limit == 0 && n > maxRounds {
		return nil, 0, err
	}
	if n > 0 {
		by = float64(c.Stop.Rounds) / float64(n)
	}
	c.Stop.Rounds = maxRounds
	if n > 0 {
		c.Stop.Rounds = min(n, maxRounds)
	}
	if draw > 0 {
		part := func(n int64) int64 { return int64(math.Ceil(float64(n) / by)) }
		c.Stop.Accepted = int(part(int64(c.Stop.Accepted)))
		c.Stop.Budget = c.Stop.Budget.Part(by)
		c.Stop.Samples = part(c.Stop.Samples)
		c.Stop.Tokens = part(c.Stop.Tokens)
		c.Seed = keyed.Hash(c.Seed, keyed.Twin, uint64(draw))
		c.K = thinned{c.K, c.Eta, by, (float64(draw) - 0.5) / fewDraws}
		c.Stop.Time = round.Time(float64(limit) / by)
	}
	// This rule looks at availability ahead of time, which must be that of the played part.
	if _, foresees := p.Config.Select.(selection.LeastAvailable); foresees { // what is at its own time
		begin = 0
	}
	available := c.Available
	next := c.NextChange
	// Availability is that of the run's own time, which begins at begin.
	if available != nil {
		c.Available = func(client int, now round.Time) bool { return available(client, now+begin) }
		c.NextChange = func(now round.Time) (round.Time, bool) {
			then, ok := next(now + begin)
			return then - begin, ok
		}
	}
	steps := 0.0
	usual := answers(&p.Timing)
	answer := func(t *round.Task) (round.Event, error) {
		as := *t
		as.Start += begin
		return usual(&as)
	}
	t := timing{rounds: c, answer: answer, report: func(r *round.Report) error {
		steps = float64(r.SGDSteps)
		return nil
	}}
	stop, _, err := t.play(ctx)
	if err != nil || stop.Rounds == maxRounds && n != maxRounds {
		return nil, 0, err
	}
	if draw > 0 &&
		limit > 0 &&
		stop.EndTime > 0 &&
		stop.Rounds != n { // without the round that it broke off
		by = limit.Seconds() / stop.EndTime.Seconds()
	}
	return []float64{by * float64(stop.Rounds), by * stop.EndTime.Seconds(), by * steps}, stop.EndTime, nil
}

// thinned is a schedule of K that decides for one of so many rounds, at a place among them.
type thinned struct {
	k         schedule.K
	eta       schedule.Eta
	by, place float64
}

// LocalSteps implements [schedule.K].
func (s thinned) LocalSteps(p schedule.Progress) int {
	p.Round = 1 + int((float64(p.Round-1)+s.place)*s.by)
	p.Seconds = p.Seconds * s.by
	p.LearningRate = s.eta.LearningRate(p)
	return s.k.LocalSteps(p)
}
