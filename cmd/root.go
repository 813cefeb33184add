package cmd

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"fedpace/actors/data/fetch"
	"fedpace/cmd/internal/cli"
)

// Main runs fedpace with the arguments of the process and exits.
func Main() { cli.Main(rootCommand(library)) }

// execute is the whole program but for signals.
func execute(ctx context.Context, p program, args []string, stdout, stderr io.Writer) int {
	return cli.Perform(ctx, rootCommand(p), args, stdout, stderr)
}

// interrupted says what an interruption left behind, and what else went wrong
// beside it. Another error stays as it is.
func interrupted(err error, out string, kept bool) error {
	if !kept {
		return interruption(err, "nothing was written")
	}
	return interruption(err, "what was done is in "+out)
}

// interruptedComparison is interrupted for several runs.
func interruptedComparison(err error, out string) error {
	return interruption(err, "what was done is in "+out+", the same command goes on")
}

// interruptedRun is interrupted for a run, which can be resumed.
func interruptedRun(err error, out string, kept bool) error {
	if !kept {
		return interrupted(err, out, kept)
	}
	return interruption(err, "what was done is in "+out+", to go on: fedpace resume "+out)
}

func interruption(err error, note string) error {
	if !errors.Is(err, context.Canceled) {
		return err
	}
	for problem := range strings.Lines(err.Error()) {
		if problem = strings.TrimSpace(problem); !strings.Contains(note, problem) && !strings.HasSuffix(problem, context.Canceled.Error()) {
			note += "; " + problem
		}
	}
	return cli.Interrupted{Note: note}
}

// rootCommand is the command line.
func rootCommand(p program) *cobra.Command {
	root := &cobra.Command{
		Use:   "fedpace",
		Short: "Federated learning on a simulated clock",
		Long: `fedpace runs federated learning on a simulated clock: every client has a link
and a speed, a round takes as long as its slowest client, and the number of
local SGD steps decays by a schedule.`,
		Example: `  fedpace run
  fedpace run --set task=femnist --set schedule.k=error --dry-run
  fedpace resume runs/demo
  fedpace compare --set task=femnist --schedules dsgd,fixed,k-rounds`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.AddCommand(runCommand(p), resumeCommand(p), coordinatorCommand(p), hostCommand(p), enrollCommand(), compareCommand(p), exportCommand(), reportCommand(), dataCommand(fetch.Archives(), fetch.Fetcher{}), paperCommand(), theoryCommand(), cli.ActorCommand("fedpace"), cli.CalibrateCommand("fedpace"), manCommand(), cli.VersionCommand("fedpace"), configurationTopic())
	root.SetHelpCommand(helpCommand(root))
	return root
}
