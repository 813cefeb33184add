package cmd

import (
	"errors"

	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
	"fedpace/experiment/config"
	"fedpace/experiment/run"
)

func runCommand(p program) *cobra.Command {
	var f flags
	var connection connectionFlags
	var dry bool
	var replay string
	c := &cobra.Command{
		Use:   "run",
		Short: "Run one experiment",
		Long: `Run one experiment and leave its results in a folder. Without arguments it is
the demonstration: FedAvg with K_r-rounds on FEMNIST with synthetic data.

A run with real devices keeps what they said in devices.log; --replay plays it
again without them, to the same bits.`,
		Example: `  fedpace run
  fedpace run --config exp.yaml --set schedule.k=error --out runs/error
  fedpace run --set task=sent140 --dry-run
  fedpace run --set task=shakespeare --set train=false --set stop.equal_runtime_rounds=10000`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var err error
			if f.sets, err = intoConfig(&connection.Connection, c, f.sets); err != nil {
				return err
			}
			config, err := f.loadRun(c, replay)
			if err != nil {
				return err
			}
			show := cli.NewDisplay(c.ErrOrStderr(), f.quiet)
			options := f.options(show)
			options.Replay = replay
			options.NATS = connection.connection()
			if dry {
				estimate, err := p.dryRun(c.Context(), config, options)
				show.Close()
				if err != nil {
					return err
				}
				return cli.Print(c, f.json, estimate, estimate.Write)
			}
			return f.run(c, p, config, options, show)
		},
	}
	f.add(c)
	connection.add(c)
	cli.JSONFlag(c, &f.json, "the run's summary.json and out, its folder; with --dry-run the configuration and what to expect")
	c.Flags().StringVar(&replay, "replay", "", "play the run in `DIR` again with what its real devices said, into DIR-replay or --out")
	c.Flags().BoolVar(&dry, "dry-run", false, "print the resolved configuration and what to expect, and run nothing")
	return c
}

// loadRun is load, or where a run is played again its configuration.
func (f *flags) loadRun(c *cobra.Command, replay string) (config.Config, error) {
	switch {
	case replay == "":
		return f.load(c)
	case f.config != "":
		return config.Config{}, cli.Usage(c, errors.New("--replay takes the configuration of the run that it plays again, not --config"))
	}
	return run.LoadReplay(replay, f.setsOf(c))
}

// run runs an experiment and prints what it came to.
func (f *flags) run(c *cobra.Command, p program, config config.Config, o run.Options, show *cli.Display) error {
	checkpoints, stop := checkpointSignals()
	defer stop()
	o.Checkpoint = checkpoints
	summary, err := p.run(c.Context(), config, o)
	show.Close()
	kept := ""
	if summary.Version != "" {
		kept = config.Out + ", to go on: fedpace resume " + config.Out
	}
	return errors.Join(interrupted(err, kept), f.report(c, config, summary, err))
}
