package study

import (
	"context"
	"encoding/json"
	"errors"
	"fedpace/experiment/folder"
	"fedpace/experiment/run"
	"fedpace/internal/human"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"fedpace/coordinator/schedule"
	"fedpace/experiment/config"
)

// Comparison is what several schedules came to on the same cohorts, in the
// order in which they were asked for.
type Comparison struct {
	Runs       []Compared
	Reference  string  // the schedule whose best loss the others are timed to
	TargetLoss float64 // that loss; NaN when nothing was trained
	Equal      int     // rounds of K-eta-fixed whose virtual time every run had; 0: by other stops
}

// Compared is one schedule of a comparison.
type Compared struct {
	Summary      folder.Summary
	TimeToTarget float64 // virtual seconds until the window's mean loss reached the target; NaN: never
	Diverged     string  // why it did not come to its end; empty: it did
}

// Compare runs the configuration once with each schedule, one after the other,
// with results in a folder each under c.Out. All share the seed, so the cohorts
// of a round are the same. A stop of so many rounds becomes the virtual time
// that K-eta-fixed needs for them: schedules are compared at equal time, as in
// the paper. A comparison that was stopped goes on where it was, unless o.Force
// has it done anew; a schedule that diverges does not end the others.
func Compare(ctx context.Context, c config.Config, schedules []string, o run.Options) (*Comparison, error) {
	if len(schedules) == 0 {
		return nil, errors.New("compare: no schedule to run; name some of " + strings.Join(schedule.Names(), ", "))
	}
	if o.Notice == nil {
		o.Notice = func(string) {}
	}
	r := &Comparison{Reference: schedules[0], TargetLoss: math.NaN()}
	if c.Stop.Rounds > 0 && c.Stop.EqualRuntimeRounds == 0 {
		c.Stop.EqualRuntimeRounds, c.Stop.Rounds = c.Stop.Rounds, 0
	}
	r.Equal = c.Stop.EqualRuntimeRounds
	runs := make([]Cell, len(schedules))
	for i, name := range schedules {
		run := c
		var err error
		if run.Schedule, err = c.Schedule.Named(name); err != nil {
			return nil, err
		}
		run.Out = filepath.Join(c.Out, name)
		for _, earlier := range schedules[:i] {
			if earlier == name {
				return nil, fmt.Errorf("compare: schedule %s is named twice", name)
			}
		}
		if name == config.Fixed {
			r.Reference = name
		}
		if err := run.Validate(); err != nil {
			return nil, fmt.Errorf("compare: %s: %w", name, err)
		}
		runs[i] = Cell{Schedule: name, Config: run}
		if o.Force {
			continue
		}
		if err := runs[i].reuse(false); err != nil {
			return nil, err
		}
	}
	o.Equal = &run.EqualTimes{}
	for i := range runs {
		run := &runs[i]
		if run.Reused {
			o.Notice(schedules[i] + ": done before.")
		} else if err := run.run(ctx, o); err != nil {
			return nil, fmt.Errorf("compare: %s: %w", schedules[i], err)
		}
		s := run.Summary
		r.Runs = append(r.Runs, Compared{Summary: s, TimeToTarget: math.NaN(), Diverged: run.Diverged})
		if run.Diverged == "" && s.Schedule == r.Reference && s.BestTrainingLoss != nil {
			r.TargetLoss = *s.BestTrainingLoss
		}
	}
	for i := range runs {
		if runs[i].Diverged != "" {
			continue
		}
		run := runs[i].Config
		at, err := timeToLoss(filepath.Join(run.Out, folder.RoundsFile), run.Schedule.Window, r.TargetLoss)
		if err != nil {
			return nil, err
		}
		r.Runs[i].TimeToTarget = at
	}
	return r, nil
}

// timeToLoss is the virtual time at which the mean loss of the last s rounds
// (Eq. 15) first was at most the target.
func timeToLoss(path string, s int, target float64) (float64, error) {
	if math.IsNaN(target) {
		return target, nil
	}
	rows, err := folder.ReadRounds(path)
	if err != nil {
		return 0, err
	}
	window, err := schedule.NewWindow(schedule.WindowConfig{Size: s})
	if err != nil {
		return 0, err
	}
	for _, row := range rows {
		window.Observe(row.TrainingLoss)
		if mean, ok := window.Mean(); ok && mean <= target {
			return row.End.Seconds(), nil
		}
	}
	return math.NaN(), nil
}

// Diverged is an error where runs did, see [SweepTable.Diverged].
func (r *Comparison) Diverged() error {
	n := 0
	for _, run := range r.Runs {
		if run.Diverged != "" {
			n++
		}
	}
	return divergence(n, len(r.Runs))
}

// WriteTable writes the comparison for people.
func (r *Comparison) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "schedule\trounds\tvirtual time\tSGD steps\trelative\tbest training loss\tbest accuracy\ttime to %s's best loss\t\n", r.Reference)
	for _, run := range r.Runs {
		s := run.Summary
		if run.Diverged != "" {
			s.RelativeSGDSteps, s.BestTrainingLoss, s.BestValidationAccuracy = nil, nil, nil
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%d\t%s\t%s\t%s\t%s\t\n", s.Schedule, s.Rounds, human.VirtualTime(s.VirtualSeconds), s.SGDSteps,
			cell("%.4f", s.RelativeSGDSteps), cell("%.4f", s.BestTrainingLoss), cell("%.4f", s.BestValidationAccuracy), timeCell(run.TimeToTarget))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, run := range r.Runs {
		if run.Diverged != "" {
			if _, err := fmt.Fprintf(w, "\n%s came to no end: %s.\n", run.Summary.Schedule, run.Diverged); err != nil {
				return err
			}
		}
	}
	if len(r.Runs) > 0 && r.Runs[0].Summary.Data != nil {
		d := r.Runs[0].Summary.Data
		if _, err := fmt.Fprintf(w, "\nData: %s.\n", *d); err != nil {
			return err
		}
	}
	if !math.IsNaN(r.TargetLoss) {
		_, err := fmt.Fprintf(w, "The loss to reach is %.4f, a mean over the window of rounds; \"-\" never reached it.\n", r.TargetLoss)
		return err
	}
	return nil
}

func cell(format string, v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf(format, *v)
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
		runs[i] = run{c.Summary, folder.Measured(c.TimeToTarget), folder.Named(c.Diverged)}
	}
	return json.Marshal(struct {
		Reference string   `json:"reference"`
		Loss      *float64 `json:"target_loss"`
		Equal     int      `json:"equal_runtime_rounds"` // 0: by other stops
		Runs      []run    `json:"runs"`
	}{r.Reference, folder.Measured(r.TargetLoss), r.Equal, runs})
}
