package cli

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Asks reports whether a person can be asked: input and messages are a terminal's.
func Asks(c *cobra.Command) bool {
	return isTerminal(c.InOrStdin()) && isTerminal(c.ErrOrStderr())
}

// Confirmed asks a question and reports whether the answer is yes. A signal that stops
// the program ends the question with an [Interrupted], whatever is answered then.
func Confirmed(c *cobra.Command, question string) (bool, error) {
	out := c.ErrOrStderr()
	if _, err := fmt.Fprintf(out, "%s [y/N] ", question); err != nil {
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
		fmt.Fprintln(out)
	}
	if c.Context().Err() != nil {
		return false, Interrupted{Note: "nothing was changed"}
	}
	return a.text == "y" || a.text == "yes", nil
}
