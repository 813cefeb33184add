package tables

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"

	"fedpace/coordinator/round"
	"fedpace/internal/regular"
	"fedpace/metrics"
)

// The files of the tasks. A Parquet file ends with its index, so it cannot be cut back to a
// checkpoint and continued. While the run goes on the rows are in a spool, as records of one
// length; the table is written of them when the run ends or is interrupted.
const (
	TasksFile = "tasks.parquet"
	spoolFile = "tasks.rows"
)

func init() {
	metrics.Sinks.Register("tasks", "every task as a row of a table in Parquet", TasksSink{})
}

// TasksSink is the output "tasks" of a configuration; it has no options.
type TasksSink struct{}

// Files implements [metrics.Sink].
func (TasksSink) Files() []string { return []string{TasksFile, spoolFile} }

// Open implements [metrics.Sink].
func (TasksSink) Open(run *metrics.Run) (metrics.Output, error) { return &tasks{run: run}, nil }

// tasks is the output of one run. It keeps the tasks of the open round in memory, and those of
// closed rounds in the spool.
type tasks struct {
	// run describes the run, with the classes of its clients.
	run *metrics.Run
	// open are the tasks of the open round.
	open []record
	// spool buffers what is written to the spool file.
	spool *bufio.Writer
	// round is the number of the last round that was reported.
	round int
}

// record is a task that has ended, as the spool holds it: fields of fixed size, in little endian.
type record struct {
	// Task is the number of the task, and Model the version of its base model.
	Task, Model uint64
	// Start and End are the virtual times at which the task was given out and at which it ended.
	Start, End round.Time
	// Plan holds the durations of the task's phases.
	Plan round.Plan
	// Client is the number of the client, LocalSteps the task's K, and Staleness the number of
	// aggregations since its base model.
	Client, LocalSteps, Staleness uint32
	// Probe says that the client was only asked for its loss.
	Probe bool
	// Outcome says how the task ended.
	Outcome round.Outcome
	// Round is the round in which the task counts.
	Round uint32
	// Loss is the loss at the task's first step; NaN: not known.
	Loss float64
}

// Start implements [metrics.Starter]: it opens the spool in the run's folder. A resumed run
// continues it after the rows of its checkpoint, and counts rounds from s.Last.
func (o *tasks) Start(s *metrics.Start) error {
	spool, err := s.Spool(spoolFile)
	if err != nil {
		return err
	}
	o.spool = bufio.NewWriterSize(spool, 1<<16)
	if s.Last != nil {
		o.round = s.Last.Round
	}
	return nil
}

// Task implements [metrics.TaskObserver]: it keeps the report e of a task that has ended until its
// round closes. A report that revises an earlier one of the same task replaces it.
func (o *tasks) Task(e *round.TaskReport) {
	// The earlier report of the task is still among the open ones, since a revision comes before the round closes.
	// No candidate has its number, because tasks and candidates are numbered together.
	if e.Revises {
		o.open = slices.DeleteFunc(o.open, func(x record) bool { return x.Task == e.Task })
	}
	// The loss of an accepted task is added later, by Losses.
	o.open = append(o.open, record{
		Task:       e.Task,
		Model:      e.Model,
		Start:      e.Start,
		End:        e.End,
		Plan:       e.Plan,
		Client:     uint32(e.Client),
		LocalSteps: uint32(e.LocalSteps),
		Staleness:  uint32(e.Staleness),
		Probe:      e.Probe,
		Outcome:    e.Outcome,
		Loss:       math.NaN(),
	})
}

// Losses implements [metrics.LossObserver]: losses[i] is the loss at the first step of task
// list[i]. It is added to the accepted task of the open round that has this number.
func (o *tasks) Losses(list []round.Task, losses []float64) {
	// place maps the number of an accepted task to its index in open.
	place := make(map[uint64]int, len(list))
	for i := range o.open {
		// A chosen candidate is Accepted, too, but the losses are those of tasks.
		if e := &o.open[i]; e.Outcome == round.Accepted && !e.Probe {
			place[e.Task] = i
		}
	}
	for i := range list {
		if position, ok := place[list[i].Task]; ok {
			o.open[position].Loss = losses[i]
		}
	}
}

// Round writes the tasks of round r to the spool, in the order in which they ended: the first r.Cohort of the open
// tasks, and the first r.Candidates of the open candidates (probes). The others, which the end of the run has broken
// off after the last round, stay open.
func (o *tasks) Round(r *metrics.Round) error {
	o.round = r.Round
	tasks := r.Cohort
	candidates := r.Candidates
	kept := 0
	for i := range o.open {
		e := &o.open[i]
		// remaining is how many more tasks, or candidates if this is one, belong to the round.
		remaining := &tasks
		if e.Probe {
			remaining = &candidates
		}
		// The round has all of its own, so this one stays open.
		if *remaining == 0 {
			o.open[kept] = *e
			kept++
			continue
		}
		*remaining--
		e.Round = uint32(r.Round)
		if err := binary.Write(o.spool, binary.LittleEndian, e); err != nil {
			return err
		}
	}
	o.open = o.open[:kept]
	return nil
}

// Flush implements [metrics.Flusher].
func (o *tasks) Flush() error { return o.spool.Flush() }

// Save implements [metrics.Stateful]: the tasks of the open round.
func (o *tasks) Save() ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(o.open)
	return b.Bytes(), err
}

// Restore implements [metrics.Stateful].
func (o *tasks) Restore(saved []byte) error {
	return gob.NewDecoder(bytes.NewReader(saved)).Decode(&o.open)
}

// Finish implements [metrics.Finisher]: it writes the table of tasks. Its rows are those of the spool, the file
// to which Round has written the tasks of each round that closed. If the run is complete, the tasks that are still
// open follow, as clients.parquet counts them: with the number of the round that did not close any more.
func (o *tasks) Finish(end *metrics.End) error {
	// A run that is not complete continues with its open tasks when it is resumed, so they get no
	// rows yet.
	if !end.Completed {
		o.open = nil
	}
	return end.Start.Replace(TasksFile, func(w io.Writer) error {
		spool, _, err := regular.Open(end.Start.Path(spoolFile))
		if err != nil {
			return err
		}
		return errors.Join(
			write(w, o.run, reflect.TypeFor[Task](), o.rows(bufio.NewReaderSize(spool, 1<<16))),
			spool.Close(),
		)
	})
}

// rows yields all tasks in the order in which they ended, as rows of the table: those that spool
// holds, then those that are still open, which only a complete run has here (see Finish). It ends after the first
// error, which it yields.
func (o *tasks) rows(spool io.Reader) func(yield func(Task, error) bool) {
	return func(yield func(Task, error) bool) {
		for {
			var r record
			err := binary.Read(spool, binary.LittleEndian, &r)
			// The spool ends behind a whole record.
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				err = fmt.Errorf("tables: %s: %w", spoolFile, err)
			}
			if !yield(o.rowOf(&r), err) || err != nil {
				return
			}
		}
		// What is still open at the end of a complete run was in vain and counts as cancelled, also a candidate that
		// was chosen (Accepted). One that was not chosen has its outcome already.
		for _, e := range o.open {
			if !e.Probe || e.Outcome == round.Accepted {
				e.Outcome = round.Cancelled
			}
			e.Round = uint32(o.round + 1)
			e.Loss = math.NaN()
			if !yield(o.rowOf(&e), nil) {
				return
			}
		}
	}
}

// rowOf converts a record to a row of tasks.parquet. It converts virtual time to seconds and turns a
// NaN loss into a null.
func (o *tasks) rowOf(r *record) Task {
	client := int(r.Client)
	return Task{
		Task:            int64(r.Task),
		Round:           int32(r.Round),
		Client:          int32(r.Client),
		Class:           o.run.ClassName(client),
		Real:            o.run.Real(client),
		Candidate:       r.Probe,
		Model:           int64(r.Model),
		LocalSteps:      int32(r.LocalSteps),
		StartSeconds:    r.Start.Seconds(),
		DownloadSeconds: r.Plan.Download.Seconds(),
		ComputeSeconds:  r.Plan.Compute.Seconds(),
		UploadSeconds:   r.Plan.Upload.Seconds(),
		EndSeconds:      r.End.Seconds(),
		Outcome:         r.Outcome.String(),
		Staleness:       int32(r.Staleness),
		Loss:            metrics.Measured(r.Loss),
	}
}

// Task is a row of tasks.parquet.
type Task struct {
	Task       int64  `parquet:"task" about:"number of the task; those of real devices begin at 2^52"`
	Round      int32  `parquet:"round" about:"round in which it ended; the one after the last: the run's end broke it off"`
	Client     int32  `parquet:"client" about:"number of the client, from 0"`
	Class      string `parquet:"class,dict" about:"class of its device; empty where all are alike or none is known"`
	Real       bool   `parquet:"real" about:"whether it is a real device"`
	Candidate  bool   `parquet:"candidate" about:"whether it was only asked for its loss"`
	Model      int64  `parquet:"model" about:"version of its base model, from 0"`
	LocalSteps int32  `parquet:"local_steps" about:"local SGD steps that it was given, K" unit:"steps"`

	StartSeconds    float64 `parquet:"start_seconds" about:"virtual time at which it was given out" unit:"s"`
	DownloadSeconds float64 `parquet:"download_seconds" about:"how long its download takes, also if it is broken off" unit:"s"`
	ComputeSeconds  float64 `parquet:"compute_seconds" about:"how long its local steps take" unit:"s"`
	UploadSeconds   float64 `parquet:"upload_seconds" about:"how long its upload takes" unit:"s"`
	EndSeconds      float64 `parquet:"end_seconds" about:"virtual time at which it ended" unit:"s"`

	Outcome   string   `parquet:"outcome,dict" about:"how it ended; a candidate is accepted when it is chosen"`
	Staleness int32    `parquet:"staleness" about:"aggregations since its base model when it ended" unit:"aggregations"`
	Loss      *float64 `parquet:"loss,optional" about:"loss of its first step; null: its update is not in a model, or nothing is trained"`
}
