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
	// ExitOK is the status of a command that did what it was asked.
	ExitOK = 0
	// ExitFailure is the status of any failure without one of its own.
	ExitFailure = 1
	// ExitUsage says that the command line could not be understood.
	ExitUsage = 2
	// ExitMissed says that something that was expected of a run did not happen.
	ExitMissed = 3
	// ExitNotReached says that a run did not reach evaluate.target.
	ExitNotReached = 4
	// ExitNoUpdates says that no update of a run counted.
	ExitNoUpdates = 5
	// ExitInterrupted says that a signal stopped the command, and nothing else did.
	ExitInterrupted = 130
)

// StatusError is a failure with an exit status of its own.
type StatusError struct {
	// Status is the exit status of the program.
	Status int
	// Problem is what went wrong.
	Problem error
}

// Error implements error.
func (e StatusError) Error() string { return e.Problem.Error() }

// Unwrap returns the problem behind the status, for errors.Is and errors.As.
func (e StatusError) Unwrap() error { return e.Problem }

// Main runs the command of a program that the process's arguments name, until it ends or a signal
// stops it, and exits with its status. A second signal, or a command that does not look for
// signals, ends the process at once.
func Main(root *cobra.Command) {
	memlimit.Set()
	ctx, stop := signal.NotifyContext(context.Background(), stopSignals()...)
	observed := &observedContext{Context: ctx}
	context.AfterFunc(ctx, func() {
		// The same signal may arrive twice within this time.
		time.Sleep(repeatWindow)
		// From now on the next signal ends the process at once: a person must not wait
		// for a clean stop that does not come.
		stop()
		// A command that does not even look for a signal has nothing to stop cleanly.
		time.Sleep(signalGrace - repeatWindow)
		if !observed.observed.Load() {
			printProblem(os.Stderr, root, "interrupted")
			os.Exit(ExitInterrupted)
		}
	})
	status := Perform(observed, root, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// repeatWindow is the time within which a signal that comes again counts as the same one: timeout(1)
// sends it to the process and to its group.
var repeatWindow = 200 * time.Millisecond

// signalGrace is how long a command goes on after a signal if it does not look for signals.
const signalGrace = time.Second

// observedContext is a context that remembers whether any code has looked for its end.
type observedContext struct {
	context.Context
	// observed is true as soon as Done or Err was called.
	observed atomic.Bool
}

// Done returns the channel of the context, and notes that somebody waits for the interruption.
func (h *observedContext) Done() <-chan struct{} {
	h.observed.Store(true)
	return h.Context.Done()
}

// Err returns the error of the context, and notes that somebody asked for the interruption.
func (h *observedContext) Err() error {
	h.observed.Store(true)
	return h.Context.Err()
}

// stopSignals returns the signals that end a run cleanly. SIGHUP, which a terminal sends when it
// closes, is not among them where the process was started to ignore it, as by nohup.
func stopSignals() []os.Signal {
	list := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
	}
	return list
}

// Perform runs the command of the program root that args name and returns its exit status. It
// prints errors to stderr. Signals are left to the caller, who cancels ctx.
func Perform(ctx context.Context, root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	output := &failureWriter{stream: stdout}
	root.SetArgs(addVersion(root, args))
	root.SetOut(output)
	root.SetErr(stderr)
	root.SilenceErrors = true
	root.SilenceUsage = true
	// These need the commands and the output of the program, so they come last.
	addCompletion(root)
	Prepare(root)
	wrapHelp(root, screenOf(stdout).width())
	err := root.ExecuteContext(ctx)
	// A command that fails after a signal for another reason was not interrupted.
	interrupted := ctx.Err() != nil && errors.Is(err, context.Canceled)
	lostOutput := output.err != nil && !interrupted
	if err == nil || lostOutput {
		// Lost output is the cause where a command failed because of it.
		err = output.err
	}
	var failure StatusError
	var usage UsageError
	switch {
	case err == nil:
		return ExitOK
	case interrupted:
		problem := err.Error()
		// A command that adds no note has an error that says only where it was cancelled.
		if hasNote := errors.As(err, new(Interrupted)); !hasNote {
			problem = strings.Join(append([]string{"interrupted"}, otherProblems(err)...), "; ")
		}
		printProblem(stderr, root, problem)
		return ExitInterrupted
	case errors.As(err, &usage):
		printProblem(stderr, root, fmt.Sprintf("%v (see %s %s--help)", err, root.Name(), usage.Command))
		return ExitUsage
	case errors.As(err, &failure):
		printProblem(stderr, root, problemOf(err))
		return failure.Status
	default:
		printProblem(stderr, root, problemOf(err))
		return ExitFailure
	}
}

// problemOf returns the text of an error. On a full disk all that is written fails, so of the joined errors for that
// reason only the first is in the text.
func problemOf(err error) string {
	var problems []string
	isFull := false
	for _, part := range joined(err) {
		ofFullDisk := errors.Is(part, syscall.ENOSPC)
		if isFull && ofFullDisk {
			continue
		}
		isFull = isFull || ofFullDisk
		problems = append(problems, part.Error())
	}
	return strings.Join(problems, "\n")
}

// joined returns the errors that were joined by errors.Join to err, and err itself if it is none of these.
func joined(err error) (parts []error) {
	list, isList := err.(interface{ Unwrap() []error })
	if !isList {
		return []error{err}
	}
	var texts []string
	for _, part := range list.Unwrap() {
		texts = append(texts, part.Error())
		parts = append(parts, joined(part)...)
	}
	// An error of fmt.Errorf that wraps several has a text of its own.
	if strings.Join(texts, "\n") != err.Error() {
		return []error{err}
	}
	return parts
}

// printProblem prints the problem in one line, whatever the text of an error holds. A part that occurs
// twice, as where a run and its closing fail by the same cause, is printed once.
func printProblem(stderr io.Writer, root *cobra.Command, problem string) {
	var printed []string
	for part := range strings.SplitSeq(strings.TrimSpace(problem), "\n") {
		part = names.Printable(part)
		if !slices.Contains(printed, part) {
			printed = append(printed, part)
		}
	}
	fmt.Fprintln(stderr, screenOf(stderr).paint(problemColour, root.Name()+":")+" "+strings.Join(printed, "; "))
}

// Interrupted is the error of a command that a signal stopped. Note says what the user should know,
// such as where the results so far are.
type Interrupted struct{ Note string }

// Error implements error.
func (e Interrupted) Error() string { return "interrupted: " + e.Note }

// Unwrap makes every interruption a context.Canceled.
func (e Interrupted) Unwrap() error { return context.Canceled }

// Interruption returns err as an [Interrupted] if the cancellation of ctx caused it, and unchanged
// otherwise. savedIn is where the work so far was saved, or "" if nothing was. What else went wrong
// is added to the note.
func Interruption(ctx context.Context, err error, savedIn string) error {
	if ctx.Err() == nil || !errors.Is(err, context.Canceled) {
		return err
	}
	note := "nothing was written"
	if savedIn != "" {
		note = "what was done is in " + savedIn
	}
	for _, problem := range otherProblems(err) {
		if !strings.Contains(note, problem) {
			note += "; " + problem
		}
	}
	return Interrupted{Note: note}
}

// otherProblems returns the lines of err that say something else than that a context was cancelled.
func otherProblems(err error) (problems []string) {
	for problem := range strings.Lines(err.Error()) {
		problem = strings.TrimSpace(problem)
		if !strings.HasSuffix(problem, context.Canceled.Error()) {
			problems = append(problems, problem)
		}
	}
	return problems
}
