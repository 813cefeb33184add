package natsbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"fedpace/bus"
	"fedpace/bus/internal/subject"
	"fedpace/internal/vector"
)

// lookEvery is how often the streams are looked at while jobs are open.
const lookEvery = 2 * time.Second

// workQueue is the coordinator's side of the run's streams: the jobs, as a work
// queue with one consumer for each kernel class, and the models' chunks. Jobs
// carry no Nats-Msg-Id: one that is sent again must not be taken for a repeat.
type workQueue struct {
	conn   *Conn
	run    string
	config bus.CoordinatorConfig
	store  *Store
	js     jetstream.JetStream

	looking chan error // what happened; one at a time is enough

	mu      sync.Mutex
	kernels map[string]bool          // whose consumers exist
	models  map[bus.Digest][]float32 // that are available

	sent   sentJobs
	wanted func(job uint64) bool // whether its sum is still wanted; set before use

	deleting sync.Mutex
	unwanted []bus.Digest // whose chunks are still to be deleted
}

func newWorkQueue(conn *Conn, run string, config bus.CoordinatorConfig, store *Store) *workQueue {
	return &workQueue{
		conn: conn, run: run, config: config, store: store, js: conn.js,
		looking: make(chan error, 1), kernels: map[string]bool{}, models: map[bus.Digest][]float32{},
	}
}

func (q *workQueue) open(ctx context.Context) error {
	var err error
	q.js, err = jetstream.New(q.conn.nats,
		jetstream.WithDefaultTimeout(RequestTimeout), jetstream.WithPublishAsyncMaxPending(pendingJobs),
		jetstream.WithPublishAsyncTimeout(RequestTimeout), jetstream.WithPublishAsyncErrHandler(q.publishFailed))
	if err != nil {
		return fmt.Errorf("bus: JetStream: %w", err)
	}
	// A cluster that has just started, or lost a server, takes a while.
	err = q.conn.Retry(ctx, Retry{For: openPatience}, func(ctx context.Context) error {
		attempt, cancel := q.conn.attempt(ctx, RequestTimeout/3) // nobody answers before there is a leader
		defer cancel()
		if _, err := q.js.AccountInfo(attempt); err != nil {
			return fmt.Errorf("bus: JetStream: %w", err)
		}
		return q.makeStreams(ctx)
	})
	if errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
		return errors.New("bus: the server has no JetStream, which runs need: start it with nats-server -js, and allow it for the account")
	}
	if err != nil {
		return err
	}
	for _, name := range q.streams() {
		s, err := q.stream(ctx, name)
		if err == nil {
			err = s.Purge(ctx)
		}
		if err != nil {
			return fmt.Errorf("bus: empty stream %s: %w", name, err)
		}
	}
	if q.config.Kernel != "" {
		return q.makeConsumer(ctx, q.config.Kernel)
	}
	return nil
}

func (q *workQueue) streams() []string {
	if q.config.PublishModels {
		return []string{subject.JobsStream(q.run), subject.ModelsStream(q.run)}
	}
	return []string{subject.JobsStream(q.run)}
}

func (q *workQueue) makeStreams(ctx context.Context) error {
	ctx, cancel := q.conn.attempt(ctx, 2*RequestTimeout)
	defer cancel()
	configs := []jetstream.StreamConfig{{
		Name:      subject.JobsStream(q.run),
		Subjects:  []string{subject.AnyJobs(q.run)},
		Retention: jetstream.WorkQueuePolicy,
		Storage:   jetstream.MemoryStorage,
		Replicas:  q.config.Replicas,
	}}
	if q.config.PublishModels {
		configs = append(configs, jetstream.StreamConfig{
			Name:              subject.ModelsStream(q.run),
			Subjects:          []string{subject.AnyModel(q.run)},
			Storage:           jetstream.MemoryStorage,
			Replicas:          q.config.Replicas,
			MaxMsgsPerSubject: 1,
			AllowDirect:       true,
		})
	}
	for _, c := range configs {
		if _, err := q.js.CreateOrUpdateStream(ctx, c); err != nil {
			return fmt.Errorf("bus: make stream %s: %w", c.Name, err)
		}
	}
	return nil
}

func (q *workQueue) makeConsumer(ctx context.Context, kernel string) error {
	ctx, cancel := q.conn.attempt(ctx, RequestTimeout)
	defer cancel()
	_, err := q.js.CreateOrUpdateConsumer(ctx, subject.JobsStream(q.run), jetstream.ConsumerConfig{
		Durable:       kernel,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       q.config.AckWait,
		MaxDeliver:    q.config.MaxDeliver,
		FilterSubject: subject.Jobs(q.run, kernel),
		MaxAckPending: -1, // trainers take one at a time each
		MaxWaiting:    maxWaiting,
		MemoryStorage: true,
	})
	if err != nil {
		return fmt.Errorf("bus: make consumer %s of stream %s: %w", kernel, subject.JobsStream(q.run), err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.kernels[kernel] = true
	return nil
}

// close removes the streams. Those of a server that is gone are gone, too.
func (q *workQueue) close(ctx context.Context) error {
	q.js.CleanupPublisher()
	q.mu.Lock()
	for d := range q.models {
		q.store.models.Delete(modelKey{q.run, d})
	}
	clear(q.models)
	q.mu.Unlock()
	if !q.conn.nats.IsConnected() {
		return nil
	}
	for _, name := range q.streams() {
		// On a server that is away for the moment they stay, and are emptied when a
		// run of the name is opened again.
		if err := q.js.DeleteStream(ctx, name); err != nil && !retriable(err) {
			return fmt.Errorf("bus: remove stream %s: %w", name, err)
		}
	}
	return nil
}

// stream looks at a stream; the question is not waited for longer than one
// connection lasts.
func (q *workQueue) stream(ctx context.Context, name string) (jetstream.Stream, error) {
	ctx, cancel := q.conn.attempt(ctx, RequestTimeout)
	defer cancel()
	return q.js.Stream(ctx, name)
}

// send publishes a job; publishFailed learns if that fails.
func (q *workQueue) send(ctx context.Context, j *bus.Job) error {
	q.mu.Lock()
	known := q.kernels[j.Kernel]
	q.mu.Unlock()
	if !known {
		err := q.conn.Retry(ctx, Retry{For: reconnectFor}, func(ctx context.Context) error { return q.makeConsumer(ctx, j.Kernel) })
		if err != nil {
			return err
		}
	}
	b, err := bus.Marshal(nil, j)
	if err != nil {
		return err
	}
	if limit := q.conn.nats.MaxPayload(); int64(len(b)) > limit {
		return fmt.Errorf("bus: job %d has %d bytes, the server takes %d: make more jobs of it", j.Job, len(b), limit)
	}
	if q.sent.queued(j.Job) {
		return nil
	}
	f, err := q.js.PublishAsync(subject.Jobs(q.run, j.Kernel), b)
	if err == nil {
		q.sent.add(j.Job, f, q.wanted)
		return nil
	}
	err = fmt.Errorf("bus: send job %d: %w", j.Job, err)
	if retriable(err) { // it is sent again with the others that are open
		q.look(err)
		return nil
	}
	return err
}

// publishFailed is told of a job that the stream did not take.
func (q *workQueue) publishFailed(_ jetstream.JetStream, m *nats.Msg, err error) {
	err = fmt.Errorf("bus: a job on %s was not taken: %w", m.Subject, err)
	select {
	case q.looking <- err:
	default:
	}
}

// look has the streams looked at, since messages may have been lost.
func (q *workQueue) look(cause error) {
	select {
	case q.looking <- cause:
	default:
	}
}

// watch makes streams again when they are gone and tells of it, until ctx ends.
func (q *workQueue) watch(ctx context.Context, c *Coordinator) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		var cause error
		select {
		case <-ctx.Done():
			return
		case cause = <-q.looking:
		case <-tick.C:
			if c.sums.opened() == 0 {
				continue
			}
		}
		again, err := q.ensure(ctx)
		if err == nil && errors.Is(cause, bus.ErrInterrupted) {
			err = q.restoreModels(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && cause == nil && retriable(err):
			// The connection's own handlers say what becomes of it.
		case err != nil:
			c.failed(errors.Join(err, cause))
		case again:
			c.lost(fmt.Errorf("bus: what run %s has on the server was gone and has been made again: %w", q.run, bus.ErrInterrupted))
		case errors.Is(cause, bus.ErrInterrupted):
			c.lost(cause)
		case cause != nil && retriable(cause):
			c.lost(fmt.Errorf("%w: %w", cause, bus.ErrInterrupted))
		case cause != nil:
			c.failed(cause)
		}
	}
}

// ensure makes the streams, consumers and chunks again if a stream is gone. It
// tries for as long as a connection may take to come back.
func (q *workQueue) ensure(ctx context.Context) (again bool, err error) {
	err = q.conn.Retry(ctx, Retry{For: reconnectFor}, func(ctx context.Context) error {
		found, err := q.restore(ctx)
		again = again || found
		return err
	})
	return again, err
}

func (q *workQueue) restore(ctx context.Context) (again bool, err error) {
	waiting, last := q.sent.among(q.wanted)
	for _, name := range q.streams() {
		s, err := q.stream(ctx, name)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			again = true
		case err != nil:
			return false, fmt.Errorf("bus: look at stream %s: %w", name, err)
		case name == subject.JobsStream(q.run):
			// Jobs stay until their sums are in: a stream that holds fewer than are
			// still waited for has been emptied, by the restart of a whole cluster or
			// by somebody.
			state := s.CachedInfo().State
			still := 0
			for _, n := range waiting {
				if q.wanted(n) {
					still++
				}
			}
			again = again || state.LastSeq < last || state.Msgs < uint64(still)
		}
	}
	q.mu.Lock()
	kernels := make([]string, 0, len(q.kernels))
	for k := range q.kernels {
		kernels = append(kernels, k)
	}
	models := make(map[bus.Digest][]float32, len(q.models))
	for d, params := range q.models {
		models[d] = params
	}
	q.mu.Unlock()
	for _, k := range kernels {
		if again {
			break
		}
		attempt, cancel := q.conn.attempt(ctx, RequestTimeout)
		_, err := q.js.Consumer(attempt, subject.JobsStream(q.run), k)
		cancel()
		if errors.Is(err, jetstream.ErrConsumerNotFound) {
			again = true
		} else if err != nil {
			return false, fmt.Errorf("bus: look at consumer %s: %w", k, err)
		}
	}
	if !again {
		return false, nil
	}
	q.sent.forget()
	if err := q.makeStreams(ctx); err != nil {
		return true, err
	}
	for _, k := range kernels {
		if err := q.makeConsumer(ctx, k); err != nil {
			return true, err
		}
	}
	if q.config.PublishModels {
		for d, params := range models {
			if err := q.publishModel(ctx, d, params); err != nil {
				return true, err
			}
		}
	}
	return true, nil
}

// restoreModels publishes the models again unless the stream holds them all: the
// servers of a cluster may have come back with an empty one.
func (q *workQueue) restoreModels(ctx context.Context) error {
	if !q.config.PublishModels {
		return nil
	}
	return q.conn.Retry(ctx, Retry{For: reconnectFor}, func(ctx context.Context) error {
		q.mu.Lock()
		models := maps.Clone(q.models)
		q.mu.Unlock()
		s, err := q.stream(ctx, subject.ModelsStream(q.run))
		if err != nil {
			return fmt.Errorf("bus: look at stream %s: %w", subject.ModelsStream(q.run), err)
		}
		chunks := uint64(0)
		for _, params := range models {
			chunks += uint64(q.chunks(params))
		}
		if s.CachedInfo().State.Msgs >= chunks {
			return nil
		}
		for d, params := range models {
			if err := q.publishModel(ctx, d, params); err != nil {
				return err
			}
		}
		return nil
	})
}

func (q *workQueue) putModel(ctx context.Context, d bus.Digest, params []float32) error {
	q.mu.Lock()
	q.models[d] = params
	q.mu.Unlock()
	q.store.models.Store(modelKey{q.run, d}, params)
	if !q.config.PublishModels {
		return nil
	}
	return q.republish(ctx, d)
}

// republish puts a model's chunks on the bus, for as long as that takes to
// succeed.
func (q *workQueue) republish(ctx context.Context, d bus.Digest) error {
	return q.conn.Retry(ctx, Retry{For: reconnectFor}, func(ctx context.Context) error {
		q.mu.Lock()
		params, ok := q.models[d]
		q.mu.Unlock()
		if !ok || !q.config.PublishModels {
			return nil
		}
		return q.publishModel(ctx, d, params)
	})
}

func (q *workQueue) republishAll(ctx context.Context) error {
	q.mu.Lock()
	models := slices.Collect(maps.Keys(q.models))
	q.mu.Unlock()
	for _, d := range models {
		if err := q.republish(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// chunkSize is how many parameters go into a chunk.
func (q *workQueue) chunkSize() int {
	return min(bus.ChunkBytes, int(q.conn.nats.MaxPayload())-1024) / 4
}

func (q *workQueue) chunks(params []float32) int {
	return (len(params) + q.chunkSize() - 1) / q.chunkSize()
}

// publishModel sends the chunks and waits until the stream has them all.
func (q *workQueue) publishModel(ctx context.Context, d bus.Digest, params []float32) error {
	size, chunks := q.chunkSize(), q.chunks(params)
	futures := make([]jetstream.PubAckFuture, 0, chunks)
	for i := range chunks {
		part := params[i*size : min((i+1)*size, len(params))]
		b, err := bus.Marshal(nil, &bus.ModelChunk{Chunk: uint32(i), Chunks: uint32(chunks), Params: uint32(len(params)), Values: vector.Bytes(part)})
		if err != nil {
			return err
		}
		f, err := q.js.PublishAsync(subject.Model(q.run, d, i), b)
		if err != nil {
			return fmt.Errorf("bus: send chunk %d of model %s: %w", i, d, err)
		}
		futures = append(futures, f)
	}
	for i, f := range futures {
		select {
		case <-f.Ok():
		case err := <-f.Err():
			return fmt.Errorf("bus: send chunk %d of model %s: %w", i, d, err)
		case <-ctx.Done():
			return fmt.Errorf("bus: send chunk %d of model %s: %w", i, d, ctx.Err())
		}
	}
	return nil
}

func (q *workQueue) deleteModel(ctx context.Context, d bus.Digest) error {
	q.mu.Lock()
	delete(q.models, d)
	q.mu.Unlock()
	q.store.models.Delete(modelKey{q.run, d})
	if !q.config.PublishModels {
		return nil
	}
	q.deleting.Lock()
	defer q.deleting.Unlock()
	q.unwanted = append(q.unwanted, d)
	for len(q.unwanted) > 0 {
		s, err := q.stream(ctx, subject.ModelsStream(q.run))
		if err == nil {
			err = s.Purge(ctx, jetstream.WithPurgeSubject(subject.ModelChunks(q.run, q.unwanted[0])))
		}
		if err != nil && retriable(err) && ctx.Err() == nil {
			return nil // with the next one: what stays takes memory, nothing else
		}
		if err != nil {
			return fmt.Errorf("bus: delete model %s: %w", q.unwanted[0], err)
		}
		q.unwanted = q.unwanted[1:]
	}
	return nil
}

// exhaustedSubject is where the server says that a job has been handed out for
// the last time and was not acknowledged; terminatedSubject, that a trainer
// declared that nobody can do it.
func (q *workQueue) exhaustedSubject() string {
	return "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES." + subject.JobsStream(q.run) + ".*"
}

func (q *workQueue) terminatedSubject() string {
	return "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED." + subject.JobsStream(q.run) + ".*"
}

func terminationReason(advisory []byte) string {
	var a struct {
		Reason string `json:"reason"`
	}
	if err := json.Unmarshal(advisory, &a); err != nil || a.Reason == "" {
		return "it gave no reason"
	}
	return a.Reason
}

// exhausted finds the job of such an advisory; nil if it is no longer queued.
func (q *workQueue) exhausted(advisory []byte) (*bus.Job, error) {
	var a struct {
		Seq uint64 `json:"stream_seq"`
	}
	if err := json.Unmarshal(advisory, &a); err != nil {
		return nil, fmt.Errorf("bus: the server's advisory of a job that nobody finished: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), RequestTimeout)
	defer cancel()
	s, err := q.stream(ctx, subject.JobsStream(q.run))
	if err != nil {
		return nil, fmt.Errorf("bus: find a job that nobody finished: %w", err)
	}
	m, err := s.GetMsg(ctx, a.Seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("bus: find a job that nobody finished: %w", err)
	}
	j := new(bus.Job)
	return j, bus.Unmarshal(m.Data, j)
}
