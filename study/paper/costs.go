package paper

import (
	"context"
	"fmt"
	"io"

	"fedpace/experiment/folder"
	"fedpace/experiment/forecast"
	"fedpace/experiment/run"
	"fedpace/study"
)

// WriteCells lists cells, says which are done, and estimates by [run.DryRun] what the others cost, if they
// train. The cost is the same for all seeds, so it is estimated once for each task and schedule; notice is
// called before each estimate.
func WriteCells(ctx context.Context, w io.Writer, cells []study.Cell, o run.Options, notice func(*study.Cell)) error {
	rows := [][]any{{"task", "schedule", "seed", "fixed rounds", "data", "done", "core-hours",
		"of them evaluation", "folder"}}
	costs := map[string]forecast.Forecast{}
	var total forecast.Forecast
	for i := range cells {
		c := &cells[i]
		summary, err := folder.Completed(c.Config.Out)
		if err != nil {
			return err
		}
		done := "yes"
		hours := "-"
		evaluation := "-"
		// folder.Completed returns the summary of a complete run alone.
		if summary == nil {
			done = "no"
		}
		// What is done costs nothing more, and a run without training hardly anything.
		if summary == nil && c.Config.Train {
			kind := string(c.Config.Task) + " " + c.Schedule
			// Seeds differ only in their draws, so one estimate serves them all.
			cost, isKnown := costs[kind]
			if !isKnown {
				notice(c)
				cost, err = run.DryRun(ctx, c.Config, o)
				if err != nil {
					return fmt.Errorf("paper: %s: %w", c.Name, err)
				}
				costs[kind] = cost
			}
			total.Training = total.Training + cost.Training
			total.Evaluating = total.Evaluating + cost.Evaluating
			total.Simulating = total.Simulating + cost.Simulating
			total.IsUpperBound = total.IsUpperBound || cost.IsUpperBound
			hours = coreHours(&cost)
			evaluation = fmt.Sprintf("%.3g", cost.Evaluating/3600)
		}
		rows = append(
			rows,
			[]any{c.Config.Task, c.Schedule, c.Config.Seed, c.Config.Stop.EqualRuntimeRounds, c.Config.Data,
				done, hours, evaluation, c.Config.Out},
		)
	}
	if err := writeTitled(w, fmt.Sprintf("%d runs", len(cells)), rows); err != nil || len(costs) == 0 {
		return err
	}
	return writeParagraph(
		w,
		fmt.Sprintf("What is not done takes %s core-hours of this machine, %.3g of them for evaluations. A "+
			"schedule that follows losses is taken to stay at K_0.", coreHours(&total), total.Evaluating/3600),
	)
}

// coreHours is the time of all work on one core. It is an upper bound where K_r is only known not to
// exceed K_0.
func coreHours(f *forecast.Forecast) string {
	text := fmt.Sprintf("%.3g", (f.Training+f.Evaluating+f.Simulating)/3600)
	if f.IsUpperBound {
		return "up to " + text
	}
	return text
}
