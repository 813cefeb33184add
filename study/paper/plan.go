package paper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"fedpace/config"
	"fedpace/coordinator"
	"fedpace/internal/tasks"
	"fedpace/learn/metric"
	"fedpace/study"
)

// The paper's evaluation in full.
const (
	// FullRounds is the number of rounds of K-eta-fixed whose virtual time every schedule gets.
	FullRounds = 10_000
	// FullSeeds is the number of seeds of each run.
	FullSeeds = 5
)

// Plan is what part of the paper's evaluation to do. The zero value of a list
// means all that the paper has.
type Plan struct {
	Tasks []config.Task
	// Schedules are names as in [Table3].
	Schedules []string
	// Seed is the first seed.
	Seed uint64
	// Seeds is the number of seeds: Seed, Seed+1 and so on.
	Seeds int
	// Rounds is the number of rounds of K-eta-fixed whose virtual time the runs have, before Scale.
	Rounds int
	// Scale is a factor of Rounds in (0, 1], for shorter runs.
	Scale float64
	Data  map[config.Task]string
	// Configs holds, by task, the file from which the task's runs start in place of its defaults,
	// for other devices.
	Configs map[config.Task]string
	// Sets holds further keys of every run, as key=value.
	Sets []string
	// Controls adds the runs of [Plan.Controlled].
	Controls bool
	// Timing says that nothing is trained. Only schedules that need no loss are then played; Table
	// 4 follows from them.
	Timing bool
	// Folder is the folder that holds a folder for each run.
	Folder string
}

// Full returns the plan of the paper's evaluation in full: all seeds, rounds and clients, with runs
// in the folder runs/paper.
func Full() Plan {
	return Plan{
		Seed:   1,
		Seeds:  FullSeeds,
		Rounds: FullRounds,
		Scale:  1,
		Folder: "runs/paper",
	}
}

// FixedRounds is the number of rounds of fixed K that give every cell its virtual time: the plan's
// rounds, scaled.
func (p Plan) FixedRounds() int { return max(1, int(math.Round(float64(p.Rounds)*p.Scale))) }

// tasks returns the tasks of the plan: those that it names, or else all of the paper's, in the
// paper's order.
func (p Plan) tasks() []config.Task {
	list := p.Tasks
	if len(list) == 0 {
		for _, t := range tasks.Paper() {
			list = append(list, t.Task)
		}
	}
	return list
}

// complete replaces what the plan leaves open by all that the paper has, and refuses what cannot be
// planned.
func (p *Plan) complete() error {
	p.Tasks = p.tasks()
	if len(p.Schedules) == 0 {
		p.Schedules = Table3()
		if p.Timing {
			p.Schedules = []string{"rounds", "step"}
		}
	}
	// Each task must be one of the paper's and be named only once.
	for i, t := range p.Tasks {
		if _, ok := t.Paper(); !ok {
			return fmt.Errorf("paper: task %q is none of the paper's (sent140, femnist, cifar100, shakespeare)", t)
		}
		if slices.Contains(p.Tasks[:i], t) {
			return fmt.Errorf("paper: task %s is named twice", t)
		}
	}
	for _, given := range []struct {
		option string
		byTask map[config.Task]string
	}{{"data is", p.Data}, {"a configuration is", p.Configs}} {
		// Data or a configuration for a task that is not played is most likely a typing mistake.
		for _, t := range slices.Sorted(maps.Keys(given.byTask)) {
			if !slices.Contains(p.Tasks, t) {
				return fmt.Errorf("paper: %s given for task %q, which is not among those asked for", given.option, t)
			}
		}
	}
	if p.Folder == "" {
		return fmt.Errorf("paper: no folder for the results (give --out)")
	}
	return nil
}

// Cells lists the plan's runs: all tasks and schedules with the first seed before any with the
// second, so that there is something whole to look at early. Every configuration is checked. Without
// training CIFAR100's K_r-rounds is there with a model of 320 Mb, too.
func (p Plan) Cells() ([]study.Cell, error) {
	if err := p.complete(); err != nil {
		return nil, err
	}
	if p.Timing {
		// All devices are alike, so that no seed changes the result.
		p.Seeds = 1
	}
	var all []study.Cell
	for _, t := range p.Tasks {
		cells, err := p.taskCells(t, p.Schedules)
		// Without training, this schedule of CIFAR100 is also played with a model of 320 Mb. Its cell follows
		// the one with the usual model, whose index is that of its schedule, as there is one seed.
		place := slices.Index(p.Schedules, "rounds")
		if err == nil && p.Timing && t == config.TaskCIFAR100 && place >= 0 {
			var large []study.Cell
			large, err = p.taskCells(t, []string{"rounds"}, "network.model_megabits=320")
			cells = slices.Insert(cells, place+1, large...)
		}
		if err != nil {
			return nil, fmt.Errorf("paper: %s: %w", t, err)
		}
		all = append(all, cells...)
	}
	slices.SortStableFunc(all, bySeed)
	return all, nil
}

// taskCells lists the runs of a task with these schedules: with the task's defaults or its file, the keys of
// the plan and those in extraSets, each as key=value. Every run ends at the virtual time of the plan's rounds of fixed
// K. Without training K_r-step decays at the round that gives the paper's cell of Table 4.
func (p Plan) taskCells(t config.Task, schedules []string, extraSets ...string) ([]study.Cell, error) {
	sets := []string{"task=" + string(t), fmt.Sprintf("seed=%d", p.Seed),
		fmt.Sprintf("stop.equal_runtime_rounds=%d", p.FixedRounds())}
	if path := p.Data[t]; path != "" {
		sets = append(sets, "data="+path)
	}
	bySchedule := map[string][]string{}
	// Without training no loss is known, so the round of the decay is given for each task.
	if p.Timing {
		extraSets = append(extraSets, "train=false")
		// A shorter run decays at the same part of its rounds.
		round := max(1, int(float64(decayRound[t])*float64(p.FixedRounds())/FullRounds))
		decayKey := fmt.Sprintf("schedule.decay_round=%d", round)
		bySchedule["step"] = []string{decayKey}
		bySchedule["eta-step"] = []string{decayKey}
	} else {
		// All schedules are evaluated as often as K-eta-fixed.
		sets = append(sets, "evaluate.every_seconds=fixed")
	}
	loadConfig := func(scheduleSets ...string) (config.Config, error) {
		return config.Load(p.Configs[t], slices.Concat(sets, p.Sets, extraSets, scheduleSets))
	}
	c, err := loadConfig()
	if err == nil {
		err = study.Overridden(p.Sets, p.Schedules, c.Schedule)
	}
	if err != nil {
		return nil, err
	}
	// All runs must have the same virtual time, or they could not be compared.
	if want := (config.Stop{EqualRuntimeRounds: p.FixedRounds()}); c.Stop != want {
		return nil, fmt.Errorf(
			"a stop is set: every run here stops at the virtual time of %d rounds of K-eta-fixed (--rounds, --scale)",
			p.FixedRounds(),
		)
	}
	// Only the accuracy can be compared with the figures of the paper.
	if m := c.Evaluate.Metric.Name; m != "" && m != metric.Accuracy {
		return nil, fmt.Errorf(
			"evaluate.metric: %s, but the paper's models are compared by their accuracy (remove it)",
			m,
		)
	}
	if err := study.Shareable(&c); err != nil {
		return nil, err
	}
	cells, err := study.Plan{
		Load:       loadConfig,
		Schedules:  schedules,
		BySchedule: bySchedule,
		Seeds:      p.Seeds,
	}.Cells()
	p.nameCells(cells)
	if err == nil && p.Controls {
		err = study.Controllable(cells)
	}
	return cells, err
}

// nameCells gives cells their names and folders. A cell's name is for people; the name in its configuration has
// the first digits of its ID, so that it tells the runs of one server apart, and names its folder.
func (p Plan) nameCells(cells []study.Cell) {
	for i := range cells {
		c := &cells[i]
		task := c.Config.Task
		seed := c.Config.Seed
		c.Name = fmt.Sprintf("%s %s seed %d", task, c.Schedule, seed)
		c.Config.Name = fmt.Sprintf("%s-%s-%d-%.10s", task, strings.ReplaceAll(c.Schedule, "+", "_"), seed, c.ID)
		c.Config.Out = filepath.Join(p.Folder, "cells", c.Config.Name)
	}
}

// Controlled lists the controls of cells that were played, see [study.Controls]: all of the first seed
// before any of the second.
func (p Plan) Controlled(cells []study.Cell) ([]study.Cell, error) {
	list, err := study.Controls(cells, study.Kinds...)
	if err != nil {
		return nil, fmt.Errorf("paper: %w", err)
	}
	p.nameCells(list)
	slices.SortStableFunc(list, bySeed)
	return list, nil
}

// bySeed orders cells by their seeds.
func bySeed(a, b study.Cell) int { return cmp.Compare(a.Config.Seed, b.Config.Seed) }

// Run plays the plan's cells that are not done, see [study.Play]. Hosts in other processes may work for
// a server that is in a configuration or in o.Run.NATS. Run returns an error for each cell that diverged, but
// plays the others nevertheless.
func (p Plan) Run(ctx context.Context, cells []study.Cell, o study.Options) error {
	o.ConfiguredHosts = true
	err := study.Play(ctx, p.Folder, cells, o)
	for _, c := range cells {
		if c.Diverged != "" {
			err = errors.Join(err, fmt.Errorf("%s: %s: %w", c.Name, c.Diverged, coordinator.ErrDiverged))
		}
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("paper: %w", err)
	}
	return err
}
