package run

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/experiment/runtest"
	"fedpace/metrics"
)

func init() { metrics.Sinks.Register("late", "tasks that were late so far", lateSink{}) }

// lateSink is an output of another package, as a user would add one.
type lateSink struct {
	File string `key:"file" default:"late.txt" help:"name of the file"`
	Each int    `key:"each" default:"1" range:"[1,1000]" help:"rounds a line"`
}

func (s lateSink) Files() []string                           { return []string{s.File} }
func (s lateSink) Open(*metrics.Run) (metrics.Output, error) { return &late{options: s}, nil }
func (o *late) Start(s *metrics.Start) (err error) {
	o.file, err = s.Append(o.options.File)
	return err
}
func (o *late) Save() ([]byte, error)      { return binary.AppendUvarint(nil, o.tasks), nil }
func (o *late) Restore(state []byte) error { o.tasks, _ = binary.Uvarint(state); return nil }

func (o *late) Task(e *round.TaskReport) {
	if e.Outcome == round.Late {
		o.tasks++
	}
}

func (o *late) Round(r *metrics.Round) (err error) {
	if r.Round%o.options.Each == 0 {
		_, err = fmt.Fprintln(o.file, r.Round, o.tasks)
	}
	return err
}

type late struct {
	options lateSink
	file    io.Writer
	tasks   uint64
}

// An output that another package registers is named by the configuration, appears
// in a dry run, and is in a run that was stopped what it is in one that was not.
func TestOutputs_AnotherPackage(t *testing.T) {
	t.Parallel()
	sets := []string{"outputs=[{sink: late, each: 2}]", "stop.virtual_seconds=60", "checkpoint.seconds=1000"}
	whole := runtest.Uneven(t, sets...)
	estimate, err := DryRun(t.Context(), whole, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(estimate.Files, "late.txt") || !slices.Contains(estimate.Files, "rounds.csv") {
		t.Errorf("the run would write %v", estimate.Files)
	}
	s := mustRun(t, whole, Options{})
	stopped := runtest.Uneven(t, sets...)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	_, _ = Run(ctx, stopped, Options{Callbacks: Callbacks{Round: func(r *round.Report) {
		if r.Round >= 4 {
			stop()
		}
	}}})
	if r, err := Resume(t.Context(), stopped.Out, Options{}); err != nil || !r.Summary.Completed {
		t.Fatal(r.Summary.Completed, err)
	}
	want, err := os.ReadFile(filepath.Join(whole.Out, "late.txt"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(stopped.Out, "late.txt"))
	if err != nil || string(got) != string(want) {
		t.Errorf("a run that was stopped leaves %q (%v), one that was not %q", got, err, want)
	}
	if !strings.HasSuffix(string(want), fmt.Sprintf("%d %d\n", s.Rounds/2*2, s.Outcomes[round.Late])) && s.Rounds%2 == 0 {
		t.Errorf("late.txt is %q, the summary has %d late tasks in %d rounds", want, s.Outcomes[round.Late], s.Rounds)
	}
}

func TestOutputs_ImpossibleOptions(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{
		"outputs=[{sink: late, file: rounds.csv}]":      "rounds.csv is written by rounds already",
		"outputs=[{sink: late, file: summary.json}]":    "summary.json is written by the run already",
		"outputs=[{sink: late, file: ../late.txt}]":     "is not the name of a file",
		"outputs=[late, {sink: late, file: other.txt}]": "outputs[1]: \"late\" is there already",
	} {
		_, err := Run(t.Context(), runtest.Uneven(t, set), Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", set, err, want)
		}
	}
	for set, want := range map[string]string{
		"outputs=[{sink: lat}]":           "late",
		"outputs=[{sink: late, each: 0}]": "from 1 to 1000",
		"outputs=[{sink: late, eech: 1}]": "each",
	} {
		if _, err := config.Load("", []string{set}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", set, err, want)
		}
	}
}
