package simbus

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"fedpace/bus"
)

// server is what the bus holds of one run: the coordinator's lease, the hosts that
// are present, models, and the work queue.
type server struct {
	bus *Bus
	run string

	mu    sync.Mutex
	lease lease
	// hosts are the hosts that serve tasks.
	hosts []*Host
	// nextHost counts the tasks, since the hosts get them in turn.
	nextHost int
	models   map[bus.Digest][]float32
	// queue holds the jobs that no host holds, the oldest first.
	queue []*work
	// jobs holds all jobs by number.
	jobs map[uint64]*work
	// pulls are those of hosts that wait for a job.
	pulls []*pull
}

// lease is a coordinator's right to drive the run.
type lease struct {
	// holder is the coordinator with the lease, nil if there is none.
	holder *Coordinator
	// until is when the lease ends. The zero time means that it ends when it is given up.
	until time.Time
	// term is the term of the newest holder. It outlives the lease.
	term int64
	// renewals counts the renewals of the lease.
	renewals uint64
}

// work is a job in the queue.
type work struct {
	job *bus.Job
	// holder is the delivery to the host that has the job, nil if no host has it.
	holder *delivery
	// lastReported is when the holder last reported that it does the job.
	lastReported time.Time
	// releases is how often a host has given the job back because it could not do it.
	releases int
}

// pull is a host's request for a job of a kernel class.
type pull struct {
	host   *Host
	kernel string
	// until is when the request ends unless it is repeated.
	until time.Time
	// deliver is called at the host with a job.
	deliver func(*delivery)
}

// clear removes models and jobs. The caller holds the lock, or is the only one that knows s.
func (s *server) clear() {
	s.models = map[bus.Digest][]float32{}
	s.queue = nil
	s.jobs = map[uint64]*work{}
}

// forget removes everything that the bus holds of the run.
func (s *server) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	s.lease = lease{}
	s.hosts = nil
	s.pulls = nil
}

// acquired is the answer to a coordinator that requests the lease. The coordinator has the lease if
// err and wait are zero.
type acquired struct {
	// wait is the time until the lease of another coordinator may end.
	wait time.Duration
	// renewals is how often that lease has been renewed.
	renewals uint64
	err      error
}

// acquire is called at the bus for coordinator c. It gives c the lease if that is free, and empties the run. If c has
// the lease already, nothing changes. If another coordinator has it, c may wait for its end and ask again, with
// renewalsBefore set to the number of the lease's renewals in the first answer; the first time it is 0. A lease that
// was renewed while c waited has a holder that is alive, so the answer then is an error.
func (s *server) acquire(c *Coordinator, renewalsBefore uint64) acquired {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.lease
	neverEnds := l.until.IsZero()
	renewedMeanwhile := renewalsBefore > 0 && l.renewals != renewalsBefore
	switch {
	case l.holder == c:
		return acquired{}
	case s.free():
		s.clear()
		c.term = max(time.Now().UnixNano(), l.term+1)
		s.renew(c)
		return acquired{}
	case neverEnds || renewedMeanwhile:
		return acquired{err: fmt.Errorf("bus: run %s has a coordinator already: let it end, or choose "+
			"another name", s.run)}
	}
	return acquired{wait: time.Until(l.until), renewals: l.renewals}
}

// free reports whether the lease has no holder or has ended. The caller holds the lock.
func (s *server) free() bool {
	l := &s.lease
	return l.holder == nil || !l.until.IsZero() && !time.Now().Before(l.until)
}

// renew makes c the holder of the lease from now on. A coordinator that admits hosts of other
// processes must renew it before it ends; any other keeps it. The caller holds the lock.
func (s *server) renew(c *Coordinator) {
	s.lease.holder = c
	s.lease.term = c.term
	s.lease.renewals++
	if c.config.Info != nil {
		s.lease.until = time.Now().Add(leaseFor)
	} else {
		s.lease.until = time.Time{}
	}
}

// status is the answer to a coordinator that renews its lease.
type status struct {
	// lost says that another coordinator holds the lease.
	lost bool
	// missing says that something that the coordinator expects on the bus is not there.
	missing bool
	// hosts and workers count those in other processes.
	hosts, workers int
}

// renewAndCheck renews the lease of coordinator c, gives the jobs of silent hosts to others, and reports what the bus
// knows of the run: which hosts are present, and whether any of these jobs and models of the coordinator is missing.
// A coordinator that has lost the lease to a later one learns only that.
func (s *server) renewAndCheck(c *Coordinator, jobs []uint64, models []bus.Digest) (r status) {
	s.mu.Lock()
	// A later coordinator had the lease, whether or not that one's lease has ended.
	if c.term < s.lease.term {
		s.mu.Unlock()
		return status{lost: true}
	}
	// The bus has forgotten the lease, so what it holds is not this coordinator's.
	if s.lease.holder != c {
		s.clear()
	}
	s.renew(c)
	now := time.Now()
	s.hosts = slices.DeleteFunc(s.hosts, func(h *Host) bool {
		return h.config.Stamp != 0 && now.Sub(h.lastHeard) > silentAfter
	})
	for _, h := range s.hosts {
		if h.config.Stamp != 0 {
			r.hosts++
			r.workers += h.config.Workers
		}
	}
	for _, job := range jobs {
		w := s.jobs[job]
		r.missing = r.missing || w == nil
		isHeldByHost := w != nil && w.holder != nil && w.holder.host.config.Stamp != 0
		if isHeldByHost && now.Sub(w.lastReported) > c.config.AckWait {
			w.holder = nil
			s.queue = append(s.queue, w)
		}
	}
	for _, d := range models {
		r.missing = r.missing || s.models[d] == nil
	}
	s.mu.Unlock()
	s.giveJobs()
	return r
}

// ifHolder calls f with the lock held if c holds the lease, and does nothing otherwise: what a former holder sends
// changes nothing.
func (s *server) ifHolder(c *Coordinator, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease.holder == c {
		f()
	}
}

// coordinator returns the holder of the lease, nil if there is none.
func (s *server) coordinator() *Coordinator {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lease.holder
}

// join is called at the bus for a heartbeat of host h: the host serves tasks, and still does the jobs of the
// deliveries in held. If no heartbeat names a job for AckWait, renewAndCheck gives it to another host.
func (s *server) join(h *Host, held []*delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.lastHeard = time.Now()
	for _, d := range held {
		if w := s.jobs[d.job.Job]; w != nil && w.holder == d {
			w.lastReported = h.lastHeard
		}
	}
	if !slices.Contains(s.hosts, h) {
		s.hosts = append(s.hosts, h)
	}
}

// leave removes a host that is closed: it gets no further tasks and jobs.
func (s *server) leave(h *Host) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hosts = slices.DeleteFunc(s.hosts, func(x *Host) bool { return x == h })
	s.pulls = slices.DeleteFunc(s.pulls, func(p *pull) bool { return p.host == h })
}

// dispatch passes a task on to the next of the hosts. Without a host it is lost.
func (s *server) dispatch(c *Coordinator, client int, t *bus.Task) {
	var h *Host
	s.ifHolder(c, func() {
		if len(s.hosts) > 0 {
			h = s.hosts[s.nextHost%len(s.hosts)]
			s.nextHost++
		}
	})
	if h != nil {
		h.conn.receive("task", func() { h.answer(client, t) })
	}
}

// put queues job j of coordinator c unless the bus has it already, and hands it out if a host
// waits. It does nothing if c has lost the lease.
func (s *server) put(c *Coordinator, j *bus.Job) {
	s.ifHolder(c, func() {
		if s.jobs[j.Job] == nil {
			w := &work{job: j}
			s.jobs[j.Job] = w
			s.queue = append(s.queue, w)
		}
	})
	s.giveJobs()
}

// pull is called at the bus for a host's request p for a job, which waits until there is one. The host repeats the
// request, and it ends if that does not happen within pullEvery.
func (s *server) pull(p *pull) {
	s.mu.Lock()
	p.until = time.Now().Add(pullEvery)
	if !slices.Contains(s.pulls, p) {
		s.pulls = append(s.pulls, p)
	}
	s.mu.Unlock()
	s.giveJobs()
}

// unpull ends a host's request for a job.
func (s *server) unpull(p *pull) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pulls = slices.DeleteFunc(s.pulls, func(x *pull) bool { return x == p })
}

// giveJobs hands out queued jobs, the oldest first, to hosts that wait for a job of the kernel class.
func (s *server) giveJobs() {
	var given []func()
	s.mu.Lock()
	now := time.Now()
	s.pulls = slices.DeleteFunc(s.pulls, func(p *pull) bool { return now.After(p.until) })
	for i := 0; i < len(s.queue); i++ {
		w := s.queue[i]
		k := slices.IndexFunc(s.pulls, func(p *pull) bool { return p.kernel == w.job.Kernel })
		if k < 0 {
			continue
		}
		p := s.pulls[k]
		s.pulls = slices.Delete(s.pulls, k, k+1)
		s.queue = slices.Delete(s.queue, i, i+1)
		i--
		d := &delivery{job: w.job, host: p.host}
		w.holder = d
		w.lastReported = now
		given = append(given, func() { p.host.conn.receive("job", func() { p.deliver(d) }) })
	}
	s.mu.Unlock()
	// Messages are sent without the lock, because the network may deliver them at once.
	for _, f := range given {
		f()
	}
}

// done removes the job of delivery d, which was done. If another host has the job by now, it stays.
func (s *server) done(d *delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.jobs[d.job.Job]; w != nil && w.holder == d {
		delete(s.jobs, d.job.Job)
	}
}

// release takes the job of delivery d back into the queue. refused says that its host could not do
// it; a job that was refused maxReleases times fails the run.
func (s *server) release(d *delivery, refused bool) {
	var fails *Coordinator
	s.mu.Lock()
	w := s.jobs[d.job.Job]
	if w != nil && w.holder == d {
		w.holder = nil
		s.queue = append(s.queue, w)
		if refused {
			w.releases++
		}
		if w.releases == maxReleases {
			fails = s.lease.holder
		}
	}
	s.mu.Unlock()
	if fails != nil {
		j := d.job
		fails.conn.receive("exhausted", func() {
			fails.failed(fmt.Errorf("bus: run %s: job %d (%s, round %d, kernel %s) was given out %d times and no "+
				"trainer finished it",
				s.run, j.Job, j.Kind.Name(), j.Round, j.Kernel, maxReleases))
		})
		return
	}
	s.giveJobs()
}

// model returns the model with this digest, nil if there is none.
func (s *server) model(d bus.Digest) []float32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.models[d]
}

// putModel stores a model of coordinator c, if that holds the lease.
func (s *server) putModel(c *Coordinator, d bus.Digest, params []float32) {
	s.ifHolder(c, func() { s.models[d] = params })
}

// deleteModel removes a model of coordinator c, if that holds the lease.
func (s *server) deleteModel(c *Coordinator, d bus.Digest) {
	s.ifHolder(c, func() { delete(s.models, d) })
}

// close ends the lease of coordinator c and removes its models and jobs. Its term stays known, so that a
// late message of c cannot renew the lease of a later coordinator.
func (s *server) close(c *Coordinator) {
	s.ifHolder(c, func() {
		s.clear()
		s.lease = lease{term: c.term}
	})
}
