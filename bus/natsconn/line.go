package natsconn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/bus"
	"fedpace/bus/internal/subject"
	"fedpace/internal/vector"
)

// This file makes a connection a [bus.Line].

// Publish sends a message without waiting; it may be lost with the connection.
func (c *Conn) Publish(subject string, data []byte) error { return c.nats.Publish(subject, data) }

// Subscribe calls f with the messages on a subject. With a backlog b, messages beyond its bounds are
// dropped and reported to b.Dropped alone; without one a dropped message breaks the connection.
func (c *Conn) Subscribe(subject string, b *bus.Backlog, f func(*bus.RawMessage)) (bus.Subscription, error) {
	s, err := c.nats.Subscribe(subject, func(m *nats.Msg) {
		f(&bus.RawMessage{
			Subject:     m.Subject,
			Reply:       m.Reply,
			Data:        m.Data,
			Misdirected: IsMisdirected(m),
		})
	})
	if err != nil || b == nil {
		return s, err
	}
	c.mu.Lock()
	c.dropHandlers[s] = b.Dropped
	c.mu.Unlock()
	return s, s.SetPendingLimits(b.Messages, b.Bytes)
}

// Ask sends request r until it is answered, r.Retry allows no more attempts, or r.Timeout is over. An
// answer that r.Decode refuses counts as a failed attempt. One attempt may take RequestTimeout and,
// in addition, the time that the request needs on the slowest link.
func (c *Conn) Ask(ctx context.Context, r *bus.Request) error {
	if r.Probe {
		return c.probe(ctx, r)
	}
	// slowestLink is in bytes a second.
	attempt := RequestTimeout + time.Duration(len(r.Data))*time.Second/slowestLink
	retry := Retry{Timeout: r.Timeout, Attempt: attempt, Transient: r.Retry}
	return c.Retry(ctx, retry, func(ctx context.Context) error {
		m, err := c.ask(ctx, r)
		if err != nil {
			return err
		}
		return r.Decode(m.Data)
	})
}

// probe sends request r once, and waits for the answer for at most r.Timeout. Unlike Ask for other requests, it neither
// repeats the request nor finds out whether its answer was lost on the way.
func (c *Conn) probe(ctx context.Context, r *bus.Request) error {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	m, err := c.nats.RequestWithContext(ctx, r.Subject, r.Data)
	if errors.Is(err, nats.ErrNoResponders) {
		return fmt.Errorf("%w: %w", bus.ErrNoListener, err)
	}
	if err != nil {
		return err
	}
	return r.Decode(m.Data)
}

// These are the times after which answers count as lost on their way.
const (
	// pingAfter is how long a request may be without an answer before a ping finds out whether the server has
	// read the request.
	pingAfter = 2 * time.Second
	// answerPatience is how long, after that ping, the answer may take at first. The time doubles with each answer
	// that does not come, and follows those that come: behind a site's slow link, whose server answers the ping, an
	// answer may take minutes.
	answerPatience = 4 * time.Second
	// maxAnswerPatience bounds that time.
	maxAnswerPatience = 5 * time.Minute
)

// errUnheard is the failure of a request that the server has read, but to which no answer arrives.
const errUnheard = TransientError("no answer, although the server has the request")

// ask sends a request once and waits for its answer, until ctx ends. A server may drop subscriptions without a word,
// and with them the answers: a hub whose accounts are reloaded withdraws the interest of its leaf nodes, and a
// permission that was taken away and given back leaves a subscription dead. So if the server has read the request and
// no answer comes in time, the connection is made anew, which announces its subscriptions again.
func (c *Conn) ask(ctx context.Context, r *bus.Request) (*nats.Msg, error) {
	started := time.Now()
	asking, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	pingTimer := time.AfterFunc(pingAfter, func() {
		// The server answers a ping only when it has read all that was sent before, however slow the link is.
		if c.nats.FlushWithContext(asking) != nil {
			return
		}
		select {
		case <-asking.Done():
		case <-time.After(time.Duration(c.answerPatience.Load())):
			cancel(errUnheard)
		}
	})
	defer pingTimer.Stop()
	m, err := c.nats.RequestWithContext(asking, r.Subject, r.Data)
	if err == nil {
		c.noteAnswer(time.Since(started))
		return m, nil
	}
	// The server answers at once that the subject has no subscription.
	if errors.Is(err, nats.ErrNoResponders) {
		return nil, fmt.Errorf("%w: %w", bus.ErrNoListener, err)
	}
	// The library learns of another limit with a new connection only.
	if errors.Is(err, nats.ErrMaxPayload) {
		c.MoveOn("its max_payload may have been raised")
		return nil, fmt.Errorf("%w: it has %d bytes, and the server's max_payload is %d; raise that", bus.ErrTooLarge,
			len(r.Data), c.nats.MaxPayload())
	}
	// The library returns the end of the context; its cause says more.
	if errors.Is(context.Cause(asking), errUnheard) {
		err = errUnheard
	}
	unheard := errors.Is(err, errUnheard) || errors.Is(err, context.DeadlineExceeded)
	if unheard {
		c.answerPatience.Store(min(2*c.answerPatience.Load(), int64(maxAnswerPatience)))
		c.MoveOn("the server has a request of which no answer arrives")
	}
	return nil, err
}

// noteAnswer notes that a request was answered after the time took: the connection serves its
// purpose, and the next answers may take twice that time, or half as long as this one might have, before
// they count as lost.
func (c *Conn) noteAnswer(took time.Duration) {
	c.Useful()
	patience := max(answerPatience, 2*took, time.Duration(c.answerPatience.Load())/2)
	c.answerPatience.Store(int64(min(patience, maxAnswerPatience)))
}

// Settled waits until the server has taken the subscriptions and messages so far.
func (c *Conn) Settled(ctx context.Context) error {
	return c.Do(ctx, "take the subscriptions", RequestTimeout, c.nats.FlushWithContext)
}

// Watch calls failed when the connection is lost for good, and interrupted when it was lost and is
// back, so that messages may be missing. Both get the reason. They are called on goroutines of the
// connection, until stop is called.
func (c *Conn) Watch(failed, interrupted func(error)) (stop func()) {
	unwatchLife := context.AfterFunc(c.life, func() { failed(c.Err()) })
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watchers = append(c.watchers, &interrupted)
	return func() {
		unwatchLife()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.watchers = slices.DeleteFunc(c.watchers, func(f *func(error)) bool { return f == &interrupted })
	}
}

// Life returns a context that ends when the connection is lost for good, but not at Close.
func (c *Conn) Life() context.Context { return c.life }

// Err returns why the connection is lost for good; nil before that.
func (c *Conn) Err() error { return context.Cause(c.life) }

// MaxDamaged is how often one message may arrive damaged before its transfer fails for good: the memory
// of a machine may flip the same bit each time.
const MaxDamaged = 5

// AwaitModel fetches the model with this digest of a run, as [Conn.FetchModel] does. If the model does
// not exist yet, it tries again for at most timeout from the first answer that says so, because a task may arrive
// before its model.
func (c *Conn) AwaitModel(
	ctx context.Context,
	run string,
	digest bus.Digest,
	timeout time.Duration,
) (params []float32, err error) {
	var missingSince time.Time
	mayAppear := func(err error) bool {
		if !errors.Is(err, bus.ErrNoModel) {
			return false
		}
		if missingSince.IsZero() {
			missingSince = time.Now()
		}
		return time.Since(missingSince) < timeout
	}
	err = c.Retry(ctx, Retry{Transient: mayAppear}, func(ctx context.Context) (err error) {
		params, err = c.FetchModel(ctx, run, digest)
		return err
	})
	return params, err
}

// FetchModel gets a run's model from the server and checks its digest. A model that arrives damaged
// is fetched again, at most MaxDamaged times in all. After that the stored copy counts as damaged:
// the error wraps [bus.ErrNoModel], so that the coordinator publishes the model once more.
func (c *Conn) FetchModel(ctx context.Context, run string, d bus.Digest) (params []float32, err error) {
	for range MaxDamaged {
		params, err = c.fetchModel(ctx, run, d)
		if !errors.Is(err, bus.ErrDamaged) {
			return params, err
		}
	}
	return nil, err
}

// damagedModel is the error of a model that arrived other than it was published. It is both
// [bus.ErrDamaged] and [bus.ErrNoModel].
type damagedModel struct{ error }

// Is makes errors.Is find the two errors that a damaged model stands for.
func (damagedModel) Is(target error) bool {
	return target == bus.ErrDamaged || target == bus.ErrNoModel
}

// fetchModel gets each chunk of the model with this digest once, joins them and checks the digest. The first chunk
// says how many there are; all others must agree. If a chunk or the digest does not fit, the error is a damagedModel.
func (c *Conn) fetchModel(ctx context.Context, run string, digest bus.Digest) ([]float32, error) {
	var params []float32
	chunks := 1
	for i := 0; i < chunks; i++ {
		chunk, err := c.fetchChunk(ctx, run, digest, i)
		if err != nil {
			return nil, fmt.Errorf("bus: chunk %d of model %s: %w", i, digest, err)
		}
		const valueBytes = 4
		valuesHere := len(chunk.Values) / valueBytes
		// Memory for chunks as large as the first is enough, so that a false count of parameters takes no more.
		if i == 0 {
			chunks = int(chunk.Chunks)
			params = make([]float32, 0, min(int(chunk.Params), valuesHere*chunks))
		}
		if int(chunk.Chunks) != chunks || len(params)+valuesHere > int(chunk.Params) {
			return nil, damagedModel{fmt.Errorf("bus: chunk %d of model %s does not fit the ones before it", i, digest)}
		}
		params = vector.Append(params, chunk.Values)
	}
	if got := bus.DigestOf(params); got != digest {
		return nil, damagedModel{fmt.Errorf("bus: model %s arrived as %s", digest, got)}
	}
	return params, nil
}

// fetchChunk gets chunk i of a model by a direct get, a request for the last message on the chunk's
// subject, for which a device needs no right but to publish it. It tries again, for at most
// reconnectFor, also while the connection is lost. The error is [bus.ErrNoModel] if the run has no
// stream of models or the stream no such chunk.
func (c *Conn) fetchChunk(ctx context.Context, run string, d bus.Digest, i int) (chunk *bus.ModelChunk, err error) {
	// The server finds no responder if the stream does not exist; then there are no models, and no repetition helps.
	transient := func(err error) bool { return !errors.Is(err, nats.ErrNoResponders) && c.Transient(err) }
	// A cluster may lose a request, so one attempt is short and the request is soon repeated. On a slow link
	// the chunk itself may take as long as ChunkTimeout.
	attempt := RequestTimeout
	if c.config.Slow {
		attempt = ChunkTimeout
	}
	// The server answers a direct get from the stream of the run's models.
	directGet := subject.DirectGet + subject.ModelsStream(run) + "."
	retry := Retry{Timeout: reconnectFor, Attempt: attempt, Transient: transient}
	err = c.Retry(ctx, retry, func(ctx context.Context) error {
		m, err := c.requestChunk(ctx, directGet+subject.Model(run, d, i), directGet+subject.NoChunk(run, d))
		if err != nil {
			return err
		}
		chunk, err = readChunk(m, i)
		return err
	})
	if errors.Is(err, nats.ErrNoResponders) {
		err = bus.ErrNoModel
	}
	return chunk, err
}

// probeAfter is how long a chunk may take before a probe is sent. The time doubles with each probe, up to
// maxProbeAfter, and so does the time within which the probe must be answered. Tests shorten it.
var probeAfter = 2 * time.Second

const (
	maxProbeAfter = 16 * time.Second
	// probeLag is how much later than the answer to a probe a chunk may be seen that arrived before it.
	probeLag = 100 * time.Millisecond
)

// requestChunk sends the request for a chunk until it is answered or ctx ends, and returns the first answer. On a
// slow connection a chunk may be under way for long, or may be lost. Probes tell which: a probe is a request on
// another subject, with a short answer, which is sent later and so cannot arrive before the chunk. When a probe is
// answered and the chunk is not here, it is lost, and the request is sent again.
func (c *Conn) requestChunk(ctx context.Context, request, probe string) (*nats.Msg, error) {
	if !c.config.Slow {
		return c.nats.RequestWithContext(ctx, request, nil)
	}
	type answer struct {
		message *nats.Msg
		err     error
	}
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	answers := make(chan answer)
	for pause := probeAfter; ; pause = min(2*pause, maxProbeAfter) {
		asking.Go(func() {
			m, err := c.nats.RequestWithContext(ctx, request, nil)
			select {
			case answers <- answer{m, err}:
			case <-ctx.Done():
			}
		})
		isOvertaken := make(chan struct{})
		asking.Go(func() {
			if c.awaitProbe(ctx, probe, pause) {
				close(isOvertaken)
			}
		})
		select {
		case a := <-answers:
			return a.message, a.err
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-isOvertaken:
		}
		// Whichever request for the chunk is answered first, the chunk is the same.
	}
}

// awaitProbe sends probes, the first one after pause and each after twice the time of the one before, until one is
// answered, and returns true a moment later (probeLag): what has arrived before that answer has been handled by then.
// It returns false when ctx ends first.
func (c *Conn) awaitProbe(ctx context.Context, probe string, pause time.Duration) bool {
	for ; ; pause = min(2*pause, maxProbeAfter) {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
		probing, cancel := context.WithTimeout(ctx, pause)
		_, err := c.nats.RequestWithContext(probing, probe, nil)
		cancel()
		// Without a responder the request for the chunk finds none, either.
		if err == nil || errors.Is(err, nats.ErrNoResponders) {
			break
		}
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(probeLag):
		return true
	}
}

// readChunk reads the server's answer to the request for chunk i. The server reports a chunk that
// does not exist, or another failure, by a status in the header.
func readChunk(m *nats.Msg, i int) (*bus.ModelChunk, error) {
	if status := m.Header.Get("Status"); status == "404" {
		return nil, bus.ErrNoModel
	} else if status != "" {
		return nil, fmt.Errorf("the server says %s %s", status, m.Header.Get("Description"))
	}
	chunk := new(bus.ModelChunk)
	if err := bus.Unmarshal(m.Data, chunk); err != nil {
		return nil, damagedModel{err}
	}
	// The stored message is of another chunk than its subject says.
	if int(chunk.Chunk) != i {
		return nil, damagedModel{bus.Fault("model chunk", "chunk", chunk.Chunk, fmt.Sprint(i))}
	}
	return chunk, nil
}
