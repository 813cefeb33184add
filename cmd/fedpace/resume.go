package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

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
		Args:    oneFolder,

		ValidArgsFunction: runFolder,
		RunE: func(c *cobra.Command, args []string) error {
			show := newDisplay(c.ErrOrStderr(), f.quiet)
			o := run.Options{Version: version(), Progress: show.progress, Notice: show.notice}
			checkpoints, stop := checkpointSignals()
			defer stop()
			o.Checkpoint = checkpoints
			o.NATS, o.Elsewhere = connection.c, elsewhere
			return resumed(c, p, args[0], o, show, &f)
		},
	}
	jsonFlag(c, &f.json, "the run's summary.json and out, its folder")
	c.Flags().BoolVar(&f.quiet, "quiet", false, "no progress and no closing summary")
	c.Flags().BoolVar(&elsewhere, "elsewhere", false, "leave the work to hosts in other processes, as fedpace coordinator does")
	connection.add(c)
	connection.addKeys(c)
	return c
}

// resumed goes on with the run in a folder and says what it came to.
func resumed(c *cobra.Command, p program, dir string, o run.Options, show *display, f *flags) error {
	r, err := p.resume(c.Context(), dir, o)
	show.close()
	if !r.Complete {
		return errors.Join(interruptedRun(err, dir, true), f.report(c, r.Config, r.Summary, err))
	}
	switch {
	case f.json:
		return printJSON(c, reported{r.Summary, dir})
	case f.quiet:
		return nil
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%s holds a complete run: %d rounds, nothing to do.\n", dir, r.Summary.Rounds)
	return err
}

func oneFolder(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("resume wants one folder, the results of the run to go on with, e.g. fedpace resume runs/demo; it got %d", len(args))
	}
	return nil
}
