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

	"fedpace/actors/measure"
	"fedpace/coordinator/schedule"
	"fedpace/experiment/folder"
	"fedpace/internal/human"
	"fedpace/internal/table"
	"fedpace/metrics"
)

// What a comparison leaves in its folder beside its runs.
const (
	TableFile = "compare.txt"  // the table that it prints
	CSVFile   = "compare.csv"  // a row for each schedule and value
	RunsFile  = "runs.csv"     // a row for each run, and where it comes from
	PageFile  = "compare.html" // the runs on one page
)

// Files are all of these.
var Files = []string{TableFile, CSVFile, RunsFile, PageFile}

// Comparison is what the runs of a plan came to.
type Comparison struct {
	Plan      Plan
	Runs      []Cell // in the order of the plan, each timed to the best loss of the reference
	Reference string // the schedule whose best loss the others with the same seed are timed to
}

// Run plays a plan and compares its runs. Those of a plan with one run of each schedule are
// played one after the other.
func Run(ctx context.Context, p Plan, o Options) (*Comparison, error) {
	cells, err := p.Cells()
	if err != nil {
		return nil, err
	}
	r := &Comparison{p, cells, schedule.Fixed}
	if p.Single() {
		o.Beside = 1
		if !slices.ContainsFunc(cells, func(c Cell) bool { return c.Schedule == schedule.Fixed }) {
			r.Reference = cells[0].Schedule
		}
	}
	o.leaves = Files
	if err := Play(ctx, filepath.Dir(cells[0].Config.Out), cells, o); errors.Is(err, context.Canceled) {
		return nil, err
	} else if err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	return r, r.measure()
}

// measure compares each run with that of the reference schedule with the same seed and the same
// values of grids over other keys: when it reached the best loss of that one, which is the virtual
// time at which the mean loss of the last rounds (Eq. 15) first was at most that, and how much
// better it ended.
func (r *Comparison) measure() error {
	key := func(c *Cell) string { return fmt.Sprint(c.Point, c.Config.Seed) }
	references := map[string]*Cell{}
	for i := range r.Runs {
		if c := &r.Runs[i]; c.Diverged == "" && c.Schedule == r.Reference {
			references[key(c)] = c
		}
	}
	for i := range r.Runs {
		c := &r.Runs[i]
		c.Target = math.NaN()
		if best := references[key(c)]; best != nil {
			c.Target = metrics.Value(best.Summary.BestTrainingLoss)
		}
		if err := c.follow(); err != nil {
			return err
		}
	}
	for i := range r.Runs {
		c := &r.Runs[i]
		c.TailGain = math.NaN()
		if best := references[key(c)]; best != nil && best != c {
			c.TailGain = c.Tail - best.Tail
		}
	}
	return nil
}

// follow reads a run's rounds.
func (c *Cell) follow() error {
	c.TimeToTarget, c.Tail = math.NaN(), math.NaN()
	if c.Diverged != "" {
		return nil
	}
	var tail Tail
	for r, err := range c.Run().Follow() {
		if err != nil {
			return err
		}
		if r.WindowLoss <= c.Target && math.IsNaN(c.TimeToTarget) {
			c.TimeToTarget = r.End.Seconds()
		}
		if !math.IsNaN(r.Quality) {
			tail.Add(r.End.Seconds(), r.Quality)
		}
	}
	c.Tail = tail.Mean(c.Summary.VirtualSeconds)
	return nil
}

// Write writes the comparison for people: a row for each run or, where there are several of a
// schedule, for each point with the means over its seeds.
func (r *Comparison) Write(w io.Writer) error {
	if !r.Plan.Single() {
		return r.Table().Write(w)
	}
	text := bufio.NewWriter(w)
	if err := table.WriteText(text, r.columns().Texts(r.ended()), true); err != nil {
		return err
	}
	for _, c := range r.Runs {
		if c.Diverged != "" {
			fmt.Fprintf(text, "\n%s came to no end: %s.\n", c.Schedule, c.Diverged)
		}
	}
	if len(r.Runs) > 0 && r.Runs[0].Summary.Data != nil {
		fmt.Fprintf(text, "\nData: %s.\n", *r.Runs[0].Summary.Data)
	}
	if loss := r.target(); !math.IsNaN(loss) {
		fmt.Fprintf(text, "The loss to reach is %.4f, a mean over the window of rounds; \"-\" never reached it.\n", loss)
	}
	return text.Flush()
}

// target is the best loss of the only run of the reference; NaN: there is none.
func (r *Comparison) target() float64 {
	if len(r.Runs) == 0 {
		return math.NaN()
	}
	return r.Runs[0].Target
}

// ended are the runs, of which those that diverged have no more than how far they went.
func (r *Comparison) ended() (list []*Cell) {
	for _, c := range r.Runs {
		if s := c.Summary; c.Diverged != "" {
			c.Summary = folder.Summary{Rounds: s.Rounds, VirtualSeconds: s.VirtualSeconds, SGDSteps: s.SGDSteps}
		}
		list = append(list, &c)
	}
	return list
}

// columns are those of a table with a row for each run.
func (r *Comparison) columns() table.Columns[*Cell] {
	names := shownBest(r.Runs)
	columns := table.Columns[*Cell]{
		{Title: "schedule", Text: func(c *Cell) string { return c.Schedule }},
		{Title: "rounds", Text: func(c *Cell) string { return strconv.Itoa(c.Summary.Rounds) }},
		{Title: "virtual time", Text: func(c *Cell) string { return human.VirtualTime(c.Summary.VirtualSeconds) }},
		{Title: "SGD steps", Text: func(c *Cell) string { return fmt.Sprint(c.Summary.SGDSteps) }},
		{Title: "relative", Text: func(c *Cell) string { return fourDigits(metrics.Value(c.Summary.RelativeSGDSteps)) }},
		{Title: "best training loss", Text: func(c *Cell) string { return fourDigits(metrics.Value(c.Summary.BestTrainingLoss)) }},
	}
	var measured []quantity
	for _, name := range names {
		measured = append(measured, quantity{"", "best " + measure.Title(name), func(c *Cell) float64 { return metrics.Value(c.Summary.Metric(name).Best) }})
	}
	for _, q := range append(measured, fairness(names[:min(1, len(names))], r.Runs)...) { // of that by which runs are compared
		columns = append(columns, table.Column[*Cell]{Title: q.title, Text: func(c *Cell) string { return fourDigits(q.of(c)) }})
	}
	return append(columns, table.Column[*Cell]{Title: "time to " + r.Reference + "'s best loss", Text: func(c *Cell) string {
		if math.IsNaN(c.TimeToTarget) {
			return "-"
		}
		return human.VirtualTime(c.TimeToTarget)
	}})
}

func fourDigits(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return fmt.Sprintf("%.4f", v)
}

// MarshalJSON writes the comparison as one object: what every schedule came to, as in its
// summary.json, and when it first had the loss to reach; or the rows of the table.
func (r *Comparison) MarshalJSON() ([]byte, error) {
	if !r.Plan.Single() {
		return r.Table().MarshalJSON()
	}
	type run struct {
		folder.Summary
		TimeToLoss *float64 `json:"time_to_loss"` // virtual seconds; null: never
		Diverged   *string  `json:"diverged"`     // why it came to no end; null: it did
	}
	runs, equal := make([]run, len(r.Runs)), 0
	if len(r.Runs) > 0 {
		equal = r.Runs[0].Config.Stop.EqualRuntimeRounds
	}
	for i, c := range r.Runs {
		runs[i] = run{c.Summary, metrics.Measured(c.TimeToTarget), folder.Named(c.Diverged)}
	}
	return json.Marshal(struct {
		Reference string   `json:"reference"`
		Loss      *float64 `json:"target_loss"`
		Equal     int      `json:"equal_runtime_rounds"` // rounds of K-eta-fixed whose virtual time every run had; 0: by other stops
		Runs      []run    `json:"runs"`
	}{r.Reference, metrics.Measured(r.target()), equal, runs})
}
