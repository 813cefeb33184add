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
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"fedpace/internal/memlimit"

	"fedpace/internal/names"
)

// Exit statuses.
const (
	ExitOK          = 0
	ExitFailure     = 1
	ExitUsage       = 2
	ExitMissed      = 3   // something that was expected
	ExitNotReached  = 4   // evaluate.target
	ExitNoUpdates   = 5   // no update counted
	ExitInterrupted = 130 // by a signal, and by nothing else
)

// StatusError is a failure with an exit status of its own.
type StatusError struct {
	Status  int
	Problem error
}

// Error implements error.
func (e StatusError) Error() string { return e.Problem.Error() }

// Unwrap gives the problem behind the status, for errors.Is and errors.As.
func (e StatusError) Unwrap() error { return e.Problem }

// Main runs a program until its command ends or a signal stops it, and exits.
func Main(root *cobra.Command) {
	memlimit.Set()
	ctx, stop := signal.NotifyContext(context.Background(), stopSignals()...)
	heeded := &heeded{Context: ctx}
	context.AfterFunc(ctx, func() {
		time.Sleep(doubled)
		// From now on the next signal ends the process at once: a person must not wait
		// for a clean stop that does not come.
		stop()
		// A command that does not even look for a signal has nothing to stop cleanly.
		time.Sleep(unheeded - doubled)
		if !heeded.looked.Load() {
			complain(os.Stderr, root, "interrupted")
			os.Exit(ExitInterrupted)
		}
	})
	status := Perform(heeded, root, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// doubled is how long a signal that comes again is the same one: timeout(1) sends it to
// the process and to its group.
var doubled = 200 * time.Millisecond

// unheeded is how long a command goes on after a signal that it does not look for.
const unheeded = time.Second

// heeded is a context that knows whether anybody has looked for its end.
type heeded struct {
	context.Context
	looked atomic.Bool
}

// Done is the context's own, and notes that somebody waits for the interruption.
func (h *heeded) Done() <-chan struct{} {
	h.looked.Store(true)
	return h.Context.Done()
}

// Err is the context's own, and notes that somebody asked for the interruption.
func (h *heeded) Err() error {
	h.looked.Store(true)
	return h.Context.Err()
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
	output := &checked{stream: stdout}
	root.SetArgs(addVersion(root, args))
	root.SetOut(output)
	root.SetErr(stderr)
	root.SilenceErrors = true
	root.SilenceUsage = true
	addCompletion(root)
	Prepare(root)
	wrapHelp(root, screenOf(stdout).width())
	err := root.ExecuteContext(ctx)
	interrupted := ctx.Err() != nil && errors.Is(err, context.Canceled)
	if err == nil || output.err != nil && !interrupted {
		err = output.err // lost output is why the command failed, where it did
	}
	var failure StatusError
	switch usage := (UsageError{}); {
	case err == nil:
		return ExitOK
	case interrupted:
		complain(stderr, root, err.Error())
		return ExitInterrupted
	case errors.As(err, &usage):
		complain(stderr, root, fmt.Sprintf("%v (see %s %s--help)", err, root.Name(), usage.Command))
		return ExitUsage
	case errors.As(err, &failure):
		complain(stderr, root, err.Error())
		return failure.Status
	default:
		complain(stderr, root, err.Error())
		return ExitFailure
	}
}

// complain prints one line, whatever an error holds. What is said twice (a run
// and its closing may fail by the same cause) is printed once.
func complain(stderr io.Writer, root *cobra.Command, problem string) {
	var printed []string
	for part := range strings.SplitSeq(strings.TrimSpace(problem), "\n") {
		part = names.Printable(part)
		if !slices.Contains(printed, part) {
			printed = append(printed, part)
		}
	}
	fmt.Fprintln(stderr, screenOf(stderr).paint(problemColour, root.Name()+":")+" "+strings.Join(printed, "; "))
}

// Interrupted is an interruption with what the user should know of it.
type Interrupted struct{ Note string }

// Error implements error.
func (e Interrupted) Error() string { return "interrupted: " + e.Note }

// Unwrap makes every interruption a context.Canceled.
func (e Interrupted) Unwrap() error { return context.Canceled }

// Interruption says what an interruption of a command kept, if anything, and what else
// went wrong beside it. Another error stays as it is.
func Interruption(ctx context.Context, err error, savedIn string) error {
	if ctx.Err() == nil || !errors.Is(err, context.Canceled) {
		return err
	}
	note := "nothing was written"
	if savedIn != "" {
		note = "what was done is in " + savedIn
	}
	for problem := range strings.Lines(err.Error()) {
		problem = strings.TrimSpace(problem)
		if !strings.Contains(note, problem) && !strings.HasSuffix(problem, context.Canceled.Error()) {
			note += "; " + problem
		}
	}
	return Interrupted{Note: note}
}
