package paper

import (
	"context"
	"fmt"
	"io"

	"fedpace/experiment/config"
	"fedpace/experiment/folder"
	"fedpace/experiment/run"
	"fedpace/experiment/study"
)

// Cost is what a run of a task and a schedule is expected to take of one core of this
// machine, in hours.
type Cost struct {
	Training, Evaluating float64
	Simulating           float64 // messages and the clock
	Most                 bool    // K_r follows losses: it is the cost at K_0, which K_r does not exceed
}

// Costs are those of a plan's cells, which are the same for all seeds.
type Costs map[costOf]Cost

type costOf struct {
	task     config.Task
	schedule string
}

// Foresee says what the cells cost that are not done, each task and schedule once, by
// [run.DryRun]. told is called before each; it may be nil.
func Foresee(ctx context.Context, cells []study.Cell, o run.Options, told func(*study.Cell)) (Costs, error) {
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
		e, err := run.DryRun(ctx, c.Config, o)
		if err != nil {
			return nil, fmt.Errorf("paper: %s: %w", c.Name, err)
		}
		costs[of] = Cost{e.Training / 3600, e.Evaluating / 3600, e.Simulating / 3600, e.Upper}
	}
	return costs, nil
}

// WriteCells lists cells, whether they are done and, of those that are not, what they cost.
func WriteCells(w io.Writer, cells []study.Cell, costs Costs) error {
	t := newTable(w, fmt.Sprintf("%d runs", len(cells)), "task", "schedule", "seed", "fixed rounds", "data", "done", "core-hours", "of them evaluation", "folder")
	var all Cost
	for _, c := range cells {
		s, err := folder.Completed(c.Config.Out)
		if err != nil {
			return err
		}
		done, hours, evaluation := "yes", "-", "-"
		if cost, ok := costs[costOf{c.Config.Task, c.Schedule}]; ok && s == nil {
			all.Training, all.Evaluating, all.Most = all.Training+cost.Training, all.Evaluating+cost.Evaluating, all.Most || cost.Most
			all.Simulating += cost.Simulating
			hours, evaluation = cost.hours(), fmt.Sprintf("%.3g", cost.Evaluating)
		}
		if s == nil {
			done = "no"
		}
		t.row(c.Config.Task, c.Schedule, c.Config.Seed, c.Config.Stop.EqualRuntimeRounds, c.Config.Data, done, hours, evaluation, c.Config.Out)
	}
	if err := t.end(); err != nil || len(costs) == 0 {
		return err
	}
	return note(w, fmt.Sprintf("What is not done takes %s core-hours of this machine, %.3g of them for evaluations. A schedule that follows losses is taken to stay at K_0.", all.hours(), all.Evaluating))
}

// hours are those of all work.
func (c Cost) hours() string {
	text := fmt.Sprintf("%.3g", c.Training+c.Evaluating+c.Simulating)
	if c.Most {
		return "up to " + text
	}
	return text
}
