package cmd

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"fedpace/bus/natsconn"
	"fedpace/cmd/internal/cli"
	"fedpace/config"
	"fedpace/internal/atomicfile"
	"fedpace/internal/cputime"
	"fedpace/metrics/figure"
	"fedpace/study"
	"fedpace/study/plan"
)

// planCommand makes "fedpace plan", which compares settings of a deployment before anything is
// deployed and recommends one. p makes the plan. The command writes a configuration, a table and a
// page.
func planCommand(p program) *cobra.Command {
	var f planFlags
	c := &cobra.Command{
		Use:   "plan",
		Short: "Find the schedule, closing rule, K_0 and cohort for a fleet before it is deployed",
		Long: `Recommend a setting for a deployment. Every setting gets the same virtual time
and is timed for many draws of the fleet; some, and the configuration's own, are
trained and ranked by how their runs end. Fresh seeds confirm the choice.

The folder gets plan.yaml (the best setting), plan.csv, plan.svg and plan.html.
Repeat the command to continue.`,
		Example: `  fedpace plan
  fedpace plan --config exp.yaml --learn 0
  fedpace plan --grid 'close=all,{rule: first, n: 80%}'`,
		RunE: func(c *cobra.Command, _ []string) error {
			loaded, err := f.load(c)
			if err != nil {
				return err
			}
			// The settings are checked before the first of them is played.
			q, err := f.request(c, loaded.Schedule)
			if err != nil {
				return cli.Usage(c, err)
			}
			outDir := loaded.Out
			// The suffix keeps a plan apart from the run of the same name.
			if !c.Flags().Changed("out") {
				outDir += "-plan"
			}
			display := cli.NewDisplay(c)
			o := f.studyOptions(display, natsconn.Config{})
			o.Progress = func(p study.Progress) { display.Show(statusOfStudy(p)) }
			drawn := func(done, total int) { display.Show(statusOfDraws(done, total)) }
			made, err := p.plan(c.Context(), q, outDir, o, drawn)
			display.Close()
			if err != nil {
				return cli.Interruption(c.Context(), err, outDir+sameCommand)
			}
			// Everything is saved before anything is printed.
			if err := f.write(made, outDir); err != nil {
				return err
			}
			return cli.PrintWith(
				c,
				made,
				made.Write,
				"\nTo run it: fedpace run --config %s\nAs a picture: %s\n",
				filepath.Join(outDir, plan.ConfigFile),
				filepath.Join(outDir, plan.PageFile),
			)
		},
	}
	f.flags.add(c)
	s := c.Flags()
	f.schedules.add(c, nil, " (default the configuration's, fixed, rounds and error)")
	s.StringArrayVar(&f.grids, "grid", nil, "values of a key, `KEY=VALUE,...`, as cohort=5,10 or "+
		"'close=all,{rule: first, n: 80%}'; may be repeated (default smaller K_0 and cohorts, over-selection)")
	s.Float64Var(&f.base.Hours, "hours", 0, "virtual time of every setting (default the configuration's)")
	s.IntVar(&f.base.Draws, "draws", 19, "fleet draws for each setting's time")
	s.IntVar(&f.base.Learn, "learn", 3, "settings trained besides the configuration's; 0: none")
	s.IntVar(&f.base.Seeds, "seeds", 3, seedsUsage)
	addSearch(c, &f.base.Limits)
	s.DurationVar(&f.race, "race", 0, "recommend within this processor time, such as 10m, by a race over parts "+
		"of the virtual time")
	s.StringVar(&f.base.Goal, "for", "", "rank by time to stop.accepted (updates), its energy (energy) or time to "+
		"evaluate.target (target) (default the best model at the end)")
	cli.OneOf(c, "for", plan.Updates, plan.Energy, plan.Target)
	for _, other := range []string{"learn", "for", "most-seeds", "fresh"} {
		c.MarkFlagsMutuallyExclusive("race", other)
	}
	cli.Complete(c, "grid", assignments)
	cli.InRange(c, "hours", 0, 1e6)
	cli.InRange(c, "draws", 1, 1000)
	cli.InRange(c, "learn", 0, 1000)
	cli.InRange(c, "seeds", 1, maxSeeds)
	cli.JSONFlag(c, "")
	return c
}

// planFlags are the flags of "fedpace plan".
type planFlags struct {
	flags
	// schedules are those to compare; empty: the plan's own choice.
	schedules scheduleFlag
	// race is the processor time of a race, 0 for none.
	race time.Duration
	// grids holds each --grid as it was written.
	grids []string
	// base holds the flags that the request takes as they are.
	base plan.Request
}

// request returns the request for a plan that the flags of the command c describe. base is the
// configuration's own schedule, from which the listed schedules take their options.
func (f *planFlags) request(c *cobra.Command, base config.Schedule) (q plan.Request, err error) {
	q = f.base
	q.Race = f.race.Seconds()
	used := cputime.Start()
	q.ProcessorSeconds = func() float64 { return used().Seconds() }
	// The plan loads the configuration again, with other sets for each setting.
	q.ConfigFiles = f.config
	q.Sets = f.setsOf(c)
	q.Schedules = f.schedules.list
	for _, text := range f.grids {
		g, err := study.ParseGrid(text)
		if err != nil {
			return q, err
		}
		q.Grids = append(q.Grids, g)
	}
	return q, f.schedules.check(f.sets, base)
}

// write saves the plan p in the folder outDir, which it makes if need be: the table, the recommended
// configuration, the figure and the HTML page.
func (f *planFlags) write(p *plan.Plan, outDir string) error {
	// The figure is made first, so that a failure leaves no folder behind.
	panels, err := p.Panels()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(outDir, 0o777); err != nil {
		return err
	}
	return errors.Join(
		atomicfile.Write(filepath.Join(outDir, plan.TableFile), p.WriteCSV),
		atomicfile.Write(filepath.Join(outDir, plan.ConfigFile), atomicfile.Bytes(p.YAML())),
		figure.Save(filepath.Join(outDir, plan.FigureFile), panels...),
		atomicfile.Write(filepath.Join(outDir, plan.PageFile), p.WriteHTML),
	)
}
