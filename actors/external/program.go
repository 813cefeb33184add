package external

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"fedpace/data/federated"
	"fedpace/internal/child"
)

// Config says how a trainer's processes are started.
type Config struct {
	Command string
	// Threads is the number of threads of each process. 0 means one.
	Threads int
	// Device is what the process is asked to calculate on, such as cpu or cuda. Empty means cpu.
	Device string
	// Silence is how long a process may say nothing, its start included. 0 means two minutes.
	Silence time.Duration
	// Data are the samples for the processes. Nil means that they bring their own.
	Data   *Shared
	Notice func(string)

	// library is the folder of the Python package, which PYTHONPATH begins with.
	library string
}

// silence returns how long a process may say nothing: Silence, or its default.
func (c *Config) silence() time.Duration { return cmp.Or(c.Silence, 2*time.Minute) }

// notice passes a line to the user if a function for that is set.
func (c *Config) notice(line string) {
	if c.Notice != nil {
		c.Notice("Trainer: " + line)
	}
}

// environment returns this process's environment with the variables that a trainer needs.
func (c *Config) environment() []string {
	return child.PythonEnvironment(c.library, max(1, c.Threads), "FEDPACE_TRAINER=1")
}

// Program is a trainer's command with the greeting of its first process. Workers share it.
type Program struct {
	Greeting
	config Config

	// restarts counts the processes that replaced a dead one.
	restarts atomic.Int64

	mu sync.Mutex
	// first is the first process until a worker takes it.
	first   *process
	workers int
}

// Restarts returns the number of processes that were started in place of one that died.
func (p *Program) Restarts() int64 { return p.restarts.Load() }

// Open starts a trainer's first process and reads the greeting, in which it describes its model,
// its metrics and, if it has any, its own data. The first worker takes over the process. Close the
// program after use.
func Open(ctx context.Context, c Config) (_ *Program, err error) {
	c.library, err = child.PythonLibrary()
	if err != nil {
		return nil, fmt.Errorf("trainer: %w", err)
	}
	p := &Program{config: c}
	process, g, err := p.start(ctx, 0)
	if err != nil {
		return nil, err
	}
	p.Greeting = *g
	p.first = process
	return p, nil
}

// maxStart is how many times trainer.silence_seconds a process may say that it is alive
// before its greeting.
const maxStart = 10

// errNoGreeting is the cause with which the context of a start ends that took too long.
var errNoGreeting = errors.New("no greeting")

// start starts a process for a worker, given its number, and returns it with its checked greeting.
// A process may say that it is alive for a while before it greets, but not for longer than maxStart
// times the silence. If the error is not nil, the process has ended.
func (p *Program) start(ctx context.Context, worker int) (_ *process, _ *Greeting, err error) {
	// Only the first process, the one before any greeting, holds its output back.
	holdOutput := p.Protocol == 0
	process, err := start(&p.config, holdOutput)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		// The lines that are held back are printed, unless the error of a process that ended repeats
		// them.
		if d := (*child.EndedError)(nil); !errors.As(err, &d) {
			process.Output.Release()
		}
		if err != nil {
			// A process that is still starting would not hear a request to end.
			_ = process.Kill("")
			err = errors.Join(err, process.close())
		}
	}()
	greeting, err := p.greet(ctx, process, worker)
	if err != nil {
		return nil, nil, err
	}
	return process, greeting, nil
}

// greet greets a process that was just started for a worker, and returns its checked greeting. The run's greeting says
// how many threads the process may use, and where the run's data is.
func (p *Program) greet(ctx context.Context, process *process, worker int) (*Greeting, error) {
	c := &p.config
	h := &hello{
		Protocol: version,
		Threads:  max(1, c.Threads),
		Worker:   worker,
		Device:   cmp.Or(c.Device, "cpu"),
	}
	if c.Data != nil {
		h.Data = &c.Data.about
	}
	if err := process.send(ctx, &request{Hello: h}); err != nil {
		return nil, p.withLastOutput(process, err)
	}
	// Signs of life must not keep the start waiting forever.
	greeted, done := context.WithTimeoutCause(ctx, maxStart*c.silence(), errNoGreeting)
	defer done()
	r, err := process.receive(greeted)
	switch {
	// Only the limit itself has this cause; a cancelled run or a broken process has its own error.
	case err != nil &&
		ctx.Err() == nil &&
		errors.Is(context.Cause(greeted), errNoGreeting) &&
		!process.Broken():
		return nil, process.wrong(
			"it has said for %v that it is alive, and no greeting (%d times trainer.silence_seconds)",
			maxStart*c.silence(),
			maxStart,
		)
	case err != nil:
		return nil, p.withLastOutput(process, err)
	case r.Error != nil:
		return nil, r.Error.asError(c.Command, "")
	case r.Hello == nil:
		return nil, process.wrong("its first reply is no greeting")
	}
	if err := r.Hello.check(); err != nil {
		return nil, process.wrong("%v", err)
	}
	// Exactly one of the run and the trainer brings the data.
	switch owned := r.Hello.Data != nil; {
	case owned && c.Data != nil:
		return nil, fmt.Errorf(
			"trainer: %s brings its own data, and the run gives it other (set data: trainer)",
			c.Command,
		)
	case !owned && c.Data == nil:
		return nil, fmt.Errorf(
			"trainer: %s brings no data of its own (set data to what it is to learn from)",
			c.Command,
		)
	}
	return r.Hello, nil
}

// withLastOutput adds the last printed lines to the error of a process that ended. Other errors stay as
// they are.
func (p *Program) withLastOutput(process *process, err error) error {
	if d := (*child.EndedError)(nil); errors.As(err, &d) {
		return fmt.Errorf("trainer: %.200s: %w; %s", p.config.Command, err, process.Printed())
	}
	return err
}

// Initial returns the model that a run with this seed starts from, as the process draws it.
func (p *Program) Initial(ctx context.Context, seed uint64) (model []float32, err error) {
	w := p.Worker()
	defer func() { err = errors.Join(err, w.release()) }()
	return w.initial(ctx, seed)
}

// Set returns the set of the samples that the process reads, with their row numbers: the run's, or the
// process's own.
func (p *Program) Set() federated.Numbered {
	if p.config.Data == nil {
		return p.Owned()
	}
	return p.config.Data.set
}

// Worker makes a worker for one goroutine. The first one takes over the process that Open has
// started; others start one when they need it. Close it after use.
func (p *Program) Worker() *Worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &Worker{program: p, number: p.workers, process: p.first}
	p.first = nil
	p.workers++
	return w
}

// CloseSpare ends the first process if no worker has taken it. It is called where no worker will, so
// that the process does not hold memory for nothing.
func (p *Program) CloseSpare() error {
	p.mu.Lock()
	first := p.first
	p.first = nil
	p.mu.Unlock()
	if first == nil {
		return nil
	}
	return first.close()
}

// Close ends the first process if no worker has taken it, and releases the samples.
func (p *Program) Close() error { return errors.Join(p.CloseSpare(), p.config.Data.Close()) }
