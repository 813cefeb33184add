package study

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"fedpace/config"
	"fedpace/config/expect"
	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/internal/statistics"
	"fedpace/learn/metric"
)

// shortName returns the short name of a quantity in expectations, which is the full one without "validation_":
// tail_accuracy for tail_validation_accuracy. It is not ambiguous, as only validations have tails and best
// values.
func shortName(name string) string { return strings.Replace(name, "validation_", "", 1) }

// CheckExpected finds mistakes in the expectations of a configuration before anything runs.
// schedules are the schedules of a comparison over a number of seeds; they are nil for a single run,
// which has no gain to check. metrics are the metrics of the model, first the one by which models
// are compared. Without any, the metrics are those of a user's own model, which are not known yet.
func CheckExpected(c *config.Config, schedules []string, seeds int, metrics ...string) error {
	metricsKnown := len(metrics) > 0
	known := knownNames(metrics)
	var problems []error
	// All mistakes are reported together, each with the index of its expectation.
	for i, text := range c.Expect {
		e, err := expect.Parse(text)
		// A model of the user's own may measure anything, so the names in the expectation are accepted.
		hasOwnModel := c.Task == config.TaskCustom || c.External()
		if err == nil && hasOwnModel && !metricsKnown {
			known = append(known, e.Names...)
			for _, gain := range e.Gains {
				known = append(known, gain.Value)
			}
		}
		if err == nil {
			err = e.Check(known, schedules)
		}
		isComparison := schedules != nil
		if err == nil && len(e.Gains) > 0 && isComparison && seeds < 2 {
			err = errors.New("a gain has an interval over two seeds or more (give --seeds 5)")
		}
		if err != nil {
			problems = append(problems, &config.KeyError{Key: fmt.Sprintf("expect[%d]", i), Problem: err.Error()})
		}
	}
	return errors.Join(problems...)
}

// counts are values of a run that expectations may name and tables do not show: accepted is how many
// updates are in the model, and empty_rounds the number of rounds in which none was accepted.
var counts = map[string]func(c *Cell) (float64, error){
	"accepted": func(c *Cell) (float64, error) {
		return float64(c.Summary.Outcomes[round.Accepted]), nil
	},
	"empty_rounds": func(c *Cell) (float64, error) {
		empty := 0
		for report, err := range folder.Reports(filepath.Join(c.Config.Out, folder.RoundsFile)) {
			if err != nil {
				return 0, err
			}
			// A round without an accepted update left the model as it was.
			if report.Outcomes[round.Accepted] == 0 {
				empty++
			}
		}
		return float64(empty), nil
	},
}

// knownNames returns, in order, the names of all quantities that an expectation may be about, for a model with
// these metrics, or with an accuracy or not if none is given.
func knownNames(metrics []string) (known []string) {
	metricLists := [][]string{append(metrics, metric.Loss)}
	// Either of the two may turn out to be the metric by which models are compared.
	if len(metrics) == 0 {
		metricLists = [][]string{{metric.Accuracy, metric.Loss}, {metric.Loss, metric.Accuracy}}
	}
	// This run has everything that a run may have, so that all names are known.
	fullCell := Cell{Summary: folder.Summary{
		ClientEvaluation: &folder.ClientEvaluation{},
		CarbonGrams:      new(float64),
		EnergyCost:       new(float64),
	}}
	for _, list := range metricLists {
		for _, q := range append(quantities(list), optionalQuantities(list, []Cell{fullCell})...) {
			known = append(known, q.name, shortName(q.name))
		}
	}
	for name := range counts {
		known = append(known, name)
	}
	slices.Sort(known)
	return known
}

// meanCount returns the mean of a count over the runs of a row. It is NaN if one of the runs cannot be
// read, because an expectation must not be met by what was not measured.
func meanCount(cells []Cell, count func(c *Cell) (float64, error)) float64 {
	sum := 0.0
	for i := range cells {
		n, err := count(&cells[i])
		if err != nil {
			return math.NaN()
		}
		sum += n
	}
	return sum / float64(len(cells))
}

// indexOfQuantity returns the index of the quantity with the given full or short name, or -1 if no such
// quantity was measured.
func indexOfQuantity(list []quantity, name string) int {
	return slices.IndexFunc(list, func(q quantity) bool { return name == q.name || name == shortName(q.name) })
}

// ExpectedOf compares a complete run with the expectations of its configuration, each a text that
// package expect parses, and writes the outcomes into the run's summary. dir is the run's folder,
// and s its summary. Expectations of gains over other runs are left out, since one run has none to
// be compared with.
func ExpectedOf(expectations []string, dir string, s *folder.Summary) error {
	found, err := folder.Open(dir)
	if err != nil {
		return err
	}
	c := Cell{Schedule: s.Schedule, Config: found.Config, Summary: *s}
	c.Config.Out = dir
	// The measures are taken from the rounds in the folder.
	if err := c.measureRounds(); err != nil {
		return err
	}
	comparison := &Comparison{Runs: []Cell{c}}
	s.Expected = nil
	for _, text := range expectations {
		if e, err := expect.Parse(text); err != nil {
			return err
		} else if len(e.Gains) == 0 {
			t := comparison.Table()
			s.Expected = append(s.Expected, e.Hold("", t.valueOf(t.Rows[0]), nil))
		}
	}
	return s.Rewrite(dir)
}

// valueOf returns a function from a quantity's name to the row's mean; NaN where a seed has no value.
func (t *Table) valueOf(row *Row) func(name string) float64 {
	return func(name string) float64 {
		// Counts are not columns of the table, so they are looked up first.
		if count, ok := counts[name]; ok {
			return meanCount(row.Cells, count)
		}
		// A mean without some of the seeds would be another quantity, so it counts as not measured.
		if q := indexOfQuantity(t.quantities, name); q >= 0 && row.Means[q].N == row.Seeds {
			return row.Means[q].Mean
		}
		return math.NaN()
	}
}

// Expected compares the comparison with its configuration's expectations: the means of each row, and
// the gains at each point of the grids that choose no schedule.
func (r *Comparison) Expected() (list []expect.Outcome) {
	if len(r.Runs) == 0 {
		return nil
	}
	t := r.Table()
	for _, text := range r.Runs[0].Config.Expect {
		e, err := expect.Parse(text)
		if err != nil {
			// The configuration was checked, so this error was reported before.
			continue
		}
		seen := map[string]bool{}
		for _, row := range t.Rows {
			label := strings.Join(append(Sets(t.Grids, row.Values), row.Schedule), ", ")
			// A gain compares schedules, so it is checked once for each point and not for each row.
			if len(e.Gains) > 0 {
				label = strings.Join(row.point(), ", ")
				if seen[label] {
					continue
				}
				seen[label] = true
			}
			list = append(
				list,
				e.Hold(
					label,
					t.valueOf(row),
					func(mine, theirs, name string) expect.Interval { return t.gain(row.point(), mine, theirs, name) },
				),
			)
		}
	}
	return list
}

// point lists the row's values in the grids that choose no schedule.
func (r *Row) point() []string {
	if len(r.Cells) == 0 {
		return nil
	}
	return r.Cells[0].Point
}

// runsAt returns the complete runs of a schedule at one point of the grids, in the order of their seeds.
// firstStage has those of the seeds with which the study began, before it added seeds to make an interval
// narrower; they stand first in runs. If no seeds were added, firstStage is empty.
func (t *Table) runsAt(schedule string, point []string) (runs, firstStage []Cell) {
	for _, row := range t.Rows {
		if row.Schedule == schedule && slices.Equal(row.point(), point) {
			runs = append(runs, row.Cells...)
			firstStage = append(firstStage, row.Cells[:row.firstStageSeeds]...)
		}
	}
	return runs, firstStage
}

// gain is by how much a quantity of the schedule mine is above that of the schedule theirs, at one point of
// the grids: the mean over the seeds that both have, with its 95 % interval. With one seed the interval is
// infinite. The gain is NaN where a run has no value, and where no quantity has the name.
func (t *Table) gain(point []string, mine, theirs, name string) expect.Interval {
	q := indexOfQuantity(t.quantities, name)
	// NaN meets no expectation.
	if q < 0 {
		return expect.Exactly(math.NaN())
	}
	mineCells, mineFirst := t.runsAt(mine, point)
	theirCells, _ := t.runsAt(theirs, point)
	seed := func(c *Cell) uint64 { return c.Config.Seed }
	value := t.quantities[q].value
	bySeed := Paired(mineCells, theirCells, seed, value)
	// The interval follows from the pairs of the first stage, because seeds were added by what these showed
	// (see TwoStage). These pairs stand first. They are fewer than the seeds of the stage if a run diverged.
	firstStagePairs := len(Paired(mineFirst, theirCells, seed, value))
	d := statistics.TwoStage(bySeed, firstStagePairs)
	switch {
	// A difference is missing where a run has no value, so the gain is not known.
	case d.N < len(bySeed):
		return expect.Exactly(math.NaN())
	// One seed gives no interval.
	case d.N < 2:
		d.Half = math.Inf(1)
	}
	return expect.Interval{Low: d.Mean - d.Half, Value: d.Mean, High: d.Mean + d.Half}
}
