package flower

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

const (
	// maxAttempts is how many processes may die of one message before the run ends.
	maxAttempts = 3
	// maxHeld bounds the bytes of arrays that a client's process keeps for later messages.
	maxHeld = 512 << 20
)

// Pool serves the messages to the clients of an app: by processes of its ClientApp on this machine, and by those
// of hosts that have joined it. Each of them is a seat, which serves one message at a time. A message waits for the
// seat of its node's partition, partition modulo the number of seats, so an app that keeps data of its partition in
// memory mostly reads it once; a seat that has nothing to do takes a message of the longest queue, the newest one
// whose partition it knows or, if it knows none, the newest one.
type Pool struct {
	// config says how a process is started.
	config *Config
	// ready is how the first process of this machine described itself, nil if there is no process here.
	ready *Ready
	// ctx is the life of the pool, and stop ends it. group waits for the goroutines of the seats.
	ctx   context.Context
	stop  context.CancelFunc
	group sync.WaitGroup
	// restarts counts the processes that replaced one that died, and moved the messages that were served again as
	// their host had gone.
	restarts, moved atomic.Int64

	// mu guards the fields below, and the queues of seats. changed is broadcast when there is a new job, and at the
	// end.
	mu      sync.Mutex
	changed *sync.Cond
	// seats are those that serve, in the order in which they were added, and unseated are the jobs that arrived while
	// there was none.
	seats    []*seat
	unseated []*job
	// hosts are those that have joined, by their names.
	hosts  map[string]*remote
	closed bool
}

// seat serves messages one by one.
type seat struct {
	// host is the name of the host, empty for a process of this machine.
	host string
	// serve serves a task and returns its reply. The end of ctx interrupts it.
	serve func(ctx context.Context, t *Task) (*Reply, error)
	// life is the context in which the seat serves tasks. end ends it when the seat's host has gone.
	life context.Context
	end  context.CancelFunc
	// queue are the jobs that wait for the seat, busy says that the seat serves one, and left that its host has gone.
	queue []*job
	busy  bool
	left  bool
	// sent is the first job of the queue, if the seat's process has got it already; no other seat serves it then.
	sent *job
	// known are the partitions of the tasks that the seat has served; an app may keep their data in memory.
	known map[int]bool
}

// movableJobs returns how many jobs of the queue other seats may take: all but the one that the seat's process has
// got already.
func (s *seat) movableJobs() int {
	if s.sent != nil {
		return len(s.queue) - 1
	}
	return len(s.queue)
}

// Task is a message for a node, with what the node brings to it, as a client's process needs it to
// serve the message.
type Task struct {
	Message
	// Number is the message's, from 1, and ID what the app sees of it.
	Number uint64
	ID     string
	// Partition is the number of the node's data, from 0.
	Partition int
	// Ordinal is the number of the message at this node, from 1.
	Ordinal int
	// State is what the node keeps: a text and its arrays. It is nil if it keeps nothing yet.
	State [][]byte
}

// Reply is what a node's app answers to a message, measured as the virtual clock needs it: with its
// size on a link and the local steps that it took.
type Reply struct {
	// Content is the text and the arrays of the reply, nil if the node raised an error.
	Content [][]byte
	// Size is the number of bytes that the reply takes on a link.
	Size int64
	// Steps is the number of local steps that the node took, and Known how that is known: "torch" counted
	// them, "formula" and "keys" computed them, "unknown" is a guess of one.
	Steps int
	Known string
	// Metrics are the single numbers of its metric records.
	Metrics map[string]float64
	// Seconds is the processor time that the message took on this machine, 0 if it was not measured.
	Seconds float64
	// State is what the node keeps from now on.
	State [][]byte
	// Raised is the text of an error, and Code flwr's code of it.
	Raised string
	Code   int

	// room is the part of the shared memory (see [Arena]) in which the content lies; nil: in memory of its own.
	room *room
}

// Drop forgets the content and the state of the reply, whose memory may be used for another one then.
func (r *Reply) Drop() {
	r.room.release()
	r.room = nil
	r.Content = nil
	r.State = nil
}

// Take moves the content of this reply, with the memory in which it lies, into a new reply and returns that. The
// caller drops the new one when the content is not needed any more. This one loses its state, too.
func (r *Reply) Take() *Reply {
	taken := &Reply{Content: r.Content, room: r.room}
	// Without a room, Drop does not release the memory that has a new owner.
	r.room = nil
	r.Drop()
	return taken
}

// Result is a task that was served, or the error by which the whole run ends.
type Result struct {
	Task  *Task
	Reply *Reply
	Err   error
}

// raisedCode is flwr's code of an error that a ClientApp raised, which stands for errors without a
// code of their own.
const raisedCode = 2

// job is a task that waits for a seat or is served, with the function that takes its result once it was served or
// has failed. failures counts the hosts that have failed at it.
type job struct {
	task     *Task
	done     func(Result)
	failures int
}

// worker is one process of this machine.
type worker struct {
	// pool is the pool that the worker belongs to, and process its process, nil from its death until
	// the next task starts another.
	pool    *Pool
	process *process
	seat    *seat
	// ahead is a request that the process has got while it serves another one; nil: none.
	ahead *asked
	// held are the arrays that the process keeps.
	held holder
	// room is how many bytes of an arena the largest reply so far takes.
	room int
}

// StartPool starts this many processes (workers) of the ClientApp of the app in c on this machine, and returns when
// all of them are ready. With 0 workers the pool serves nothing until hosts join it. The end of ctx ends all
// processes. If one of them cannot start, the others are ended and its error is returned. Close the pool after use.
func StartPool(ctx context.Context, c *Config, workers int) (*Pool, error) {
	ctx, stop := context.WithCancel(ctx)
	p := &Pool{
		config: c,
		ctx:    ctx,
		stop:   stop,
		hosts:  map[string]*remote{},
	}
	p.changed = sync.NewCond(&p.mu)
	// All processes start at once, as each loads the app's libraries.
	started := make([]error, workers)
	ready := make([]*Ready, workers)
	list := make([]*worker, workers)
	var starting sync.WaitGroup
	for i := range list {
		list[i] = &worker{pool: p}
		starting.Go(func() { ready[i], started[i] = list[i].start(ctx) })
	}
	starting.Wait()
	if workers > 0 {
		p.ready = ready[0]
	}
	p.mu.Lock()
	for _, w := range list {
		w.seat = &seat{serve: w.serve}
		p.add(w.seat, func() { _ = w.close() })
	}
	p.mu.Unlock()
	if err := firstError(started); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// firstError returns the first error of the list that is not nil, or nil if there is none. One is
// enough: processes that fail alike fail for one reason.
func firstError(list []error) error {
	for _, err := range list {
		if err != nil {
			return err
		}
	}
	return nil
}

// add lets a seat serve from now on, in a goroutine, until its host has gone or the pool ends; then afterwards is
// called. The first seat takes the jobs that have waited while there was none. The caller holds the lock.
func (p *Pool) add(s *seat, afterwards func()) {
	s.life, s.end = context.WithCancel(p.ctx)
	s.known = map[int]bool{}
	p.seats = append(p.seats, s)
	s.queue = p.unseated
	p.unseated = nil
	p.changed.Broadcast()
	p.group.Go(func() {
		defer s.end()
		p.run(s)
		afterwards()
	})
}

// Submit queues task t and returns at once. done takes the result in a goroutine of the pool, which serves
// nothing else meanwhile. The tasks of one node must not overlap: submit the next one after the result.
func (p *Pool) Submit(t *Task, done func(Result)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue(&job{task: t, done: done})
}

// queue puts a job into the queue of its partition's seat. While there are no seats, the job waits in
// p.unseated for the first one. The caller holds the lock.
func (p *Pool) queue(j *job) {
	if len(p.seats) == 0 {
		p.unseated = append(p.unseated, j)
	} else {
		s := p.seats[j.task.Partition%len(p.seats)]
		s.queue = append(s.queue, j)
	}
	p.changed.Broadcast()
}

// next waits for a job for seat s, a place at which one job at a time is served, and returns it: the oldest of the
// seat's queue, or one of another seat. It returns nil if the seat has left, or if the pool is closed and there is no
// job left.
func (p *Pool) next(s *seat) *job {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.busy = false
	for {
		if s.left {
			return nil
		}
		if len(s.queue) > 0 {
			j := s.queue[0]
			s.queue = s.queue[1:]
			// If the seat's process has got a job of the queue ahead (sent), it is this one.
			s.sent = nil
			s.busy = true
			return j
		}
		if j := p.steal(s); j != nil {
			s.busy = true
			return j
		}
		if p.closed {
			return nil
		}
		p.changed.Wait()
	}
}

// steal removes a job for seat thief from the longest queue of a busy seat and returns it: the newest one, which would
// be served last, of a partition that the thief knows, or of any. It is nil if no busy seat has a queue. The caller
// holds the lock.
func (p *Pool) steal(thief *seat) *job {
	var longest *seat
	for _, s := range p.seats {
		hasQueue := s.busy && s.movableJobs() > 0
		if hasQueue && (longest == nil || s.movableJobs() > longest.movableJobs()) {
			longest = s
		}
	}
	if longest == nil {
		return nil
	}
	// The newest jobs stand last. The first one stays if its seat's process has got it already.
	place := len(longest.queue) - 1
	firstMovable := len(longest.queue) - longest.movableJobs()
	for i := place; i >= firstMovable; i-- {
		if thief.known[longest.queue[i].task.Partition] {
			place = i
			break
		}
	}
	j := longest.queue[place]
	longest.queue = slices.Delete(longest.queue, place, place+1)
	return j
}

// lookAhead returns the task that seat s serves next, so that its process may get the request before it is done with
// the one before, and marks it as sent. It is nil if the seat has no queue, if the task was sent already, or if maySend
// returns false for it.
func (p *Pool) lookAhead(s *seat, maySend func(*Task) bool) *Task {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(s.queue) == 0 || s.sent != nil || !maySend(s.queue[0].task) {
		return nil
	}
	s.sent = s.queue[0]
	return s.sent.task
}

// run lets a seat, which is a process of this machine or a worker of a host, serve one job after the other until the
// seat leaves or the pool is closed. If a host fails, its job is queued for another seat, since the reply follows from
// the task alone; a job at which too many hosts have failed is done with the error.
func (p *Pool) run(s *seat) {
	for {
		j := p.next(s)
		if j == nil {
			return
		}
		// The app may now hold the data of the task's partition in this seat's memory (see steal).
		s.known[j.task.Partition] = true
		reply, err := s.serve(s.life, j.task)
		hostFailed := err != nil && s.host != "" && p.ctx.Err() == nil
		if hostFailed && p.requeue(s, j) {
			continue
		}
		j.done(Result{j.task, reply, err})
	}
}

// requeue queues a job again that seat s, a worker of a host, has failed to serve. It returns false, and does not queue
// the job, if maxAttempts hosts have failed at it. A host that has gone (s.left) does not count as one that failed.
func (p *Pool) requeue(s *seat, j *job) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !s.left {
		j.failures++
	}
	if j.failures >= maxAttempts {
		return false
	}
	p.moved.Add(1)
	p.queue(j)
	return true
}

// removeSeats removes the seats of a host, each a worker of the host that serves jobs, except the first keep of them.
// The jobs that wait for these seats are queued for others, and those that they serve are interrupted and then
// queued, too. The caller holds the lock.
func (p *Pool) removeSeats(host string, keep int) {
	remaining := p.seats[:0]
	var waiting []*job
	for _, s := range p.seats {
		isHosts := s.host == host
		if !isHosts || keep > 0 {
			remaining = append(remaining, s)
			if isHosts {
				keep--
			}
			continue
		}
		s.left = true
		s.end()
		waiting = append(waiting, s.queue...)
		s.queue = nil
	}
	clear(p.seats[len(remaining):])
	p.seats = remaining
	for _, j := range waiting {
		p.queue(j)
	}
	p.changed.Broadcast()
}

// Libraries returns the libraries, with their versions, that the processes of this machine have loaded, nil if there
// are no such processes.
func (p *Pool) Libraries() []string {
	if p.ready == nil {
		return nil
	}
	return p.ready.Libraries
}

// Restarts returns the number of processes that were started in place of one that died, plus the number of messages
// that were moved to another seat because their host had gone or failed.
func (p *Pool) Restarts() int64 { return p.restarts.Load() + p.moved.Load() }

// Close ends the processes at once and waits until all of them are gone. For each task that is under way or queued, the
// function that was submitted with it is called with the error of the pool's context. No task may be submitted
// afterwards.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	p.stop()
	// The seats end the jobs in their own queues. Those that have waited for a first seat are ended here.
	unseated := p.unseated
	p.unseated = nil
	p.changed.Broadcast()
	p.mu.Unlock()
	for _, j := range unseated {
		j.done(Result{j.task, nil, p.ctx.Err()})
	}
	p.group.Wait()
	return nil
}

// close ends the worker's process if there is one, and forgets it, so that the next task starts
// another. It always returns nil.
func (w *worker) close() error {
	if w.process == nil {
		return nil
	}
	// A process that was killed may end with an error, which does not matter any more.
	_ = w.process.close()
	w.process = nil
	return nil
}

// start starts a process for the worker, which holds no arrays yet, and returns how the process describes itself. The
// end of ctx interrupts the start.
func (w *worker) start(ctx context.Context) (ready *Ready, err error) {
	command, err := w.pool.config.commandOf(w.pool.config.ClientCommand, "flower_client")
	if err != nil {
		return nil, err
	}
	w.held = holder{}
	w.ahead = nil
	w.process, ready, err = w.pool.config.start(ctx, command)
	return ready, err
}

// serve lets the worker's process serve task t and returns the reply. If the process dies, another
// one serves the task again, up to maxAttempts processes in all. A failure that a process itself
// reports is final.
func (w *worker) serve(ctx context.Context, t *Task) (reply *Reply, err error) {
	for range maxAttempts {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if w.process == nil {
			if _, err := w.start(ctx); err != nil {
				return nil, err
			}
			w.pool.restarts.Add(1)
		}
		reply, err = w.ask(ctx, t)
		// A failure that a process reports is final; only a process that ended is replaced.
		if !errors.Is(err, errEnded) {
			break
		}
		_ = w.close()
	}
	if err != nil {
		return nil, fmt.Errorf("message %d to node %d: %w", t.Number, t.Node, err)
	}
	return reply, nil
}

// clientRequest is the header of a message to a client's process. Its fields are those of a [Task];
// Arrays lists the digests of all arrays of the content, in their order.
type clientRequest struct {
	Node      int64   `json:"node"`
	Partition int     `json:"partition"`
	Ordinal   int     `json:"ordinal"`
	Type      string  `json:"type"`
	ID        string  `json:"id"`
	Group     string  `json:"group"`
	TTL       float64 `json:"ttl"`
	// Arrays are the digests of the message's arrays, in its order. The process has some of them from earlier
	// frames.
	Arrays []string `json:"arrays"`
	// Names are the digests of the arrays that this frame carries, and Drop those that the process
	// keeps no longer.
	Names []string `json:"names"`
	Drop  []string `json:"drop"`
	// Room is the offset and the size in bytes of the part of the arena that the reply may take; nil: none.
	Room []int `json:"room,omitempty"`
	// Ahead says that the reply before may not have been read yet, so that the memory where it may lie is not free.
	Ahead bool `json:"ahead,omitempty"`
}

// clientReply is the header of a client's reply. Its fields are those of a [Reply]. Replied is
// false for an error of the app, and Arrays is how many blobs behind the first are arrays; State is
// "new" if the blobs after them are a new state.
type clientReply struct {
	Replied bool               `json:"replied"`
	Size    int64              `json:"size"`
	Arrays  int                `json:"arrays"`
	Steps   int                `json:"steps"`
	Known   string             `json:"known"`
	Metrics map[string]float64 `json:"metrics"`
	Seconds float64            `json:"seconds"`
	State   string             `json:"state"`
	Raised  string             `json:"raised"`
	Code    int                `json:"code"`
	// Missing says that a host lacks arrays of the message, and has not served it.
	Missing bool `json:"missing,omitempty"`
	failure
	// sizes are those of the frame's blobs, where they lie in a room.
	sizes
}

// sizes is the part of a header that says how large blobs are that were placed in a room.
type sizes struct {
	Sizes  []int64 `json:"blobs,omitempty"`
	Placed bool    `json:"placed,omitempty"`
}

// asked is a request that a process has got, with the room for its reply, nil if it has none.
type asked struct {
	task *Task
	room *room
}

// maxAhead bounds the size of a request, in bytes, that a process gets while it serves another one. The pipe has room
// for it, so that sending it does not wait for the process, which may wait for its reply to be read.
const maxAhead = 16 << 10

// maySend reports whether the process may get task t while it serves another one. That is so if the request is small
// enough for the pipe, and carries no arrays: these would go through the shared memory in which the process may be
// about to leave a reply.
func (w *worker) maySend(t *Task) bool {
	size := len(t.Content.Text)
	for _, blob := range t.State {
		size += len(blob)
	}
	// If the process holds all arrays of the content (w.held), the request names them by their digests alone.
	for _, a := range t.Content.Arrays {
		size += 2 * len(a.Digest)
	}
	return size <= maxAhead && w.held.has(t)
}

// send sends task t to the worker's process, which serves another one if ahead is true.
func (w *worker) send(t *Task, ahead bool) (*asked, error) {
	header, blobs := w.held.request(t)
	header.Ahead = ahead
	// A room is not released after an error: the process may still write there.
	room := w.pool.config.Arena.take(w.room)
	if room != nil {
		header.Room = []int{room.offset, room.size}
	}
	return &asked{t, room}, w.process.send(header, blobs)
}

// ask sends task t to the worker's process, unless it was sent ahead, and waits for the reply. Meanwhile the process
// gets the next task, if it may. The error wraps errEnded if the process has died, so that another may try; a [Failed]
// is a failure that the process itself reported.
func (w *worker) ask(ctx context.Context, t *Task) (_ *Reply, err error) {
	request := w.ahead
	w.ahead = nil
	if request == nil || request.task != t {
		request, err = w.send(t, false)
		if err != nil {
			return nil, w.process.explain(err)
		}
	}
	if next := w.pool.lookAhead(w.seat, w.maySend); next != nil {
		w.ahead, err = w.send(next, true)
		if err != nil {
			return nil, w.process.explain(err)
		}
	}
	room := request.room
	var answer clientReply
	parts, err := w.process.receive(ctx, &answer)
	if err != nil {
		return nil, err
	}
	// The process has reported why it cannot continue. Another one could not either.
	if err := answer.err(); err != nil {
		return nil, err
	}
	// The next request asks for room for the largest reply so far.
	w.room = max(w.room, roomOf(answer.Sizes))
	// The process has not left its reply in the room that it was given, if any.
	if !answer.Placed {
		room.release()
		return answer.reply(t, parts)
	}
	return answer.placed(t, room)
}

// placed returns the reply to task t whose blobs the process has left in a room: the content, and behind it the node's
// state if that is new. The reply keeps the room with its content from then on. The state is copied, as it outlives the
// reply, and its part of the room is given back.
func (a *clientReply) placed(t *Task, room *room) (*Reply, error) {
	blobs, err := room.blobs(a.Sizes)
	if err != nil {
		return nil, err
	}
	r, err := a.reply(t, blobs)
	if err != nil {
		return nil, err
	}
	if a.State == "new" {
		for i, blob := range r.State {
			r.State[i] = bytes.Clone(blob)
		}
	}
	r.room = room
	room.shrink(roomOf(a.Sizes[:len(r.Content)]))
	return r, nil
}

// reply returns the reply to task t, for the header a and the blobs of its frame: the text, the arrays,
// and, if the node's state has changed, the new state. Otherwise the node keeps the state that it had.
// A reply whose numbers do not fit its blobs is an error.
func (a *clientReply) reply(t *Task, blobs [][]byte) (*Reply, error) {
	r := &Reply{
		Size:    a.Size,
		Steps:   a.Steps,
		Known:   a.Known,
		Metrics: a.Metrics,
		Seconds: a.Seconds,
		State:   t.State,
	}
	// The app raised an error, which is a reply like any other: the node's state stays as it was.
	if !a.Replied {
		r.Raised = a.Raised
		r.Code = a.Code
		if r.Code == 0 {
			r.Code = raisedCode
		}
		return r, nil
	}
	if a.Arrays < 0 || len(blobs) < 1+a.Arrays || a.Steps < 0 || a.Size < 0 {
		text, _ := json.Marshal(a)
		return nil, fmt.Errorf("a client's process sent a reply of another form: %.200s", text)
	}
	r.Content = blobs[:1+a.Arrays]
	if a.State == "new" {
		r.State = blobs[1+a.Arrays:]
	}
	return r, nil
}
