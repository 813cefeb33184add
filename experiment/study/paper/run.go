package paper

import (
	"context"
	"errors"
	"fmt"
	"io"

	"fedpace/coordinator"
	"fedpace/experiment/folder"
	"fedpace/experiment/study"
)

// Run plays the plan's cells that are not done, see [study.Play]. A server in a
// configuration has hosts in other processes, as that of o.Run.NATS.
func (p Plan) Run(ctx context.Context, cells []study.Cell, o study.Options) error {
	o.ConfiguredHosts = true
	err := study.Play(ctx, p.Out, cells, o)
	for _, c := range cells {
		if c.Diverged != "" {
			err = errors.Join(err, fmt.Errorf("%s: %s: %w", c.Name, c.Diverged, coordinator.ErrDiverged))
		}
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("paper: %w", err)
	}
	return err
}

// WriteCells lists cells and whether they are done.
func WriteCells(w io.Writer, cells []study.Cell) error {
	t := newTable(w, fmt.Sprintf("%d runs", len(cells)), "task", "schedule", "seed", "fixed rounds", "data", "done", "folder")
	for _, c := range cells {
		s, err := folder.Completed(c.Config.Out)
		if err != nil {
			return err
		}
		done := "no"
		if s != nil {
			done = "yes"
		}
		t.row(string(c.Config.Task), c.Schedule, c.Config.Seed, c.Config.Stop.EqualRuntimeRounds, c.Config.Data, done, c.Config.Out)
	}
	return t.end()
}
