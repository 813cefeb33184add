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

// Usage is how much time and work a configuration takes on the virtual clock, over draws of its fleet and
// cohorts.
type Usage struct {
	// Seconds is the virtual time, over the draws that TooFewUpdates does not count.
	Seconds Interval
	// TooFewUpdates is the number of draws that end with fewer updates than were asked for.
	TooFewUpdates int
	// Rounds is the number of complete rounds.
	Rounds Interval
	// Steps is the sum of K_r over these rounds.
	Steps Interval
	// Work is the number of local steps of all clients whose updates count.
	Work Interval
	// Wasted is the share of the clients' time that was spent on tasks that do not count.
	Wasted Interval
	// Joules is the energy of all clients. It is NaN if no watts are known.
	Joules Interval
	// Bytes is the number of bytes of models and updates, both ways.
	Bytes Interval
	// AtMost says that the schedule follows losses or validations, so that its values are taken to stay at
	// the first ones.
	AtMost bool
	// OmitsQueries says that clients are selected by losses, and that the time to ask candidates for these is missing.
	OmitsQueries bool
}

// UsageOf plays a configuration without learning, as often as draws says, each time up to the limits in stop,
// and returns the intervals of what the draws used. done is called after each draw.
func UsageOf(ctx context.Context, c config.Config, stop round.Limits, draws int, done func()) (u Usage, err error) {
	u.OmitsQueries = registry.NeedsOf(c.Select).Losses
	// A schedule that follows what is learned is replaced by a fixed one.
	u.AtMost = c.MakeTimingOnly()
	// Nothing is trained, so this machine need not have what trains.
	const remote = true
	p, err := problem.Prepare(ctx, c, remote, nil, nil)
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	// The intervals are in the order of the values of usageOfDraw. values has for each the value of every draw.
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
		// The first value is the seconds, which are NaN for a draw with too few updates.
		if math.IsNaN(draw[0]) {
			u.TooFewUpdates++
		}
		done()
	}
	for i := range totals {
		*totals[i] = intervalOf(values[i])
	}
	return u, nil
}

// Budget is the virtual time in seconds of a configuration's runs: stop.virtual_seconds or else the median,
// over some draws, of what its rounds or its updates take. It is an error if nothing says when a run ends, or
// if no draw ever has the updates. remedy ends that error's advice, such as ", or give --hours".
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
	if err == nil && u.TooFewUpdates == draws {
		err = &config.KeyError{
			Key: "stop.accepted",
			Problem: "is more than the clients ever send in time, so it is not known how long a run is " +
				"(lower it, " + MoreUpdates + remedy + ")",
		}
	}
	return u.Seconds.P50, err
}

// usageOfDraw plays a problem with the n-th fleet and cohorts, the 0th being those of the
// configuration. Each client differs from its class as the class's uncertainty says. The values are, in the
// order of [Usage]'s intervals: the virtual seconds, NaN if the draw ends with fewer updates than stop asks for,
// the rounds, the sum of K_r, the local steps that counted, the share of time that did not, the joules, NaN where
// no watts are known, and the bytes.
func usageOfDraw(ctx context.Context, p *problem.Problem, n int, stop round.Limits) (values [7]float64, err error) {
	varied := *p
	seed := keyed.Hash(p.Config.Seed, keyed.Draw, uint64(n))
	if n > 0 {
		varied.Fleet = p.Fleet.Reseeded(seed)
	}
	about := metrics.Run{Clients: p.Config.Clients, Class: varied.Fleet.Class, Power: varied.Power()}
	recorder, err := metrics.Open(&about, nil)
	if err != nil {
		return values, err
	}
	t := dryRun{answer: drawnAnswers(&varied.Timing, seed), task: recorder.Task}
	t.rounds, err = roundsOf(&varied, stop.Time)
	if err != nil {
		return values, err
	}
	t.rounds.Stop = stop
	// The cohorts are drawn anew, too.
	if n > 0 {
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
	const complete = true
	used := recorder.Usage(complete)
	seconds := ended.EndTime.Seconds()
	hasTooFewUpdates := stop.Rounds == 0 && ended.Outcomes[round.Accepted] < stop.Accepted
	if hasTooFewUpdates {
		seconds = math.NaN()
	}
	joules := math.NaN()
	if about.Power.Watts != nil {
		joules = used.Joules.All()
	}
	return [...]float64{
		seconds, float64(last.Round), float64(last.SGDSteps), float64(used.Steps.Useful),
		used.Time.WastedShare(), joules, used.Bytes.All(),
	}, nil
}

// Interval is the median of some draws, P50, with the interval from P05 to P95 that holds 90 % of them.
type Interval struct {
	P05 float64 `json:"p05"`
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
}

// Parts returns what an interval adds to the name of its column in a table, and its numbers.
func (v Interval) Parts() ([]string, []float64) {
	return []string{"_p05", "_p50", "_p95"}, []float64{v.P05, v.P50, v.P95}
}

// manyDraws is how often a run is played for an interval, and fewDraws how often a long one is. With either
// number the ends of the interval are values of draws: (n + 1)·0.05 is whole.
const (
	manyDraws = 99
	fewDraws  = 19
)

// intervalOf returns the 5th, 50th and 95th percentile of the n values, those at the place (n+1) times the
// share in their order, interpolated between neighbours. NaNs are left out; without a value all three are
// NaN. It sorts the values in place.
func intervalOf(values []float64) Interval {
	values = slices.DeleteFunc(values, math.IsNaN)
	slices.Sort(values)
	n := len(values)
	if n == 0 {
		return Interval{math.NaN(), math.NaN(), math.NaN()}
	}
	percentile := func(share float64) float64 {
		// Places count from 1, unlike indices.
		place := min(max(share*float64(n+1), 1), float64(n))
		placeBelow := int(place)
		below := values[placeBelow-1]
		above := values[min(placeBelow, n-1)]
		return below + (place-float64(placeBelow))*(above-below)
	}
	return Interval{percentile(0.05), percentile(0.5), percentile(0.95)}
}
