package lab

import (
	"fmt"
	"path/filepath"
	"slices"

	"fedpace/coordinator/aggregate"
	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
	"fedpace/experiment/config"
	"fedpace/experiment/run"
	"fedpace/experiment/study"
)

// TheoryAhead is k-theory with the time ahead as W, which is what Theorem 2
// says, where k-theory has the time elapsed, as the paper's schedules do.
const TheoryAhead = "k-theory-ahead"

// Schedules are those that a laboratory compares unless told.
var Schedules = []string{"dsgd", "fixed", "k-rounds", "k-error", "k-step", "k-theory", TheoryAhead}

// Names are the schedules that a laboratory knows.
func Names() []string { return append(schedule.Names(), TheoryAhead) }

// Plan is what a laboratory does.
type Plan struct {
	Config    config.Config // of a convex task
	Schedules []string      // of Names
	Seeds     int           // seed, seed+1, ...
	Out       string        // folder of the results and, below runs/, of every run
}

// maxSeeds bounds a plan.
const maxSeeds = 1000

// cells lists the plan's runs, seeds within schedules. All have the virtual
// time of the configuration's rounds of K-eta-fixed.
func (p Plan) cells() ([]study.Cell, error) {
	_, plain := p.Config.Aggregate.Algorithm.(aggregate.FedAvg)
	switch {
	case !p.Config.Task.IsConvex():
		return nil, fmt.Errorf("lab: %s: %w; want quadratic or logistic", p.Config.Task, run.ErrNotConvex)
	case len(p.Schedules) == 0:
		return nil, fmt.Errorf("lab: no schedule to run")
	case p.Seeds < 1 || p.Seeds > maxSeeds:
		return nil, fmt.Errorf("lab: %d seeds, want 1 to %d", p.Seeds, maxSeeds)
	case p.Config.Synthetic.Seed == 0 && p.Config.IsSynthetic():
		return nil, fmt.Errorf("lab: seeds must share one problem: set synthetic.seed")
	case !p.Config.Train:
		return nil, fmt.Errorf("lab: train: false learns nothing that could be measured")
	case !plain || p.Config.Close != round.Closing(round.All{}) || p.Config.Select != round.Selection(round.Uniform{}):
		return nil, fmt.Errorf("lab: Theorem 1 is about fedavg, uniform cohorts and rounds that wait for all (leave aggregate.algorithm, select and close as they are)")
	}
	var list []study.Cell
	for i, name := range p.Schedules {
		if slices.Contains(p.Schedules[:i], name) {
			return nil, fmt.Errorf("lab: schedule %s is named twice", name)
		}
		for n := range p.Seeds {
			c, err := p.cell(name, p.Config.Seed+uint64(n))
			if err != nil {
				return nil, fmt.Errorf("lab: %s: %w", name, err)
			}
			list = append(list, c)
		}
	}
	return list, nil
}

func (p Plan) cell(name string, seed uint64) (study.Cell, error) {
	c, known := p.Config, name
	c.Seed = seed
	study.EqualTime(&c)
	if name == TheoryAhead {
		known, c.Theory.Time = "k-theory", config.Ahead
	}
	if name == "k-step" && c.Schedule.DecayRound == 0 && c.Task == config.TaskQuadratic {
		c.Schedule.DecayRound = max(1, c.Stop.EqualRuntimeRounds/3) // it has no accuracy to converge
	}
	cell, err := study.NewCell(c, known)
	cell.Schedule, cell.Name = name, fmt.Sprintf("%s, seed %d", name, seed)
	cell.Config.Out = filepath.Join(p.Out, "runs", fmt.Sprintf("%s,seed=%d", name, seed))
	return cell, err
}
