package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit statuses.
const (
	ExitOK          = 0
	ExitFailure     = 1
	ExitUsage       = 2
	ExitInterrupted = 130 // by a signal, and by nothing else
)

// Main runs a program until its command ends or a signal stops it, and exits.
func Main(root *cobra.Command) {
	ctx, stop := signal.NotifyContext(context.Background(), stopSignals()...)
	// After the first signal the next one ends the process at once: a person
	// must not wait for a clean stop that does not come.
	context.AfterFunc(ctx, stop)
	status := Perform(ctx, root, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// stopSignals end a run cleanly. SIGHUP, which a terminal sends when it goes, is
// left alone where somebody (nohup) has it ignored.
func stopSignals() []os.Signal {
	list := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
	}
	return list
}

// Perform runs a program but for its signals and returns its exit status.
func Perform(ctx context.Context, root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	out := &checked{to: stdout}
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(stderr)
	root.SilenceErrors, root.SilenceUsage = true, true
	addCompletion(root)
	prepareUsage(root)
	err := root.ExecuteContext(ctx)
	interrupted := ctx.Err() != nil && errors.Is(err, context.Canceled)
	if err == nil || out.err != nil && !interrupted {
		err = out.err // lost output is why the command failed, where it did
	}
	switch usage := (UsageError{}); {
	case err == nil:
		return ExitOK
	case interrupted:
		complain(stderr, root, err.Error())
		return ExitInterrupted
	case errors.As(err, &usage):
		complain(stderr, root, fmt.Sprintf("%v (see %s %s--help)", err, root.Name(), usage.Command))
		return ExitUsage
	default:
		complain(stderr, root, err.Error())
		return ExitFailure
	}
}

// complain prints one line, whatever an error holds. What is said twice (a run
// and its closing may fail by the same cause) is printed once.
func complain(stderr io.Writer, root *cobra.Command, problem string) {
	var said []string
	for part := range strings.SplitSeq(strings.TrimSpace(problem), "\n") {
		if !slices.Contains(said, part) {
			said = append(said, part)
		}
	}
	fmt.Fprintln(stderr, screenOf(stderr).paint(problemColour, root.Name()+":")+" "+strings.Join(said, "; "))
}

// Interrupted is an interruption with what the user should know of it.
type Interrupted struct{ Note string }

func (e Interrupted) Error() string { return "interrupted: " + e.Note }
func (e Interrupted) Unwrap() error { return context.Canceled }

// Interruption says what an interruption of a command kept, if anything, and what else
// went wrong beside it. Another error stays as it is.
func Interruption(ctx context.Context, err error, kept string) error {
	if ctx.Err() == nil || !errors.Is(err, context.Canceled) {
		return err
	}
	note := "nothing was written"
	if kept != "" {
		note = "what was done is in " + kept
	}
	for problem := range strings.Lines(err.Error()) {
		if problem = strings.TrimSpace(problem); !strings.Contains(note, problem) && !strings.HasSuffix(problem, context.Canceled.Error()) {
			note += "; " + problem
		}
	}
	return Interrupted{Note: note}
}

// UsageError is a command line that cannot be understood.
type UsageError struct {
	Command string // with a space behind it, or empty
	Problem error
}

func (e UsageError) Error() string { return e.Problem.Error() }
func (e UsageError) Unwrap() error { return e.Problem }

// prepareUsage makes what cobra finds wrong with a command line, down to the
// last command, an error of usage.
func prepareUsage(c *cobra.Command) {
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return Usage(c, err) })
	if args := c.Args; args != nil {
		c.Args = func(c *cobra.Command, given []string) error {
			if err := args(c, given); err != nil {
				return Usage(c, err)
			}
			return nil
		}
	}
	for _, below := range c.Commands() {
		prepareUsage(below)
	}
}

// Usage marks an error as one of the command line; nil stays.
func Usage(c *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	command := strings.TrimPrefix(c.CommandPath()+" ", c.Root().Name()+" ")
	return UsageError{command, err}
}

// Group makes c a command that only holds those below it.
func Group(c *cobra.Command, below ...*cobra.Command) *cobra.Command {
	c.Args, c.RunE = cobra.NoArgs, func(c *cobra.Command, _ []string) error { return c.Help() }
	c.AddCommand(below...)
	return c
}

// One demands one argument.
func One(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("found %d arguments, want one: %s", len(args), what)
		}
		return nil
	}
}
