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

// New makes a bus without runs.
func New() *Bus { return &Bus{runs: map[string]*run{}} }

// Connect returns a connection for one part of a run; its name stands in errors and sums.
func (b *Bus) Connect(name string) *Conn { return &Conn{b, name} }

// Conn is the connection of one part: a [bus.Transport].
type Conn struct {
	bus  *Bus
	name string
}

// OpenCoordinator opens the run with this name, which must not have a coordinator already. Hosts
// may have joined before. Only kernel and patience of config matter in memory.
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

// OpenHost joins the run with this name, whose coordinator need not be there yet. The host has the
// name of its connection, and takes no task before ServeTasks is called.
func (c *Conn) OpenHost(ctx context.Context, name string, _ bus.HostConfig) (bus.Host, error) {
	if err := names.CheckToken("run", name); err != nil {
		return nil, err
	}
	h := &Host{run: c.bus.run(name), name: c.name}
	h.life, h.end = context.WithCancelCause(context.Background())
	return h, ctx.Err()
}

// run is the state of one run on the bus. The lock guards all fields below it.
type run struct {
	name string

	mu sync.Mutex
	// coordinator is the run's coordinator, nil if there is none.
	coordinator *Coordinator
	// hosts are the hosts that serve tasks.
	hosts []*Host
	// turns counts batches, since the hosts get them in turn.
	turns  int
	models map[bus.Digest][]float32
	// jobs holds all jobs whose sums were not accepted yet.
	jobs map[uint64]*openJob
	// queue holds the jobs that no host has taken, the oldest first.
	queue []*openJob
	// jobsAdded is closed, and replaced, when the queue gets longer.
	jobsAdded chan struct{}
}

// openJob is a job whose sum was not accepted yet.
type openJob struct {
	job *bus.Job
	// sum is the sum that waits for the coordinator's decision, nil if none does.
	sum *sentSum
}

// sentSum is a sum that waits for the coordinator's decision.
type sentSum struct {
	// answered is closed when the coordinator has decided.
	answered chan struct{}
	// refused is why the sum was refused, nil if it was accepted.
	refused error
}

// run returns the run with this name, and makes it, without coordinator, hosts, models and jobs, if
// there is none. Coordinators and hosts meet in it.
func (b *Bus) run(name string) *run {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.runs[name]
	if r == nil {
		r = &run{name: name, jobsAdded: make(chan struct{})}
		r.clear()
		b.runs[name] = r
	}
	return r
}

// clear forgets models and jobs. The caller holds the lock, or is the only one that knows r.
func (r *run) clear() {
	r.models = map[bus.Digest][]float32{}
	r.jobs = map[uint64]*openJob{}
	r.queue = nil
}

// enqueue offers a job to the hosts and wakes those that wait for one. The caller holds the lock.
func (r *run) enqueue(o *openJob) {
	r.queue = append(r.queue, o)
	close(r.jobsAdded)
	r.jobsAdded = make(chan struct{})
}

// dequeue takes the oldest job of a kernel class from the queue. If there is none it returns nil, and
// a channel that is closed when jobs have been added.
func (r *run) dequeue(kernel string) (o *openJob, more <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.queue, func(o *openJob) bool { return o.job.Kernel == kernel })
	if i < 0 {
		return nil, r.jobsAdded
	}
	o = r.queue[i]
	r.queue = slices.Delete(r.queue, i, i+1)
	return o, nil
}

// nextHost returns the host that gets the next batch of tasks; the hosts take turns. It is nil if the run
// has no host.
func (r *run) nextHost() *Host {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.hosts) == 0 {
		return nil
	}
	r.turns++
	return r.hosts[r.turns%len(r.hosts)]
}

// vacate removes the coordinator c of the run with its models and jobs. It does nothing if the run
// has another coordinator by now.
func (r *run) vacate(c *Coordinator) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.coordinator == c {
		r.clear()
		r.coordinator = nil
	}
}
