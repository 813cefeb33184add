package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"fedpace/bus/internal/mailbox"
)

// sumDesk receives sums: it puts chunks together, checks a sum against its job
// and makes sure that each job's sum is handed on once.
type sumDesk struct {
	store   *Store // of handles; nil: none are understood
	inbox   *mailbox.Mailbox[*ReceivedSum]
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
	pieces  []*Sum // values and variates
	head    *Result
}

// whole joins the pieces.
func (a *assembly) whole(j *Job) (*Result, error) {
	var variates []byte
	for _, p := range a.pieces {
		a.head.Values = AppendSums(a.head.Values, p.Values)
		variates = append(variates, p.Variates...)
	}
	a.head.Sum.Values, a.head.Sum.Variates = nil, nil
	return a.head, a.head.cutVariates(j, variates)
}

// cutVariates gives each client its own and checks them, as models are.
func (s *Result) cutVariates(j *Job, b []byte) error {
	each := 4 * int(j.Params)
	if !j.Method.GetVariates() || len(s.Clients) != len(j.Clients) || len(b) != each*len(s.Clients) {
		if len(b) > 0 {
			return &fault{"sum", "variates", fmt.Sprint(len(b), " bytes"), fmt.Sprintf("%d for each client of a job that has them", each)}
		}
		return nil // what is missing, the check against the job says
	}
	for i, c := range s.Clients {
		v := AppendFloats(make([]float32, 0, j.Params), b[i*each:(i+1)*each])
		if got := DigestOf(v); got != DigestFrom(c.VariateDigest) {
			return fmt.Errorf("bus: sum of job %d: the control variate of task %d arrived as %s, want %s", s.Job, c.Task, got, DigestFrom(c.VariateDigest))
		}
		s.Variates = append(s.Variates, v)
	}
	return nil
}

// errElsewhere answers a handle of another process.
var errElsewhere = errors.New("the sum is a handle, but its trainer shares no memory with the coordinator")

// sumAnswer answers one sum, once.
type sumAnswer struct {
	desk  *sumDesk
	job   uint64
	reply *nats.Msg
	once  sync.Once
}

func newSumDesk(store *Store) *sumDesk {
	return &sumDesk{store: store, inbox: mailbox.New[*ReceivedSum](maxSumsHeld), jobs: map[uint64]*openJob{}}
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
	batch, err := d.inbox.Take(ctx, nil)
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
	if Relayed(m) {
		d.ignored.Add(1)
		return
	}
	s, verdict, reason := d.receive(m)
	if s != nil {
		d.inbox.Put(s)
		return
	}
	if verdict == Verdict_VERDICT_UNSPECIFIED {
		return // answered later
	}
	if verdict == Refused || verdict == Repeated {
		d.ignored.Add(1)
	}
	answer(m, verdict, reason)
}

func (d *sumDesk) receive(m *nats.Msg) (s *ReceivedSum, verdict Verdict, reason string) {
	refuse := func(err error) (*ReceivedSum, Verdict, string) {
		return nil, Refused, err.Error()
	}
	w := new(Sum)
	if err := Unmarshal(m.Data, w); err != nil {
		return refuse(err)
	}
	head := &Result{Sum: w}
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.jobs[head.Job]
	if o == nil {
		return nil, Repeated, "the job is not open"
	}
	if !bytes.Equal(w.ModelDigest, o.job.ModelDigest) {
		return refuse(head.ValidateFor(o.job))
	}
	if o.taken {
		if len(o.waiting) >= maxAssemblies {
			return refuse(fmt.Errorf("bus: sum of job %d: %d others of it wait already", head.Job, len(o.waiting)))
		}
		o.waiting = append(o.waiting, m)
		return nil, Verdict_VERDICT_UNSPECIFIED, ""
	}
	whole, err := o.add(d.store, w, head)
	if errors.Is(err, errElsewhere) {
		return nil, SendValues, err.Error()
	}
	if err != nil {
		return refuse(err)
	}
	if whole == nil {
		return nil, Continue, ""
	}
	if err := whole.ValidateFor(o.job); err != nil {
		return refuse(err)
	}
	o.taken, o.parts = true, nil
	a := &sumAnswer{desk: d, job: w.Job, reply: m}
	return &ReceivedSum{Result: whole, Of: o.job, Accept: a.accept, Reject: a.reject}, 0, ""
}

// add takes one message of a sum and returns the sum when it is complete.
func (o *openJob) add(store *Store, w *Sum, head *Result) (*Result, error) {
	if h := w.Handle; h != nil {
		if store == nil || string(h.Store) != string(store.id[:]) {
			return nil, errElsewhere
		}
		lent, ok := store.sum(h.Number)
		if !ok {
			return nil, fmt.Errorf("bus: sum of job %d: its handle %d is gone", w.Job, h.Number)
		}
		head.Values, head.Variates = lent.values, lent.variates
		return head, nil
	}
	if int(w.Params) > o.job.SumLength() {
		return nil, &fault{"sum", "params", w.Params, fmt.Sprint("at most the job's, ", o.job.SumLength())}
	}
	if w.Chunks == 1 {
		values, variates := w.Values, w.Variates
		w.Values, w.Variates = nil, nil
		head.Values = AppendSums(make([]int64, 0, len(values)/8), values)
		return head, head.cutVariates(o.job, variates)
	}
	a := o.parts[w.Trainer]
	if a == nil || a.chunks != int(w.Chunks) {
		if o.parts == nil {
			o.parts = map[string]*assembly{}
		}
		if a == nil && len(o.parts) >= maxAssemblies {
			return nil, fmt.Errorf("bus: sum of job %d: %d trainers send it in chunks already", w.Job, maxAssemblies)
		}
		a = &assembly{chunks: int(w.Chunks), missing: int(w.Chunks), pieces: make([]*Sum, w.Chunks)}
		o.parts[w.Trainer] = a
	}
	if a.pieces[w.Chunk] == nil {
		a.missing--
	}
	a.pieces[w.Chunk] = w
	if w.Chunk == 0 {
		a.head = head
	}
	total, variates := 0, 0
	for _, p := range a.pieces {
		total += len(p.GetValues())
		variates += len(p.GetVariates())
	}
	if total/8 > int(w.Params) {
		return nil, &fault{"sum", "chunks", fmt.Sprint(total, " bytes"), fmt.Sprintf("8 for each of %d params", w.Params)}
	}
	if most := 4 * int(o.job.Params) * len(o.job.Clients); variates > most {
		return nil, &fault{"sum", "variates", fmt.Sprint(variates, " bytes"), fmt.Sprint("at most ", most)}
	}
	if a.missing > 0 {
		return nil, nil
	}
	delete(o.parts, w.Trainer)
	a.head.Values = make([]int64, 0, total/8)
	return a.whole(o.job)
}

// accept closes the job and lets the trainer acknowledge it.
func (s *sumAnswer) accept() {
	s.once.Do(func() {
		s.desk.mu.Lock()
		o := s.desk.jobs[s.job]
		delete(s.desk.jobs, s.job)
		s.desk.mu.Unlock()
		answer(s.reply, Accepted, "")
		for _, m := range o.waiting {
			s.desk.ignored.Add(1)
			answer(m, Repeated, "")
		}
	})
}

// reject leaves the job open and tells the trainer why its sum will not do.
func (s *sumAnswer) reject(reason string) {
	s.once.Do(func() {
		s.desk.mu.Lock()
		o := s.desk.jobs[s.job]
		waiting := o.waiting
		o.taken, o.waiting = false, nil
		s.desk.mu.Unlock()
		s.desk.ignored.Add(1)
		for _, m := range append(waiting, s.reply) {
			answer(m, Refused, reason)
		}
	})
}

// answer replies to a sum. A trainer that gets no reply sends its sum again.
func answer(m *nats.Msg, v Verdict, reason string) {
	if m.Reply == "" {
		return
	}
	b, err := Marshal(nil, &SumReply{Verdict: v, Reason: ValidText(reason)})
	if err == nil {
		_ = m.Respond(b) // a closed connection has its own handler
	}
}
