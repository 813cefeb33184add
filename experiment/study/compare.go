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
	"strings"
	"text/tabwriter"

	"fedpace/actors/measure"
	"fedpace/coordinator/schedule"
	"fedpace/experiment/config"
	"fedpace/experiment/folder"
	"fedpace/internal/human"
	"fedpace/metrics"
)

// Comparison is several schedules on the same cohorts, in the order in which they were asked for.
type Comparison struct {
	Runs       []Cell  // each with its time to the best loss of the reference
	Reference  string  // the schedule whose best loss the others are timed to
	TargetLoss float64 // that loss; NaN when nothing was trained
	Equal      int     // rounds of K-eta-fixed whose virtual time every run had; 0: by other stops
}

// Compare runs the configuration once with each schedule, one after the other,
// with results in a folder each under c.Out. All share the seed, so the cohorts
// of a round are the same, and the virtual time, see [Play] for the rest.
func Compare(ctx context.Context, c config.Config, schedules []string, o Options) (*Comparison, error) {
	if len(schedules) == 0 {
		return nil, errors.New("compare: no schedule to run; name some of " + strings.Join(schedule.Names(), ", "))
	}
	r := &Comparison{Reference: schedules[0]}
	for i, name := range schedules {
		if slices.Contains(schedules[:i], name) {
			return nil, fmt.Errorf("compare: schedule %s is named twice", name)
		}
		if name == schedule.Fixed {
			r.Reference = name
		}
		cell, err := NewCell(c, name)
		if err != nil {
			return nil, fmt.Errorf("compare: %s: %w", name, err)
		}
		cell.Name, cell.Config.Out = name, filepath.Join(c.Out, name)
		r.Runs = append(r.Runs, cell)
	}
	o.Beside = 1
	err := playAndTime(ctx, c.Out, r.Runs, r.Reference, o)
	r.TargetLoss, r.Equal = r.Runs[0].Target, r.Runs[0].Config.Stop.EqualRuntimeRounds
	return r, err
}

// WriteTable writes the comparison for people.
func (r *Comparison) WriteTable(w io.Writer) error {
	text := bufio.NewWriter(w)
	t := tabwriter.NewWriter(text, 0, 0, 2, ' ', tabwriter.AlignRight)
	names, titles := shownBest(r.Runs), ""
	for _, name := range names {
		titles += "best " + measure.Title(name) + "\t"
	}
	fairly := fairness(names[:min(1, len(names))], r.Runs) // by what runs are compared
	for _, q := range fairly {
		titles += q.title + "\t"
	}
	fmt.Fprintf(t, "schedule\trounds\tvirtual time\tSGD steps\trelative\tbest training loss\t%stime to %s's best loss\t\n", titles, r.Reference)
	for _, run := range r.Runs {
		s := run.Summary
		if run.Diverged != "" {
			s = folder.Summary{Rounds: s.Rounds, VirtualSeconds: s.VirtualSeconds, SGDSteps: s.SGDSteps}
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%d\t%s\t%s\t", run.Schedule, s.Rounds, human.VirtualTime(s.VirtualSeconds), s.SGDSteps,
			cell(s.RelativeSGDSteps), cell(s.BestTrainingLoss))
		for _, name := range names {
			fmt.Fprintf(t, "%s\t", cell(s.Metric(name).Best))
		}
		for _, q := range fairly {
			fmt.Fprintf(t, "%s\t", cell(metrics.Measured(q.of(&Cell{Summary: s}))))
		}
		fmt.Fprintf(t, "%s\t\n", timeCell(run.TimeToTarget))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, run := range r.Runs {
		if run.Diverged != "" {
			fmt.Fprintf(text, "\n%s came to no end: %s.\n", run.Schedule, run.Diverged)
		}
	}
	if len(r.Runs) > 0 && r.Runs[0].Summary.Data != nil {
		fmt.Fprintf(text, "\nData: %s.\n", *r.Runs[0].Summary.Data)
	}
	if !math.IsNaN(r.TargetLoss) {
		fmt.Fprintf(text, "The loss to reach is %.4f, a mean over the window of rounds; \"-\" never reached it.\n", r.TargetLoss)
	}
	return text.Flush()
}

// shownBest names the quantities of which a comparison shows the best values: what
// runs are compared by, then their other metrics.
func shownBest(runs []Cell) (names []string) {
	for i := range runs {
		for _, m := range runs[i].Summary.Metrics {
			if !slices.Contains(names, m.Name) {
				names = append(names, m.Name)
			}
		}
	}
	return names
}

func cell(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.4f", *v)
}

func timeCell(seconds float64) string {
	if math.IsNaN(seconds) {
		return "-"
	}
	return human.VirtualTime(seconds)
}

// MarshalJSON writes the comparison as one object: what every schedule came to,
// as in its summary.json, and when it first had the loss to reach.
func (r *Comparison) MarshalJSON() ([]byte, error) {
	type run struct {
		folder.Summary
		TimeToLoss *float64 `json:"time_to_loss"` // virtual seconds; null: never
		Diverged   *string  `json:"diverged"`     // why it came to no end; null: it did
	}
	runs := make([]run, len(r.Runs))
	for i, c := range r.Runs {
		runs[i] = run{c.Summary, metrics.Measured(c.TimeToTarget), folder.Named(c.Diverged)}
	}
	return json.Marshal(struct {
		Reference string   `json:"reference"`
		Loss      *float64 `json:"target_loss"`
		Equal     int      `json:"equal_runtime_rounds"` // 0: by other stops
		Runs      []run    `json:"runs"`
	}{r.Reference, metrics.Measured(r.TargetLoss), r.Equal, runs})
}
