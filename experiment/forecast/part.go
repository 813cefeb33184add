package forecast

import (
	"context"
	"math"

	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
	"fedpace/experiment/problem"
	"fedpace/internal/keyed"
	"fedpace/internal/registry"
)

// mostPlayed is about how many tasks are played to foresee a run: a second.
const mostPlayed = 1_000_000

// play foresees a run by playing it. Who is drawn and how long tasks take follow from the seed, so
// all rounds come to what they will in the run. Of more than so many tasks some rounds are played,
// evenly over the run, for each of 19 other seeds.
func (f *Forecast) play(ctx context.Context, p *problem.Problem, limit round.Time, tasks int) error {
	own := *p
	own.Config.Untrained()
	most := max(1, tasks/tasksOf(&own.Config))
	if len(p.Config.Devices.Names) == 0 && !registry.NeedsOf(p.Config.Select).Losses {
		all, err := playPart(ctx, &own, part{by: 1}, limit, most)
		if f.Rounds, f.Virtual, f.Steps = int(all.rounds), all.seconds, int64(all.steps); err != nil || all.ended {
			return err
		}
	}
	var rounds, seconds, steps []float64
	by := 1.0
	for n := 0; n < fewDraws; n++ {
		x := part{by: by, seed: keyed.Hash(own.Config.Seed, keyed.Twin, uint64(n)), from: (float64(n) + 0.5) / fewDraws}
		x, err := playPart(ctx, &own, x, limit, max(1, most/fewDraws))
		if err != nil || by > maxWalked { // of rounds without a length there is no end
			return err
		}
		if !x.ended {
			by, n, rounds, seconds, steps = 2*by, -1, nil, nil, nil
			continue
		}
		rounds, seconds, steps = append(rounds, x.rounds), append(seconds, x.seconds), append(steps, x.steps)
	}
	r, s := narrowed(rounds, by), narrowed(seconds, by)
	f.About, f.Rounds, f.Virtual, f.Steps = true, int(math.Round(r.P50)), s.P50, int64(math.Round(narrowed(steps, by).P50))
	if f.VirtualWithin = &s; own.Config.Stop.Rounds == 0 {
		f.RoundsWithin, f.VirtualWithin = &r, nil
	}
	return nil
}

// narrowed is the interval of a run of which each of some values comes from one of by parts, around
// their mean. Another part differs from the mean of n by their variance σ² times 1 + 1/n, and the
// run, which is as long as by parts, by σ² times 1/by + 1/n.
func narrowed(values []float64, by float64) Interval {
	mean, n := 0.0, float64(len(values))
	for _, v := range values {
		mean += v / n
	}
	v, factor := intervalOf(values), math.Sqrt((1/by+1/n)/(1+1/n))
	return Interval{mean + factor*(v.P05-mean), mean, mean + factor*(v.P95-mean)}
}

// part is a run that is played in part, by other draws, and what the whole comes to then.
type part struct {
	by   float64 // one of so many rounds is played
	from float64 // which one, from 0 to 1
	seed uint64  // of the draws

	rounds, seconds, steps float64
	ended                  bool // else there are more than were to be played
}

// playPart plays at most so many rounds of a run that ends at limit (0: at none).
func playPart(ctx context.Context, p *problem.Problem, x part, limit round.Time, most int) (part, error) {
	c, err := roundsOf(p, limit)
	all := c.Stop.Rounds
	n := int(math.Ceil(float64(all) / x.by))
	if err != nil || limit == 0 && n > most {
		return x, err
	}
	if c.Stop.Rounds = most; n > 0 {
		c.Stop.Rounds, x.by = min(n, most), float64(all)/float64(n)
	}
	if x.by > 1 {
		c.K, c.Stop.Time = thinned{c.K, c.Eta, x}, round.Time(float64(limit)/x.by)
	}
	if x.seed != 0 {
		c.Seed = x.seed
	}
	t := timing{rounds: c, answer: answers(&p.Timing), report: func(r *round.Report) error {
		x.steps = float64(r.SGDSteps)
		return nil
	}}
	stop, _, err := t.play(ctx)
	if err != nil || stop.Rounds == most && n != most {
		return x, err
	}
	if x.by > 1 && limit > 0 && stop.At > 0 && stop.Rounds != n { // without the round that it broke off
		x.by = limit.Seconds() / stop.At.Seconds()
	}
	x.ended, x.rounds, x.seconds, x.steps = true, x.by*float64(stop.Rounds), x.by*stop.At.Seconds(), x.by*x.steps
	return x, nil
}

// thinned is a schedule of K that decides for one of so many rounds.
type thinned struct {
	schedule.K
	eta  schedule.Eta
	part part
}

// NeedsWith implements what [schedule.NeedsOf] asks for.
func (s thinned) NeedsWith(run schedule.Setup) schedule.Needs { return schedule.NeedsOf(s.K, run) }

// LocalSteps implements [schedule.K].
func (s thinned) LocalSteps(p schedule.Progress) int {
	p.Round, p.Seconds = 1+int((float64(p.Round-1)+s.part.from)*s.part.by), p.Seconds*s.part.by
	p.LearningRate = s.eta.LearningRate(p)
	return s.K.LocalSteps(p)
}
