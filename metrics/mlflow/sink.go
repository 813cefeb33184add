package mlflow

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"fedpace/coordinator/round"
	"fedpace/metrics"
)

func init() {
	metrics.Sinks.Register("mlflow", "the run in MLflow's file store, beside others", Sink{})
}

// Sink is the output's entry.
type Sink struct {
	Store      string `key:"store" default:"mlruns" help:"folder of the store; several runs may share it"`
	Experiment string `key:"experiment" default:"fedpace" help:"name of the experiment that the run belongs to"`
}

// Files is empty: the store is not in the run's folder.
func (Sink) Files() []string { return nil }

func (s Sink) Open(run *metrics.Run) (metrics.Output, error) {
	if s.Store == "" || s.Experiment == "" {
		return nil, errors.New("store and experiment want a name, such as mlruns and fedpace")
	}
	return &output{sink: s, run: run, files: map[string]*series{}}, nil
}

// configFile is where a run's folder has its configuration.
const configFile = "config.yaml"

type output struct {
	sink  Sink
	run   *metrics.Run
	entry *entry
	files map[string]*series // by metric
}

// series is the file of one metric.
type series struct {
	*bufio.Writer
	file *os.File
}

// Start implements [metrics.Starter]: it writes all that is known, again if the run is resumed.
func (o *output) Start(s *metrics.Start) (err error) {
	path, err := filepath.Abs(s.Path(""))
	if err != nil {
		return fmt.Errorf("the run's folder: %w", err)
	}
	if o.entry, err = newEntry(o.sink, o.run, path, o.run.Started.Add(-s.Elapsed)); err != nil {
		return err
	}
	config, err := os.ReadFile(s.Path(configFile))
	if err != nil {
		return err
	}
	if err := o.entry.describe(config); err != nil {
		return err
	}
	for r, err := range s.Rounds {
		if err == nil {
			err = o.report(&r)
		}
		if err != nil {
			return err
		}
	}
	return o.Flush()
}

func (o *output) Round(r *metrics.Round) error { return o.report(&r.Report) }

func (o *output) report(r *round.Report) error {
	at := o.entry.start.UnixMilli() + int64(r.End)/1e6
	columns := o.run.Columns()
	for i := range columns {
		name, v := columns[i].Tag, columns[i].Of(r)
		if name == "-" || math.IsNaN(v) {
			continue
		}
		to, err := o.series(name)
		if err != nil {
			return err
		}
		line := strconv.AppendInt(to.AvailableBuffer(), at, 10)
		line = append(strconv.AppendFloat(append(line, ' '), v, 'g', -1, 64), ' ')
		line = append(strconv.AppendInt(line, int64(r.Round), 10), '\n')
		if _, err := to.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// series opens the file of a metric with its first value.
func (o *output) series(name string) (*series, error) {
	if s := o.files[name]; s != nil {
		return s, nil
	}
	file, err := o.entry.create("metrics", name)
	if err != nil {
		return nil, err
	}
	s := &series{bufio.NewWriter(file), file}
	o.files[name] = s
	return s, nil
}

// Flush implements [metrics.Flusher].
func (o *output) Flush() (err error) {
	for _, s := range o.files {
		err = errors.Join(err, s.Flush())
	}
	return err
}

// Finish implements [metrics.Finisher].
func (o *output) Finish(e *metrics.End) error {
	status := finished
	switch {
	case errors.Is(e.Why, context.Canceled):
		status = killed
	case !e.Completed:
		status = failed
	}
	return errors.Join(o.Flush(), o.entry.end(status, e.Elapsed, e.Summary))
}

// Close implements [metrics.Closer].
func (o *output) Close(error) (err error) {
	for _, s := range o.files {
		err = errors.Join(err, s.Flush(), s.file.Close())
	}
	return err
}
