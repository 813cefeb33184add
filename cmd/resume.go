package cmd

import (
	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
	"fedpace/config"
	"fedpace/experiment/run"
	"fedpace/study"
)

// resumeCommand makes "fedpace resume", which continues the run in a folder, its argument, from the
// last checkpoint. p resumes the run.
func resumeCommand(p program) *cobra.Command {
	var f runFlags
	var elsewhere bool
	c := &cobra.Command{
		Use:   "resume DIR",
		Short: "Go on with a run that was stopped or died",
		Long: `Continue the run in a folder from its last checkpoint, to the bits of a run that
was never stopped. Checkpoints are written every checkpoint.seconds, at an
interruption and at SIGUSR1. The configuration is the folder's; its trainer's
command needs --trust, or --trainer gives it again.`,
		Example: `  fedpace resume runs/demo`,

		RunE: func(c *cobra.Command, args []string) error {
			// The metrics of the run are not known yet, so expectations are checked as for a custom
			// model.
			if err := study.CheckExpected(
				&config.Config{Task: config.TaskCustom, Expect: f.expect},
				nil,
				0,
			); err != nil {
				return cli.Usage(c, err)
			}
			display := cli.NewDisplay(c)
			// The configuration is the one in the folder of the run.
			o := f.options(display)
			o.RemoteHosts = elsewhere
			o.Trainer = f.trainer
			return f.resume(c, p, args[0], o, display)
		},
	}
	f.add(c)
	c.Flags().StringArrayVar(&f.expect, "expect", nil, expectUsage)
	cli.QuietFlag(c)
	c.Flags().StringVar(&f.trainer, "trainer", "", cli.TrainerUsage)
	trustFlag(c, &f.trust)
	c.Flags().BoolVar(&elsewhere, "elsewhere", false, "leave the work to hosts, as fedpace coordinator does")
	return c
}

// trustFlag defines --trust on the command c, which allows it to execute the trainer and the
// policies that the configuration in a folder names. Its value goes to trust.
func trustFlag(c *cobra.Command, trust *bool) {
	c.Flags().BoolVar(
		trust,
		"trust",
		false,
		"execute the trainer and policies that the folder names",
	)
}

// resume continues the run in dir and prints its results, as play does.
func (f *runFlags) resume(c *cobra.Command, p program, dir string, o run.Options, display *cli.Display) error {
	return f.play(c, dir, o, display, func(o run.Options) (run.Resumed, error) { return p.resume(c.Context(), dir, o) })
}
