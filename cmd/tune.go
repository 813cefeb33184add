package cmd

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"fedpace/bus/natsconn"
	"fedpace/cmd/internal/cli"
	"fedpace/study"
	"fedpace/study/choice"
	"fedpace/study/tune"
)

// tuneCommand makes "fedpace tune", which searches the keys of the configuration with which each
// schedule ends best, such as K_0 and the learning rate. It saves the best setting of each schedule
// as a configuration.
func tuneCommand() *cobra.Command {
	var f flags
	var sweep sweepFlags
	var server natsconn.Config
	var schedules scheduleFlag
	var limits choice.Limits
	c := &cobra.Command{
		Use:   "tune",
		Short: "Find the K_0, learning rate or other keys with which schedules end best",
		Long: `Find the values of keys with which each schedule ends best, at equal virtual
time and with the same seeds. Every setting runs to a ninth of the time, the
best third to a third, and the best third of these to the end. Fresh seeds
confirm the choice.

The folder gets best.yaml (the best setting), tune.json (all) and tune.svg.
Repeat the command to continue.`,
		Example: `  fedpace tune --grid schedule.k0=5,10,20,40,80
  fedpace tune --schedules fixed,rounds --grid schedule.k0=5..80 --grid schedule.eta0=0.01..1 --out runs/tuned`,
		RunE: func(c *cobra.Command, _ []string) error {
			_, plan, err := f.studyPlan(c, "-tune", &sweep, &schedules)
			if err != nil {
				return err
			}
			display := cli.NewDisplay(c)
			o := f.studyOptions(display, server)
			// A tuning is a study of many runs, so its progress replaces that of single runs.
			o.Progress = func(p study.Progress) { display.Show(statusOfStudy(p)) }
			// Settings that these seeds do not tell apart get more of them.
			limits.Seeds = sweep.seeds
			result, err := tune.Make(c.Context(), plan, limits, o)
			display.Close()
			if err != nil {
				return cli.Interruption(c.Context(), err, plan.Folder+sameCommand)
			}
			// The best settings are saved before anything is printed.
			if err := result.Save(plan.Folder); err != nil {
				return err
			}
			return cli.PrintWith(
				c,
				result,
				result.Write,
				"To run it: fedpace run --config %s\nThe grid as a picture: %s\n",
				filepath.Join(plan.Folder, tune.ConfigFile),
				filepath.Join(plan.Folder, tune.FigureFile),
			)
		},
	}
	f.add(c)
	s := c.Flags()
	schedules.add(c, nil, " (default the configuration's)")
	s.StringArrayVar(
		&sweep.grids,
		"grid",
		nil,
		"values of a key, `KEY=VALUE,...`, or N of a range (default 4), KEY=LOW..HIGH/N; may be repeated",
	)
	s.IntVar(&sweep.seeds, "seeds", 3, seedsUsage)
	cli.InRange(c, "seeds", 1, maxSeeds)
	addSearch(c, &limits)
	cli.AddServer(c, &server)
	cli.Complete(c, "grid", assignments)
	cli.JSONFlag(c, "")
	return c
}
