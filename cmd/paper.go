package cmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fedpace/bus/natsconn"
	"fedpace/cmd/internal/cli"
	"fedpace/config"
	"fedpace/experiment/run"
	"fedpace/internal/cputime"
	"fedpace/internal/human"
	"fedpace/internal/names"
	"fedpace/study"
	"fedpace/study/paper"
)

// paperFlags say which part of the paper's evaluation to play, and where.
type paperFlags struct {
	// plan is the evaluation: its seeds, rounds, scale and folder.
	plan paper.Plan
	// schedules are those to run; empty: all of the paper's.
	schedules scheduleFlag
	// tasks names the tasks to run; empty: all.
	tasks []string
	// data holds the data of tasks as TASK=PATH; tasks without have synthetic data.
	data []string
	// files are configurations from which runs start, at most one for each task.
	files []string
	// curveDirs are folders of curves to print and draw, instead of running anything.
	curveDirs []string
	// verdicts asks only to decide the claims about committed curves.
	verdicts bool
	// dry asks only to list the runs and their costs.
	dry bool
	// parallel is how many runs go side by side; 0: chosen by the machine.
	parallel int
	// server is the NATS server of hosts that do the runs; without a URL this process does.
	server natsconn.Config
}

// paperCommand makes "fedpace paper", which plays the evaluation of the paper again, or a part of
// it, and writes its tables and figures. It can also draw curves that exist, or only list the runs
// with their costs.
func paperCommand() *cobra.Command {
	f := paperFlags{plan: paper.Full()}
	c := &cobra.Command{
		Use:   "paper",
		Short: "Do the paper's tables and figures again",
		Long: `Repeat the paper's evaluation: Tables 1 to 4 and Figures 1 and 2, every schedule
to the virtual time of 10,000 rounds of fixed K. All of it takes days on two
cores; take some tasks, one seed, or --scale. Repeat the command to continue.
With --nats hosts (fedpace host) do the runs.`,
		Example: `  fedpace paper --timing
  fedpace paper --tasks femnist --data femnist=femnist.fedpace --schedules fixed,rounds,error,step --seeds 1
  fedpace paper --tasks sent140 --data sent140=tweets.csv.gz --schedules 'rounds,k3=3,k10=10' --controls
  fedpace paper --from docs/paper/femnist
  fedpace paper --verdicts --from docs/paper`,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	s := c.Flags()
	s.StringSliceVar(&f.tasks, "tasks", nil, "tasks, separated by commas (all: sent140,femnist,cifar100,shakespeare)")
	f.schedules.add(c, nil, " (default "+strings.Join(paper.Table3(), ",")+")")
	s.IntVar(&f.plan.Seeds, "seeds", f.plan.Seeds, seedsUsage)
	s.Uint64Var(&f.plan.Seed, "seed", f.plan.Seed, "the first seed")
	s.IntVar(&f.plan.Rounds, "rounds", f.plan.Rounds, "rounds of fixed K that set the virtual time")
	s.Float64Var(&f.plan.Scale, "scale", f.plan.Scale, "factor on the rounds, as 0.1")
	s.StringArrayVar(&f.data, "data", nil, "data of a task, as femnist=PATH; may be repeated (default synthetic)")
	s.StringArrayVar(
		&f.files,
		"config",
		nil,
		"`FILE` that its task's runs start from; may be repeated",
	)
	s.StringArrayVar(&f.plan.Sets, "set", nil, "set `KEY=VALUE` of every run; may be repeated")
	s.BoolVar(&f.plan.Controls, "controls", false, controlsUsage)
	s.BoolVar(
		&f.plan.Timing,
		"timing",
		false,
		"only Table 4's cells that need no training",
	)
	s.StringVarP(&f.plan.Folder, "out", "o", f.plan.Folder, "folder of the runs, tables and figures")
	s.StringArrayVar(&f.curveDirs, "from", nil, "only print tables and draw figures of this `DIR`; may be repeated")
	s.BoolVar(
		&f.verdicts,
		"verdicts",
		false,
		"only decide the claims in claims.yaml of --from (else docs/paper), and draw gains.svg",
	)
	s.BoolVar(&f.dry, "dry-run", false, "only list the runs, with core-hours to do")
	// The bounds keep a mistyped number from starting a run of weeks.
	cli.InRange(c, "seeds", 1, maxSeeds)
	cli.InRange(c, "rounds", 1, 1e6)
	cli.InRange(c, "scale", 1e-4, 1)
	cli.QuietFlag(c)
	s.IntVar(&f.parallel, "beside", 0, "runs side by side (default one a core; with --nats 8)")
	cli.Positive(c, "beside")
	cli.AddServer(c, &f.server)
	return c
}

// run does what the flags of the command c ask for: it decides the claims by committed curves,
// draws curves that exist already, lists the runs with their cost, or plays the evaluation and
// draws it.
func (f *paperFlags) run(c *cobra.Command) error {
	// Claims are decided by curves that exist; nothing is run.
	if f.verdicts {
		if len(f.curveDirs) > 1 {
			return cli.Usage(c, errors.New("--verdicts: want one --from, the folder of claims.yaml"))
		}
		dir := "docs/paper"
		if len(f.curveDirs) > 0 {
			dir = f.curveDirs[0]
		}
		list, err := paper.Verdicts(dir)
		if err != nil {
			return err
		}
		return errors.Join(paper.DrawGains(dir, list), paper.WriteVerdicts(c.OutOrStdout(), list))
	}
	// Tables and figures of curves that exist need no run either.
	if len(f.curveDirs) > 0 {
		curves, err := paper.Load(f.curveDirs...)
		// The curves of several folders are merged into the first.
		if err == nil && len(f.curveDirs) > 1 {
			err = paper.Write(f.curveDirs[0], curves)
		}
		if err != nil {
			return err
		}
		return errors.Join(paper.Draw(f.curveDirs[0], curves), results(c.OutOrStdout(), f.curveDirs[0], curves))
	}
	cells, err := f.cells()
	if err != nil {
		return cli.Usage(c, err)
	}
	// The list of the runs says what they would cost.
	if f.dry {
		display := cli.NewDisplay(c)
		defer display.Close()
		options := run.Options{Version: cli.Version(), Callbacks: run.Callbacks{Notice: display.Notice}}
		return paper.WriteCells(c.Context(), c.OutOrStdout(), cells, options, func(c *study.Cell) {
			display.Notice(fmt.Sprintf("Foreseeing %s, %s.", c.Config.Task, c.Schedule))
		})
	}
	return f.play(c, cells)
}

// play prints the paper's settings (Tables 1 to 3), plays the runs of the evaluation, and prints and draws
// their results. Controls, if they are asked for, follow from the runs and are played after them.
func (f *paperFlags) play(c *cobra.Command, cells []study.Cell) error {
	w := c.OutOrStdout()
	if err := errors.Join(
		paper.WriteTable1(w, f.plan),
		paper.WriteTable2(w, f.plan),
		paper.WriteTable3(w, f.plan),
	); err != nil {
		return err
	}
	if err := os.MkdirAll(f.plan.Folder, 0o777); err != nil {
		return err
	}
	display := cli.NewDisplay(c)
	started := time.Now()
	worked := cputime.Start()
	options := study.Options{
		Run: run.Options{
			Version:   cli.Version(),
			Place:     run.Place{NATS: f.server},
			Callbacks: run.Callbacks{Notice: display.Notice},
		},
		Parallel: f.parallel,
		Progress: func(p study.Progress) { display.Show(statusOfStudy(p)) },
		// Tables and figures are kept up to date as runs end.
		CellDone: func() error {
			_, err := f.save(cells)
			return err
		},
	}
	err := f.plan.Run(c.Context(), cells, options)
	// Controls are made from runs that were played, so they are listed only after these.
	if f.plan.Controls && err == nil {
		// A control runs with as much work as the run that it belongs to.
		var more []study.Cell
		more, err = f.plan.Controlled(cells)
		if err == nil {
			cells = append(cells, more...)
			// Only the controls, the last of the cells, are still to be played.
			err = f.plan.Run(c.Context(), cells[len(cells)-len(more):], options)
		}
	}
	// The cost is worth a line only if something was run and not only reused.
	if slices.ContainsFunc(cells, func(c study.Cell) bool { return !c.Reused }) {
		display.Notice(fmt.Sprintf(
			"It took %.3g core-hours of this machine, in %s.",
			worked().Hours(),
			human.Duration(time.Since(started)),
		))
	}
	display.Close()
	if err != nil {
		return cli.Interruption(c.Context(), err, f.plan.Folder+sameCommand)
	}
	curves, err := f.save(cells)
	if err != nil {
		return err
	}
	return results(w, f.plan.Folder, curves)
}

// cells returns the runs of the evaluation that the flags ask for, and completes the plan f.plan by
// the flags. It returns an error for flags that cannot go together.
func (f *paperFlags) cells() ([]study.Cell, error) {
	for _, t := range f.tasks {
		f.plan.Tasks = append(f.plan.Tasks, config.Task(t))
	}
	f.plan.Schedules = f.schedules.list
	f.plan.Data = map[config.Task]string{}
	// Each task may have data of its own.
	for _, d := range f.data {
		task, path, ok := strings.Cut(d, "=")
		if !ok || path == "" {
			return nil, fmt.Errorf("--data %q: want task=PATH, e.g. femnist=femnist.parquet", d)
		}
		f.plan.Data[config.Task(task)] = path
	}
	f.plan.Configs = map[config.Task]string{}
	for _, path := range f.files {
		base, err := config.Load(path, nil)
		if err != nil {
			return nil, err
		}
		// Each task starts from one configuration.
		if earlier := f.plan.Configs[base.Task]; earlier != "" {
			return nil, fmt.Errorf("--config %s and %s are both of task %s", earlier, path, base.Task)
		}
		f.plan.Configs[base.Task] = path
	}
	if f.plan.Timing && f.server.URL != "" {
		return nil, errors.New("--timing trains nothing that hosts could do: leave out --nats")
	}
	f.plan.Sets = withServer(&f.server, f.plan.Sets)
	return f.plan.Cells()
}

// save writes the CSV files and the figures of those cells that are done to the folder of the plan,
// and returns their curves.
func (f *paperFlags) save(cells []study.Cell) ([]paper.Curve, error) {
	curves, err := paper.Curves(cells)
	if err != nil {
		return nil, err
	}
	return curves, errors.Join(paper.Write(f.plan.Folder, curves), paper.Draw(f.plan.Folder, curves))
}

// results prints Table 4 and the outcomes of the curves to w, and says that the folder dir has the
// files.
func results(w io.Writer, dir string, curves []paper.Curve) error {
	if err := errors.Join(paper.WriteTable4(w, curves), paper.WriteOutcomes(w, curves)); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nCurves and figures are in %s.\n", names.Printable(dir))
	return err
}
