package placement

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"fedpace/bus"
)

const (
	// A job is queued a second time, while a worker is idle, when it has taken so
	// many times as long as others and a little more, or is with a host that was as
	// slow before, or when nobody has taken it for a while: it went to a host that
	// has stopped.
	straggling  = 2
	tolerance   = 10 * time.Millisecond
	untaken     = 250 * time.Millisecond
	endedKept   = 64
	removedKept = 1 << 10
	mostCopies  = 3  // messages of one job in the queue, the first included
	pacesKept   = 15 // for the last jobs of a kind
	pacesNeeded = 2  // before a job counts as slow
)

// Jobs knows which host holds which job of a run, and says which jobs are to be queued
// again. It keeps only what hosts say. Its methods may be called concurrently.
type Jobs struct {
	Wake chan struct{} // has one token when there may be something to do
	now  func() time.Time

	mu    sync.Mutex
	open  map[uint64]*openJob
	hosts map[string]*holder
	paces map[bus.JobKind][]float64 // seconds for one unit of the last jobs' work
	lost  []uint64                  // jobs that only hosts held that are gone
	done  []uint64                  // numbers in the queue of jobs that are done

	removed []uint64 // the last numbers that were taken from the queue
}

// openJob is a job without a sum.
type openJob struct {
	kind   bus.JobKind
	units  float64 // amount of work
	copies int
	queued time.Time // the last copy
	taken  time.Time // by the last who did; zero: the last copy is not
}

// holder is a host as it last said.
type holder struct {
	workers int
	jobs    map[uint64]time.Time // jobs that it holds, and since when
	ended   []uint64             // the last ones whose sums were accepted: it may still say that it holds them
	slow    bool                 // another did its job in less time, and none of its own has counted since
}

// NewJobs knows no job and no host.
func NewJobs(now func() time.Time) *Jobs {
	return &Jobs{
		Wake:  make(chan struct{}, 1),
		now:   now,
		open:  map[uint64]*openJob{},
		hosts: map[string]*holder{},
		paces: map[bus.JobKind][]float64{},
	}
}

// units is how much work a job is, in steps of the run's minibatches, or in samples.
func units(job *bus.Job) (n float64) {
	for _, c := range job.Clients {
		steps := float64(c.LocalSteps)
		if c.Batch > 0 {
			steps *= float64(c.Batch) / float64(max(1, job.GetSpec().GetBatch()))
		}
		n += steps
	}
	for _, s := range job.Shards {
		n += float64(s.Count)
	}
	return n
}

// Open notes that a job has been queued.
func (j *Jobs) Open(job *bus.Job) {
	j.mu.Lock()
	defer j.mu.Unlock()
	o := j.open[job.Job]
	if o == nil {
		o = &openJob{kind: job.Kind, units: max(units(job), 1)}
		j.open[job.Job] = o
	}
	o.copies, o.queued, o.taken = o.copies+1, j.now(), time.Time{}
}

// Close notes that a host's sum of a job has been accepted. numbers are those of
// the job's messages in the queue, where there are several.
func (j *Jobs) Close(job uint64, host string, numbers []uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	o := j.open[job]
	delete(j.open, job)
	j.done = append(j.done, numbers...)
	if h := j.hosts[host]; h != nil {
		if since, held := h.jobs[job]; held && o != nil {
			paces := append(j.paces[o.kind], j.now().Sub(since).Seconds()/o.units)
			j.paces[o.kind] = paces[max(0, len(paces)-pacesKept):]
		}
		delete(h.jobs, job)
		h.slow = false
		h.ended = append(h.ended, job)
		h.ended = h.ended[max(0, len(h.ended)-endedKept):]
	}
	for _, h := range j.hosts {
		if _, held := h.jobs[job]; held {
			h.slow = true
		}
	}
	j.wakeUp()
}

// Remove notes that a message is taken from the queue, of which the server may tell.
func (j *Jobs) Remove(number uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.removed = append(j.removed, number)
	j.removed = j.removed[max(0, len(j.removed)-removedKept):]
}

// Removed tells whether a message was taken from the queue on purpose.
func (j *Jobs) Removed(number uint64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Contains(j.removed, number)
}

// wakeUp wakes the one who queues jobs again.
func (j *Jobs) wakeUp() {
	select {
	case j.Wake <- struct{}{}:
	default:
	}
}

// UpdateHost takes what a host says that it holds.
func (j *Jobs) UpdateHost(host string, workers int, jobs []uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	h, now := j.hosts[host], j.now()
	if h == nil {
		h = &holder{}
		j.hosts[host] = h
	}
	before := h.jobs
	h.workers = workers
	h.jobs = make(map[uint64]time.Time, len(jobs))
	for _, job := range jobs {
		since, held := before[job]
		switch {
		case slices.Contains(h.ended, job):
			continue
		case !held:
			since = now
			if o := j.open[job]; o != nil {
				o.taken = now
			}
		}
		h.jobs[job] = since
	}
}

// Leave notes that a host is gone.
func (j *Jobs) Leave(host string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	h := j.hosts[host]
	delete(j.hosts, host)
	if h == nil {
		return
	}
	for job := range h.jobs {
		if held, _ := j.holders(job); j.open[job] != nil && !held {
			j.lost = append(j.lost, job)
		}
	}
	j.wakeUp()
}

// holders tells whether a host that is there holds the job, and whether one does that
// is not slow.
func (j *Jobs) holders(job uint64) (held, well bool) {
	for _, h := range j.hosts {
		if _, holding := h.jobs[job]; holding {
			held = true
			well = well || !h.slow
		}
	}
	return held, well
}

// idle is the number of workers that have no job.
func (j *Jobs) idle() (n int) {
	for _, h := range j.hosts {
		n += max(0, h.workers-len(h.jobs))
	}
	return n
}

// Due is what is to be done now: jobs to be queued in place of what the queue has
// of them, jobs to be queued beside it, and numbers to be taken from the queue.
func (j *Jobs) Due() (lost, slow, done []uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	lost = j.lost
	done = j.done
	j.lost = nil
	j.done = nil
	lost = slices.DeleteFunc(lost, func(job uint64) bool { return j.open[job] == nil })
	now := j.now()
	idle := j.idle()
	for _, job := range slices.Sorted(maps.Keys(j.open)) {
		o := j.open[job]
		held, well := j.holders(job)
		waits := o.taken.IsZero() || !held
		switch {
		case idle <= 0:
			return lost, slow, done
		case o.copies >= mostCopies || slices.Contains(lost, job):
		case waits && min(now.Sub(o.queued), now.Sub(o.taken)) > untaken,
			!waits && (!well || now.Sub(o.taken) > j.expected(o)):
			slow = append(slow, job)
			idle--
		case waits:
			idle-- // it will be taken
		}
	}
	return lost, slow, done
}

// expected is how long a job may take before it counts as slow: by the median of
// the last ones.
func (j *Jobs) expected(o *openJob) time.Duration {
	paces := j.paces[o.kind]
	if len(paces) < pacesNeeded {
		return 1 << 62
	}
	paces = slices.SortedFunc(slices.Values(paces), cmp.Compare[float64])
	return time.Duration(straggling*o.units*paces[len(paces)/2]*float64(time.Second)) + tolerance
}
