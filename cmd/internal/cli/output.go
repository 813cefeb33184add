package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// checked remembers that a write failed: a command whose output is lost has
// failed, wherever it looked at the error.
type checked struct {
	to  io.Writer
	err error
}

func (w *checked) Write(b []byte) (int, error) {
	n, err := w.to.Write(b)
	if err != nil && w.err == nil {
		w.err = err
	}
	return n, err
}

// lost is the error of a command that could not say all.
func (w *checked) lost() error {
	if w.err == nil {
		return nil
	}
	return fmt.Errorf("standard output: %w", cause(w.err))
}

// cause is an error without the name that the system has for the stream.
func cause(err error) error {
	if path, ok := err.(*os.PathError); ok {
		return path.Err
	}
	return err
}

// JSONFlag adds --json; what is the object that the command prints.
func JSONFlag(c *cobra.Command, set *bool, what string) {
	c.Flags().BoolVar(set, "json", false, "print one JSON object on standard output: "+what)
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
