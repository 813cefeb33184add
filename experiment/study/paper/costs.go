package paper

import (
	"context"
	"fmt"
	"io"

	"fedpace/experiment/config"
	"fedpace/experiment/folder"
	"fedpace/experiment/forecast"
	"fedpace/experiment/run"
	"fedpace/experiment/study"
)

// Costs are the forecasts of a plan's cells, which are the same for all seeds.
type Costs map[costOf]forecast.Forecast

type costOf struct {
	task     config.Task
	schedule string
}

// Forecast says what the cells cost that are not done, each task and schedule once, by
// [run.DryRun]. told is called before each; it may be nil.
func Forecast(ctx context.Context, cells []study.Cell, o run.Options, told func(*study.Cell)) (Costs, error) {
	costs := Costs{}
	for i := range cells {
		c := &cells[i]
		of := costOf{c.Config.Task, c.Schedule}
		if _, known := costs[of]; known || !c.Config.Train {
			continue
		}
		switch s, err := folder.Completed(c.Config.Out); {
		case err != nil:
			return nil, err
		case s != nil:
			continue
		}
		if told != nil {
			told(c)
		}
		f, err := run.DryRun(ctx, c.Config, o)
		if err != nil {
			return nil, fmt.Errorf("paper: %s: %w", c.Name, err)
		}
		costs[of] = f
	}
	return costs, nil
}

// WriteCells lists cells, whether they are done and, of those that are not, what they cost.
func WriteCells(w io.Writer, cells []study.Cell, costs Costs) error {
	t := newTable(w, fmt.Sprintf("%d runs", len(cells)), "task", "schedule", "seed", "fixed rounds", "data", "done", "core-hours", "of them evaluation", "folder")
	var all forecast.Forecast
	for _, c := range cells {
		s, err := folder.Completed(c.Config.Out)
		if err != nil {
			return err
		}
		done, hours, evaluation := "yes", "-", "-"
		if cost, ok := costs[costOf{c.Config.Task, c.Schedule}]; ok && s == nil {
			all.Training, all.Evaluating = all.Training+cost.Training, all.Evaluating+cost.Evaluating
			all.Simulating, all.Upper = all.Simulating+cost.Simulating, all.Upper || cost.Upper
			hours, evaluation = coreHours(&cost), fmt.Sprintf("%.3g", cost.Evaluating/3600)
		}
		if s == nil {
			done = "no"
		}
		t.row(c.Config.Task, c.Schedule, c.Config.Seed, c.Config.Stop.EqualRuntimeRounds, c.Config.Data, done, hours, evaluation, c.Config.Out)
	}
	if err := t.end(); err != nil || len(costs) == 0 {
		return err
	}
	return note(w, fmt.Sprintf("What is not done takes %s core-hours of this machine, %.3g of them for evaluations. A schedule that follows losses is taken to stay at K_0.", coreHours(&all), all.Evaluating/3600))
}

// coreHours are those of all work. If K_r follows losses it is what K_0 takes, which K_r may not exceed.
func coreHours(f *forecast.Forecast) string {
	text := fmt.Sprintf("%.3g", (f.Training+f.Evaluating+f.Simulating)/3600)
	if f.Upper {
		return "up to " + text
	}
	return text
}
