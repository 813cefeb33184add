package metrics

import (
	"errors"
	"fmt"
	"slices"

	"fedpace/coordinator/round"
	"fedpace/learn/metric"
)

// Recorder takes what a run reports and hands it to the run's outputs. It belongs to the run's goroutine;
// only Notice may be called from others.
type Recorder struct {
	outputs []namedOutput
	// tasks are those of outputs that observe every task.
	tasks []TaskObserver
	// start is where this attempt of the run started; nil before Start is called.
	start     *Start
	meter     meter
	collector *collector
}

// namedOutput is an output with its name in configurations.
type namedOutput struct {
	name string
	Output
}

// Open opens the outputs of run, one for each of sinks and in their order. If one cannot be opened,
// those before it are closed with the error. Close the recorder after use.
func Open(run *Run, sinks []Sink) (*Recorder, error) {
	r := &Recorder{meter: meter{run: run}}
	for _, s := range sinks {
		name := Sinks.NameOf(s)
		o, err := s.Open(run)
		if err != nil {
			err = fmt.Errorf("output %s: %w", name, err)
			// The outputs that are open already are closed with the reason why the run cannot start.
			return nil, errors.Join(err, r.Close(err))
		}
		r.outputs = append(r.outputs, namedOutput{name, o})
		if t, ok := o.(TaskObserver); ok {
			r.tasks = append(r.tasks, t)
		}
	}
	// The collector comes after the outputs, because opening them may have raised run.Sample.
	r.collector = newCollector(run)
	return r, nil
}

// onError says what happens to further outputs when one of them fails.
type onError bool

const (
	// stopOnError leaves out the outputs after the one that failed.
	stopOnError onError = false
	// callAll calls all of them, and joins their errors.
	callAll onError = true
)

// each calls f with those outputs that are a T, in their order. Errors name their output; policy says
// whether the first one ends the calls.
func each[T any](r *Recorder, policy onError, f func(T) error) (err error) {
	for _, o := range r.outputs {
		output, ok := o.Output.(T)
		if !ok {
			continue
		}
		if failure := f(output); failure != nil {
			err = errors.Join(err, fmt.Errorf("output %s: %w", o.name, failure))
			if policy == stopOnError {
				return err
			}
		}
	}
	return err
}

// Outputs returns those outputs of recorder r that implement or are a T, in the order in which they
// were opened.
func Outputs[T any](r *Recorder) (list []T) {
	// The error is always nil, because the function returns none.
	_ = each(r, callAll, func(output T) error {
		list = append(list, output)
		return nil
	})
	return list
}

// Start starts the outputs. state is the recorder's state in the checkpoint from which the run is
// resumed; nil for a new run.
func (r *Recorder) Start(s *Start, state *State) error {
	if state != nil {
		if err := r.restore(state); err != nil {
			return err
		}
	}
	if s.Last != nil {
		s.Last.Usage = &r.meter.total
	}
	r.start = s
	return each(r, stopOnError, func(o Starter) error { return o.Start(s) })
}

// Task takes the report of a task that has ended, and passes it to the meter of usage, to the
// collector and to all outputs that observe tasks.
func (r *Recorder) Task(e *round.TaskReport) {
	r.meter.task(e)
	r.collector.task(e)
	for _, o := range r.tasks {
		o.Task(e)
	}
}

// Losses takes the first-step losses of a round's accepted tasks.
func (r *Recorder) Losses(tasks []round.Task, losses []float64) {
	for _, o := range Outputs[LossObserver](r) {
		o.Losses(tasks, losses)
	}
}

// Round takes the report of a round that has closed, and passes it to all outputs with the tasks that the
// collector has kept and the usage so far. It returns the errors of all outputs that fail.
func (r *Recorder) Round(report *round.Report) error {
	r.meter.round(report)
	next := r.collector.report(report)
	next.Usage = &r.meter.total
	return each(r, callAll, func(o Output) error { return o.Round(next) })
}

// Clients takes the scores of the model after a round on the clients' own samples. It returns them with
// their fairness.
func (r *Recorder) Clients(number int, scores []metric.ClientScore) (*ClientEvaluation, error) {
	e := newClientEvaluation(r.meter.run, number, scores)
	return e, each(r, callAll, func(o ClientsObserver) error { return o.Clients(e) })
}

// Best takes the parameters of the model that is the best so far, by a validation quality.
func (r *Recorder) Best(quality float64, params []float32) {
	for _, o := range Outputs[ModelObserver](r) {
		o.Best(quality, params)
	}
}

// Notice takes a line that the user is shown. It may be called from any goroutine.
func (r *Recorder) Notice(line string) {
	for _, o := range Outputs[NoticeObserver](r) {
		o.Notice(line)
	}
}

// Usage is what the clients of a run that has ended used. Of a run that is not completed, only closed
// rounds count.
func (r *Recorder) Usage(completed bool) Usage { return r.meter.final(completed) }

// Flush writes what outputs have buffered to their files.
func (r *Recorder) Flush() error {
	return each(r, stopOnError, func(o Flusher) error { return o.Flush() })
}

// Finish tells the outputs how the run has ended.
func (r *Recorder) Finish(e *End) error {
	e.Start = r.start
	return each(r, stopOnError, func(o Finisher) error { return o.Finish(e) })
}

// Close closes the outputs. reason is why the run is not complete; nil if it is.
func (r *Recorder) Close(reason error) error {
	return each(r, callAll, func(o Closer) error { return o.Close(reason) })
}

// State is what a checkpoint keeps of a recorder.
type State struct {
	// Usage is the usage of the closed rounds, Open the usage so far in the open round.
	Usage, Open Usage
	// Times holds the durations of the open round's accepted tasks, in virtual time.
	Times []round.Time
	// Tasks are the tasks of the open round that the collector has kept.
	Tasks []Task
	// Ended is how many tasks of the open round have ended, kept or not.
	Ended int
	// Outputs holds the state of each output that is Stateful.
	Outputs []OutputState
}

// OutputState is the state of one output, by the output's name in [Sinks].
type OutputState struct {
	Name  string
	State []byte
}

// Save returns the state of the recorder and of its outputs for a checkpoint. It shares memory with
// the recorder, so it is valid until the next call of any method.
func (r *Recorder) Save() (State, error) {
	s := State{
		Usage: r.meter.total,
		Open:  r.meter.open,
		Times: r.meter.times,
		Tasks: r.collector.keptTasks(nil),
		Ended: r.collector.ended,
	}
	for _, o := range r.outputs {
		// Other outputs have no state beyond their files.
		if m, ok := o.Output.(Stateful); ok {
			state, err := m.Save()
			if err != nil {
				return s, fmt.Errorf("output %s: %w", o.name, err)
			}
			s.Outputs = append(s.Outputs, OutputState{o.name, state})
		}
	}
	return s, nil
}

// restore puts the recorder and its outputs into the state of a checkpoint, which must have a state of
// every output that saves one.
func (r *Recorder) restore(s *State) error {
	r.meter.total = s.Usage
	r.meter.open = s.Open
	r.meter.times = slices.Clone(s.Times)
	r.collector.restore(s.Tasks, s.Ended)
	for _, o := range r.outputs {
		m, ok := o.Output.(Stateful)
		if !ok {
			continue
		}
		// A state belongs to the output that has the same name in configurations.
		i := slices.IndexFunc(s.Outputs, func(saved OutputState) bool { return saved.Name == o.name })
		if i < 0 {
			return fmt.Errorf("output %s: the checkpoint holds no state of it", o.name)
		}
		if err := m.Restore(s.Outputs[i].State); err != nil {
			return fmt.Errorf("output %s: %w", o.name, err)
		}
	}
	return nil
}
