package flower

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

const (
	// maxAttempts is how many processes may die of one message before the run ends.
	maxAttempts = 3
	// maxHeld bounds the bytes of arrays that a client's process keeps for later messages.
	maxHeld = 512 << 20
)

// Pool is the processes of a ClientApp. A message is served by the process of its node's partition,
// partition modulo the number of processes, so an app that keeps data of its partition in memory
// reads it once.
type Pool struct {
	// config says how a process is started, and workers are the processes with their queues.
	config  *Config
	workers []*worker
	// group waits for the goroutines of the workers, and stop ends what they are doing.
	group sync.WaitGroup
	stop  context.CancelFunc
	// restarts counts the processes that replaced one that died.
	restarts atomic.Int64
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
	// State is what the node keeps: a text and its arrays; nil: nothing yet.
	State [][]byte
}

// Reply is what a node's app answers to a message, measured as the virtual clock needs it: with its
// size on a link and the local steps that it took.
type Reply struct {
	// Content is the text and the arrays of the reply; nil if the node raised an error.
	Content [][]byte
	// Size is the number of bytes that it takes on a link.
	Size int64
	// Steps is the number of local steps that it took, and Known how that is known: "torch" counted
	// them, "formula" and "keys" computed them, "unknown" is a guess of one.
	Steps int
	Known string
	// Metrics are the single numbers of its metric records.
	Metrics map[string]float64
	// Seconds is the processor time that the message took on this machine; 0: it was not measured.
	Seconds float64
	// State is what the node keeps from now on.
	State [][]byte
	// Raised is the text of an error, and Code flwr's code of it.
	Raised string
	Code   int
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

// job is a task in the queue of a worker, with the function that takes its result once it was
// served or has failed.
type job struct {
	task *Task
	done func(Result)
}

// worker is one process with its queue of tasks, which it serves one by one in their order.
type worker struct {
	// pool is the pool that the worker belongs to, process its process, nil from its death until
	// the next task starts another, and jobs the queue of tasks.
	pool    *Pool
	process *process
	jobs    chan job
	// held are the sizes of the arrays that the process keeps, by digest, and order their digests
	// in the order in which they came. heldBytes is their size in all.
	held      map[string]int
	order     []string
	heldBytes int
}

// StartPool starts the processes of a ClientApp for the app in c, as many as workers says but at
// least one, and returns when all of them are ready. The end of ctx ends all processes. If one of
// them cannot start, the others are ended and its error is returned. Close the pool after use.
func StartPool(ctx context.Context, c *Config, workers int) (*Pool, error) {
	ctx, stop := context.WithCancel(ctx)
	p := &Pool{config: c, stop: stop}
	// All processes start at once, as each loads the app's libraries.
	started := make([]error, max(1, workers))
	var starting sync.WaitGroup
	for i := range started {
		w := &worker{pool: p, jobs: make(chan job, 1<<16)}
		p.workers = append(p.workers, w)
		starting.Go(func() { started[i] = w.start(ctx) })
	}
	starting.Wait()
	for _, w := range p.workers {
		p.group.Go(func() { w.run(ctx) })
	}
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

// Submit queues task t for the process of its node's partition and returns at once, unless the
// queue is full. done takes the result in a goroutine of the pool, which serves nothing else
// meanwhile. The tasks of one node must not overlap: submit the next one after the result.
func (p *Pool) Submit(t *Task, done func(Result)) {
	p.workers[t.Partition%len(p.workers)].jobs <- job{t, done}
}

// Restarts is the number of processes that were started in place of one that died.
func (p *Pool) Restarts() int64 { return p.restarts.Load() }

// Close ends the processes at once and waits until all of them are gone. Tasks that are under way
// or queued get the error of their context, by their functions. No task may be submitted
// afterwards.
func (p *Pool) Close() error {
	p.stop()
	for _, w := range p.workers {
		close(w.jobs)
	}
	p.group.Wait()
	var err error
	for _, w := range p.workers {
		err = errors.Join(err, w.close())
	}
	return err
}

// close ends the worker's process if there is one, and forgets it, so that the next task starts
// another. It always returns nil.
func (w *worker) close() error {
	if w.process == nil {
		return nil
	}
	// A process that was killed says so by its pipes, which matters no more.
	_ = w.process.close()
	w.process = nil
	return nil
}

// start starts the worker's process anew and forgets which arrays the one before held. ctx is that
// of the pool: its end breaks off the start.
func (w *worker) start(ctx context.Context) error {
	command, err := w.pool.config.commandOf(w.pool.config.ClientCommand, "flower_client")
	if err != nil {
		return err
	}
	w.held = map[string]int{}
	w.order = nil
	w.heldBytes = 0
	w.process, _, err = w.pool.config.start(ctx, command)
	return err
}

// run serves the tasks of the worker's queue, one by one, until the pool is closed. It hands each
// result to the function that came with its task.
func (w *worker) run(ctx context.Context) {
	for j := range w.jobs {
		reply, err := w.serve(ctx, j.task)
		j.done(Result{j.task, reply, err})
	}
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
			if err := w.start(ctx); err != nil {
				return nil, err
			}
			w.pool.restarts.Add(1)
		}
		reply, err = w.ask(ctx, t)
		// What a process tells is final; only one that ended is replaced.
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
	Node      int64    `json:"node"`
	Partition int      `json:"partition"`
	Ordinal   int      `json:"ordinal"`
	Type      string   `json:"type"`
	ID        string   `json:"id"`
	Group     string   `json:"group"`
	TTL       float64  `json:"ttl"`
	Arrays    []string `json:"arrays"`
	// Names are the digests of the arrays that this frame carries, and Drop those that the process
	// keeps no longer.
	Names []string `json:"names"`
	Drop  []string `json:"drop"`
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
	failure
}

// ask sends task t to the worker's process and waits for the reply. The error wraps errEnded if the
// process has died, so that another may try; a [Failed] is what the process said of itself.
func (w *worker) ask(ctx context.Context, t *Task) (*Reply, error) {
	header, blobs := w.request(t)
	if err := w.process.send(header, blobs); err != nil {
		return nil, w.process.explain(err)
	}
	var answer clientReply
	parts, err := w.process.receive(ctx, &answer)
	if err != nil {
		return nil, err
	}
	// The process has told why it cannot go on, which another one could not either.
	if err := answer.err(); err != nil {
		return nil, err
	}
	return answer.reply(t, parts)
}

// request returns the frame of task t: a header, and as blobs the arrays that the process does not
// hold yet, the content's text, and the node's state. It notes which arrays the process holds from
// then on, so the frame must be sent.
func (w *worker) request(t *Task) (*clientRequest, [][]byte) {
	header := &clientRequest{
		Node:      t.Node,
		Partition: t.Partition,
		Ordinal:   t.Ordinal,
		Type:      t.Type,
		ID:        t.ID,
		Group:     t.Group,
		TTL:       t.TTL,
		Arrays:    []string{},
	}
	var blobs [][]byte
	needed := map[string]bool{}
	for _, a := range t.Content.Arrays {
		header.Arrays = append(header.Arrays, a.Digest)
		needed[a.Digest] = true
		if w.hold(a) {
			header.Names = append(header.Names, a.Digest)
			blobs = append(blobs, a.Data)
		}
	}
	// Arrays of this message stay, even if they alone exceed the limit.
	header.Drop = w.makeRoom(needed)
	blobs = append(blobs, []byte(t.Content.Text))
	return header, append(blobs, t.State...)
}

// hold notes that the process keeps array a from now on, and returns true if the array must be sent
// to it. It returns false, and changes nothing, if the process holds the array already.
func (w *worker) hold(a Array) bool {
	if _, ok := w.held[a.Digest]; ok {
		return false
	}
	w.held[a.Digest] = len(a.Data)
	w.order = append(w.order, a.Digest)
	w.heldBytes += len(a.Data)
	return true
}

// makeRoom returns the digests of the arrays that the process is to forget, and forgets that it
// held them; nil if it may keep all. If they exceed maxHeld bytes, the oldest ones go that are not
// needed now, until the others take no more than half of that. needed has the digests of the
// message under way.
func (w *worker) makeRoom(needed map[string]bool) (drop []string) {
	if w.heldBytes <= maxHeld {
		return nil
	}
	// The order is that of arrival, so the oldest come first.
	kept := w.order[:0]
	for _, digest := range w.order {
		if needed[digest] || w.heldBytes <= maxHeld/2 {
			kept = append(kept, digest)
			continue
		}
		drop = append(drop, digest)
		w.heldBytes -= w.held[digest]
		delete(w.held, digest)
	}
	w.order = kept
	return drop
}

// reply returns the reply to task t from its header and its blobs: the text, the arrays, and, if
// the node's state has changed, the new state. Otherwise the node keeps the state it had. A reply
// whose numbers do not fit its blobs is an error.
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
