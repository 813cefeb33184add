package paper

import (
	"fmt"
	"io"
)

// WriteCells lists cells with what is there of them.
func WriteCells(w io.Writer, cells []Cell) error {
	t := newTable(w, fmt.Sprintf("%d runs", len(cells)), "task", "schedule", "seed", "fixed rounds", "data", "done", "folder")
	for _, c := range cells {
		s, err := finished(c.Config.Out)
		if err != nil {
			return err
		}
		done := "no"
		if s != nil {
			done = "yes"
		}
		t.row(string(c.Task), c.Schedule, c.Seed, c.Config.Stop.EqualRuntimeRounds, c.Config.Data, done, c.Config.Out)
	}
	return t.end()
}
