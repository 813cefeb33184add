package plan

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"fedpace/coordinator/round"
	"fedpace/experiment/config"
	"fedpace/experiment/predict"
	"fedpace/experiment/problem"
	"fedpace/internal/keyed"
	"fedpace/internal/registry"
	"fedpace/metrics"
)

// Timing is what a setting comes to in the plan's time, over draws of the fleet.
type Timing struct {
	Rounds Spread // complete ones
	Steps  Spread // sum of K_r over them
	Work   Spread // local steps of all clients whose updates count
	Wasted Spread // share of clients' time
	Joules Spread // NaN: no watts are known
	Bytes  Spread // of models, both ways
	AtMost bool   // K_r follows losses, and is taken to stay at K_0
	Asks   bool   // the time to ask candidates for their losses is missing
}

// Spread is the median of the draws with the interval of 90 % of them.
type Spread struct{ P05, P50, P95 float64 }

// Score is how promising a setting is before it is learned: the higher, the more; see
// the package's comment.
func (t *Timing) Score() float64 { return math.Sqrt(t.Work.P50) * t.Rounds.P50 }

// usage is what one draw came to.
type usage struct{ rounds, steps, work, wasted, joules, bytes float64 }

// time times the settings for so many virtual seconds, side by side. progress is told
// how many draws of how many are done; it may be nil.
func (q *Request) time(ctx context.Context, list []Setting, seconds float64, progress func(done, of int)) error {
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	var mu sync.Mutex
	done := 0
	for i := range list {
		group.Go(func() error {
			s := &list[i]
			p, err := s.untrained(inner)
			if err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			draws := make([]usage, q.Draws)
			for n := range draws {
				if draws[n], _, err = play(inner, p, n, round.Limits{Time: virtual(seconds)}); err != nil {
					return errors.Join(fmt.Errorf("%s: %w", s.Name, err), p.Close())
				}
				mu.Lock()
				if done++; progress != nil {
					progress(done, len(list)*q.Draws)
				}
				mu.Unlock()
			}
			s.Timing.take(draws)
			return p.Close()
		})
	}
	return group.Wait()
}

// untrained is the setting's problem without learning.
func (s *Setting) untrained(ctx context.Context) (*problem.Problem, error) {
	c := s.config
	s.Asks = registry.NeedsOf(c.Select).Losses
	s.AtMost = c.Untrained()
	return problem.Prepare(ctx, c, true, nil, nil)
}

// budget is the virtual time of all settings, in seconds: the given hours, the
// configuration's own virtual_seconds, or the median time of its rounds.
func (q *Request) budget(ctx context.Context, own *Setting) (float64, error) {
	stop := own.config.Stop
	switch rounds := max(stop.Rounds, stop.EqualRuntimeRounds); {
	case q.Hours > 0:
		return q.Hours * 3600, nil
	case stop.VirtualSeconds > 0:
		return stop.VirtualSeconds, nil
	case rounds == 0:
		return 0, &config.KeyError{Key: "stop", Problem: "says neither rounds nor virtual_seconds, so it is not known for how long to plan (set one, or give --hours)"}
	default:
		p, err := own.untrained(ctx)
		if err != nil {
			return 0, err
		}
		defer p.Close() //nolint:errcheck // nothing is written
		times := make([]float64, q.Draws)
		for n := range times {
			_, at, err := play(ctx, p, n, round.Limits{Rounds: rounds})
			if err != nil {
				return 0, err
			}
			times[n] = at.Seconds()
		}
		_, median, _ := predict.Quantiles(times)
		return median, nil
	}
}

// virtual is a time in nanoseconds.
func virtual(seconds float64) round.Time {
	return round.Time(min(math.RoundToEven(seconds*1e9), float64(round.MaxTime)))
}

// play plays a problem with the n-th fleet, the 0th being that of the configuration, of whose
// classes each client is as far as these are uncertain, and returns where it ended and what it used.
func play(ctx context.Context, p *problem.Problem, n int, stop round.Limits) (usage, round.Time, error) {
	own, seed := *p, keyed.Hash(p.Config.Seed, keyed.Twin, uint64(n))
	if n > 0 {
		own.Fleet = p.Fleet.Reseeded(seed)
	}
	about := metrics.Run{Clients: p.Config.Clients, Class: own.Fleet.Class, Power: own.Power()}
	recorder, err := metrics.Open(&about, nil)
	if err != nil {
		return usage{}, 0, err
	}
	timing := predict.Timing{
		Answer: predict.Drawn(&own, seed),
		Task:   recorder.Task,
	}
	if timing.Rounds, err = predict.Rounds(&own, stop.Time); err != nil {
		return usage{}, 0, err
	}
	timing.Rounds.Stop = stop
	var u usage
	timing.Report = func(r *round.Report) error {
		u.rounds, u.steps = float64(r.Round), float64(r.SGDSteps)
		return recorder.Round(r)
	}
	ended, _, err := timing.Play(ctx)
	if err != nil {
		return u, 0, err
	}
	used := recorder.Usage(true)
	u.work, u.wasted, u.bytes = float64(used.Steps.Useful), used.Time.WastedShare(), float64(used.Bytes.Useful+used.Bytes.Wasted)
	if u.joules = math.NaN(); about.Power.Watts != nil {
		u.joules = used.Joules.Useful + used.Joules.Wasted
	}
	return u, ended.At, nil
}

// take takes the draws over.
func (t *Timing) take(draws []usage) {
	for _, x := range []struct {
		to *Spread
		of func(*usage) float64
	}{
		{&t.Rounds, func(u *usage) float64 { return u.rounds }},
		{&t.Steps, func(u *usage) float64 { return u.steps }},
		{&t.Work, func(u *usage) float64 { return u.work }},
		{&t.Wasted, func(u *usage) float64 { return u.wasted }},
		{&t.Joules, func(u *usage) float64 { return u.joules }},
		{&t.Bytes, func(u *usage) float64 { return u.bytes }},
	} {
		values := make([]float64, len(draws))
		for i := range draws {
			values[i] = x.of(&draws[i])
		}
		x.to.P05, x.to.P50, x.to.P95 = predict.Quantiles(values)
	}
}
