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

// maxPlayed is about how many tasks are played to foresee a run, which takes a second.
const maxPlayed = 1_000_000

// playRounds foresees the rounds, virtual time and local steps of a run by playing it without learning. Which
// clients are drawn and how long tasks take follow from the seed, so all rounds are what they will be in the
// run. A run with more than about this number of tasks, with real devices, or with a selection by losses is
// estimated instead: from some of its rounds, spread evenly over the run, with each of [fewDraws] other seeds.
func (f *Forecast) playRounds(ctx context.Context, p *problem.Problem, limit round.Time, tasks int) error {
	untrained := *p
	untrained.Config.MakeTimingOnly()
	maxRounds := max(1, tasks/tasksOf(&untrained.Config))
	if len(p.Config.Devices.Names) == 0 && !registry.NeedsOf(p.Config.Select).Losses {
		all, _, err := playPart(ctx, &untrained, limit, 1, 0, maxRounds, 0)
		if err != nil || all != nil {
			if f.setTotals(all); err == nil {
				err = f.findGains(ctx, &untrained, limit)
			}
			return err
		}
	}
	// totals has the estimates of rounds, seconds and steps by each draw.
	var totals [3][]float64
	// A draw plays one of every stride rounds. It begins at the moment of the run at which the draw before ended,
	// so that the draws meet different slowdown periods and absences.
	stride := 1.0
	begin := round.Time(0)
	for draw := 1; draw <= fewDraws; draw++ {
		part, length, err := playPart(ctx, &untrained, limit, stride, draw, max(1, maxRounds/fewDraws), begin)
		begin += length
		if err != nil {
			return err
		}
		// One of every stride rounds are still too many, so all draws begin again with half as many.
		if part == nil {
			stride = 2 * stride
			begin = 0
			draw = 0
			totals = [3][]float64{}
		}
		if stride > maxWalked {
			return errNoEnd
		}
		for i, v := range part {
			totals[i] = append(totals[i], v)
		}
	}
	// The median of n parts has the variance π/2n of a part's. Another part therefore differs from it by
	// the variance of a part times 1 + π/2n. The run, which is as long as stride parts, differs from it by that
	// variance times 1/stride + π/2n, so the interval of the parts is narrowed.
	rounds := intervalOf(totals[0])
	seconds := intervalOf(totals[1])
	median := math.Pi / 2 / fewDraws
	for _, v := range []*Interval{&rounds, &seconds} {
		narrowing := math.Sqrt((1/stride + median) / (1 + median))
		v.P05 = v.P50 + narrowing*(v.P05-v.P50)
		v.P95 = v.P50 + narrowing*(v.P95-v.P50)
	}
	f.setTotals([]float64{rounds.P50, seconds.P50, intervalOf(totals[2]).P50})
	f.IsSampled = true
	f.VirtualWithin = &seconds
	if untrained.Config.Stop.Rounds == 0 {
		f.RoundsWithin = &rounds
		f.VirtualWithin = nil
	}
	return nil
}

// setTotals takes rounds, virtual seconds and steps from v, in this order. It does nothing if v is nil.
func (f *Forecast) setTotals(v []float64) {
	if v != nil {
		f.Rounds = int(math.Round(v[0]))
		f.Virtual = v[1]
		f.Steps = int64(math.Round(v[2]))
	}
}

// playPart estimates a run that is too long to be played. It plays about one of every stride rounds and
// multiplies their totals. draw, from 1 to [fewDraws], chooses which rounds, and their seed; draw 0, with a
// stride of 1, plays the run itself with its own seed. limit is the run's end in virtual time, 0 for none.
// begin is the virtual time of the run at which the part starts: its clients are absent or slow as from then on.
//
// The list has the run's rounds, virtual seconds and local steps; it is nil if more than maxRounds rounds would
// have to be played. The time is how long the played part was.
func playPart(
	ctx context.Context,
	p *problem.Problem,
	limit round.Time,
	stride float64,
	draw, maxRounds int,
	begin round.Time,
) ([]float64, round.Time, error) {
	c, err := roundsOf(p, limit)
	// n is how many rounds to play, 0 if the run has no limit of rounds.
	n := int(math.Ceil(float64(c.Stop.Rounds) / stride))
	if err != nil || limit == 0 && n > maxRounds {
		return nil, 0, err
	}
	if n > 0 {
		stride = float64(c.Stop.Rounds) / float64(n)
	}
	c.Stop.Rounds = maxRounds
	if n > 0 {
		c.Stop.Rounds = min(n, maxRounds)
	}
	if draw > 0 {
		part := func(n int64) int64 { return int64(math.Ceil(float64(n) / stride)) }
		c.Stop.Accepted = int(part(int64(c.Stop.Accepted)))
		c.Stop.Budget = c.Stop.Budget.Part(stride)
		c.Stop.Samples = part(c.Stop.Samples)
		c.Stop.Tokens = part(c.Stop.Tokens)
		c.Seed = keyed.Hash(c.Seed, keyed.Twin, uint64(draw))
		c.K = sampledK{k: c.K, eta: c.Eta, stride: stride, place: (float64(draw) - 0.5) / fewDraws}
		c.Stop.Time = round.Time(float64(limit) / stride)
	}
	// This rule asks for availability ahead of the part's own clock, which must then not be shifted.
	if _, foresees := p.Config.Select.(selection.LeastAvailable); foresees {
		begin = 0
	}
	available := c.Available
	next := c.NextChange
	// The part's clock starts at 0, which is the run's time begin.
	if available != nil {
		c.Available = func(client int, now round.Time) bool { return available(client, now+begin) }
		c.NextChange = func(now round.Time) (round.Time, bool) {
			then, ok := next(now + begin)
			return then - begin, ok
		}
	}
	steps := 0.0
	answerOf := answers(&p.Timing)
	answer := func(t *round.Task) (round.Event, error) {
		shifted := *t
		shifted.Start += begin
		return answerOf(&shifted)
	}
	t := timing{rounds: c, answer: answer, report: func(r *round.Report) error {
		steps = float64(r.SGDSteps)
		return nil
	}}
	stop, _, err := t.play(ctx)
	if err != nil || stop.Rounds == maxRounds && n != maxRounds {
		return nil, 0, err
	}
	// A part that the virtual time ended stops with its last complete round, before its share of the time.
	endedByTime := limit > 0 && stop.EndTime > 0 && stop.Rounds != n
	if draw > 0 && endedByTime {
		stride = limit.Seconds() / stop.EndTime.Seconds()
	}
	return []float64{stride * float64(stop.Rounds), stride * stop.EndTime.Seconds(), stride * steps}, stop.EndTime, nil
}

// sampledK is the schedule of K of a part of a run, which has one of every stride of the run's rounds: it decides
// for a round of the part as k and eta do for that round of the run.
type sampledK struct {
	k      schedule.K
	eta    schedule.Eta
	stride float64
	// place says which of stride successive rounds the part has, from 0, the first, to 1.
	place float64
}

// LocalSteps implements [schedule.K].
func (s sampledK) LocalSteps(p schedule.Progress) int {
	p.Round = 1 + int((float64(p.Round-1)+s.place)*s.stride)
	p.Seconds = p.Seconds * s.stride
	p.LearningRate = s.eta.LearningRate(p)
	return s.k.LocalSteps(p)
}
