package plugins

import (
	"bytes"
	"fmt"

	"fedpace/coordinator/round"
	"fedpace/metrics"
)

func init() {
	metrics.Sinks.Register("reach", "how many clients have contributed so far", Reach{})
}

// Reach writes a table with the number of clients that have contributed to the
// model by the end of each round.
type Reach struct {
	File string `key:"file" default:"reach.csv" help:"name of the file in the run's folder"`
}

// Files lists the files that the output writes.
func (r Reach) Files() []string { return []string{r.File} }

// Open makes the output of one run. It writes nothing yet.
func (r Reach) Open(run *metrics.Run) (metrics.Output, error) {
	return &reach{name: r.File, seen: make([]byte, run.Clients+len(run.Devices))}, nil
}

type reach struct {
	name string
	file metrics.File
	seen []byte // by client: 1 if an update of it was accepted
}

// Start opens the file. In a run that is resumed it ends at the checkpoint.
func (r *reach) Start(s *metrics.Start) (err error) {
	r.file, err = s.Append(r.name)
	return err
}

// Task takes every task.
func (r *reach) Task(e *round.TaskReport) {
	if e.Outcome == round.Accepted && !e.Probe {
		r.seen[e.Client] = 1
	}
}

// Round takes a round that is complete.
func (r *reach) Round(done *metrics.Round) error {
	_, err := fmt.Fprintf(r.file, "%d,%d\n", done.Round, bytes.Count(r.seen, []byte{1}))
	return err
}

// Save and Restore keep the memory in checkpoints.
func (r *reach) Save() ([]byte, error) { return r.seen, nil }
func (r *reach) Restore(state []byte) error {
	r.seen = bytes.Clone(state)
	return nil
}
