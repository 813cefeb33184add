package lab

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/experiment/convex"
	"fedpace/internal/atomicfile"
	"fedpace/internal/regular"
	"fedpace/study"
)

// traceFile is in a run's folder and holds what was measured.
const traceFile = "trace.gob"

type trace struct {
	Steps   []int     // K_r
	Rates   []float64 // eta_r
	Seconds []float64 // virtual time at the ends of rounds
	Gaps    []float64 // F − F* after them
	Path    path
	Stride  int     // iterations from one that is looked at to the next
	Limit   float64 // virtual seconds of the plan

	models map[int][]float32 // after the rounds with updates, while the run is played
}

// of reads the trace of a run that was measured before, or measures the run.
func (t *trace) of(ctx context.Context, c *study.Cell, of *objective) error {
	path := filepath.Join(c.Config.Out, traceFile)
	if c.Reused {
		f, _, err := regular.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(gob.NewDecoder(f).Decode(t), f.Close())
	}
	if err := t.measure(ctx, c, of); err != nil {
		return err
	}
	return atomicfile.Write(path, func(w io.Writer) error { return gob.NewEncoder(w).Encode(t) })
}

// measure goes through a run again, from its rounds and their models.
func (t *trace) measure(ctx context.Context, c *study.Cell, of *objective) (err error) {
	rows, err := c.Run().Rounds()
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return errors.New("no round was completed in the time of the plan")
	}
	models := [][]float32{of.initial} // that each round started from, and the last one
	for i, row := range rows {
		next, ok := t.models[row.Round]
		switch {
		case ok:
		case row.Outcomes[round.Accepted] > 0:
			return fmt.Errorf("the model of round %d is not known (play the run again with --force)", row.Round)
		default: // a round without updates leaves the model
			next = models[i]
		}
		models = append(models, next)
		t.Steps, t.Rates, t.Seconds = append(
			t.Steps,
			row.LocalSteps,
		), append(t.Rates, row.LearningRate), append(t.Seconds, row.End.Seconds())
		t.Gaps = append(t.Gaps, of.Value(convex.Widen(models[i+1]))-of.FStar)
	}
	t.Stride = 1
	t.Limit = c.Summary.VirtualSeconds
	if c.Config.Task == config.TaskLogistic {
		t.Stride = 10 // its gradients go through all samples
	}
	t.models = nil
	t.Path, err = newReplayer(of.Problem, c.Config.Seed, t.Stride).run(ctx, models, t.Steps, t.Rates)
	return err
}
