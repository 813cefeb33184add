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

// failureWriter is standard output, which remembers that a write failed. A command whose output is lost
// has failed, even where the code that printed has ignored the error.
type failureWriter struct {
	// stream is where the output goes.
	stream io.Writer
	// err is the first failure; nil: none.
	err error
}

// Write writes b to the stream and remembers the first failure, so that a command whose output is
// lost fails although its printing ignores errors.
func (w *failureWriter) Write(b []byte) (int, error) {
	n, err := w.stream.Write(b)
	if err != nil && w.err == nil {
		if path := (*os.PathError)(nil); errors.As(err, &path) {
			// The name that the system has for the stream says nothing to the user.
			err = path.Err
		}
		w.err = fmt.Errorf("standard output: %w", err)
	}
	return n, err
}

// OnTerminal reports whether the command c prints to a terminal, where a person reads it. Its
// output may be wrapped in checked.
func OnTerminal(c *cobra.Command) bool {
	stream := c.OutOrStdout()
	if w, ok := stream.(*failureWriter); ok {
		stream = w.stream
	}
	return isTerminal(stream)
}

// isTerminal reports whether a stream is a terminal rather than a file or a pipe.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// JSONFlag adds the flag --json to the command c. content says, for help, what the object holds that
// it prints; "" stands for what the command prints without the flag.
func JSONFlag(c *cobra.Command, content string) {
	help := "print the result as one JSON object"
	if content != "" {
		help = "print one JSON object: " + content
	}
	c.Flags().Bool("json", false, help)
}

// AsJSON reports whether the command has --json, and it is set.
func AsJSON(c *cobra.Command) bool { return isSet(c, "json") }

// QuietFlag adds the flag --quiet to the command c, which hides progress and notices.
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

// PrintJSON prints v as a JSON object on one line to the output of the command c.
func PrintJSON(c *cobra.Command, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%s\n", text)
	return err
}

// Print prints v as JSON if the command c has --json, and calls write to print it for people
// otherwise.
func Print(c *cobra.Command, v any, write func(io.Writer) error) error {
	if AsJSON(c) {
		return PrintJSON(c, v)
	}
	return write(c.OutOrStdout())
}

// PrintWith prints as Print does, with a line for people behind what write has printed. line and a
// make the line as fmt.Printf does; it must end in a line break.
func PrintWith(c *cobra.Command, v any, write func(io.Writer) error, line string, a ...any) error {
	return Print(c, v, func(w io.Writer) error {
		if err := write(w); err != nil {
			return err
		}
		_, err := fmt.Fprintf(w, line, a...)
		return err
	})
}

// PrintTable prints v as JSON if the command c has --json, and as a table otherwise. write writes
// the lines of the table, with tabs between the columns.
func PrintTable(c *cobra.Command, v any, write func(io.Writer)) error {
	return Print(c, v, func(w io.Writer) error { return Table(w, write) })
}

// Table writes a table to w with aligned columns. write writes its lines, with tabs between the
// columns.
func Table(w io.Writer, write func(io.Writer)) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	write(t)
	return t.Flush()
}

// Aligned returns a table with aligned columns as a text, without a line break at its end. write
// writes its lines, with tabs between the columns.
func Aligned(write func(io.Writer)) string {
	var b strings.Builder
	if err := Table(&b, write); err != nil {
		panic("fedpace: a string builder does not fail")
	}
	return strings.TrimRight(b.String(), "\n")
}

// CanAsk reports whether a person can be asked a question: both the input and the messages of the
// command are those of a terminal.
func CanAsk(c *cobra.Command) bool {
	return isTerminal(c.InOrStdin()) && isTerminal(c.ErrOrStderr())
}

// Confirmed asks a question that ends the line and reports whether the answer is yes. Any other
// answer, or none, is no. A signal that stops the program ends the question with an [Interrupted],
// whatever is answered then.
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
	// The goroutine stays behind if a signal comes first, because a terminal cannot be read with a
	// context.
	go func() {
		text, err := bufio.NewReader(c.InOrStdin()).ReadString('\n')
		answers <- answer{strings.ToLower(strings.TrimSpace(text)), err}
	}()
	// The empty answer is no.
	var a answer
	select {
	case a = <-answers:
	case <-c.Context().Done():
		a.err = c.Context().Err()
	}
	// Nobody has typed a line break, so the line must be ended.
	if a.err != nil {
		fmt.Fprintln(stream)
	}
	if c.Context().Err() != nil {
		return false, Interrupted{Note: "nothing was changed"}
	}
	return a.text == "y" || a.text == "yes", nil
}
