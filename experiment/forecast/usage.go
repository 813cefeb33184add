package forecast

import (
	"context"
	"errors"
	"math"
	"slices"

	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/experiment/problem"
	"fedpace/internal/keyed"
	"fedpace/metrics"
	"fedpace/registry"
)

// Usage is what a configuration comes to on the virtual clock, over draws of its fleet and cohorts.
type Usage struct {
	// Of virtual time; of draws that do not fall short.
	Seconds Interval
	// Draws that end without the updates that they should have.
	Short int
	// Complete ones.
	Rounds Interval
	// Sum of K_r over them.
	Steps Interval
	// Local steps of all clients whose updates count.
	Work Interval
	// Share of clients' time.
	Wasted Interval
	// NaN: no watts are known.
	Joules Interval
	// Of models, both ways.
	Bytes Interval
	// K_r follows losses, and is taken to stay at K_0.
	AtMost bool
	// The time to ask candidates for their losses is missing.
	Asks bool
}

// UsageOf plays a configuration without learning for so many draws, each up to the limits.
// done is told of each draw.
func UsageOf(ctx context.Context, c config.Config, stop round.Limits, draws int, done func()) (u Usage, err error) {
	u.Asks = registry.NeedsOf(c.Select).Losses
	u.AtMost = c.Untrained()
	p, err := problem.Prepare(ctx, c, true, nil, nil)
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	totals := [...]*Interval{&u.Seconds, &u.Rounds, &u.Steps, &u.Work, &u.Wasted, &u.Joules, &u.Bytes}
	values := make([][]float64, len(totals))
	for n := range draws {
		draw, err := usageOfDraw(ctx, p, n, stop)
		if err != nil {
			return u, err
		}
		for i, v := range draw {
			values[i] = append(values[i], v)
		}
		if math.IsNaN(draw[0]) {
			u.Short++
		}
		done()
	}
	for i := range totals {
		*totals[i] = intervalOf(values[i])
	}
	return u, nil
}

// Budget is the virtual time in seconds of a configuration's runs: what it says, or the median of
// what its rounds take over some draws. remedy is what else than a key can say it.
func Budget(ctx context.Context, c config.Config, draws int, remedy string) (float64, error) {
	rounds := max(c.Stop.Rounds, c.Stop.EqualRuntimeRounds)
	switch {
	case c.Stop.VirtualSeconds > 0:
		return c.Stop.VirtualSeconds, nil
	case rounds == 0 && c.Stop.Accepted == 0:
		return 0, &config.KeyError{
			Key: "stop",
			Problem: "says neither rounds, accepted nor virtual_seconds, so it is not known how long a run is " +
				"(set one" + remedy + ")",
		}
	}
	u, err := UsageOf(ctx, c, round.Limits{Rounds: rounds, Accepted: c.Stop.Accepted}, draws, func() {})
	if err == nil && u.Short == draws {
		err = &config.KeyError{
			Key: "stop.accepted",
			Problem: "is more than the clients ever send in time, so it is not known how long a run is " +
				"(lower it, " + MoreUpdates + remedy + ")",
		}
	}
	return u.Seconds.P50, err
}

// usageOfDraw plays a problem with the n-th fleet and cohorts, the 0th being those of the
// configuration. Each client is as far from its class as that is uncertain. The values are those of
// a [Usage], in its order.
func usageOfDraw(ctx context.Context, p *problem.Problem, n int, stop round.Limits) (values [7]float64, err error) {
	varied, seed := *p, keyed.Hash(p.Config.Seed, keyed.Twin, uint64(n))
	if n > 0 {
		varied.Fleet = p.Fleet.Reseeded(seed)
	}
	about := metrics.Run{Clients: p.Config.Clients, Class: varied.Fleet.Class, Power: varied.Power()}
	recorder, err := metrics.Open(&about, nil)
	if err != nil {
		return values, err
	}
	t := timing{answer: drawn(&varied.Timing, seed), task: recorder.Task}
	if t.rounds, err = roundsOf(&varied, stop.Time); err != nil {
		return values, err
	}
	t.rounds.Stop = stop
	if n > 0 { // other cohorts, too
		t.rounds.Seed = seed
	}
	var last round.Report
	t.report = func(r *round.Report) error {
		last = *r
		return recorder.Round(r)
	}
	ended, _, err := t.play(ctx)
	if err != nil && !errors.Is(err, errNoEnd) {
		return values, err
	}
	used := recorder.Usage(true)
	joules := math.NaN()
	seconds := ended.EndTime.Seconds()
	if stop.Rounds == 0 && ended.Outcomes[round.Accepted] < stop.Accepted {
		seconds = math.NaN()
	}
	if about.Power.Watts != nil {
		joules = used.Joules.All()
	}
	return [...]float64{
		seconds, float64(last.Round), float64(last.SGDSteps), float64(used.Steps.Useful),
		used.Time.WastedShare(), joules, used.Bytes.All(),
	}, nil
}

// Interval is the median of some draws with the interval that 90 % of them are in.
type Interval struct {
	P05 float64 `json:"p05"`
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
}

// Parts are the numbers of an interval in a table.
func (v Interval) Parts() ([]string, []float64) {
	return []string{"_p05", "_p50", "_p95"}, []float64{v.P05, v.P50, v.P95}
}

// manyDraws are how often a run is played for an interval, and fewDraws how often a long one
// is: with either the ends of the interval are draws themselves.
const (
	manyDraws = 99
	fewDraws  = 19
)

// intervalOf takes the 5th, 50th and 95th percentile: the values at (n+1) times the share,
// which are draws if n is one of the numbers above. NaNs are left out; without a value all are
// NaN. It sorts the values.
func intervalOf(values []float64) Interval {
	values = slices.DeleteFunc(values, math.IsNaN)
	slices.Sort(values)
	n := len(values)
	if n == 0 {
		return Interval{math.NaN(), math.NaN(), math.NaN()}
	}
	percentile := func(share float64) float64 {
		place := min(max(share*float64(n+1), 1), float64(n))
		below := int(place)
		return values[below-1] + (place-float64(below))*(values[min(below, n-1)]-values[below-1])
	}
	return Interval{percentile(0.05), percentile(0.5), percentile(0.95)}
}
