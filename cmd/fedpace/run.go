package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
)

func runCommand(p program) *cobra.Command {
	var f flags
	var connection connectionFlags
	var dry bool
	c := &cobra.Command{
		Use:   "run",
		Short: "Run one experiment",
		Long: `Run one experiment and leave its results in a folder. Without arguments it is
the demonstration: FedAvg with K_r-rounds on FEMNIST with synthetic data.`,
		Example: `  fedpace run
  fedpace run --config exp.yaml --set schedule.k=error --out runs/error
  fedpace run --set task=sent140 --dry-run
  fedpace run --set task=shakespeare --set train=false --set stop.equal_runtime_rounds=10000`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			config, err := f.load(c)
			if err != nil {
				return err
			}
			show := newDisplay(c.ErrOrStderr(), f.quiet)
			options := f.options(show)
			options.NATS = connection.apply(&config)
			if dry {
				estimate, err := p.dryRun(c.Context(), config, options)
				show.close()
				if err != nil {
					return err
				}
				return estimate.Write(c.OutOrStdout())
			}
			checkpoints, stop := checkpointSignals()
			defer stop()
			options.Checkpoint = checkpoints
			summary, err := p.run(c.Context(), config, options)
			show.close()
			if summary.Version != "" && !f.quiet && (err == nil || errors.Is(err, context.Canceled)) { // it left results
				writeSummary(c.OutOrStdout(), config, summary)
			}
			return interruptedRun(err, config.Out, summary.Version != "")
		},
	}
	f.add(c)
	connection.add(c)
	connection.addKeys(c)
	c.Flags().BoolVar(&dry, "dry-run", false, "print the resolved configuration and what to expect, and run nothing")
	return c
}
