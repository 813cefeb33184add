package natsbus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"fedpace/bus"
	"fedpace/bus/natsconn"
	"fedpace/internal/mailbox"
	"fedpace/internal/vector"
)

// sumCollector receives sums: it puts chunks together, checks a sum against its job
// and makes sure that each job's sum is handed on once.
type sumCollector struct {
	store   *Store // finds handles
	mailbox *mailbox.Mailbox[*bus.ReceivedSum]
	ignored atomic.Int64

	mu   sync.Mutex
	jobs map[uint64]*openJob
	last uint64 // highest sequence number that the work queue is known to have given
}

const (
	maxAssemblies = 16      // trainers that send chunks of one job at once
	maxSumsHeld   = 1 << 12 // sums that wait to be taken
)

// openJob is a job whose sum has not been accepted.
type openJob struct {
	job     *bus.Job
	future  jetstream.PubAckFuture // its newest message to the work queue; nil: it has none
	number  uint64                 // that message's place in the queue; 0: it is not confirmed
	older   []uint64               // numbers of its messages before that
	damaged int                    // its messages that a trainer has found damaged
	taken   bool                   // a sum is with the coordinator
	waiting []*nats.Msg            // repeats, answered when that sum is
	parts   map[string][]*bus.Sum  // the chunks of sums that are not complete, by trainer
}

// join makes one result of all chunks of a sum and gives each client its control
// variate, whose digest it checks.
func (o *openJob) join(chunks []*bus.Sum, values int) (*bus.Result, error) {
	s := &bus.Result{Sum: chunks[0], Values: make([]int64, 0, values)}
	j := o.job
	var b []byte
	for _, c := range chunks {
		s.Values = vector.Append(s.Values, c.Values)
		b = append(b, c.Variates...)
	}
	s.Sum.Values = nil
	s.Sum.Variates = nil
	each := 4 * j.StateLength()
	switch {
	case len(b) == 0:
		return s, nil // the check against the job finds what is missing
	case !j.Method.Stateful() || len(s.Clients) != len(j.Clients) || len(b) != each*len(s.Clients):
		return nil, bus.Fault(
			"sum",
			"variates",
			fmt.Sprint(len(b), " bytes"),
			fmt.Sprintf("%d for each client of a job that has them", each),
		)
	}
	for i, c := range s.Clients {
		v := vector.Append(make([]float32, 0, j.StateLength()), b[i*each:(i+1)*each])
		if got := bus.DigestOf(v); got != bus.DigestFrom(c.VariateDigest) {
			return nil, fmt.Errorf(
				"bus: sum of job %d: the control variate of task %d arrived as %s, want %s",
				s.Job,
				c.Task,
				got,
				bus.DigestFrom(c.VariateDigest),
			)
		}
		s.ClientStates = append(s.ClientStates, v)
	}
	return s, nil
}

// errElsewhere answers a handle of another process.
var errElsewhere = errors.New("the sum is a handle, but its trainer shares no memory with the coordinator")

func newSumCollector(store *Store) *sumCollector {
	return &sumCollector{store: store, mailbox: mailbox.New[*bus.ReceivedSum](maxSumsHeld), jobs: map[uint64]*openJob{}}
}

// expect opens a job unless it is open, and tells whether the work queue has it:
// such a job need not be sent again when a connection was lost, as long as the
// stream is the same. A second copy would be harmless, but a trainer's work.
func (d *sumCollector) expect(j *bus.Job) (queued bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.jobs[j.Job]
	if o == nil {
		o = &openJob{parts: map[string][]*bus.Sum{}}
		d.jobs[j.Job] = o
	}
	o.job = j
	return d.confirmed(o)
}

// withJob calls f with an open job, if it is one, and holds the lock.
func (d *sumCollector) withJob(job uint64, f func(*openJob)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if o := d.jobs[job]; o != nil {
		f(o)
	}
}

// withNumber does so with the open job that has this as its newest number in the work queue.
func (d *sumCollector) withNumber(number uint64, f func(*openJob)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, o := range d.jobs {
		if d.confirmed(o) && o.number == number {
			f(o)
			return
		}
	}
}

func (d *sumCollector) sent(job uint64, f jetstream.PubAckFuture) {
	d.withJob(job, func(o *openJob) {
		if d.confirmed(o) {
			o.older = append(o.older, o.number)
		}
		o.future = f
		o.number = 0
	})
}

// unqueued are the open jobs that the work queue did not take. One that is on its way
// there is none of them.
func (d *sumCollector) unqueued() (list []*bus.Job) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, number := range slices.Sorted(maps.Keys(d.jobs)) {
		o := d.jobs[number]
		if o.future != nil && !d.confirmed(o) {
			select {
			case <-o.future.Err():
				o.future = nil
			default:
			}
		}
		if o.future == nil && o.number == 0 {
			list = append(list, o.job)
		}
	}
	return list
}

// queuedAs notes the number of a job in the work queue.
func (d *sumCollector) queuedAs(job, number uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = max(d.last, number)
	if o := d.jobs[job]; o != nil {
		o.number = number
	}
}

// numbers are those of an open job's messages in the queue, as far as known.
func (d *sumCollector) numbers(job uint64) (list []uint64) {
	d.withJob(job, func(o *openJob) {
		list = slices.Clone(o.older)
		if d.confirmed(o) {
			list = append(list, o.number)
		}
	})
	return list
}

// confirmed tells whether the work queue has a job. With the lock held.
func (d *sumCollector) confirmed(o *openJob) bool {
	if o.future != nil && o.number == 0 {
		select {
		case ack := <-o.future.Ok():
			o.number = ack.Sequence
			d.last = max(d.last, ack.Sequence)
		default:
		}
	}
	return o.number != 0
}

// queued counts the open jobs that the work queue has confirmed with a number up to
// most; last is the highest that it is known to have given.
func (d *sumCollector) queued(limit uint64) (jobs, last uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, o := range d.jobs {
		if d.confirmed(o) && o.number <= limit {
			jobs++
		}
	}
	return jobs, d.last
}

// forgetSent is for a work queue that is new.
func (d *sumCollector) forgetSent() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = 0
	for _, o := range d.jobs {
		o.future = nil
		o.number = 0
		o.older = nil
	}
}

// damaged is told of a message to the work queue that a trainer has thrown away, since
// it was damaged, and tells how often that was so with this job.
func (d *sumCollector) damaged(number uint64) (job uint64, times int) {
	d.withNumber(number, func(o *openJob) {
		o.future = nil
		o.number = 0
		o.damaged++
		job = o.job.Job
		times = o.damaged
	})
	return job, times
}

// any reports whether a job is open.
func (d *sumCollector) any() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.jobs) > 0
}

// TakeSum waits for the next sum.
func (c *Coordinator) TakeSum(ctx context.Context) (*bus.ReceivedSum, error) {
	s, err := c.sums.mailbox.TakeOne(ctx)
	if err != nil || c.hosts == nil {
		return s, err
	}
	accept := s.Accept
	s.Accept = func() {
		numbers := c.sums.numbers(s.Job)
		if len(numbers) == 1 {
			numbers = nil // its trainer takes it from the queue
		}
		c.hosts.jobs.Close(s.Job, s.Trainer, numbers)
		accept()
	}
	return s, nil
}

// onSum runs on the sums' subscription.
func (d *sumCollector) onSum(m *nats.Msg) {
	if natsconn.Relayed(m) {
		d.ignored.Add(1)
		return
	}
	s, status, reason := d.receive(m)
	if s != nil {
		d.mailbox.Put(s)
	} else if status != bus.Status_STATUS_UNSPECIFIED { // else it is answered later
		d.reply(m, status, reason)
	}
}

func (d *sumCollector) receive(m *nats.Msg) (s *bus.ReceivedSum, status bus.Status, reason string) {
	refuse := func(err error) (*bus.ReceivedSum, bus.Status, string) {
		return nil, bus.Refused, err.Error()
	}
	w := new(bus.Sum)
	if err := bus.UnmarshalSealed(m.Data, w); errors.Is(err, bus.ErrDamaged) {
		return nil, bus.SendAgain, err.Error()
	} else if err != nil {
		return refuse(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.jobs[w.Job]
	if o == nil {
		return nil, bus.Repeated, "the job is not open"
	}
	if !bytes.Equal(w.ModelDigest, o.job.ModelDigest) {
		return refuse((&bus.Result{Sum: w}).ValidateFor(o.job))
	}
	if o.taken {
		if len(o.waiting) >= maxAssemblies {
			return refuse(fmt.Errorf("bus: sum of job %d: %d others of it wait already", w.Job, len(o.waiting)))
		}
		o.waiting = append(o.waiting, m)
		return nil, bus.Status_STATUS_UNSPECIFIED, ""
	}
	complete, err := o.add(d.store, w)
	if errors.Is(err, errElsewhere) {
		return nil, bus.SendValues, err.Error()
	}
	if err != nil {
		return refuse(err)
	}
	if complete == nil {
		return nil, bus.Continue, ""
	}
	if err := complete.ValidateFor(o.job); err != nil {
		return refuse(err)
	}
	o.taken = true
	clear(o.parts)
	var once sync.Once
	return &bus.ReceivedSum{
		Result: complete,
		Accept: func() { once.Do(func() { d.settle(o, m, bus.Accepted, "") }) },
		Reject: func(reason string) { once.Do(func() { d.settle(o, m, bus.Refused, reason) }) },
	}, 0, ""
}

// add takes one message of a sum and returns the sum when it is complete.
func (o *openJob) add(store *Store, w *bus.Sum) (*bus.Result, error) {
	if h := w.Handle; h != nil {
		if string(h.Store) != string(store.id[:]) {
			return nil, errElsewhere
		}
		published, ok := store.sums.Load(h.Number)
		if !ok {
			return nil, fmt.Errorf("bus: sum of job %d: its handle %d is gone", w.Job, h.Number)
		}
		r := published.(*bus.Result)
		return &bus.Result{Sum: w, Values: r.Values, ClientStates: r.ClientStates}, nil
	}
	if int(w.Params) > o.job.SumLength() {
		return nil, bus.Fault("sum", "params", w.Params, fmt.Sprint("at most the job's, ", o.job.SumLength()))
	}
	chunks, started := o.parts[w.Trainer]
	if len(chunks) != int(w.Chunks) {
		if !started && w.Chunks > 1 && len(o.parts) >= maxAssemblies {
			return nil, fmt.Errorf("bus: sum of job %d: %d trainers send it in chunks already", w.Job, maxAssemblies)
		}
		chunks = make([]*bus.Sum, w.Chunks)
		o.parts[w.Trainer] = chunks
	}
	chunks[w.Chunk] = w
	values := 0
	stateBytes := 0
	for _, c := range chunks {
		values += len(c.GetValues()) / 8
		stateBytes += len(c.GetVariates())
	}
	if values > int(w.Params) {
		return nil, bus.Fault(
			"sum",
			"chunks",
			fmt.Sprint(8*values, " bytes"),
			fmt.Sprintf("8 for each of %d params", w.Params),
		)
	}
	if limit := 4 * o.job.StateLength() * len(o.job.Clients); stateBytes > limit {
		return nil, bus.Fault("sum", "variates", fmt.Sprint(stateBytes, " bytes"), fmt.Sprint("at most ", limit))
	}
	if slices.Contains(chunks, nil) {
		return nil, nil
	}
	delete(o.parts, w.Trainer)
	return o.join(chunks, values)
}

// settle answers a sum that was with the coordinator, and its repeats. The job of
// one that is accepted is closed; else it stays open.
func (d *sumCollector) settle(o *openJob, m *nats.Msg, status bus.Status, reason string) {
	d.mu.Lock()
	waiting := o.waiting
	repeatStatus := status
	o.taken = false
	o.waiting = nil
	if status == bus.Accepted {
		repeatStatus = bus.Repeated
		d.confirmed(o) // the queue's last number counts on
		delete(d.jobs, o.job.Job)
	}
	d.mu.Unlock()
	d.reply(m, status, reason)
	for _, m := range waiting {
		d.reply(m, repeatStatus, reason)
	}
}

// reply replies to a sum. A trainer that gets no reply sends its sum again.
func (d *sumCollector) reply(m *nats.Msg, v bus.Status, reason string) {
	if v == bus.Refused || v == bus.Repeated || v == bus.SendAgain {
		d.ignored.Add(1)
	}
	if m.Reply == "" {
		return
	}
	b, err := bus.MarshalSealed(&bus.SumReply{Status: v, Reason: bus.ValidText(reason)})
	if err == nil {
		_ = m.Respond(b) // a closed connection has its own handler
	}
}
