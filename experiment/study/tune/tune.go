// Package tune finds the values of keys with which schedules end best, by successive halving on
// virtual time.
//
// Every setting of a grid is played to a ninth of the virtual time, the best third of them to a third
// of it, and the best third of these to its end (Jamieson and Talwalkar 2016, Algorithm 1, with η = 3,
// which makes it a bracket of Hyperband, Li et al. 2018): 22 to 26 % of the grid's virtual time, and
// more of its local steps where the settings that go on have a large K. All settings have the same
// seeds. A run that goes on does so from its checkpoint, so that the last ones are whole runs to the
// bit, and what was played is read: a tuning that was stopped goes on to the same result.
package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"fedpace/actors/measure"
	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
	"fedpace/experiment/config"
	"fedpace/experiment/forecast"
	"fedpace/experiment/study"
	"fedpace/internal/human"
	"fedpace/internal/statistics"
)

// eta is η: of so many settings one goes on, for so many times the virtual time.
const eta = 3

// rungs are the parts of the virtual time to which settings are played, as one over each.
var rungs = []float64{eta * eta, eta, 1}

// evaluations is how often models are measured in the virtual time, unless the configuration says:
// ten times in the first rung.
const evaluations = 10 * eta * eta

// Result is what a tuning came to.
type Result struct {
	Seconds  float64   // virtual time of a whole run
	Seed     uint64    // the first one
	Seeds    int       // of every setting
	Settings []Setting // the best first

	grids   []study.Grid
	quality measure.Quality
}

// Setting is a schedule at a point of the grid.
type Setting struct {
	Schedule string
	Values   []string             // of the grids
	Below    statistics.Estimated // by how much the best is better at the last rung of this one, seed by seed
	Steps    int64                // that one client of each round took, in the runs of all seeds
	Diverged int                  // runs that did

	cells []study.Cell
	tails [][]float64 // by rung and seed: the quality in the last tenth of the rung's time
	place int         // in the plan
}

// Tail is what the setting came to at a rung, over its seeds.
func (s *Setting) Tail(rung int) statistics.Estimated {
	if rung >= len(s.tails) {
		return statistics.EstimateMean(nil)
	}
	return statistics.EstimateMean(s.tails[rung])
}

// last is the last rung that the setting was played to.
func (s *Setting) last() int { return len(s.tails) - 1 }

// Make tunes each schedule of a plan over its grids.
func Make(ctx context.Context, p study.Plan, o study.Options) (*Result, error) {
	r, err := newResult(ctx, &p)
	if err != nil {
		return nil, fmt.Errorf("tune: %w", err)
	}
	left := make([]*Setting, len(r.Settings))
	for i := range r.Settings {
		left[i] = &r.Settings[i]
	}
	for i, of := range rungs {
		o.Until = r.Seconds / of
		if o.Run.Notice != nil {
			o.Run.Notice(fmt.Sprintf("%d %s to %s of %s, each with %d %s.", len(left), human.Plural(len(left), "setting"), human.VirtualTime(o.Until), human.VirtualTime(r.Seconds), r.Seeds, human.Plural(r.Seeds, "seed")))
		}
		if err := r.play(ctx, left, p.Out, o); err != nil {
			return nil, fmt.Errorf("tune: %w", err)
		}
		if i+1 < len(rungs) {
			left = r.best(left)
		}
	}
	r.rank()
	return r, nil
}

// newResult has the settings of a plan, whose runs all have the same virtual time.
func newResult(ctx context.Context, p *study.Plan) (*Result, error) {
	base, err := p.Load()
	if err != nil {
		return nil, err
	}
	switch {
	case len(p.Grids) == 0:
		return nil, errors.New("nothing to choose from: give a --grid, e.g. --grid schedule.k0=5,20,80 --grid schedule.eta0=0.01..1")
	case !base.Train:
		return nil, &config.KeyError{Key: "train", Problem: "false learns nothing by which settings could be told apart"}
	case len(base.Devices.Names) > 0:
		return nil, &config.KeyError{Key: "devices.names", Problem: "real devices cannot be in many runs at a time (fedpace plan puts simulated clients in their place)"}
	}
	r := &Result{Seed: base.Seed, Seeds: max(1, p.Seeds), grids: p.Grids}
	if r.Seconds, err = budget(ctx, base); err != nil {
		return nil, err
	}
	load := p.Load
	p.Load = func(sets ...string) (config.Config, error) {
		c, err := load(sets...)
		c.Stop = config.Stop{VirtualSeconds: r.Seconds}
		if c.Evaluate.EverySeconds == 0 {
			c.Evaluate.EverySeconds = r.Seconds / evaluations
		}
		return c, err
	}
	cells, err := p.Cells()
	for seeds := range slices.Chunk(cells, r.Seeds) {
		r.Settings = append(r.Settings, Setting{Schedule: seeds[0].Schedule, Values: seeds[0].Values, cells: seeds, place: len(r.Settings)})
	}
	return r, err
}

// budget is the virtual time of a configuration: what it says, or what its rounds take with K_0.
func budget(ctx context.Context, c config.Config) (float64, error) {
	rounds := max(c.Stop.Rounds, c.Stop.EqualRuntimeRounds)
	switch {
	case c.Stop.VirtualSeconds > 0:
		return c.Stop.VirtualSeconds, nil
	case rounds == 0:
		return 0, &config.KeyError{Key: "stop", Problem: "says neither rounds nor virtual_seconds, so it is not known how long a run is (set one)"}
	}
	c.Schedule.K, c.Schedule.Eta = schedule.FixedK{}, schedule.FixedEta{}
	u, err := forecast.UsageOf(ctx, c, round.Limits{Rounds: rounds}, 1, func() {})
	return u.Seconds.P50, err
}

// play plays settings to the time of a rung.
func (r *Result) play(ctx context.Context, list []*Setting, out string, o study.Options) error {
	var cells []study.Cell
	for _, s := range list {
		cells = append(cells, s.cells...)
	}
	if err := study.Play(ctx, out, cells, o); err != nil {
		return err
	}
	for i, s := range list {
		s.cells = cells[i*r.Seeds : (i+1)*r.Seeds]
		if err := r.measure(s, o.Until); err != nil {
			return err
		}
	}
	if best := slices.MaxFunc(list, r.compare); math.IsNaN(best.score()) {
		return fmt.Errorf("no setting has a result at %s: every run has diverged, or was not evaluated by then (evaluate.every_seconds)", human.VirtualTime(o.Until))
	}
	return nil
}

// measure takes what the runs of a setting have come to at a virtual time.
func (r *Result) measure(s *Setting, until float64) error {
	s.Steps, s.Diverged = 0, 0
	var tails []float64
	for i := range s.cells {
		c := &s.cells[i]
		if c.Diverged != "" {
			s.Diverged++
		}
		quality, err := c.Run().Quality()
		if err != nil {
			return err
		}
		r.quality = quality
		value, steps, err := tail(c, until)
		if err != nil {
			return err
		}
		s.Steps += steps
		tails = append(tails, value)
	}
	s.tails = append(s.tails, tails)
	return nil
}

// tail is a run's quality in the last tenth of the time until a moment, or else the last before that,
// with the local steps of one client of each round. NaN: it has none, or had diverged before.
func tail(c *study.Cell, until float64) (value float64, steps int64, err error) {
	var tail study.Tail
	last, end := math.NaN(), 0.0
	for p, err := range c.Run().Follow() {
		if err != nil {
			return 0, 0, err
		}
		if steps, end = p.SGDSteps, p.End.Seconds(); end > until {
			break
		}
		if p.Quality == p.Quality {
			last = p.Quality
			tail.Add(end, last)
		}
		if end == until {
			break
		}
	}
	if value = tail.Mean(until); math.IsNaN(value) {
		value = last
	}
	if c.Diverged != "" && end < until {
		value = math.NaN()
	}
	return value, steps, nil
}

// score is what a setting came to at its last rung. One that diverged is worse than any other.
func (s *Setting) score() float64 {
	if s.Diverged > 0 {
		return math.NaN()
	}
	return s.Tail(s.last()).Mean
}

// compare orders settings at the same rung, the worse first.
func (r *Result) compare(a, b *Setting) int {
	switch x, y := a.score(), b.score(); {
	case r.quality.Better(x, y):
		return 1
	case r.quality.Better(y, x):
		return -1
	}
	return 0
}

// best is the best third of the settings of each schedule, at least one.
func (r *Result) best(list []*Setting) (left []*Setting) {
	of := map[string][]*Setting{}
	for _, s := range list {
		of[s.Schedule] = append(of[s.Schedule], s)
	}
	for _, s := range list {
		group := of[s.Schedule]
		delete(of, s.Schedule)
		slices.SortStableFunc(group, func(a, b *Setting) int { return r.compare(b, a) })
		left = append(left, group[:min(len(group), max(1, len(group)/eta))]...)
	}
	return left
}

// rank orders the settings, those that were played longer before others, and sets each beside the best.
func (r *Result) rank() {
	slices.SortStableFunc(r.Settings, func(a, b Setting) int {
		return cmp.Or(min(a.Diverged, 1)-min(b.Diverged, 1), b.last()-a.last(), r.compare(&b, &a))
	})
	best := &r.Settings[0]
	for i := range r.Settings {
		s := &r.Settings[i]
		last := min(s.last(), best.last())
		below := make([]float64, r.Seeds)
		for n := range below {
			below[n] = r.quality.Error(s.tails[last][n]) - r.quality.Error(best.tails[last][n])
		}
		s.Below = statistics.EstimateMean(below)
	}
}
