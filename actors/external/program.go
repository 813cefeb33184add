package external

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"fedpace/data/federated"
	"fedpace/internal/atomicfile"
	"fedpace/python"
)

// Config is how a trainer's processes are started.
type Config struct {
	Command string
	Threads int    // of arithmetic, for each process; 0: one
	Device  string // that it is asked to use, such as cpu or cuda; empty: cpu
	// Silence is how long a process may say nothing, its start included; 0: two minutes.
	Silence time.Duration
	Data    *Shared // nil: the process brings its own
	Notice  func(string)

	library string // folder that PYTHONPATH begins with
}

func (c *Config) silence() time.Duration { return cmp.Or(c.Silence, 2*time.Minute) }

func (c *Config) notice(line string) {
	if c.Notice != nil {
		c.Notice("Trainer: " + line)
	}
}

// environment is this process's with what a trainer must find.
func (c *Config) environment() []string {
	threads := fmt.Sprint(max(1, c.Threads))
	list := append(os.Environ(), "FEDPACE_TRAINER=1", "PYTHONHASHSEED=0") // sets have one order in all processes
	for _, name := range []string{"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"} {
		list = append(list, name+"="+threads)
	}
	path := c.library
	if old := os.Getenv("PYTHONPATH"); old != "" {
		path += string(os.PathListSeparator) + old
	}
	return append(list, "PYTHONPATH="+path)
}

// Program is a trainer's command and what its first process said of itself. Its workers
// share it.
type Program struct {
	Greeting
	config Config

	restarts atomic.Int64 // of processes that died

	mu      sync.Mutex
	first   *process // until a worker takes it
	workers int
}

// Restarts is how many processes were started in the place of one that died.
func (p *Program) Restarts() int64 { return p.restarts.Load() }

// Open starts a trainer's first process, which says what it is. Close it after use.
func Open(ctx context.Context, c Config) (_ *Program, err error) {
	if c.library, err = libraryFolder(); err != nil {
		return nil, err
	}
	p := &Program{config: c}
	process, g, err := p.start(ctx, 0)
	if err != nil {
		return nil, err
	}
	p.Greeting, p.first = *g, process
	return p, nil
}

// maxStart is how many times trainer.silence_seconds a process may say that it is alive
// before its greeting.
const maxStart = 10

var errNoGreeting = errors.New("no greeting")

func (p *Program) start(ctx context.Context, worker int) (_ *process, _ *Greeting, err error) {
	process, err := start(&p.config, p.Protocol == 0)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if d := (*processEnded)(nil); !errors.As(err, &d) { // else the error has the last lines
			process.output.release()
		}
		if err != nil {
			_ = process.kill("") // it may be at its start, and hear nothing
			err = errors.Join(err, process.close())
		}
	}()
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
	if err = process.send(ctx, &request{Hello: h}); err != nil {
		return nil, nil, p.explain(process, err)
	}
	greeted, done := context.WithTimeoutCause(ctx, maxStart*c.silence(), errNoGreeting)
	defer done()
	r, err := process.receive(greeted)
	switch {
	case err != nil &&
		ctx.Err() == nil &&
		context.Cause(greeted) == errNoGreeting &&
		!process.broken:
		return nil, nil, process.wrong(
			"it has said for %v that it is alive, and no greeting (%d times trainer.silence_seconds)",
			maxStart*c.silence(),
			maxStart,
		)
	case err != nil:
		return nil, nil, p.explain(process, err)
	case r.Error != nil:
		return nil, nil, r.Error.asError(c.Command, "")
	case r.Hello == nil:
		return nil, nil, process.wrong("its first reply is no greeting")
	}
	if err = r.Hello.check(); err != nil {
		return nil, nil, process.wrong("%v", err)
	}
	switch owned := r.Hello.Data != nil; {
	case owned && c.Data != nil:
		err = fmt.Errorf("trainer: %s brings its own data, and the run gives it other (set data: trainer)", c.Command)
	case !owned && c.Data == nil:
		err = fmt.Errorf("trainer: %s brings no data of its own (set data to what it is to learn from)", c.Command)
	}
	return process, r.Hello, err
}

// explain adds to the error of a process that died what it printed last.
func (p *Program) explain(process *process, err error) error {
	if d := (*processEnded)(nil); errors.As(err, &d) {
		<-process.printed
		return fmt.Errorf("trainer: %.200s: %w; %s", p.config.Command, err, process.output.tail())
	}
	return err
}

func (p *Program) Initial(ctx context.Context, seed uint64) (model []float32, err error) {
	w := p.Worker()
	defer func() { err = errors.Join(err, w.release()) }()
	return w.initial(ctx, seed)
}

// Set is the set of the samples that the process reads, with the numbers of its rows.
func (p *Program) Set() federated.Numbered {
	if p.config.Data == nil {
		return p.Owned()
	}
	return p.config.Data.set
}

// Worker makes a worker, which is for one goroutine. Close it after use.
func (p *Program) Worker() *Worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &Worker{program: p, number: p.workers, process: p.first}
	p.first = nil
	p.workers++
	return w
}

// CloseSpare ends the first process, if no worker has it: where none will have it, it would hold
// memory for nothing.
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

// Close ends the first process, if no worker has it, and lets go of the samples.
func (p *Program) Close() error { return errors.Join(p.CloseSpare(), p.config.Data.Close()) }

// libraryFolder is a folder that holds the Python package as this program has it. It stays,
// for the next run.
func libraryFolder() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	modules := python.Modules()
	digest := sha256.New()
	for _, m := range modules {
		fmt.Fprintf(digest, "%s %d\n%s", m.Path, len(m.Source), m.Source)
	}
	dir := filepath.Join(cache, "fedpace", fmt.Sprintf("python-%.16x", digest.Sum(nil)))
	for _, m := range modules {
		if err := writeModule(filepath.Join(dir, filepath.FromSlash(m.Path)), m.Source); err != nil {
			return "", fmt.Errorf(
				"trainer: the Python package: %w (give XDG_CACHE_HOME or HOME a folder that can be written to)",
				err,
			)
		}
	}
	return dir, nil
}

// writeModule writes a file unless it is there.
func writeModule(path string, source []byte) error {
	if found, err := os.ReadFile(path); err == nil && bytes.Equal(found, source) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(path, atomicfile.Bytes(source))
}
