package cmd

import (
	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
	"fedpace/experiment/run"
)

func resumeCommand(p program) *cobra.Command {
	var f runFlags
	var elsewhere bool
	c := &cobra.Command{
		Use:   "resume DIR",
		Short: "Go on with a run that was stopped or died",
		Long: `Go on with the run in a folder that was interrupted, failed or died, from its
last checkpoint. It comes to the results of a run that was never stopped, bit
for bit. A checkpoint is written every checkpoint.seconds, when a run is
interrupted and when it gets the signal SIGUSR1; a run that died before its
first starts again. The configuration is the folder's; a folder may be moved.`,
		Example: `  fedpace resume runs/demo`,
		Args:    cli.One(cli.ARun),

		ValidArgsFunction: cli.OneFolder,
		RunE: func(c *cobra.Command, args []string) error {
			show := cli.NewDisplay(c)
			o := f.options(show)
			o.RemoteHosts, o.Trainer = elsewhere, f.trainer
			return f.resume(c, p, args[0], o, show)
		},
	}
	f.add(c, "")
	cli.QuietFlag(c, "no progress and no closing summary")
	c.Flags().StringVar(&f.trainer, "trainer", "", "`COMMAND` of the run's trainer, if it is another by now; the script must be the same")
	c.Flags().BoolVar(&elsewhere, "elsewhere", false, "leave the work to hosts in other processes, as fedpace coordinator does")
	return c
}

// resume goes on with the run in a folder and prints what it came to.
func (f *runFlags) resume(c *cobra.Command, p program, dir string, o run.Options, show *cli.Display) error {
	return f.play(c, dir, o, show, func(o run.Options) (run.Resumed, error) { return p.resume(c.Context(), dir, o) })
}
