package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"fedpace/config"
	"fedpace/coordinator/schedule"
	"fedpace/experiment/forecast"
	"fedpace/internal/human"
	"fedpace/internal/statistics"
	"fedpace/learn/metric"
	"fedpace/study"
	"fedpace/study/choice"
)

// reductionFactor is η of successive halving: of so many settings one goes on to the next rung, where it is played
// for so many times the virtual time.
const reductionFactor = 3

// rungDivisors says to which part of a run's virtual time settings are played at each rung: rung i ends at the
// virtual time of a whole run divided by rungDivisors[i].
var rungDivisors = []float64{reductionFactor * reductionFactor, reductionFactor, 1}

// evaluationsPerRun is how often models are evaluated in the virtual time of a whole run, unless the
// configuration says. The first rung then has ten evaluations.
const evaluationsPerRun = 10 * reductionFactor * reductionFactor

// Result is the outcome of a tuning.
type Result struct {
	// Seconds is the virtual time of a whole run.
	Seconds float64
	// Seeds is the number of seeds with which every setting is played in the rungs.
	Seeds int
	// Settings are sorted with the best first.
	Settings []*Setting
	// Searches has, for each schedule in the order of the plan, what was found out about the settings that
	// were played to the end.
	Searches []*Searched

	// grids are the keys that were varied.
	grids []study.Grid
	// quality is the metric by which settings are compared.
	quality metric.Quality
}

// Searched is the comparison of those settings of one schedule that were played to the end.
type Searched struct {
	choice.Outcome
	// Settings are the settings that the standings of the outcome count.
	Settings []*Setting
}

// Setting is a schedule at a point of the grid.
type Setting struct {
	// Below is by how much the best setting is better at the last rung that both reached, paired by
	// seed.
	Below statistics.Estimated
	// Steps is the number of SGD steps that one client of each round took up to the last rung's time,
	// summed over the runs in cells.
	Steps int64

	// Winner says that the setting is the one that is chosen for its schedule.
	Winner bool
	// Fresh holds the quality at the end for each of the fresh seeds. It is empty if the setting was not
	// tried with them.
	Fresh []float64

	// cells holds the setting's runs in the rungs, one for each seed.
	cells []study.Cell
	// furtherCells are the setting's runs with further seeds, for the search at the end.
	furtherCells []study.Cell
	// tails holds, by rung and seed, the quality in the last tenth of the rung's time: tails[rung][i] is that of
	// cells[i]. It is NaN if there is none or if the run diverged. At the last rung the values of the search's
	// further seeds follow.
	tails [][]float64
}

// Tail is the quality of the setting at a rung, over its seeds. It has no value at a rung to which the
// setting was not played.
func (s *Setting) Tail(rung int) statistics.Estimated {
	if rung >= len(s.tails) {
		return statistics.EstimateMean(nil)
	}
	return statistics.EstimateMean(s.tails[rung])
}

// lastRung is the last rung to which the setting was played.
func (s *Setting) lastRung() int { return len(s.tails) - 1 }

// Make tunes each schedule of a plan over its grids, rung by rung, and then searches the best of the settings
// that were played to the end. limits say with how many seeds; they replace those of the plan.
func Make(ctx context.Context, p study.Plan, limits choice.Limits, o study.Options) (*Result, error) {
	limits.Seeds = max(1, limits.Seeds)
	r, err := newResult(ctx, &p, limits)
	if err != nil {
		return nil, fmt.Errorf("tune: %w", err)
	}
	remaining := slices.Clone(r.Settings)
	// Each rung plays the settings that remain for longer, and then keeps only the best of them.
	for rung := range rungDivisors {
		if err := r.play(ctx, remaining, rung, p.Folder, o); err != nil {
			return nil, fmt.Errorf("tune: %w", err)
		}
		if rung == len(rungDivisors)-1 {
			break
		}
		remaining, err = r.promote(remaining, rung)
		if err != nil {
			return nil, fmt.Errorf("tune: %w", err)
		}
	}
	// Schedules are compared only after each has its own best setting.
	for _, group := range bySchedule(remaining) {
		if err := r.search(ctx, group, limits, p.Folder, o); err != nil {
			return nil, fmt.Errorf("tune: %w", err)
		}
	}
	slices.SortStableFunc(r.Settings, r.compareSettings)
	// Each setting is compared with the best one at the last rung that both reached.
	for _, s := range r.Settings {
		s.Below = r.behind(s, r.Settings[0])
	}
	return r, nil
}

// behind is by how much setting s ended worse than another one at the last rung that both reached, paired by
// seed: positive where s is worse, whatever the direction of the quality.
func (r *Result) behind(s, other *Setting) statistics.Estimated {
	rung := min(s.lastRung(), other.lastRung())
	tails := s.sharedTails(rung, r.Seeds)
	otherTails := other.sharedTails(rung, r.Seeds)
	differences := make([]float64, min(len(tails), len(otherTails)))
	for n := range differences {
		differences[n] = r.quality.Error(tails[n]) - r.quality.Error(otherTails[n])
	}
	return statistics.EstimateMean(differences)
}

// newResult lists the settings of a plan, with their runs, and plays none. Every run ends at the virtual time that a
// run of fixed K would take. Unless the configuration says how often models are evaluated, the first rung of the
// tuning has ten evaluations ([evaluationsPerRun]).
func newResult(ctx context.Context, p *study.Plan, limits choice.Limits) (*Result, error) {
	base, err := p.Load()
	if err != nil {
		return nil, err
	}
	switch {
	case len(p.Grids) == 0:
		return nil, errors.New("nothing to choose from: give a --grid, e.g. --grid schedule.k0=5,20,80 --grid " +
			"schedule.eta0=0.01..1")
	// Settings are compared by their models, so something must be trained.
	case !base.Train:
		return nil, &config.KeyError{
			Key:     "train",
			Problem: "false learns nothing by which settings could be told apart",
		}
	case len(base.Devices.Names) > 0:
		return nil, &config.KeyError{
			Key: "devices.names",
			Problem: "real devices cannot be in many runs at a time (fedpace plan puts simulated clients in " +
				"their place)",
		}
	}
	r := &Result{Seeds: limits.Seeds, grids: p.Grids}
	// A setting has a run for each seed that the search may use, the fresh ones included.
	p.Seeds = limits.Total()
	// Fixed K sets the virtual time that every setting has.
	base.Schedule.K = schedule.FixedK{}
	base.Schedule.Eta = schedule.FixedEta{}
	const draws = 1
	const remedy = ""
	r.Seconds, err = forecast.Budget(ctx, base, draws, remedy)
	if err != nil {
		return nil, err
	}
	load := p.Load
	// Every setting has the same virtual time, whatever its own schedule and stop.
	p.Load = func(sets ...string) (config.Config, error) {
		c, err := load(sets...)
		c.Stop = config.Stop{VirtualSeconds: r.Seconds}
		c.Evaluate.EverySeconds = cmp.Or(c.Evaluate.EverySeconds, r.Seconds/evaluationsPerRun)
		return c, err
	}
	cells, err := p.Cells()
	// The cells of a setting follow each other, one for each seed. The rungs play the first r.Seeds of them.
	for cellsBySeed := range slices.Chunk(cells, p.Seeds) {
		r.Settings = append(r.Settings, &Setting{cells: cellsBySeed[:r.Seeds], furtherCells: cellsBySeed[r.Seeds:]})
	}
	return r, err
}

// play plays the settings of list to the end of a rung, a part of the runs' virtual time, and measures them there.
// dir is the folder of the study. It is an error if no setting has a result with every seed.
func (r *Result) play(ctx context.Context, list []*Setting, rung int, dir string, o study.Options) error {
	until := r.Seconds / rungDivisors[rung]
	// The last rung goes to the end of the runs.
	if rung+1 < len(rungDivisors) {
		o.Until = until
	}
	o.Run.Notify(fmt.Sprintf(
		"To %s of %s: %d %s.",
		human.VirtualTime(until),
		human.VirtualTime(r.Seconds),
		len(list),
		human.Plural(len(list), "setting"),
	))
	var cells []study.Cell
	for _, s := range list {
		cells = append(cells, s.cells...)
	}
	if err := study.Play(ctx, dir, cells, o); err != nil {
		return err
	}
	found := false
	// Play has changed the cells, so each setting takes its own back.
	for i, s := range list {
		s.cells = cells[i*r.Seeds : (i+1)*r.Seeds]
		if err := r.measure(s, until); err != nil {
			return err
		}
		// The mean error is infinite if a seed has no value.
		found = found || !math.IsInf(r.meanError(s), 0)
	}
	if !found {
		return fmt.Errorf("no setting has a result at %s with every seed: a run of each has diverged, or was not "+
			"evaluated by then (evaluate.every_seconds)", human.VirtualTime(until))
	}
	return nil
}

// measure adds the results of the rung that ends at the virtual time until, in seconds, to setting s: the quality
// of its runs in the last tenth of that time, one value for each seed. A run that diverged has NaN. It also sums
// the local steps up to the end of the first round that ends at until or later, after which the runs pause.
func (r *Result) measure(s *Setting, until float64) (err error) {
	s.Steps = 0
	tails := make([]float64, len(s.cells))
	for i := range s.cells {
		c := &s.cells[i]
		// The quality is what models are compared by.
		r.quality, err = c.Run().Quality()
		if err != nil {
			return err
		}
		tail, steps, err := c.TailAt(until)
		if err != nil {
			return err
		}
		s.Steps += steps
		tails[i] = tail
		// A run that diverged has no result at any rung.
		if c.Diverged != "" {
			tails[i] = math.NaN()
		}
	}
	s.tails = append(s.tails, tails)
	return nil
}

// sharedTails returns the setting's qualities at a rung, an index of rungDivisors, one for each seed. It has only
// seeds with which other settings can be compared: those of the rungs, whose number is seeds, and at the last rung
// the fresh ones. The seeds that the search gave to some settings alone are left out.
func (s *Setting) sharedTails(rung, seeds int) []float64 {
	tails := slices.Clone(s.tails[rung][:seeds])
	if rung == len(rungDivisors)-1 {
		tails = append(tails, s.Fresh...)
	}
	return tails
}

// meanError returns the mean error of setting s over its shared seeds (see sharedTails) at the last rung that it was
// played to, the lower the better. It is +Inf if a seed has no value.
func (r *Result) meanError(s *Setting) float64 {
	tails := s.sharedTails(s.lastRung(), r.Seeds)
	if e := statistics.EstimateMean(tails); e.N == len(tails) {
		return r.quality.Error(e.Mean)
	}
	return math.Inf(1)
}

// compareSettings compares settings a and b for sorting, the best first: those with a value at every seed,
// then those that were played longer, then those that were chosen for their schedule, then those
// with the lower error.
func (r *Result) compareSettings(a, b *Setting) int {
	errorA := r.meanError(a)
	errorB := r.meanError(b)
	failedA := math.IsInf(errorA, 1)
	failedB := math.IsInf(errorB, 1)
	switch {
	// An error of +Inf means that some seed has no value.
	case failedA && !failedB:
		return 1
	case failedB && !failedA:
		return -1
	case a.lastRung() != b.lastRung():
		return b.lastRung() - a.lastRung()
	case a.Winner && !b.Winner:
		return -1
	case b.Winner && !a.Winner:
		return 1
	}
	return cmp.Compare(errorA, errorB)
}

// bySchedule divides the settings of list into groups, one for each schedule, in the order in which
// the list first has them.
func bySchedule(list []*Setting) (groups [][]*Setting) {
	index := map[string]int{}
	for _, s := range list {
		name := s.cells[0].Schedule
		i, known := index[name]
		if !known {
			i = len(groups)
			index[name] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], s)
	}
	return groups
}

// promote returns the settings of list that continue after this rung: the best third of each schedule's,
// at least two of each where there are as many. It is an error if settings of a schedule would be left out
// although none of them has a result with every seed, because nothing then tells which are the best. If all
// missing results are of runs that diverged, the first settings continue nevertheless.
func (r *Result) promote(list []*Setting, rung int) ([]*Setting, error) {
	var remaining []*Setting
	for _, group := range bySchedule(list) {
		slices.SortStableFunc(group, r.compareSettings)
		// Two settings of each schedule go on, so that the last one is chosen by a comparison.
		survivors := max(min(2, len(group)), len(group)/reductionFactor)
		// The first of the sorted group has a finite error if any has one.
		chosenBlindly := survivors < len(group) && math.IsInf(r.meanError(group[0]), 1)
		if chosenBlindly && slices.ContainsFunc(group, (*Setting).unmeasured) {
			return nil, fmt.Errorf(
				"no setting of %s has a result at %s: none was evaluated by then with every seed "+
					"(evaluate.every_seconds)",
				group[0].cells[0].Schedule,
				human.VirtualTime(r.Seconds/rungDivisors[rung]),
			)
		}
		remaining = append(remaining, group[:survivors]...)
	}
	return remaining, nil
}

// unmeasured reports whether some run of the setting has no quality at its last rung although it did not diverge:
// its model was never evaluated by the end of the rung.
func (s *Setting) unmeasured() bool {
	for i, tail := range s.tails[s.lastRung()] {
		if math.IsNaN(tail) && s.cells[i].Diverged == "" {
			return true
		}
	}
	return false
}
