package placement

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"fedpace/bus"
)

// A job is queued a second time, while a worker is idle, in three cases: it takes much longer than
// others; another host has finished a job that its host had; or no host has taken it for a while.
const (
	// slowJobFactor is how many times as long as others a job takes that is queued a second time. It must
	// also take longer than that by slowJobTolerance.
	slowJobFactor    = 2
	slowJobTolerance = 10 * time.Millisecond
	// maxUntaken is how long a job may be in the queue before it is queued a second time. It may have been
	// delivered to a host that has stopped.
	maxUntaken = 250 * time.Millisecond

	// keptEnded is how many finished jobs are remembered of a host.
	keptEnded = 64
	// keptRemoved is how many removed messages are remembered.
	keptRemoved = 1 << 10
	// maxCopies bounds the messages of one job in the queue, the first included.
	maxCopies = 3
	// keptPaces is how many jobs of a kind the median pace is taken of.
	keptPaces = 15
	// pacesNeeded is how many such jobs there must be before a job can count as slow.
	pacesNeeded = 2
)

// Jobs knows which host holds which job of a run, and decides which jobs are queued again. It relies
// only on what hosts report. Its methods may be called concurrently.
type Jobs struct {
	// Wake receives a token when Due may have something to do.
	Wake chan struct{}
	now  func() time.Time

	mu    sync.Mutex
	open  map[uint64]*openJob
	hosts map[string]*holder
	// paces holds the pace of the last jobs of each kind: seconds for one unit of work.
	paces map[bus.JobKind][]float64
	// lost are the jobs that only hosts held which are gone.
	lost []uint64
	// finishedMessages are the numbers of messages in the queue whose jobs are finished, until Due returns them.
	finishedMessages []uint64

	// removedMessages are the numbers of the messages that were last removed from the queue, at most keptRemoved.
	removedMessages []uint64
}

// openJob is a job whose sum was not accepted yet.
type openJob struct {
	kind bus.JobKind
	// workUnits is the amount of work, see the function unitsOf; at least 1.
	workUnits float64
	// copies is how often the job was put into the queue.
	copies int
	// queued is when the job was last put into the queue.
	queued time.Time
	// taken is when a host last took the job, the zero time if none has since it was last queued.
	taken time.Time
}

// holder is a host as it last reported.
type holder struct {
	workers int
	// jobs holds the jobs that the host has, and since when.
	jobs map[uint64]time.Time
	// ended are the jobs whose sums were accepted. A late report of the host may still name them.
	ended []uint64
	// slow says that another host finished this host's job first, and no sum of its own has counted
	// since. The jobs of such a host are queued a second time.
	slow bool
}

// NewJobs makes a record without jobs and hosts. now returns the wall-clock time, by which it
// measures how long jobs take.
func NewJobs(now func() time.Time) *Jobs {
	return &Jobs{
		Wake:  make(chan struct{}, 1),
		now:   now,
		open:  map[uint64]*openJob{},
		hosts: map[string]*holder{},
		paces: map[bus.JobKind][]float64{},
	}
}

// unitsOf returns the amount of work of a job: the number of local steps on minibatches of the run's size, or the
// number of samples to be evaluated.
func unitsOf(job *bus.Job) (n float64) {
	for _, c := range job.Clients {
		steps := float64(c.LocalSteps)
		// A client may have minibatches of its own size; 0 stands for the run's.
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

// NoteQueued notes that job was put into the queue, for the first time or again. From now on it counts as waiting in
// the queue until a host reports that it has taken the job.
func (j *Jobs) NoteQueued(job *bus.Job) {
	j.mu.Lock()
	defer j.mu.Unlock()
	o := j.open[job.Job]
	if o == nil {
		o = &openJob{kind: job.Kind, workUnits: max(unitsOf(job), 1)}
		j.open[job.Job] = o
	}
	o.copies++
	o.queued = j.now()
	o.taken = time.Time{}
}

// NoteAccepted notes that the sum of a job was accepted, and that it came from this host. numbers are those of the
// job's messages in the queue, where there are several: all must be removed.
func (j *Jobs) NoteAccepted(job uint64, host string, numbers []uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	o := j.open[job]
	delete(j.open, job)
	j.finishedMessages = append(j.finishedMessages, numbers...)
	if h := j.hosts[host]; h != nil {
		// The time that the job took counts only where the host has reported when it took it.
		if since, held := h.jobs[job]; held && o != nil {
			j.addPace(o, j.now().Sub(since))
		}
		delete(h.jobs, job)
		h.slow = false
		h.ended = append(h.ended, job)
		h.ended = h.ended[max(0, len(h.ended)-keptEnded):]
	}
	for _, h := range j.hosts {
		// The host has not finished the job that another host has finished.
		if _, held := h.jobs[job]; held {
			h.slow = true
		}
	}
	j.wakeUp()
}

// addPace notes how long a job took.
func (j *Jobs) addPace(o *openJob, took time.Duration) {
	paces := append(j.paces[o.kind], took.Seconds()/o.workUnits)
	j.paces[o.kind] = paces[max(0, len(paces)-keptPaces):]
}

// NoteRemoval notes that a message is removed from the queue on purpose. The server publishes an advisory of it, like
// that of a job which a trainer cannot read.
func (j *Jobs) NoteRemoval(number uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.removedMessages = append(j.removedMessages, number)
	j.removedMessages = j.removedMessages[max(0, len(j.removedMessages)-keptRemoved):]
}

// WasRemoved reports whether a message was removed from the queue on purpose.
func (j *Jobs) WasRemoved(number uint64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Contains(j.removedMessages, number)
}

// wakeUp wakes the goroutine that acts on Due.
func (j *Jobs) wakeUp() {
	select {
	case j.Wake <- struct{}{}:
	default:
	}
}

// UpdateHost takes the report of a host: how many workers it has, and the numbers of the jobs that
// it holds. A job that it did not hold before was taken now.
func (j *Jobs) UpdateHost(host string, workers int, jobs []uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := j.now()
	h := j.hosts[host]
	if h == nil {
		h = &holder{}
		j.hosts[host] = h
	}
	heldBefore := h.jobs
	h.workers = workers
	h.jobs = make(map[uint64]time.Time, len(jobs))
	for _, job := range jobs {
		// The report was sent before the host knew that the job has ended.
		if slices.Contains(h.ended, job) {
			continue
		}
		since, held := heldBefore[job]
		if !held {
			since = now
			if o := j.open[job]; o != nil {
				o.taken = now
			}
		}
		h.jobs[job] = since
	}
}

// RemoveHost notes that a host is gone. The open jobs that no other host holds are lost.
func (j *Jobs) RemoveHost(host string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	h := j.hosts[host]
	delete(j.hosts, host)
	if h == nil {
		return
	}
	for job := range h.jobs {
		if held, _ := j.isHeld(job); j.open[job] != nil && !held {
			j.lost = append(j.lost, job)
		}
	}
	j.wakeUp()
}

// isHeld reports whether a present host has a job (held), and whether a host has it that is not slow (heldByQuick).
func (j *Jobs) isHeld(job uint64) (held, heldByQuick bool) {
	for _, h := range j.hosts {
		if _, holding := h.jobs[job]; holding {
			held = true
			heldByQuick = heldByQuick || !h.slow
		}
	}
	return held, heldByQuick
}

// idleWorkers returns the number of workers without a job, over all hosts.
func (j *Jobs) idleWorkers() (n int) {
	for _, h := range j.hosts {
		n += max(0, h.workers-len(h.jobs))
	}
	return n
}

// Due returns what is to be done now: jobs to be queued in the place of their earlier messages, since all hosts that
// held them are gone (lost), jobs to be queued in addition to these, for idle workers (slow), and numbers of
// messages to be removed from the queue (done). lost and done are returned once. Jobs that wait in the queue or are
// slow each need one of the idle workers, so the search for slow ones ends when there is one for each.
func (j *Jobs) Due() (lost, slow, done []uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	lost = j.lost
	done = j.finishedMessages
	j.lost = nil
	j.finishedMessages = nil
	lost = slices.DeleteFunc(lost, func(job uint64) bool { return j.open[job] == nil })
	now := j.now()
	idle := j.idleWorkers()
	for _, job := range slices.Sorted(maps.Keys(j.open)) {
		if idle <= 0 {
			break
		}
		o := j.open[job]
		if o.copies >= maxCopies || slices.Contains(lost, job) {
			continue
		}
		held, heldByQuick := j.isHeld(job)
		// No host has taken the job from the queue, or the one that did has it no longer.
		waitsInQueue := o.taken.IsZero() || !held
		if waitsInQueue {
			// An idle worker will take the job from the queue, unless it has waited for too long already.
			// A job that was never taken has the zero time, so only the time in the queue counts.
			waited := min(now.Sub(o.queued), now.Sub(o.taken))
			if waited > maxUntaken {
				slow = append(slow, job)
			}
			idle--
			continue
		}
		isSlow := !heldByQuick || now.Sub(o.taken) > j.slowAfter(o)
		if isSlow {
			slow = append(slow, job)
			idle--
		}
	}
	return lost, slow, done
}

// slowAfter returns how long a job may take before it counts as slow: slowJobFactor times the time that its units of
// work take at the median pace (seconds for a unit) of the last jobs of its kind, and slowJobTolerance. With fewer
// than pacesNeeded such jobs, no job counts as slow.
func (j *Jobs) slowAfter(o *openJob) time.Duration {
	const forever = 1 << 62
	paces := j.paces[o.kind]
	if len(paces) < pacesNeeded {
		return forever
	}
	paces = slices.SortedFunc(slices.Values(paces), cmp.Compare[float64])
	median := paces[len(paces)/2]
	return time.Duration(slowJobFactor*o.workUnits*median*float64(time.Second)) + slowJobTolerance
}
