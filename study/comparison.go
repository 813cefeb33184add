package study

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"fedpace/config/expect"
	"fedpace/coordinator/schedule"
	"fedpace/experiment/folder"
	"fedpace/internal/human"
	"fedpace/internal/table"
	"fedpace/learn/metric"
	"fedpace/metrics"
)

// What a comparison leaves in its folder beside its runs.
const (
	// TableFile holds the table that is printed.
	TableFile = "compare.txt"
	// CSVFile has a row for each schedule and point of the grids.
	CSVFile = "compare.csv"
	// RunsFile has a row for each run, with its provenance.
	RunsFile = "runs.csv"
	// PageFile shows the runs on one page.
	PageFile = "compare.html"
)

// Files lists the names of all files that a comparison writes into its folder.
var Files = []string{TableFile, CSVFile, RunsFile, PageFile}

// Comparison is a plan with its runs, measured and compared with a reference.
type Comparison struct {
	// Plan is the plan whose runs are compared, with the final number of seeds.
	Plan Plan
	// Runs are the runs in the order of the plan, followed by the controls.
	Runs []Cell
	// Reference is the schedule with which the others are compared, seed by seed: fixed K, or else
	// the first of the plan.
	Reference string
}

// Run plays a plan and compares its runs: first the plan's own ones, then more seeds if the first do
// not decide, then the controls. The runs of a plan with one run of each schedule are played one after
// the other.
func Run(ctx context.Context, p Plan, o Options) (*Comparison, error) {
	o.outputFiles = Files
	// The first stage has enough seeds for an estimate of the deviation.
	if u := &p.Until; u.Half > 0 {
		p.Seeds = max(p.Seeds, min(firstStage, u.MaxSeeds))
	}
	comparison, err := p.compare(ctx, o)
	if err != nil {
		return nil, err
	}
	// The files are checked once; from now on they may be those of this very study.
	o.outputFiles = nil
	// The second stage plays only the further seeds, because the runs of the first are complete.
	if seeds := comparison.seedsNeeded(o.Run.Notify); seeds > p.Seeds {
		p.Until.firstStageSeeds = p.Seeds
		p.Seeds = seeds
		comparison, err = p.compare(ctx, o)
		if err != nil {
			return nil, err
		}
	}
	// Controls follow from what the runs did: their K is known only now.
	if len(p.Controls) == 0 {
		return comparison, nil
	}
	// The K of a control is calculated from that of the run that it controls.
	controls, err := Controls(comparison.Runs, p.Controls...)
	if err != nil {
		return nil, err
	}
	if err := Play(ctx, filepath.Dir(comparison.Runs[0].Config.Out), controls, o); err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	comparison.Runs = append(comparison.Runs, controls...)
	return comparison, comparison.measure()
}

// compare plays a plan's own runs, without controls, and measures them. The reference is fixed K, or
// the first schedule where fixed K is not among them.
func (p *Plan) compare(ctx context.Context, o Options) (*Comparison, error) {
	cells, err := p.Cells()
	if err != nil {
		return nil, err
	}
	// It is better to fail before hours of runs than after them.
	if len(p.Controls) > 0 {
		if err := Controllable(cells); err != nil {
			return nil, err
		}
	}
	comparison := &Comparison{*p, cells, schedule.Fixed}
	// Without fixed K, the first schedule of the plan is the reference.
	if !slices.ContainsFunc(cells, func(c Cell) bool { return c.Schedule == schedule.Fixed }) {
		comparison.Reference = cells[0].Schedule
	}
	// Few runs are played one after the other, so that each uses the whole machine.
	if p.IsSingle() {
		o.Parallel = 1
	}
	if err := Play(ctx, filepath.Dir(cells[0].Config.Out), cells, o); errors.Is(err, context.Canceled) {
		return nil, err
	} else if err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	return comparison, comparison.measure()
}

// Write writes the comparison for people: a row for each run or, where there are several of a
// schedule, for each point with the means over its seeds and how these differ.
func (r *Comparison) Write(w io.Writer) error {
	text := bufio.NewWriter(w)
	t := r.Table()
	// With several seeds a row has means; a single seed has a row for each run.
	if !r.Plan.IsSingle() {
		if err := t.Write(text); err != nil {
			return err
		}
	} else if err := table.WriteFolded(text, r.columns().Texts(r.endedCells()), 1); err != nil {
		return err
	}
	for _, c := range r.Runs {
		if r.Plan.IsSingle() && c.Diverged != "" {
			fmt.Fprintf(text, "\n%s came to no end: %s.\n", c.Schedule, c.Diverged)
		}
	}
	if r.Plan.IsSingle() && len(r.Runs) > 0 && r.Runs[0].Summary.Data != nil {
		fmt.Fprintf(text, "\nData: %s.\n", *r.Runs[0].Summary.Data)
	}
	if err := t.writeDifferences(text); err != nil {
		return err
	}
	r.writeNotes(text)
	return text.Flush()
}

// writeNotes writes what a reader must know to trust the numbers, a paragraph each behind an empty line.
func (r *Comparison) writeNotes(w io.Writer) {
	r.noteLongWindows(w)
	r.noteUnequalTimes(w)
	r.noteUnequalPoints(w)
	if len(r.Runs) > 0 && len(r.Runs[0].Config.Personal.Names) > 0 {
		fmt.Fprint(w, "\nThe model that is evaluated is a new client's: clients have personal parameters of "+
			"their own (evaluate.clients measures theirs).\n")
	}
}

// noteUnequalTimes names the first run that ended long before another one with its seed: a comparison is fair
// at equal virtual time alone.
func (r *Comparison) noteUnequalTimes(w io.Writer) {
	longest := map[string]float64{}
	pairKey := func(c *Cell) string { return fmt.Sprint(c.Config.Seed, c.Point) }
	// The first pass finds the longest virtual time among the runs with the same seed at the same
	// point.
	for i := range r.Runs {
		c := &r.Runs[i]
		longest[pairKey(c)] = max(longest[pairKey(c)], c.Summary.VirtualSeconds)
	}
	for i := range r.Runs {
		// Up to a tenth less is tolerated, because runs end with a whole round.
		if c := &r.Runs[i]; c.Diverged == "" && c.Summary.VirtualSeconds < 0.9*longest[pairKey(c)] {
			fmt.Fprintf(w, "\nRuns are not held to one virtual time: %s with seed %d ended after %s, another "+
				"after %s (stop.virtual_seconds alone would).\n",
				c.Schedule, c.Config.Seed, human.VirtualTime(c.Summary.VirtualSeconds),
				human.VirtualTime(longest[pairKey(c)]))
			return
		}
	}
}

// noteUnequalPoints says how far apart runs end at different values of a grid's key of the schedule, as schedule.k0:
// stop.rounds stands for as long as that many rounds take with a run's own K_0. Points of other keys, as of links, are
// meant to differ in time.
func (r *Comparison) noteUnequalPoints(w io.Writer) {
	// With two grids, the other one may set the times.
	if len(r.Plan.Grids) != 1 || !strings.HasPrefix(r.Plan.Grids[0].Key, "schedule.") {
		return
	}
	shortest := math.Inf(1)
	longest := 0.0
	for i := range r.Runs {
		if c := &r.Runs[i]; c.Diverged == "" {
			shortest = min(shortest, c.Summary.VirtualSeconds)
			longest = max(longest, c.Summary.VirtualSeconds)
		}
	}
	// Up to a tenth less is tolerated, because runs end with a whole round.
	if shortest < 0.9*longest {
		fmt.Fprintf(w, "\nRuns with different %s end after %s to %s of virtual time, so rows of different values "+
			"do not compare (stop.rounds: null with stop.virtual_seconds holds all to one time).\n",
			r.Plan.Grids[0].Key, human.VirtualTime(shortest), human.VirtualTime(longest))
	}
}

// noteLongWindows names the schedules whose loss is a mean over so many rounds that it says little of the
// present.
func (r *Comparison) noteLongWindows(w io.Writer) {
	noted := map[string]bool{}
	for i := range r.Runs {
		c := &r.Runs[i]
		s := &c.Config.Schedule
		// windowText describes a window that is too long. It is empty for any other.
		windowText := s.TooLong(c.Summary.Rounds)
		readsLosses := schedule.NeedsOf(s.K, s.Setup()).Losses || schedule.NeedsOf(s.Eta, s.Setup()).Losses
		// Only a schedule that reads losses is affected, and each schedule is named once.
		if noted[c.Schedule] || windowText == "" || !readsLosses {
			continue
		}
		noted[c.Schedule] = true
		fmt.Fprintf(w, "\n%s reads a loss that is a %s.\n", c.Schedule, windowText)
	}
}

// endedCells returns the cells for a table that has a row for each run. Of a run that diverged only rounds, virtual
// time and steps are kept, as its model measures nothing. The cells are copies, so r does not
// change.
func (r *Comparison) endedCells() (list []*Cell) {
	for _, c := range r.Runs {
		if s := c.Summary; c.Diverged != "" {
			c.Summary = folder.Summary{Rounds: s.Rounds, VirtualSeconds: s.VirtualSeconds, SGDSteps: s.SGDSteps}
		}
		list = append(list, &c)
	}
	return list
}

// columns returns the columns of a table that has a row for each run: the losses, the metrics, fairness, the
// time to the level, and the costs. Values that are not known are shown as "-".
func (r *Comparison) columns() table.Columns[*Cell] {
	names := metricNames(r.Runs)
	columns := table.Columns[*Cell]{{Title: "schedule", Text: func(c *Cell) string { return c.Schedule }}}
	list := []quantity{{title: "training loss", value: func(c *Cell) float64 { return c.TailLoss }}}
	for i, name := range names {
		// Only the first metric has a mean over the run's end.
		if i == 0 {
			list = append(
				list,
				quantity{title: "tail " + metric.Title(name), value: func(c *Cell) float64 { return c.Tail }},
			)
		}
		title := "best " + metric.Title(name)
		// A baseline is the same in every round.
		if metric.Constant(name) {
			title = metric.Title(name)
		}
		list = append(
			list,
			quantity{
				title: title,
				value: func(c *Cell) float64 { return metrics.Value(c.Summary.Metric(name).Best) },
			},
		)
	}
	// Measures of fairness are shown for the metric by which runs are compared, which is the first.
	for _, q := range append(list, fairness(names[:min(1, len(names))], r.Runs)...) {
		columns = append(
			columns,
			table.Column[*Cell]{Title: q.title, Text: func(c *Cell) string { return human.Fixed(q.value(c)) }},
		)
	}
	return append(columns, table.Columns[*Cell]{
		{Title: "time to " + levelName(r.Runs), Text: func(c *Cell) string {
			switch {
			case !math.IsNaN(c.TimeToLevel):
				return human.VirtualTime(c.TimeToLevel)
			case math.IsNaN(c.Level):
				return "-"
			}
			return "not reached"
		}},
		{Title: "rounds", Text: func(c *Cell) string { return strconv.Itoa(c.Summary.Rounds) }},
		{Title: "virtual time", Text: func(c *Cell) string { return human.VirtualTime(c.Summary.VirtualSeconds) }},
		{Title: "SGD steps", Text: func(c *Cell) string { return fmt.Sprint(c.Summary.SGDSteps) }},
		{Title: "relative", Text: func(c *Cell) string { return human.Known("%.4f", c.relativeSteps()) }},
	}...)
}

// MarshalJSON writes the comparison as one object. If each schedule has a single run, the object has each
// run's summary, as in its summary.json, and when the run reached the level; else the rows of the table.
func (r *Comparison) MarshalJSON() ([]byte, error) {
	if !r.Plan.IsSingle() {
		t := r.Table()
		t.expected = r.Expected()
		return t.MarshalJSON()
	}
	type run struct {
		folder.Summary
		// TimeToLevel is in virtual seconds. It is null if the level was never reached.
		TimeToLevel *float64 `json:"time_to_level"`
		// Tail is the mean, over the last tenth of the virtual time, of the metric by which runs
		// are compared. It is null if it was not measured.
		Tail *float64 `json:"tail"`
		// Diverged says why the run did not complete. It is null if the run did.
		Diverged *string `json:"diverged"`
	}
	runs := make([]run, len(r.Runs))
	equalRounds := 0
	if len(r.Runs) > 0 {
		equalRounds = r.Runs[0].Config.Stop.EqualRuntimeRounds
	}
	for i, c := range r.Runs {
		runs[i] = run{
			c.Summary,
			metrics.Measured(c.TimeToLevel),
			metrics.Measured(c.Tail),
			folder.TextOrNil(c.Diverged),
		}
	}
	return json.Marshal(struct {
		Reference string `json:"reference"`
		// Level is the value that the reference reaches of the metric by which runs are compared.
		Level *float64 `json:"level"`
		// Equal is stop.equal_runtime_rounds: the number of rounds of fixed K whose virtual time,
		// or what else stop.equal names, every run had. It is 0 without that stop.
		Equal int   `json:"equal_runtime_rounds"`
		Runs  []run `json:"runs"`

		Expected []expect.Outcome `json:"expected,omitempty"`
	}{r.Reference, metrics.Measured(level(r.Runs)), equalRounds, runs, r.Expected()})
}
