package progress

import (
	"bufio"
	"fmt"
	"time"

	"fedpace/coordinator/round"
	"fedpace/metrics"
)

// File is its name in a run's folder, and Header its first line. Energy is that of classes
// which give their watts, joules since the run's start.
const (
	File   = "progress.csv"
	Header = "round,virtual_seconds,wall_seconds,energy_joules,checkpoint"
)

func init() {
	metrics.Sinks.Register("progress", "wall time and energy so far in "+File, Sink{})
}

// Sink is the output's entry; it has no options.
type Sink struct{}

func (Sink) Files() []string { return []string{File} }

func (Sink) Open(run *metrics.Run) (metrics.Output, error) {
	return &output{began: run.Started}, nil
}

type output struct {
	file    *bufio.Writer
	began   time.Time     // this attempt
	elapsed time.Duration // before it
	written time.Duration // wall time of the last row
	last    row           // of the last round
}

// row is the state after a round.
type row struct {
	round  int // 0: none yet
	end    round.Time
	wall   time.Duration
	joules float64
}

// Rows are at least so far apart.
const (
	leastGap = 200 * time.Millisecond
	gapShare = 1000 // of the wall time so far
)

// Start implements [metrics.Starter].
func (o *output) Start(s *metrics.Start) error {
	file, err := s.Append(File)
	if err != nil {
		return err
	}
	o.file, o.elapsed, o.written = bufio.NewWriter(file), s.Elapsed, s.Elapsed
	if file.Size() == 0 {
		_, err = o.file.WriteString(Header + "\n")
	}
	return err
}

// Round implements [metrics.Output].
func (o *output) Round(r *metrics.Round) error {
	wall := o.elapsed + time.Since(o.began)
	o.last = row{r.Round, r.End, wall, r.Usage.Joules.Useful + r.Usage.Joules.Wasted}
	if wall-o.written < max(leastGap, wall/gapShare) {
		return nil
	}
	return o.write(0)
}

// write writes the row of the last round.
func (o *output) write(checkpoint int) error {
	o.written = o.last.wall
	_, err := fmt.Fprintf(o.file, "%d,%g,%.6f,%g,%d\n", o.last.round, o.last.end.Seconds(), o.last.wall.Seconds(), o.last.joules, checkpoint)
	return err
}

// Flush implements [metrics.Flusher]: a checkpoint follows it, or the run's end.
func (o *output) Flush() error {
	if o.last.round > 0 {
		if err := o.write(1); err != nil {
			return err
		}
	}
	return o.file.Flush()
}
