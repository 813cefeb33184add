package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// checked remembers that a write failed: a command whose output is lost has
// failed, wherever it looked at the error.
type checked struct {
	stream io.Writer
	err    error
}

// Write writes to the stream and remembers the first failure, so that a command whose output
// is lost fails although its printing ignores errors.
func (w *checked) Write(b []byte) (int, error) {
	n, err := w.stream.Write(b)
	if err != nil && w.err == nil {
		if path := (*os.PathError)(nil); errors.As(err, &path) {
			err = path.Err // without the name that the system has for the stream
		}
		w.err = fmt.Errorf("standard output: %w", err)
	}
	return n, err
}

// OnTerminal reports whether a person reads what a command prints.
func OnTerminal(c *cobra.Command) bool {
	stream := c.OutOrStdout()
	if w, ok := stream.(*checked); ok {
		stream = w.stream
	}
	return isTerminal(stream)
}

// isTerminal reports whether a stream is a terminal rather than a file or a pipe.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// JSONFlag adds --json; what is the object that the command prints.
func JSONFlag(c *cobra.Command, content string) {
	c.Flags().Bool("json", false, "print one JSON object: "+content)
}

// AsJSON reports whether the command has --json, and it is set.
func AsJSON(c *cobra.Command) bool { return isSet(c, "json") }

// QuietFlag defines --quiet.
func QuietFlag(c *cobra.Command) {
	c.Flags().BoolP("quiet", "q", false, "say nothing but a result that is asked for")
}

// Quiet reports whether the command has --quiet, and it is set.
func Quiet(c *cobra.Command) bool { return isSet(c, "quiet") }

// isSet reports whether a command has a bool flag of this name and it is true.
func isSet(c *cobra.Command, flag string) bool {
	on, err := c.Flags().GetBool(flag)
	return err == nil && on
}

// PrintJSON prints one object on one line.
func PrintJSON(c *cobra.Command, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%s\n", text)
	return err
}

// Print prints v as JSON with --json, else as write does for people.
func Print(c *cobra.Command, v any, write func(io.Writer) error) error {
	if AsJSON(c) {
		return PrintJSON(c, v)
	}
	return write(c.OutOrStdout())
}

// PrintWith is Print with a line for people behind what write wrote.
func PrintWith(c *cobra.Command, v any, write func(io.Writer) error, line string, a ...any) error {
	return Print(c, v, func(w io.Writer) error {
		if err := write(w); err != nil {
			return err
		}
		_, err := fmt.Fprintf(w, line, a...)
		return err
	})
}

// PrintTable prints v as JSON with --json, else lines whose columns, which tabs separate, are
// lined up.
func PrintTable(c *cobra.Command, v any, write func(io.Writer)) error {
	return Print(c, v, func(w io.Writer) error { return Table(w, write) })
}

// Table writes lines whose columns, which tabs separate, are lined up.
func Table(w io.Writer, write func(io.Writer)) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	write(t)
	return t.Flush()
}

// Aligned is such lines as a text.
func Aligned(write func(io.Writer)) string {
	var b strings.Builder
	if err := Table(&b, write); err != nil {
		panic("fedpace: a string builder does not fail")
	}
	return strings.TrimRight(b.String(), "\n")
}

// Asks reports whether a person can be asked: input and messages are a terminal's.
func Asks(c *cobra.Command) bool {
	return isTerminal(c.InOrStdin()) && isTerminal(c.ErrOrStderr())
}

// Confirmed asks a question and reports whether the answer is yes. A signal that stops
// the program ends the question with an [Interrupted], whatever is answered then.
func Confirmed(c *cobra.Command, question string) (bool, error) {
	stream := c.ErrOrStderr()
	if _, err := fmt.Fprintf(stream, "%s [y/N] ", question); err != nil {
		return false, err
	}
	type answer struct {
		text string
		err  error
	}
	answers := make(chan answer, 1)
	go func() { // stays behind if a signal comes first: a terminal cannot be read with a context
		text, err := bufio.NewReader(c.InOrStdin()).ReadString('\n')
		answers <- answer{strings.ToLower(strings.TrimSpace(text)), err}
	}()
	var a answer // none is no
	select {
	case a = <-answers:
	case <-c.Context().Done():
		a.err = c.Context().Err()
	}
	if a.err != nil { // no newline has been typed
		fmt.Fprintln(stream)
	}
	if c.Context().Err() != nil {
		return false, Interrupted{Note: "nothing was changed"}
	}
	return a.text == "y" || a.text == "yes", nil
}
