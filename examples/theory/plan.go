package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"fedpace/algorithm"
	"fedpace/config"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/selection"
	"fedpace/experiment/problem"
	"fedpace/experiment/run"
	"fedpace/study"
	"fedpace/study/advise"
)

// TheoryAhead is the schedule theory with the time ahead as W, which is what Theorem 2 says, where
// theory has the time elapsed, as the paper's schedules do.
const TheoryAhead = "theory-ahead"

// Schedules are those that the program compares by default.
var Schedules = []string{"dsgd", "fixed", "rounds", "error", "step", "theory", TheoryAhead}

// Plan says which runs are made.
type Plan struct {
	// Config is the configuration of a convex task.
	Config config.Config
	// Schedules are the names of schedules as in study.Plan, and TheoryAhead.
	Schedules []string
	// Seeds is the number of runs of each schedule, with the configuration's seed, seed+1 and so
	// on.
	Seeds int
	// Folder is the folder of the results. Every run has a folder of its own below its folder runs.
	Folder string
}

// validate returns an error for a configuration to which Theorem 1 does not apply, and for a list
// of schedules that is empty or names one of them twice.
func (p Plan) validate() error {
	c := &p.Config
	_, isFedAvg := c.Aggregate.Algorithm.(algorithm.FedAvg)
	waitsForAll := c.Close == closing.Rule(closing.All{})
	isUniform := c.Select == selection.Rule(selection.Uniform{})
	// Theorem 1 is about a convex objective that all seeds share, and about FedAvg with uniform
	// cohorts.
	switch {
	case !c.Task.IsConvex():
		return fmt.Errorf("%s: %w; want quadratic or logistic", c.Task, problem.ErrNotConvex)
	case len(p.Schedules) == 0:
		return errors.New("no schedule to run")
	case c.Synthetic.Seed == 0 && c.IsSynthetic():
		return errors.New("seeds must share one problem: set synthetic.seed")
	case !c.Train:
		return errors.New("train: false learns nothing that could be measured")
	case c.HasOwnBatches():
		return errors.New("all clients have minibatches of one size (remove batch from the classes in fleet)")
	case !isFedAvg || !waitsForAll || !isUniform:
		return errors.New("what Theorem 1 says is about fedavg, uniform cohorts and rounds that wait for all " +
			"(leave aggregate.algorithm, select and close as they are)")
	}
	// The folder of a run is named by its schedule and seed, so a schedule must not be there twice.
	for i, name := range p.Schedules {
		if slices.Contains(p.Schedules[:i], name) {
			return fmt.Errorf("schedule %s is named twice", name)
		}
	}
	return nil
}

// cells lists the plan's runs, seeds within schedules. All have the virtual time of the configuration's
// rounds of fixed K.
func (p Plan) cells() ([]study.Cell, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	var list []study.Cell
	for _, name := range p.Schedules {
		cells, err := p.scheduleCells(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		list = append(list, cells...)
	}
	return list, study.SameTime(list)
}

// scheduleCells lists the runs of one schedule, one for each seed.
func (p Plan) scheduleCells(name string) ([]study.Cell, error) {
	c := p.Config
	standard := name
	// In a configuration this is the schedule theory with theory.time: ahead.
	if name == TheoryAhead {
		standard = "theory"
		c.Theory.Time = config.AheadTime
	}
	if name == "step" && c.Schedule.DecayRound == 0 && c.Task == config.TaskQuadratic {
		// The quadratic task has no accuracy of which step could see that it no longer improves.
		c.Schedule.DecayRound = max(1, cmp.Or(c.Stop.EqualRuntimeRounds, c.Stop.Rounds)/3)
	}
	if err := advise.RequirePlainSteps(&c); err != nil {
		return nil, err
	}
	cells, err := study.Plan{Load: study.StaticLoad(c), Schedules: []string{standard}, Seeds: p.Seeds}.Cells()
	// The two schedules of the theory need names and folders of their own.
	for i := range cells {
		cell := &cells[i]
		if name == TheoryAhead {
			cell.Schedule = name
		}
		cell.Name = fmt.Sprintf("%s, seed %d", cell.Schedule, cell.Config.Seed)
		cell.Config.Out = filepath.Join(p.Folder, "runs", fmt.Sprintf("%s,seed=%d", cell.Schedule, cell.Config.Seed))
	}
	return cells, err
}

// Run plays a plan and measures its runs, side by side. After an interruption the same plan continues:
// runs that were measured are read, and one that was cut is played again from its beginning.
func (p Plan) Run(ctx context.Context, o study.Options) (*Result, error) {
	cells, err := p.cells()
	if err != nil {
		return nil, err
	}
	objective, err := advise.OpenObjective(p.Config)
	if err != nil {
		return nil, err
	}
	defer objective.Set.Close()
	constants := &objective.Theorem1
	byCell := map[*study.Cell]*trace{}
	traces := make([]*trace, len(cells))
	// The schedules of the theory take the constants that were calculated, unless they are
	// configured.
	for i := range cells {
		c := &cells[i]
		c.Config.Theory.FillFrom(config.Theory{
			L:     &constants.L,
			Mu:    &constants.Mu,
			G:     &constants.G,
			FStar: &constants.FStar,
		})
		traces[i] = &trace{}
		byCell[c] = traces[i]
	}
	// A run that was cut has lost the models of its rounds, so only one with a trace is complete.
	o.IsWhole = func(c *study.Cell) bool {
		_, err := os.Stat(filepath.Join(c.Config.Out, traceFile))
		return err == nil
	}
	o.Adjust = func(c *study.Cell, o *run.Options) {
		// The trace belongs to the run that this one replaces.
		_ = os.Remove(filepath.Join(c.Config.Out, traceFile))
		// The models are collected in memory while the run is played.
		t := byCell[c]
		t.models = map[int][]float32{}
		o.Model = func(round int, params []float32) { t.models[round] = params }
	}
	o.Played = func(ctx context.Context, c *study.Cell) error { return byCell[c].readOrMeasure(ctx, c, objective) }
	if err := study.Play(ctx, p.Folder, cells, o); err != nil {
		return nil, err
	}
	// Means over seeds need all runs, so one that diverged ends the comparison.
	for _, c := range cells {
		if c.Diverged != "" {
			return nil, fmt.Errorf("%s: %s", c.Name, c.Diverged)
		}
	}
	r := gather(p, objective, traces)
	// The result names the version, the configuration and the seed of every run.
	for i := range cells {
		origin, err := cells[i].Origin()
		if err != nil {
			return nil, err
		}
		r.Runs = append(r.Runs, origin)
	}
	return r, nil
}
