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

// sumCollector receives the sums of trainers for the coordinator: it joins chunks, checks a sum
// against its job, and hands on one sum for each job, however often it is sent. It also knows under
// which number each open job stands in the work queue.
type sumCollector struct {
	// store has the sums that hosts of this process publish.
	store   *Store
	mailbox *mailbox.Mailbox[*bus.ReceivedSum]
	ignored atomic.Int64
	// hearFence is called with the fencing token of each sum; nil before the lease is acquired.
	hearFence func(token uint64)

	mu sync.Mutex
	// jobs are the open jobs, by their numbers.
	jobs map[uint64]*openJob
	// lastQueueNumber is the highest number that the work queue is known to have given to a message.
	lastQueueNumber uint64
	// spare is memory for the values of sums, which the coordinator reads until it has decided on them.
	spare [][]int64
}

// These bound the memory that sums take.
const (
	// maxAssemblies is how many trainers may send chunks of one job at a time.
	maxAssemblies = 16
	// maxSumsHeld is how many sums may wait for TakeSum.
	maxSumsHeld = 1 << 12
	// maxSpare is for how many sums memory is kept that is not in use.
	maxSpare = 4
)

// openJob is a job whose sum has not been accepted yet. If confirmation is nil and queueNumber is 0, no message of
// the job is in the queue or under way to it, so it must be sent again.
type openJob struct {
	job *bus.Job
	// confirmation will be the work queue's confirmation of the job's newest message; nil if no
	// confirmation is expected.
	confirmation jetstream.PubAckFuture
	// queueNumber is the number that the work queue has given to the job's newest message; 0 until the queue has
	// confirmed that message.
	queueNumber uint64
	// olderQueueNumbers are those of the job's earlier messages, which must be removed from the queue like the newest
	// one.
	olderQueueNumbers []uint64
	// damagedCount is how many of the job's messages a trainer found damaged.
	damagedCount int
	// awaitsDecision says that a complete sum waits for the coordinator's decision.
	awaitsDecision bool
	// repeats are repeats of that sum, which are answered together with it.
	repeats []*nats.Msg
	// chunksByTrainer are the chunks of incomplete sums, in the order of the sum, by the trainer that sends them. A
	// chunk that has not arrived is nil.
	chunksByTrainer map[string][]*bus.Sum
	// joinedValues are the values of the sum that waits for the decision, if they came in chunks.
	joinedValues []int64
}

// unqueue notes that the job's newest message is not in the queue any more.
func (o *openJob) unqueue() {
	o.confirmation = nil
	o.queueNumber = 0
}

// joinChunks makes one result of all chunks of a sum, whose values it writes to the memory given. The first chunk
// has the clients with their losses, and becomes the result's Sum. Each chunk has a part of the values, of the
// clients' states (Variates) and of their buffers, which are divided among the clients.
func (o *openJob) joinChunks(chunks []*bus.Sum, memory []int64) (*bus.Result, error) {
	s := &bus.Result{Sum: chunks[0], Values: memory}
	var states, buffers []byte
	// Each chunk continues the lists where the one before ended.
	for _, c := range chunks {
		s.Values = vector.Append(s.Values, c.Values)
		states = append(states, c.Variates...)
		buffers = append(buffers, c.Buffers...)
	}
	// The whole lists stand in the result, so the first chunk's parts are dropped.
	s.Sum.Values = nil
	s.Sum.Variates = nil
	s.Sum.Buffers = nil
	var err error
	s.Buffers, err = o.divideBuffers(s.Clients, buffers)
	if err != nil {
		return nil, err
	}
	s.ClientStates, err = o.divideStates(s.Sum, states)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// divideStates divides bytes, the float32 values of all clients' states in a row, among the clients of a sum:
// each state has the length that the job says, and must have the digest that its client gave. Without bytes
// it returns nil; if states are missing, the comparison of the sum with its job finds it.
func (o *openJob) divideStates(s *bus.Sum, bytes []byte) (states [][]float32, err error) {
	if len(bytes) == 0 {
		return nil, nil
	}
	j := o.job
	// A parameter of a state has 4 bytes.
	bytesEach := 4 * j.StateLength()
	hasAllClients := len(s.Clients) == len(j.Clients)
	if !j.Method.Stateful() || !hasAllClients || len(bytes) != bytesEach*len(s.Clients) {
		return nil, bus.Fault(
			"sum",
			"variates",
			fmt.Sprint(len(bytes), " bytes"),
			fmt.Sprintf("%d for each client of a job that has them", bytesEach),
		)
	}
	for i, c := range s.Clients {
		state := vector.Append(make([]float32, 0, j.StateLength()), bytes[i*bytesEach:(i+1)*bytesEach])
		if got := bus.DigestOf(state); got != bus.DigestFrom(c.VariateDigest) {
			return nil, fmt.Errorf(
				"bus: sum of job %d: the client state of task %d arrived as %s, want %s",
				s.Job,
				c.Task,
				got,
				bus.DigestFrom(c.VariateDigest),
			)
		}
		states = append(states, state)
	}
	return states, nil
}

// divideBuffers divides bytes, the float32 values of all clients' buffers in a row, among the clients
// by their BufferCount. It returns nil for a job without buffers, and an error if the counts do not
// add up to the length of bytes.
func (o *openJob) divideBuffers(clients []*bus.ClientLoss, bytes []byte) (buffers [][]float32, err error) {
	total := 0
	// Each value of a buffer has 4 bytes.
	for _, c := range clients {
		total += 4 * int(c.BufferCount)
	}
	if total != len(bytes) {
		return nil, bus.Fault(
			"sum",
			"buffers",
			fmt.Sprint(len(bytes), " bytes"),
			fmt.Sprintf("%d, as its clients' lengths say", total),
		)
	}
	if o.job.Buffers == 0 {
		return nil, nil
	}
	for _, c := range clients {
		size := 4 * int(c.BufferCount)
		buffers = append(buffers, vector.Append[float32](nil, bytes[:size]))
		bytes = bytes[size:]
	}
	return buffers, nil
}

// errElsewhere is the error of a handle from another process, whose trainer must send the values
// instead.
var errElsewhere = errors.New("the sum is a handle, but its trainer shares no memory with the coordinator")

// newSumCollector makes a collector without open jobs. store is that of the coordinator's
// connection.
func newSumCollector(store *Store) *sumCollector {
	return &sumCollector{store: store, mailbox: mailbox.New[*bus.ReceivedSum](maxSumsHeld), jobs: map[uint64]*openJob{}}
}

// openOrFind opens a job unless it is open. It returns true if the work queue has confirmed a message of the job,
// which then need not be sent again: a second copy would be harmless, but would cost a trainer's time.
func (d *sumCollector) openOrFind(j *bus.Job) (queued bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.jobs[j.Job]
	if o == nil {
		o = &openJob{chunksByTrainer: map[string][]*bus.Sum{}}
		d.jobs[j.Job] = o
	}
	o.job = j
	return d.noteConfirmation(o)
}

// withJob calls f with an open job while the lock is held. It does nothing if the job is not open.
func (d *sumCollector) withJob(job uint64, f func(*openJob)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if o := d.jobs[job]; o != nil {
		f(o)
	}
}

// job returns an open job by its number, or nil if the job is not open.
func (d *sumCollector) job(number uint64) (j *bus.Job) {
	d.withJob(number, func(o *openJob) { j = o.job })
	return j
}

// withQueueNumber calls f, while the lock is held, with the open job whose newest message has this number in the work
// queue. It does nothing if there is no such job.
func (d *sumCollector) withQueueNumber(number uint64, f func(*openJob)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, o := range d.jobs {
		if d.noteConfirmation(o) && o.queueNumber == number {
			f(o)
			return
		}
	}
}

// noteSent notes that a job was sent to the work queue in a new message, which the queue will confirm by f. A job that
// is sent again may have earlier messages in the queue.
func (d *sumCollector) noteSent(job uint64, f jetstream.PubAckFuture) {
	d.withJob(job, func(o *openJob) {
		// noteConfirmation has set o.queueNumber to that of the message before.
		if d.noteConfirmation(o) {
			o.olderQueueNumbers = append(o.olderQueueNumbers, o.queueNumber)
		}
		o.confirmation = f
		o.queueNumber = 0
	})
}

// listUnqueued lists, in the order of their numbers, the open jobs that must be sent to the work queue again, because
// it has refused or lost their newest message. Jobs whose message is still under way are not among them.
func (d *sumCollector) listUnqueued() (list []*bus.Job) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, number := range slices.Sorted(maps.Keys(d.jobs)) {
		o := d.jobs[number]
		if o.confirmation != nil && !d.noteConfirmation(o) {
			select {
			// The queue has refused the message.
			case <-o.confirmation.Err():
				o.unqueue()
			default:
			}
		}
		isUnqueued := o.confirmation == nil && o.queueNumber == 0
		if isUnqueued {
			list = append(list, o.job)
		}
	}
	return list
}

// noteQueued notes that the work queue has confirmed a message of a job: job is the number of the job,
// and number the one that the queue has given to the message. If the job is not open any more, only
// the queue's highest number is noted.
func (d *sumCollector) noteQueued(job, number uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lastQueueNumber = max(d.lastQueueNumber, number)
	if o := d.jobs[job]; o != nil {
		o.queueNumber = number
	}
}

// queueNumbers returns the numbers of all messages of an open job in the work queue, as far as they are confirmed.
func (d *sumCollector) queueNumbers(job uint64) (list []uint64) {
	d.withJob(job, func(o *openJob) {
		list = slices.Clone(o.olderQueueNumbers)
		if d.noteConfirmation(o) {
			list = append(list, o.queueNumber)
		}
	})
	return list
}

// noteConfirmation sets o.queueNumber if the work queue has confirmed the job's newest message by now, and reports
// whether it has. It does not wait. The caller holds the lock.
func (d *sumCollector) noteConfirmation(o *openJob) bool {
	if o.confirmation != nil && o.queueNumber == 0 {
		select {
		case ack := <-o.confirmation.Ok():
			o.queueNumber = ack.Sequence
			d.lastQueueNumber = max(d.lastQueueNumber, ack.Sequence)
		default:
		}
	}
	return o.queueNumber != 0
}

// countQueued returns how many open jobs have a message in the work queue, confirmed and with a number up to limit,
// and the highest number that the queue is known to have given. The queue must hold at least that many messages and
// have given that number, or it has lost some (see probeStream).
func (d *sumCollector) countQueued(limit uint64) (jobs, last uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, o := range d.jobs {
		if d.noteConfirmation(o) && o.queueNumber <= limit {
			jobs++
		}
	}
	return jobs, d.lastQueueNumber
}

// forgetSent forgets under which numbers jobs are in the work queue, because the queue was made
// again: it is empty and counts from 1. All open jobs then count as not queued.
func (d *sumCollector) forgetSent() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lastQueueNumber = 0
	for _, o := range d.jobs {
		o.unqueue()
		o.olderQueueNumbers = nil
	}
}

// noteUnqueued notes that the message with this number is not in the queue any more, although its job is open.
func (d *sumCollector) noteUnqueued(number uint64) { d.withQueueNumber(number, (*openJob).unqueue) }

// unqueueDamaged notes that a host has terminated the message with this number in the queue, because it arrived
// damaged. The message's job then counts as not queued, so it will be sent again. It returns the number of that
// job and how often this has happened to it; both are 0 if the message is of no open job.
func (d *sumCollector) unqueueDamaged(number uint64) (job uint64, times int) {
	d.withQueueNumber(number, func(o *openJob) {
		o.unqueue()
		o.damagedCount++
		job = o.job.Job
		times = o.damagedCount
	})
	return job, times
}

// TakeSum waits for the next sum. When the sum is accepted, the job's other messages are removed from the
// queue; where there is only one, its trainer acknowledges it, which removes it.
func (c *Coordinator) TakeSum(ctx context.Context) (*bus.ReceivedSum, error) {
	s, err := c.sums.mailbox.TakeOne(ctx)
	if err != nil || c.hosts == nil {
		return s, err
	}
	accept := s.Accept
	s.Accept = func() {
		numbers := c.sums.queueNumbers(s.Job)
		// The trainer's own acknowledgement removes the only message.
		if len(numbers) == 1 {
			numbers = nil
		}
		c.hosts.jobs.NoteAccepted(s.Job, s.Trainer, numbers)
		accept()
	}
	return s, nil
}

// onSum handles one message of a sum. A message that completes a sum puts it into the mailbox, and settle answers it
// later, as it does a repeat of such a sum. A misdirected message (natsconn.IsMisdirected) is ignored, and every
// other message is answered at once.
func (d *sumCollector) onSum(m *nats.Msg) {
	if natsconn.IsMisdirected(m) {
		d.ignored.Add(1)
		return
	}
	s, status, reason := d.receive(m)
	switch {
	case s != nil:
		d.mailbox.Put(s)
	case status != answerLater:
		d.reply(m, status, reason)
	}
}

// answerLater stands for the status of a message that settle answers.
const answerLater = bus.Status_STATUS_UNSPECIFIED

// receive takes one message of a sum, which a trainer sends in one message or in chunks. It returns the sum if
// the message completes it and it fits its job: the coordinator then accepts or rejects it, which answers the
// message. Otherwise s is nil, and status and reason are the answer to the message, or answerLater.
func (d *sumCollector) receive(m *nats.Msg) (s *bus.ReceivedSum, status bus.Status, reason string) {
	refuse := func(err error) (*bus.ReceivedSum, bus.Status, string) {
		return nil, bus.Refused, err.Error()
	}
	message := new(bus.Sum)
	err := bus.UnmarshalSealedSum(m.Data, message)
	if errors.Is(err, bus.ErrDamaged) {
		return nil, bus.SendAgain, err.Error()
	}
	if err != nil {
		return refuse(err)
	}
	if d.hearFence != nil {
		d.hearFence(message.Fence)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.jobs[message.Job]
	if o == nil {
		return nil, bus.Repeated, "the job is not open"
	}
	// A sum that started from another model is of an earlier attempt, and is refused with the
	// reason.
	if !bytes.Equal(message.ModelDigest, o.job.ModelDigest) {
		return refuse((&bus.Result{Sum: message}).ValidateFor(o.job))
	}
	// Another trainer has done the job, too. Its sum waits for the decision about the first.
	if o.awaitsDecision {
		if len(o.repeats) >= maxAssemblies {
			return refuse(fmt.Errorf("bus: sum of job %d: %d others of it wait already", message.Job, len(o.repeats)))
		}
		o.repeats = append(o.repeats, m)
		return nil, answerLater, ""
	}
	complete, err := d.addMessage(o, message)
	if errors.Is(err, errElsewhere) {
		return nil, bus.SendValues, err.Error()
	}
	if err != nil {
		return refuse(err)
	}
	// Further chunks are needed.
	if complete == nil {
		return nil, bus.Continue, ""
	}
	if err := complete.ValidateFor(o.job); err != nil {
		return refuse(err)
	}
	o.awaitsDecision = true
	// The chunks of all trainers are dropped, since the job has its sum.
	clear(o.chunksByTrainer)
	// Memory in which chunks were joined is used again for the next sum. The values that a handle stands for are the
	// trainer's own memory, which is not used again.
	o.joinedValues = nil
	if message.Handle == nil {
		o.joinedValues = complete.Values
	}
	return d.withDecision(o, complete, m), answerLater, ""
}

// withDecision returns a complete sum of job o for the coordinator, with the functions Accept and Reject by which the
// coordinator decides on it. The decision answers m, the message that completed the sum. Only the first decision
// counts.
func (d *sumCollector) withDecision(o *openJob, complete *bus.Result, m *nats.Msg) *bus.ReceivedSum {
	var once sync.Once
	return &bus.ReceivedSum{
		Result: complete,
		Accept: func() { once.Do(func() { d.settle(o, m, bus.Accepted, "") }) },
		Reject: func(reason string) { once.Do(func() { d.settle(o, m, bus.Refused, reason) }) },
	}
}

// addMessage takes one message of a sum of job o, which is the whole sum or one of its chunks. It returns the sum
// when it is complete, and nil before. Chunks may arrive in any order and repeatedly. A message with a handle, from a
// trainer in this process, is a whole sum, whose values are in the shared store. The caller holds the lock.
func (d *sumCollector) addMessage(o *openJob, message *bus.Sum) (*bus.Result, error) {
	// The trainer is in this process and sends no values.
	if message.Handle != nil {
		return o.addHandle(d.store, message)
	}
	if int(message.Params) > o.job.SumLength() {
		return nil, bus.Fault("sum", "params", message.Params, fmt.Sprint("at most the job's, ", o.job.SumLength()))
	}
	chunks, started := o.chunksByTrainer[message.Trainer]
	// A trainer that divides the sum otherwise than before has started over.
	if len(chunks) != int(message.Chunks) {
		if !started && message.Chunks > 1 && len(o.chunksByTrainer) >= maxAssemblies {
			return nil, fmt.Errorf(
				"bus: sum of job %d: %d trainers send it in chunks already",
				message.Job,
				maxAssemblies,
			)
		}
		chunks = make([]*bus.Sum, message.Chunks)
		o.chunksByTrainer[message.Trainer] = chunks
	}
	chunks[message.Chunk] = message
	values, err := o.checkSizes(chunks, int(message.Params))
	if err != nil {
		return nil, err
	}
	// Some chunks have not arrived yet.
	if slices.Contains(chunks, nil) {
		return nil, nil
	}
	delete(o.chunksByTrainer, message.Trainer)
	return o.joinChunks(chunks, d.spareMemory(values))
}

// checkSizes returns the number of values in the chunks of a sum that have arrived, the others being nil. It is
// an error if they are more than params, which the trainer says that the sum has, or if the chunks have
// more bytes of client states or of buffers than the clients of the job can have.
func (o *openJob) checkSizes(chunks []*bus.Sum, params int) (values int, err error) {
	stateBytes := 0
	bufferBytes := 0
	for _, c := range chunks {
		// A value has 8 bytes.
		values += len(c.GetValues()) / 8
		stateBytes += len(c.GetVariates())
		bufferBytes += len(c.GetBuffers())
	}
	if values > params {
		return 0, bus.Fault(
			"sum",
			"chunks",
			fmt.Sprint(8*values, " bytes"),
			fmt.Sprintf("8 for each of %d params", params),
		)
	}
	// A number of a state or of a buffer has 4 bytes.
	if limit := 4 * o.job.StateLength() * len(o.job.Clients); stateBytes > limit {
		return 0, bus.Fault("sum", "variates", fmt.Sprint(stateBytes, " bytes"), fmt.Sprint("at most ", limit))
	}
	if limit := 4 * int(o.job.Buffers) * len(o.job.Clients); bufferBytes > limit {
		return 0, bus.Fault("sum", "buffers", fmt.Sprint(bufferBytes, " bytes"), fmt.Sprint("at most ", limit))
	}
	return values, nil
}

// spareMemory returns room for n values, which a sum that was decided on may have used before. The caller holds
// the lock.
func (d *sumCollector) spareMemory(n int) []int64 {
	last := len(d.spare) - 1
	if last < 0 || cap(d.spare[last]) < n {
		return make([]int64, 0, n)
	}
	memory := d.spare[last][:0]
	d.spare = d.spare[:last]
	return memory
}

// addHandle returns a sum whose message has a handle in the place of the values: the number under which its trainer
// has put the result into a store in memory. If the trainer is in another process, the store is not this one, and the
// error is errElsewhere.
func (o *openJob) addHandle(store *Store, message *bus.Sum) (*bus.Result, error) {
	if string(message.Handle.Store) != string(store.id[:]) {
		return nil, errElsewhere
	}
	published, ok := store.sums.Load(message.Handle.Number)
	if !ok {
		return nil, fmt.Errorf("bus: sum of job %d: its handle %d is gone", message.Job, message.Handle.Number)
	}
	r := published.(*bus.Result)
	return &bus.Result{Sum: message, Values: r.Values, ClientStates: r.ClientStates, Buffers: r.Buffers}, nil
}

// settle answers the message m that completed a sum, when the coordinator has decided on it, and the repeats of
// that sum that have waited, also those of other trainers that did the same job. An accepted sum closes its
// job; a refused one leaves it open.
func (d *sumCollector) settle(o *openJob, m *nats.Msg, status bus.Status, reason string) {
	d.mu.Lock()
	waiting := o.repeats
	// Repeats of an accepted sum need not be sent again; those of a refused one are refused, too.
	repeatStatus := status
	o.awaitsDecision = false
	o.repeats = nil
	// The coordinator reads the values no more.
	if cap(o.joinedValues) > 0 && len(d.spare) < maxSpare {
		d.spare = append(d.spare, o.joinedValues)
	}
	o.joinedValues = nil
	if status == bus.Accepted {
		repeatStatus = bus.Repeated
		// The job's message has a number in the work queue. By the highest such number probeStream sees that the
		// queue has lost messages, so it is noted before the job is forgotten.
		d.noteConfirmation(o)
		delete(d.jobs, o.job.Job)
	}
	d.mu.Unlock()
	d.reply(m, status, reason)
	for _, repeat := range waiting {
		d.reply(repeat, repeatStatus, reason)
	}
}

// reply answers one message of a sum, if it asks for an answer, and adds those that are refused,
// repeated or damaged to ignored. A trainer that gets no answer sends the message again.
func (d *sumCollector) reply(m *nats.Msg, status bus.Status, reason string) {
	if status == bus.Refused || status == bus.Repeated || status == bus.SendAgain {
		d.ignored.Add(1)
	}
	if m.Reply == "" {
		return
	}
	b, err := bus.MarshalSealed(&bus.SumReply{Status: status, Reason: bus.ValidText(reason)})
	if err == nil {
		// A closed connection has a handler of its own.
		_ = m.Respond(b)
	}
}
