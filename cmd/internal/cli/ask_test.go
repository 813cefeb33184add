package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestAsk_Answered(t *testing.T) {
	for answer, want := range map[string]struct {
		yes  bool
		said string
	}{
		"y\n": {true, "Go? [y/N] "}, " YES \n": {true, "Go? [y/N] "}, "\n": {false, "Go? [y/N] "}, "yo\n": {false, "Go? [y/N] "},
		"": {false, "Go? [y/N] \n"}, // the end of the input
	} {
		var said strings.Builder
		c := &cobra.Command{}
		c.SetContext(t.Context())
		c.SetIn(strings.NewReader(answer))
		c.SetErr(&said)
		if yes, err := Confirmed(c, "Go?"); yes != want.yes || err != nil || said.String() != want.said {
			t.Errorf("%q: %v, %v, said %q", answer, yes, err, said.String())
		}
	}
}

// A signal ends the question at once, and no answer counts from then on.
func TestAsk_Signal(t *testing.T) {
	silent, _ := io.Pipe()
	for _, in := range []io.Reader{silent, strings.NewReader("y\n")} {
		ctx, signal := context.WithCancel(t.Context())
		signal()
		c := &cobra.Command{}
		c.SetContext(ctx)
		c.SetIn(in)
		c.SetErr(io.Discard)
		if yes, err := Confirmed(c, "Go?"); yes || !errors.Is(err, context.Canceled) {
			t.Errorf("%v, %v", yes, err)
		}
	}
}
