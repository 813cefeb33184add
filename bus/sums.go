package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"fedpace/bus/wire"
)

// sumDesk receives sums: it puts chunks together, checks a sum against its job
// and makes sure that each job's sum is handed on once.
type sumDesk struct {
	store   *Store // of handles; nil: none are understood
	inbox   *inbox[*ReceivedSum]
	ignored atomic.Int64

	mu   sync.Mutex
	jobs map[uint64]*openJob
	took []*ReceivedSum // a batch of the inbox, handed out one by one
}

// openJob is a job whose sum has not been accepted.
type openJob struct {
	job     *Job
	taken   bool                 // a sum is with the coordinator
	waiting []*nats.Msg          // repeats, answered when that sum is
	parts   map[string]*assembly // by trainer
}

// assembly is a sum that has arrived in part.
type assembly struct {
	chunks  int
	missing int
	pieces  [][]byte
	head    *Sum
}

// errElsewhere answers a handle of another process.
var errElsewhere = errors.New("the sum is a handle, but its trainer shares no memory with the coordinator")

// ReceivedSum is the sum of an open job. Values may be read until Accept or
// Reject, exactly one of which must be called; a second call does nothing.
type ReceivedSum struct {
	*Sum
	Of      *Job   // as given to SendJob
	Trainer string // who did it; for people

	desk  *sumDesk
	reply *nats.Msg
	once  sync.Once
}

func newSumDesk(store *Store) *sumDesk {
	return &sumDesk{store: store, inbox: newInbox[*ReceivedSum](maxSumsHeld), jobs: map[uint64]*openJob{}}
}

// expect opens a job; one that is open stays as it is.
func (d *sumDesk) expect(j *Job) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if o := d.jobs[j.Job]; o != nil {
		o.job = j
		return
	}
	d.jobs[j.Job] = &openJob{job: j}
}

func (d *sumDesk) open(job uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.jobs[job] != nil
}

func (d *sumDesk) opened() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.jobs)
}

func (d *sumDesk) take(ctx context.Context) (*ReceivedSum, error) {
	d.mu.Lock()
	if n := len(d.took); n > 0 {
		s := d.took[0]
		d.took = d.took[1:]
		d.mu.Unlock()
		return s, nil
	}
	d.mu.Unlock()
	batch, err := d.inbox.take(ctx, nil)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.took = append(d.took, batch[1:]...)
	return batch[0], nil
}

// onSum runs on the sums' subscription.
func (d *sumDesk) onSum(m *nats.Msg) {
	s, verdict, reason := d.receive(m)
	if s != nil {
		d.inbox.put(s)
		return
	}
	if verdict == wire.Verdict_VERDICT_UNSPECIFIED {
		return // answered later
	}
	if verdict == wire.Verdict_VERDICT_REFUSED || verdict == wire.Verdict_VERDICT_REPEATED {
		d.ignored.Add(1)
	}
	answer(m, verdict, reason)
}

func (d *sumDesk) receive(m *nats.Msg) (s *ReceivedSum, verdict wire.Verdict, reason string) {
	refuse := func(err error) (*ReceivedSum, wire.Verdict, string) {
		return nil, wire.Verdict_VERDICT_REFUSED, err.Error()
	}
	w, head, err := decodeSum(m.Data)
	if err != nil {
		return refuse(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.jobs[head.Job]
	if o == nil {
		return nil, wire.Verdict_VERDICT_REPEATED, "the job is not open"
	}
	if head.Model != o.job.Model {
		return refuse(o.job.answers(head))
	}
	if o.taken {
		if len(o.waiting) >= maxAssemblies {
			return refuse(fmt.Errorf("bus: sum of job %d: %d others of it wait already", head.Job, len(o.waiting)))
		}
		o.waiting = append(o.waiting, m)
		return nil, wire.Verdict_VERDICT_UNSPECIFIED, ""
	}
	whole, err := o.add(d.store, w, head)
	if errors.Is(err, errElsewhere) {
		return nil, wire.Verdict_VERDICT_SEND_VALUES, err.Error()
	}
	if err != nil {
		return refuse(err)
	}
	if whole == nil {
		return nil, wire.Verdict_VERDICT_CONTINUE, ""
	}
	if err := o.job.answers(whole); err != nil {
		return refuse(err)
	}
	o.taken, o.parts = true, nil
	return &ReceivedSum{Sum: whole, Of: o.job, Trainer: w.Trainer, desk: d, reply: m}, 0, ""
}

// add takes one message of a sum and returns the sum when it is complete.
func (o *openJob) add(store *Store, w *wire.Sum, head *Sum) (*Sum, error) {
	if h := w.Handle; h != nil {
		if store == nil || string(h.Store) != string(store.id[:]) {
			return nil, errElsewhere
		}
		values, ok := store.sum(h.Number)
		if !ok {
			return nil, fmt.Errorf("bus: sum of job %d: its handle %d is gone", w.Job, h.Number)
		}
		head.Values = values
		return head, nil
	}
	if int(w.Params) > o.job.Params {
		return nil, &fault{"sum", "params", w.Params, fmt.Sprint("at most the job's, ", o.job.Params)}
	}
	if w.Chunks == 1 {
		head.Values = appendWords(make([]int64, 0, len(w.Values)/8), w.Values)
		return head, nil
	}
	a := o.parts[w.Trainer]
	if a == nil || a.chunks != int(w.Chunks) {
		if o.parts == nil {
			o.parts = map[string]*assembly{}
		}
		if a == nil && len(o.parts) >= maxAssemblies {
			return nil, fmt.Errorf("bus: sum of job %d: %d trainers send it in chunks already", w.Job, maxAssemblies)
		}
		a = &assembly{chunks: int(w.Chunks), missing: int(w.Chunks), pieces: make([][]byte, w.Chunks)}
		o.parts[w.Trainer] = a
	}
	if a.pieces[w.Chunk] == nil {
		a.missing--
	}
	if a.pieces[w.Chunk] = w.Values; w.Values == nil {
		a.pieces[w.Chunk] = []byte{}
	}
	if w.Chunk == 0 {
		a.head = head
	}
	total := 0
	for _, p := range a.pieces {
		total += len(p)
	}
	if total/8 > int(w.Params) {
		return nil, &fault{"sum", "chunks", fmt.Sprint(total, " bytes"), fmt.Sprintf("8 for each of %d params", w.Params)}
	}
	if a.missing > 0 {
		return nil, nil
	}
	a.head.Values = make([]int64, 0, total/8)
	for _, p := range a.pieces {
		a.head.Values = appendWords(a.head.Values, p)
	}
	delete(o.parts, w.Trainer)
	return a.head, nil
}

// Accept closes the job and lets the trainer acknowledge it. Values belong to
// the trainer again.
func (s *ReceivedSum) Accept() {
	s.once.Do(func() {
		s.desk.mu.Lock()
		o := s.desk.jobs[s.Job]
		delete(s.desk.jobs, s.Job)
		s.desk.mu.Unlock()
		answer(s.reply, wire.Verdict_VERDICT_ACCEPTED, "")
		for _, m := range o.waiting {
			s.desk.ignored.Add(1)
			answer(m, wire.Verdict_VERDICT_REPEATED, "")
		}
	})
}

// Reject leaves the job open and tells the trainer why its sum will not do.
func (s *ReceivedSum) Reject(reason string) {
	s.once.Do(func() {
		s.desk.mu.Lock()
		o := s.desk.jobs[s.Job]
		waiting := o.waiting
		o.taken, o.waiting = false, nil
		s.desk.mu.Unlock()
		s.desk.ignored.Add(1)
		for _, m := range append(waiting, s.reply) {
			answer(m, wire.Verdict_VERDICT_REFUSED, reason)
		}
	})
}

// answer replies to a sum. A trainer that gets no reply sends its sum again.
func answer(m *nats.Msg, v wire.Verdict, reason string) {
	if m.Reply == "" {
		return
	}
	b, err := marshal(nil, &wire.SumReply{Verdict: v, Reason: validText(reason)})
	if err == nil {
		_ = m.Respond(b) // a closed connection has its own handler
	}
}
