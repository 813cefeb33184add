package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/spf13/cobra"
)

// TestPerform_InterruptionWithoutNote has commands that return where their context was cancelled: what is
// printed says that they were interrupted, and all else that went wrong.
func TestPerform_InterruptionWithoutNote(t *testing.T) {
	forecast := fmt.Errorf("forecast: %w", context.Canceled)
	for want, cause := range map[string]error{
		"demo: interrupted\n":              forecast,
		"demo: interrupted; disk full\n":   errors.Join(forecast, errors.New("disk full")),
		"demo: interrupted: all is kept\n": Interrupted{Note: "all is kept"},
	} {
		ctx, interrupt := context.WithCancel(t.Context())
		interrupt()
		root := &cobra.Command{Use: "demo", RunE: func(*cobra.Command, []string) error { return cause }}
		var stdout, stderr bytes.Buffer
		status := Perform(ctx, root, nil, &stdout, &stderr)
		if status != ExitInterrupted || stderr.String() != want {
			t.Errorf("status %d, %q, want %d, %q", status, stderr.String(), ExitInterrupted, want)
		}
	}
}
