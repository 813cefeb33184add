package main

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
	"fedpace/study/advise"
)

// traceFile is in a run's folder and holds what was measured of the run.
const traceFile = "trace.gob"

// trace is what was measured of one run. The first four lists have an entry for each round.
type trace struct {
	// Steps holds K_r of each round.
	Steps []int
	// Rates holds the learning rate eta_r of each round.
	Rates []float64
	// Seconds holds the virtual time at the end of each round.
	Seconds []float64
	// Gaps holds the loss F − F* after each round.
	Gaps []float64
	// Path holds what was measured at the iterations within the rounds.
	Path path
	// Stride says that every Stride-th iteration was measured.
	Stride int
	// Limit is how long the run lasted, in virtual seconds.
	Limit float64

	// models holds the model after each round that had an update, by the round's number. It is filled
	// while the run is played, and is empty afterwards.
	models map[int][]float32
}

// readOrMeasure reads the trace of a run that was measured before, or measures the run and writes its trace.
func (t *trace) readOrMeasure(ctx context.Context, c *study.Cell, objective *advise.Objective) error {
	path := filepath.Join(c.Config.Out, traceFile)
	// The run was measured before, so its trace is in its folder.
	if c.Reused {
		f, _, err := regular.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(gob.NewDecoder(f).Decode(t), f.Close())
	}
	// The trace is written last, so a run that has one is complete.
	if err := t.measure(ctx, c, objective); err != nil {
		return err
	}
	return atomicfile.Write(path, func(w io.Writer) error { return gob.NewEncoder(w).Encode(t) })
}

// measure fills the trace of a run that was just played, from its table of rounds and from t.models, the models that
// were collected meanwhile. It then replays the run to measure the iterations within rounds (t.Path).
func (t *trace) measure(ctx context.Context, c *study.Cell, objective *advise.Objective) (err error) {
	rows, err := c.Run().Rounds()
	if err != nil {
		return err
	}
	// Without a round there is no iteration that could be measured.
	if len(rows) == 0 {
		return errors.New("no round was completed in the time of the plan")
	}
	// models[i] is the model from which round i starts, counted from 0; the last is the final one.
	models := [][]float32{objective.Initial}
	for i, row := range rows {
		next, hasModel := t.models[row.Round]
		// A round with accepted updates changes the model, so the new model must be there.
		if !hasModel && row.Outcomes[round.Accepted] > 0 {
			return fmt.Errorf("the model of round %d is not known (play the run again with --force)", row.Round)
		}
		// A round without updates leaves the model as it is.
		if !hasModel {
			next = models[i]
		}
		models = append(models, next)
		t.Steps = append(t.Steps, row.LocalSteps)
		t.Rates = append(t.Rates, row.LearningRate)
		t.Seconds = append(t.Seconds, row.End.Seconds())
		t.Gaps = append(t.Gaps, objective.Value(convex.Widen(next))-objective.FStar)
	}
	t.Stride = 1
	if c.Config.Task == config.TaskLogistic {
		// The gradient of logistic regression goes through all samples, so fewer iterations are
		// measured.
		t.Stride = 10
	}
	t.Limit = c.Summary.VirtualSeconds
	t.models = nil
	t.Path, err = newReplayer(objective.Problem, c.Config.Seed, t.Stride).run(ctx, models, t.Steps, t.Rates)
	return err
}
