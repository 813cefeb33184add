package memory

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"fedpace/bus"
	"fedpace/internal/names"
)

// Bus is where the parts of runs meet. Its methods may be called concurrently.
type Bus struct {
	mu   sync.Mutex
	runs map[string]*run
}

func New() *Bus { return &Bus{runs: map[string]*run{}} }

// Connect returns the connection of a part.
func (b *Bus) Connect(name string) *Conn { return &Conn{b, name} }

// Conn is the connection of one part: a [bus.Transport].
type Conn struct {
	bus  *Bus
	name string
}

// OpenCoordinator opens a run, which must not have a coordinator.
func (c *Conn) OpenCoordinator(_ context.Context, name string, config bus.CoordinatorConfig) (bus.Coordinator, error) {
	if err := names.CheckToken("run", name); err != nil {
		return nil, err
	}
	if config.Kernel != "" {
		if err := names.CheckToken("kernel", config.Kernel); err != nil {
			return nil, err
		}
	}
	r := c.bus.run(name)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.coordinator != nil {
		return nil, fmt.Errorf("bus: run %s has a coordinator already: let it end, or choose another name", name)
	}
	r.coordinator = newCoordinator(r, config)
	return r.coordinator, nil
}

// OpenHost joins a run. The coordinator need not be there yet.
func (c *Conn) OpenHost(ctx context.Context, name string, _ bus.HostConfig) (bus.Host, error) {
	if err := names.CheckToken("run", name); err != nil {
		return nil, err
	}
	h := &Host{run: c.bus.run(name), name: c.name}
	h.life, h.end = context.WithCancelCause(context.Background())
	return h, ctx.Err()
}

// run is what the bus holds of one run.
type run struct {
	name string

	mu          sync.Mutex
	coordinator *Coordinator // nil: there is none
	hosts       []*Host      // hosts that serve tasks
	next        int          // who gets the next tasks
	models      map[bus.Digest][]float32
	jobs        map[uint64]*openJob // all whose sums have not been accepted
	queue       []*openJob          // those that no host holds, the oldest first
	more        chan struct{}       // closed when the queue gets longer
}

// openJob is a job whose sum has not been accepted.
type openJob struct {
	job *bus.Job
	sum *sentSum // with the coordinator; nil: none
}

// sentSum is a sum that waits for the coordinator's answer.
type sentSum struct {
	answered chan struct{} // closed once there is an answer
	refused  error         // nil: it was accepted
}

// run finds a run, or makes one of which nothing is there.
func (b *Bus) run(name string) *run {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.runs[name]
	if r == nil {
		r = &run{name: name, more: make(chan struct{})}
		r.clear()
		b.runs[name] = r
	}
	return r
}

// clear forgets models and jobs. With the lock held, or before anybody else knows r.
func (r *run) clear() {
	r.models = map[bus.Digest][]float32{}
	r.jobs = map[uint64]*openJob{}
	r.queue = nil
}

// enqueue offers a job to the hosts. With the lock held.
func (r *run) enqueue(o *openJob) {
	r.queue = append(r.queue, o)
	close(r.more)
	r.more = make(chan struct{})
}

// dequeue takes the oldest job of a kernel class; nil: there is none before more is closed.
func (r *run) dequeue(kernel string) (o *openJob, more <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.queue, func(o *openJob) bool { return o.job.Kernel == kernel })
	if i < 0 {
		return nil, r.more
	}
	o = r.queue[i]
	r.queue = slices.Delete(r.queue, i, i+1)
	return o, nil
}

// host is the next of the hosts that share the run's tasks; nil: there is none.
func (r *run) host() *Host {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.hosts) == 0 {
		return nil
	}
	r.next++
	return r.hosts[r.next%len(r.hosts)]
}

// vacate ends what c has in the run, if it is the coordinator.
func (r *run) vacate(c *Coordinator) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.coordinator == c {
		r.clear()
		r.coordinator = nil
	}
}
