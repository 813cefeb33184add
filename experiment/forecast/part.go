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
	isForeseeable := len(p.Config.Devices.Names) == 0 && !registry.NeedsOf(p.Config.Select).Losses
	if isForeseeable {
		whole := part{limit: limit, stride: 1, maxRounds: maxRounds}
		played, err := whole.play(ctx, &untrained)
		if err != nil {
			return err
		}
		if !played.isTooLong {
			f.setTotals(&played)
			return f.findGains(ctx, &untrained, limit)
		}
	}
	// The estimates of the whole run's rounds, virtual time and local steps, one by each draw.
	var rounds, seconds, steps []float64
	// A draw plays one of every stride rounds. It begins at the moment of the run at which the draw before ended,
	// so that the draws meet different slowdown periods and absences.
	stride := 1.0
	begin := round.Time(0)
	for draw := 1; draw <= fewDraws; draw++ {
		sample := part{limit: limit, stride: stride, draw: draw, maxRounds: max(1, maxRounds/fewDraws), begin: begin}
		played, err := sample.play(ctx, &untrained)
		if err != nil {
			return err
		}
		if played.isTooLong {
			// One of every stride rounds are still too many, so all draws begin again with half as many.
			stride = 2 * stride
			if stride > maxWalked {
				return errNoEnd
			}
			begin = 0
			draw = 0
			rounds = nil
			seconds = nil
			steps = nil
			continue
		}
		begin += played.length
		rounds = append(rounds, played.rounds)
		seconds = append(seconds, played.seconds)
		steps = append(steps, played.steps)
	}
	roundsWithin := narrowed(intervalOf(rounds), stride)
	secondsWithin := narrowed(intervalOf(seconds), stride)
	f.setTotals(&partTotals{
		rounds:  roundsWithin.P50,
		seconds: secondsWithin.P50,
		steps:   intervalOf(steps).P50,
	})
	f.IsSampled = true
	// Where a number of rounds ends the run, its time is uncertain. Elsewhere the number of rounds is given.
	f.VirtualWithin = &secondsWithin
	if untrained.Config.Stop.Rounds == 0 {
		f.RoundsWithin = &roundsWithin
		f.VirtualWithin = nil
	}
	return nil
}

// narrowed turns the interval of the estimates by [fewDraws] parts of a run into one of the run itself, which
// averages over stride times as many rounds as a part does.
//
// The median of n parts has the variance π/2n of a part's. Another part therefore differs from it by
// the variance of a part times 1 + π/2n. The run, which is as long as stride parts, differs from it by that
// variance times 1/stride + π/2n, so the interval of the parts is narrowed.
func narrowed(v Interval, stride float64) Interval {
	median := math.Pi / 2 / fewDraws
	narrowing := math.Sqrt((1/stride + median) / (1 + median))
	v.P05 = v.P50 + narrowing*(v.P05-v.P50)
	v.P95 = v.P50 + narrowing*(v.P95-v.P50)
	return v
}

// setTotals takes the forecast's rounds, virtual time and local steps from what was played.
func (f *Forecast) setTotals(v *partTotals) {
	f.Rounds = int(math.Round(v.rounds))
	f.Virtual = v.seconds
	f.Steps = int64(math.Round(v.steps))
}

// part is the part of a run that is played in place of the whole run, where that is too long: about one of every
// stride rounds.
type part struct {
	// limit is the run's end in virtual time, 0 for none.
	limit round.Time
	// stride is the number of rounds of the run for each round of the part, 1 or more.
	stride float64
	// draw, from 1 to [fewDraws], chooses which rounds are played, and their seed. Draw 0, with a stride of 1, is
	// the run itself with its own seed.
	draw int
	// maxRounds is the largest number of rounds that may be played.
	maxRounds int
	// begin is the virtual time of the run at which the part starts: its clients are absent or slow as from then on.
	begin round.Time
}

// partTotals is what a part that was played says of the whole run.
type partTotals struct {
	// rounds, seconds and steps are the run's rounds, virtual seconds and local steps: those of the part times
	// its stride.
	rounds, seconds, steps float64
	// length is the virtual time that the part itself took.
	length round.Time
	// isTooLong says that more than maxRounds rounds would have to be played. Nothing else is then known.
	isTooLong bool
}

// play estimates the rounds, virtual time and local steps of the run p by playing a part of it without learning.
func (a *part) play(ctx context.Context, p *problem.Problem) (partTotals, error) {
	c, err := roundsOf(p, a.limit)
	if err != nil {
		return partTotals{}, err
	}
	// How many rounds the part has, 0 if the run has no limit of rounds.
	partRounds := int(math.Ceil(float64(c.Stop.Rounds) / a.stride))
	// With a limit of time the part may end before it has all of its rounds, so it is played to see.
	if a.limit == 0 && partRounds > a.maxRounds {
		return partTotals{isTooLong: true}, nil
	}
	stride := a.stride
	allowed := a.maxRounds
	if partRounds > 0 {
		// The number of rounds of the part was rounded up, so each stands for a little less than a.stride.
		stride = float64(c.Stop.Rounds) / float64(partRounds)
		allowed = min(partRounds, a.maxRounds)
	}
	c.Stop.Rounds = allowed
	// Draw 0 is the whole run.
	if a.draw > 0 {
		a.shorten(&c, stride)
	}
	begin := a.begin
	// This rule asks for availability ahead of the part's own clock, which must then not be shifted.
	if _, foresees := p.Config.Select.(selection.LeastAvailable); foresees {
		begin = 0
	}
	shiftAvailability(&c, begin)
	answerOf := answers(&p.Timing)
	// A client is as fast as it is in the run at the time of the part's clock plus begin.
	answer := func(t *round.Task) (round.Event, error) {
		shifted := *t
		shifted.Start += begin
		return answerOf(&shifted)
	}
	steps := 0.0
	t := dryRun{rounds: c, answer: answer, report: func(r *round.Report) error {
		steps = float64(r.SGDSteps)
		return nil
	}}
	stop, _, err := t.play(ctx)
	if err != nil {
		return partTotals{}, err
	}
	// maxRounds has ended the part, and nothing that ends the run.
	if stop.Rounds == a.maxRounds && partRounds != a.maxRounds {
		return partTotals{isTooLong: true}, nil
	}
	// A part that its share of the virtual time ended stops with its last complete round, a little before that time.
	// Its stride is then the one with which its rounds fill the limit.
	endedByTime := stop.TimeUp && stop.EndTime > 0
	if a.draw > 0 && endedByTime {
		stride = a.limit.Seconds() / stop.EndTime.Seconds()
	}
	return partTotals{
		rounds:  stride * float64(stop.Rounds),
		seconds: stride * stop.EndTime.Seconds(),
		steps:   stride * steps,
		length:  stop.EndTime,
	}, nil
}

// shorten changes c, the rounds of a run, to those of the part. Each round of the part stands for stride rounds of
// the run. All limits that end the run are divided by stride, except the number of rounds, which play sets. The seed is
// that of the part's draw. The draws take different rounds of each stride: the first draw those near its begin, the
// last those near its end.
func (a *part) shorten(c *round.Config, stride float64) {
	shareOf := func(n int64) int64 { return int64(math.Ceil(float64(n) / stride)) }
	c.Stop.Accepted = int(shareOf(int64(c.Stop.Accepted)))
	c.Stop.Budget = c.Stop.Budget.Part(stride)
	c.Stop.Samples = shareOf(c.Stop.Samples)
	c.Stop.Tokens = shareOf(c.Stop.Tokens)
	c.Stop.Time = round.Time(float64(a.limit) / stride)
	c.Seed = keyed.Hash(c.Seed, keyed.Draw, uint64(a.draw))
	c.K = sampledK{k: c.K, eta: c.Eta, stride: stride, place: (float64(a.draw) - 0.5) / fewDraws}
}

// shiftAvailability makes the rounds c, whose clock starts at 0, meet clients that are present or absent as they
// are from the virtual time begin on.
func shiftAvailability(c *round.Config, begin round.Time) {
	available := c.Available
	next := c.NextChange
	if available == nil {
		return
	}
	c.Available = func(client int, now round.Time) bool { return available(client, now+begin) }
	c.NextChange = func(now round.Time) (round.Time, bool) {
		then, ok := next(now + begin)
		return then - begin, ok
	}
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

// LocalSteps implements [schedule.K]. p is the progress of the part. The n-th round of the part stands for the rounds
// from (n-1)·stride + 1 to n·stride of the run, of which place chooses one, and the run's clock is stride times as far.
func (s sampledK) LocalSteps(p schedule.Progress) int {
	p.Round = 1 + int((float64(p.Round-1)+s.place)*s.stride)
	p.Seconds = p.Seconds * s.stride
	p.LearningRate = s.eta.LearningRate(p)
	return s.k.LocalSteps(p)
}
