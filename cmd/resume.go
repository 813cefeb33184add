package cmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
	"fedpace/experiment/run"
)

func resumeCommand(p program) *cobra.Command {
	var f flags
	var elsewhere bool
	var connection connectionFlags
	c := &cobra.Command{
		Use:   "resume DIR",
		Short: "Go on with a run that was stopped or died",
		Long: `Go on with the run in a folder that was interrupted, failed or died, from its
last checkpoint. It comes to the results of a run that was never stopped, bit
for bit. A checkpoint is written every checkpoint.seconds, when a run is
interrupted and when it gets the signal SIGUSR1; a run that died before its
first starts again. The configuration is the folder's; a folder may be moved.`,
		Example: `  fedpace resume runs/demo`,
		Args:    runFolderOf("resume"),

		ValidArgsFunction: cli.OneFolder,
		RunE: func(c *cobra.Command, args []string) error {
			show := cli.NewDisplay(c.ErrOrStderr(), f.quiet)
			o := f.options(show)
			o.NATS, o.RemoteHosts = connection.connection(), elsewhere
			return f.resume(c, p, args[0], o, show)
		},
	}
	cli.JSONFlag(c, &f.json, "the run's summary.json and out, its folder")
	c.Flags().BoolVar(&f.quiet, "quiet", false, "no progress and no closing summary")
	c.Flags().BoolVar(&elsewhere, "elsewhere", false, "leave the work to hosts in other processes, as fedpace coordinator does")
	connection.add(c)
	return c
}

// resume goes on with the run in a folder and prints what it came to.
func (f *flags) resume(c *cobra.Command, p program, dir string, o run.Options, show *cli.Display) error {
	checkpoints, stop := checkpointSignals()
	defer stop()
	o.Checkpoint = checkpoints
	r, err := p.resume(c.Context(), dir, o)
	show.Close()
	if !r.Complete {
		return errors.Join(interrupted(err, dir+", to go on: fedpace resume "+dir), f.report(c, r.Config, r.Summary, err))
	}
	switch {
	case f.json:
		return cli.PrintJSON(c, reported{r.Summary, dir})
	case f.quiet:
		return nil
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%s holds a complete run: %d rounds, nothing to do.\n", dir, r.Summary.Rounds)
	return err
}
