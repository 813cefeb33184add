package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"fedpace/internal/child"
	"fedpace/learn"
)

// Job is local steps of several tasks from the same model.
type Job struct {
	// Base is the model from which all tasks start.
	Base []float32
	// Proximal is mu of the term mu (x - base) that is added to gradients. 0 means none.
	Proximal float32
	// Optimizer is the name and options of the local optimizer. Nil means plain SGD.
	Optimizer json.RawMessage
	// Tasks are taken in this order.
	Tasks []Task
}

// Task is one client's local steps.
type Task struct {
	// Client is the number of the client.
	Client int
	// Name is the client's name, for people.
	Name string
	// Steps is the number of local steps.
	Steps int
	// Rate is the learning rate of the steps.
	Rate float64
	// Seed decides all randomness in the process.
	Seed uint64
	// RowsLength is how many numbers Rows writes.
	RowsLength int
	// Rows writes for each step the number of its samples, then their row numbers.
	Rows func(dst []int32)
	// Correct writes the vector that is added to each gradient. Nil means none.
	Correct func(dst []float32)

	// MaxStateBytes is the largest number of bytes that the client may keep. 0 means that it keeps nothing.
	MaxStateBytes int
	// State is what the client keeps. Nil is its first task.
	State []byte
	// Keep takes the client's next state, which is valid until it returns.
	Keep func(state []byte)
}

// Worker takes one job after the other with a process of its own. It is for one goroutine.
type Worker struct {
	// program is the trainer whose process the worker has.
	program *Program
	// number is that of the worker in the program, from 0.
	number int
	// process is nil before the first job and after a process died.
	process *process
	// restarting says that a process of this worker has died.
	restarting bool
}

// Diverged says that a loss or a parameter stopped being finite in the process.
type Diverged struct {
	// Index is the number of the task, and -1 if no single task diverged.
	Index int `json:"index"`
	// Step is the number of the local step, from 1. It is 0 if it is not known.
	Step int `json:"step"`
	// Cause says for people what is not finite.
	Cause string `json:"cause"`
}

// Error returns the cause.
func (d *Diverged) Error() string { return d.Cause }

const (
	// maxDeaths is the largest number of processes that may die during one job.
	maxDeaths = 3
	// maxSlots is the largest number of places for models that wait to be taken.
	maxSlots = 64
	// slotBytes is the memory that all slots may take together. Two slots are there even if they
	// take more.
	slotBytes = 64 << 20
	// requestBytes is the memory for the row numbers, corrections and states of one request. One
	// task is sent even if it needs more.
	requestBytes = 64 << 20
)

// Train has the steps of each task taken and calls done with each task's model in order. done may
// write to the model, which is valid until it returns.
func (w *Worker) Train(
	ctx context.Context,
	job *Job,
	done func(i int, model []float32, firstStepLoss float64) error,
) error {
	next := 0
	return w.withRestarts(ctx, func(p *process) error {
		for next < len(job.Tasks) {
			if err := w.trainBatch(ctx, p, job, &next, done); err != nil {
				return err
			}
		}
		return nil
	})
}

// withRestarts calls do with the worker's process. If the process dies another one is started and
// do is called again, so do must continue where it stopped. It gives up after maxDeaths deaths.
func (w *Worker) withRestarts(ctx context.Context, do func(p *process) error) error {
	// Each pass is one attempt with a live process.
	for deaths := 1; ; deaths++ {
		err := w.ensureProcess(ctx)
		if err == nil {
			err = w.settle(ctx, do(w.process))
		}
		// Only the death of the process is tried again; any other error is that of the job.
		d := (*child.EndedError)(nil)
		if !errors.As(err, &d) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if deaths == maxDeaths {
			return fmt.Errorf("%w (%d processes died at one job)", err, deaths)
		}
		w.program.restarts.Add(1)
		w.restarting = true
		// The process has printed its last lines already, so the notice names only the reason.
		w.program.config.notice(fmt.Sprintf("%s: %v. It is started again.", w.program.Name, d))
	}
}

// ensureProcess starts a process if the worker has none, and checks that it is the same trainer as the
// run's first process. It is an error if the greeting differs.
func (w *Worker) ensureProcess(ctx context.Context) error {
	if w.process != nil {
		return nil
	}
	process, g, err := w.program.start(ctx, w.number)
	if err != nil {
		return err
	}
	// A script that was edited during the run would train another model.
	if difference := w.program.differs(g); difference != "" {
		occasion := "was started a second time for another worker"
		if w.restarting {
			occasion = "was started again"
		}
		return errors.Join(
			fmt.Errorf("trainer: %s %s, and %s", w.program.config.Command, occasion, difference),
			process.close(),
		)
	}
	w.process = process
	return nil
}

// settle takes the error of a request, nil if it succeeded, and leaves the worker with a process that is
// ready for the next request, or without one. A request that failed half-way is cancelled. If the
// process has ended, the result says why; otherwise it is err.
func (w *Worker) settle(ctx context.Context, err error) error {
	p := w.process
	if err != nil && !p.Broken() && p.busy {
		p.cancel()
	}
	if !p.Broken() {
		return err
	}
	if ctx.Err() == nil {
		err = w.program.withLastOutput(p, err)
	}
	w.process = nil
	return errors.Join(err, p.close())
}

// len returns the number of values of a tensor in the flat model.
func (t Tensor) len() int { return t.learnTensor(0).Len() }

// reserve makes the shared memory at least this many bytes large, and informs the process if it grew.
func (p *process) reserve(ctx context.Context, bytes int) error {
	grown, err := p.Memory.Grow(bytes)
	if err != nil || !grown {
		return err
	}
	return p.send(ctx, &request{Memory: &size{Bytes: len(p.Memory.Bytes)}})
}

// trainBatch sends one request for the tasks of the job from number *next on, as many as fit into the
// memory of a request, and calls done with each task's number in the job, its model and the loss before its
// first step, in order. It advances *next after each task, so that a repetition with another process
// continues behind the last task that was done. An error ends the request.
func (w *Worker) trainBatch(
	ctx context.Context,
	p *process,
	job *Job,
	next *int,
	done func(int, []float32, float64) error,
) error {
	params := len(job.Base)
	first := *next
	// stride is the size of a model in the shared memory, in bytes.
	stride := child.Align(4 * params)
	// The process writes models to slots in turn, so that it can train the next while one is read.
	// There are at least two slots if there are two tasks.
	slots := min(maxSlots, max(2, slotBytes/stride), len(job.Tasks)-first)
	order, bytes := layOut(job, first, stride*(1+slots))
	if err := p.reserve(ctx, bytes); err != nil {
		return err
	}
	// The memory holds the base model, then the slots, and then what layOut has placed for each
	// task.
	for i := range slots {
		order.Slots = append(order.Slots, stride*(1+i))
	}
	copy(child.Numbers[float32](p.Memory, 0, params), job.Base)
	for i, t := range order.Tasks {
		task := &job.Tasks[first+i]
		task.Rows(child.Numbers[int32](p.Memory, t.Rows, task.RowsLength))
		if t.Correction != nil {
			task.Correct(child.Numbers[float32](p.Memory, *t.Correction, params))
		}
		if t.State != nil {
			copy(p.Memory.Bytes[t.State.Offset:], task.State)
		}
	}
	if err := p.ask(ctx, &request{Train: order}); err != nil {
		return err
	}
	// The process answers once for each task and then for the request.
	for end := first + len(order.Tasks); ; {
		r, err := p.receive(ctx)
		if err != nil {
			return err
		}
		switch {
		case r.Task != nil:
			// Tasks must be answered in order, and with a loss.
			index := *next - first
			isNext := r.Task.Index == index && *next < end
			if !isNext || r.Task.Loss == nil {
				return p.wrong("task %d with a loss of its own is the next one, it says %d", index, r.Task.Index)
			}
			// The client's next state is taken before done is called.
			if err := keepState(p, &job.Tasks[*next], order.Tasks[index].State, r.Task.State); err != nil {
				return err
			}
			model := child.Numbers[float32](p.Memory, order.Slots[index%slots], params)
			if err := done(*next, model, *r.Task.Loss); err != nil {
				return err
			}
			*next++
			// The process may now use the slot again.
			if err := p.send(ctx, &request{Taken: &taken{Index: index}}); err != nil {
				return err
			}
		case r.Done != nil:
			p.busy = false
			if *next != end {
				return p.wrong("it is done after %d of %d tasks", *next-first, end-first)
			}
			return nil
		default:
			return w.replyError(p, r, job, first)
		}
	}
}

// keepState hands a task's client the state that the process has left for it in the shared memory: size bytes from
// place.Offset on. place is nil where clients keep nothing. A size above task.MaxStateBytes is an error.
func keepState(p *process, task *Task, place *state, size int) error {
	if size < 0 || size > task.MaxStateBytes {
		return p.wrong("client %d keeps %d bytes, and there is room for %d", task.Client, size, task.MaxStateBytes)
	}
	if place != nil {
		task.Keep(p.Memory.Bytes[place.Offset:][:size])
	}
	return nil
}

// layOut places the rows, corrections and states of a job's tasks from number first on in a
// request's memory, one after the other from offset next on, in bytes. It stops at the first task
// that does not fit any more, but places at least one. It returns the request and the offset behind
// the last thing placed.
func layOut(job *Job, first, next int) (*train, int) {
	request := &train{Proximal: job.Proximal, Optimizer: job.Optimizer}
	end := next + requestBytes
	for i := range job.Tasks[first:] {
		t := &job.Tasks[first+i]
		// These are the sizes of what the task needs, in bytes. A row number is an int32.
		rows := child.Align(4 * t.RowsLength)
		// Only a task with a correction needs room for a vector as long as the model.
		correction := 0
		if t.Correct != nil {
			correction = child.Align(4 * len(job.Base))
		}
		// The first task is placed even if it needs more than the memory of one request.
		if i > 0 && next+rows+correction+child.Align(t.MaxStateBytes) > end {
			break
		}
		placed := trainTask{
			Client: t.Client,
			Name:   t.Name,
			Steps:  t.Steps,
			Rate:   t.Rate,
			Seed:   t.Seed,
			Rows:   next,
		}
		next += rows
		if t.Correct != nil {
			// The pointer must not follow next, which moves on.
			offset := next
			placed.Correction = &offset
			next += correction
		}
		if t.MaxStateBytes > 0 {
			placed.State = &state{Offset: next, Bytes: len(t.State), Room: t.MaxStateBytes}
			next += child.Align(t.MaxStateBytes)
		}
		request.Tasks = append(request.Tasks, placed)
	}
	return request, next
}

// replyError returns the error of a reply that ends a request with something else than its result. job
// is the job of a training request, nil for other requests, and first is the number of its first
// task in this request. A reply that does not belong here kills the process.
func (w *Worker) replyError(p *process, r *reply, job *Job, first int) error {
	// The reply ends the request, so the process can serve another.
	p.busy = false
	// The index −1 stands for the model as a whole rather than for one task.
	var index int
	client := ""
	switch {
	case r.Diverged != nil:
		index = r.Diverged.Index
	case r.Error != nil:
		index = r.Error.Index
	case r.Cancelled != nil:
		return p.wrong("it cancels what it was not told to cancel")
	default:
		return p.wrong("it answers another request than it was asked")
	}
	if index != -1 {
		if job == nil || index < 0 || first+index >= len(job.Tasks) {
			return p.wrong("it speaks of task %d", index)
		}
		index += first
		client = fmt.Sprintf(", client %d (%s)", job.Tasks[index].Client, job.Tasks[index].Name)
	}
	if d := r.Diverged; d != nil {
		return &Diverged{Index: index, Step: d.Step, Cause: child.Printable(d.Cause)}
	}
	return r.Error.asError(w.program.Name, client)
}

// asError returns an exception of the script as an error that names the trainer, the place in its
// files and the client. client is a part of the message, or "" if no client is concerned.
func (e *exception) asError(name, client string) error {
	place := ""
	// The script itself is named already.
	if e.File != "" && e.File != name {
		place = ", " + child.Printable(e.File)
	}
	if e.Line > 0 {
		place += fmt.Sprintf(", line %d", e.Line)
	}
	return fmt.Errorf("trainer %s%s%s: %s", name, place, client, child.Printable(e.Text))
}

// singleReply sends a request that has one reply, and returns the reply if the function wanted
// accepts it. Any other reply is an error.
func (w *Worker) singleReply(ctx context.Context, p *process, r *request, wanted func(*reply) bool) (*reply, error) {
	if err := p.ask(ctx, r); err != nil {
		return nil, err
	}
	answer, err := p.receive(ctx)
	if err == nil && !wanted(answer) {
		err = w.replyError(p, answer, nil, 0)
	}
	if err == nil {
		p.busy = false
	}
	return answer, err
}

// Scores are the results of an evaluation: sums and weights of the loss and of each metric.
type Scores struct {
	// Loss is the sum of the losses with its weight.
	Loss *learn.Score `json:"loss"`
	// Metrics are the scores of the metrics, in the order of the greeting.
	Metrics []learn.Score `json:"metrics"`
}

// Evaluate measures a model on count samples, whose row numbers the function rows writes to its
// argument. It returns the sums of the loss and of each metric with their weights. A process that
// dies is started again.
func (w *Worker) Evaluate(
	ctx context.Context,
	model []float32,
	count int,
	rows func(dst []int32),
) (s *Scores, err error) {
	err = w.withRestarts(ctx, func(p *process) error {
		// The memory holds the model, and behind it the row numbers.
		rowsOffset := child.Align(4 * len(model))
		if err := p.reserve(ctx, rowsOffset+child.Align(4*count)); err != nil {
			return err
		}
		copy(child.Numbers[float32](p.Memory, 0, len(model)), model)
		rows(child.Numbers[int32](p.Memory, rowsOffset, count))
		r, err := w.singleReply(
			ctx,
			p,
			&request{Evaluate: &evaluate{Rows: rowsOffset, Count: count}},
			func(r *reply) bool { return r.Scores != nil },
		)
		if err != nil {
			return err
		}
		if err := r.Scores.check(len(w.program.Metrics)); err != nil {
			return p.wrong("%v", err)
		}
		s = r.Scores
		return nil
	})
	return s, err
}

// check returns an error unless there are scores of the loss and of this number of metrics. Weights must
// not be negative, and that of the loss must be above 0.
func (s *Scores) check(metrics int) error {
	if s.Loss == nil || len(s.Metrics) != metrics {
		return fmt.Errorf("scores with %d metrics and a loss, want %d and a loss", len(s.Metrics), metrics)
	}
	for i, x := range append([]learn.Score{*s.Loss}, s.Metrics...) {
		// The comparison refuses NaN, too.
		isValid := x.Weight >= 0
		isLoss := i == 0
		if !isValid || isLoss && x.Weight == 0 {
			return fmt.Errorf("score %d has the weight %g", i, x.Weight)
		}
	}
	return nil
}

// initial returns the initial model for a seed, as the trainer's process draws it. It is an error
// if the model has a value that is not finite.
func (w *Worker) initial(ctx context.Context, seed uint64) (model []float32, err error) {
	params := w.program.Model().params
	err = w.withRestarts(ctx, func(p *process) error {
		if err := p.reserve(ctx, child.Align(4*params)); err != nil {
			return err
		}
		_, err := w.singleReply(
			ctx,
			p,
			&request{Initialise: &initialise{Seed: seed}},
			func(r *reply) bool { return r.Done != nil },
		)
		if err == nil {
			// The shared memory is used again by the next request.
			model = slices.Clone(child.Numbers[float32](p.Memory, 0, params))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return model, w.program.checkInitial(model)
}

// checkInitial returns an error that names the first tensor of an initial model with a value that it
// cannot have, such as one that is not finite, and what to do. Such values cannot be averaged. A constant
// one, such as an attention mask of -inf, can be kept.
func (p *Program) checkInitial(model []float32) error {
	start := 0
	for _, t := range p.Tensors {
		if err := t.learnTensor(start).CheckValues(model[start : start+t.len()]); err != nil {
			remedy := "mend its initial values"
			if !t.Trainable {
				remedy = `a constant can be kept: serve(..., buffers={"` + t.Name + `": "kept"})`
			}
			return fmt.Errorf("trainer %s: initial model: %w (%s)", p.Name, err, remedy)
		}
		start += t.len()
	}
	return nil
}

// release gives the worker's process back to the program for the next worker, or ends the process
// if the program holds one already.
func (w *Worker) release() error {
	w.program.mu.Lock()
	defer w.program.mu.Unlock()
	w.program.workers--
	if w.program.first == nil {
		// The process is not the worker's any more, so Close does not end it.
		w.program.first = w.process
		w.process = nil
	}
	return w.Close()
}

// Close ends the worker's process, and returns the error of ending it. It does nothing for a worker
// that has no process.
func (w *Worker) Close() error {
	p := w.process
	w.process = nil
	if p == nil {
		return nil
	}
	return p.close()
}
