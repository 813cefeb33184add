package outputs

import (
	"bufio"
	"fmt"
	"time"

	"fedpace/coordinator/round"
	"fedpace/metrics"
)

// ProgressFile is where a run's folder has what the run has cost so far, and ProgressHeader its
// first line. Energy is that of classes which give their watts, joules since the run's start.
const (
	ProgressFile   = "progress.csv"
	ProgressHeader = "round,virtual_seconds,wall_seconds,energy_joules,checkpoint"
)

func init() {
	metrics.Sinks.Register("progress", "wall time and energy so far in "+ProgressFile, Progress{})
}

// Progress is the output of what a run has cost so far, by which pages draw other quantities against
// wall time and energy. Rows are apart by at least 0.2 s of wall time and by at least a thousandth of the
// run's wall time so far, so that there are some ten thousand at most. Each checkpoint, and the run's end,
// has a row of its own besides, which says so.
type Progress struct{}

// Files names progress.csv.
func (Progress) Files() []string { return []string{ProgressFile} }

// Open makes the output of one attempt at a run.
func (Progress) Open(run *metrics.Run) (metrics.Output, error) {
	return &progress{began: run.Started}, nil
}

// progress writes what a run costs in wall time, now and then.
type progress struct {
	file *bufio.Writer
	// began is the wall-clock time at which this attempt of the run began.
	began time.Time
	// elapsed is the wall time of the attempts before this one.
	elapsed time.Duration
	// written is the wall time of the run when the last row was written.
	written time.Duration
	// last is the state of the last round.
	last spent
}

// spent is the state after a round.
type spent struct {
	// round is the number of the last round; 0: none yet.
	round  int
	end    round.Time
	wall   time.Duration
	joules float64
}

// Two rows are apart by at least leastGap, and by at least the run's wall time so far divided by gapShare.
const (
	leastGap = 200 * time.Millisecond
	gapShare = 1000
)

// Start implements [metrics.Starter]: it opens progress.csv, to which a resumed run appends. Its wall time
// continues that of the attempts before.
func (o *progress) Start(s *metrics.Start) (err error) {
	o.elapsed = s.Elapsed
	o.written = s.Elapsed
	o.file, err = appendTo(s, ProgressFile, ProgressHeader)
	return err
}

// Round implements [metrics.Output]: it notes what the run has cost up to round r, and writes a row
// if enough wall time has passed since the last one.
func (o *progress) Round(r *metrics.Round) error {
	// wall is the wall time of the run in all of its attempts, of which this one began at o.began.
	wall := o.elapsed + time.Since(o.began)
	o.last = spent{r.Round, r.End, wall, r.Usage.Joules.All()}
	if wall-o.written < max(leastGap, wall/gapShare) {
		return nil
	}
	return o.write(noCheckpoint)
}

// The values of the column checkpoint of progress.csv.
const (
	noCheckpoint = 0
	// beforeCheckpoint marks a row that a checkpoint or the run's end follows.
	beforeCheckpoint = 1
)

// write writes a row of progress.csv for the last round. checkpoint is noCheckpoint or beforeCheckpoint.
func (o *progress) write(checkpoint int) error {
	o.written = o.last.wall
	_, err := fmt.Fprintf(
		o.file,
		"%d,%g,%.6f,%g,%d\n",
		o.last.round,
		o.last.end.Seconds(),
		o.last.wall.Seconds(),
		o.last.joules,
		checkpoint,
	)
	return err
}

// Flush implements [metrics.Flusher]: it writes a row for the checkpoint, or the run's end, that
// follows it, and empties the buffer to the file.
func (o *progress) Flush() error {
	if o.last.round > 0 {
		if err := o.write(beforeCheckpoint); err != nil {
			return err
		}
	}
	return o.file.Flush()
}
