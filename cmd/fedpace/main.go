package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fedpace/actors/data/fetch"
)

// Exit statuses.
const (
	statusOK          = 0
	statusFailure     = 1
	statusUsage       = 2
	statusInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), stopSignals()...)
	// After the first signal the next one ends the process at once: a person
	// must not wait for a clean stop that does not come.
	context.AfterFunc(ctx, stop)
	status := execute(ctx, library, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// execute is the whole program but for signals.
func execute(ctx context.Context, p program, args []string, stdout, stderr io.Writer) int {
	return perform(ctx, rootCommand(p), args, stdout, stderr)
}

// perform is execute for any command line.
func perform(ctx context.Context, root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	out := &checked{to: stdout}
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(stderr)
	addCompletion(root)
	prepareUsage(root)
	err := root.ExecuteContext(ctx)
	if lost := out.lost(); err == nil || lost != nil && !errors.Is(err, context.Canceled) {
		err = lost // which is why the command failed, where it did
	}
	switch usage := (usageError{}); {
	case err == nil:
		return statusOK
	case errors.Is(err, context.Canceled):
		complain(stderr, err.Error())
		return statusInterrupted
	case errors.As(err, &usage):
		complain(stderr, fmt.Sprintf("%v (see fedpace %s--help)", err, usage.command))
		return statusUsage
	default:
		complain(stderr, err.Error())
		return statusFailure
	}
}

// complain prints one line, whatever an error holds. What is said twice (a run
// and its closing may fail by the same cause) is printed once.
func complain(stderr io.Writer, problem string) {
	var said []string
	for part := range strings.SplitSeq(strings.TrimSpace(problem), "\n") {
		if !slices.Contains(said, part) {
			said = append(said, part)
		}
	}
	fmt.Fprintln(stderr, screenOf(stderr).paint(problemColour, "fedpace:")+" "+strings.Join(said, "; "))
}

// interruptedError is an interruption with what the user should know of it.
type interruptedError struct{ note string }

func (e interruptedError) Error() string { return "interrupted: " + e.note }
func (e interruptedError) Unwrap() error { return context.Canceled }

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
	return interruptedError{note}
}

// usageError is a command line that cannot be understood.
type usageError struct {
	command string // with a space behind it, or empty
	problem error
}

func (e usageError) Error() string { return e.problem.Error() }
func (e usageError) Unwrap() error { return e.problem }

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
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.AddCommand(runCommand(p), resumeCommand(p), coordinatorCommand(p), hostCommand(p), enrollCommand(), compareCommand(p), exportCommand(), reportCommand(), dataCommand(fetch.Archives(), fetch.Fetcher{}), paperCommand(), theoryCommand(), actorCommand(), calibrateCommand(), manCommand(), versionCommand(), configurationTopic())
	root.SetHelpCommand(helpCommand(root))
	return root
}

// prepareUsage makes what cobra finds wrong with a command line, down to the
// last command, an error of usage.
func prepareUsage(c *cobra.Command) {
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return usage(c, err) })
	if args := c.Args; args != nil {
		c.Args = func(c *cobra.Command, given []string) error {
			if err := args(c, given); err != nil {
				return usage(c, err)
			}
			return nil
		}
	}
	for _, below := range c.Commands() {
		prepareUsage(below)
	}
}

// usage marks an error as one of usage.
func usage(c *cobra.Command, err error) error {
	command := strings.TrimPrefix(c.CommandPath()+" ", c.Root().Name()+" ")
	return usageError{command, err}
}
