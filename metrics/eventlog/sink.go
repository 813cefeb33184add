package eventlog

import (
	"time"

	"fedpace/metrics"
)

func init() {
	metrics.Sinks.Register("events", "rounds and some of their tasks in "+File, Sink{})
}

// Sink is the output's entry.
type Sink struct {
	Sample int `key:"sample" default:"32" range:"[0,10000]" help:"clients a round whose tasks the log keeps, beside the slowest and real devices"`
}

// Files implements [metrics.Sink].
func (Sink) Files() []string { return []string{File} }

// Open implements [metrics.Sink].
func (s Sink) Open(run *metrics.Run) (metrics.Output, error) {
	own := *run
	own.Sample = s.Sample
	if len(own.Classes) < 2 { // all devices are alike
		own.Classes = nil
	}
	return &output{run: &own}, check(&own)
}

// flushEvery is how long, in wall time, rounds may stay in memory.
const flushEvery = time.Second

// output is a run's log. The Writer is nil before Start.
type output struct {
	*Writer
	run     *metrics.Run
	flushed time.Time
}

// Start implements [metrics.Starter].
func (o *output) Start(s *metrics.Start) error {
	file, err := s.Append(File)
	if err != nil {
		return err
	}
	if file.Size() > 0 {
		o.Writer = Append(file, file.Size())
		return nil
	}
	o.Writer, err = NewWriter(file, o.run)
	return err
}

// Round implements [metrics.Output].
func (o *output) Round(r *metrics.Round) error {
	err := o.Writer.Round(r.Record)
	if now := time.Now(); err == nil && now.Sub(o.flushed) >= flushEvery {
		o.flushed = now
		err = o.Flush()
	}
	return err
}
