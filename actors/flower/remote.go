package flower

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
)

// Call sends a host the frame of a message for a client, and returns the frame of the reply, for which it waits until
// ctx ends. It calls fetched once the host has the frame.
type Call func(ctx context.Context, client int, frame []byte, fetched func()) ([]byte, error)

// remote is a host whose processes serve messages of this pool. Frames to it have the form of those to a client's
// process, but the host holds each array once for all of its processes.
type remote struct {
	host string
	call Call
	// sending is held while a frame is on its way to the host, because the next frame relies on its arrays.
	sending sync.Mutex
	held    holder
}

// errMissing is the error of a host that lacks arrays which it is supposed to hold, for example after a restart.
var errMissing = errors.New("the host lacks arrays of the message")

// SetHost gives the pool a seat for each of the host's workers, which serve messages by the function call. If the host
// is known already, seats are added or removed until there are as many as workers. 0 workers mean that the host has
// gone: other seats serve its messages. SetHost returns at once.
func (p *Pool) SetHost(host string, workers int, call Call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	r := p.hosts[host]
	if r == nil {
		r = &remote{host: host, call: call}
		p.hosts[host] = r
	}
	// The first workers seats of the host stay.
	p.removeSeats(host, workers)
	if workers == 0 {
		delete(p.hosts, host)
		return
	}
	seats := 0
	for _, s := range p.seats {
		if s.host == host {
			seats++
		}
	}
	for range workers - seats {
		p.add(&seat{host: host, serve: r.serve}, func() {})
	}
}

// serve lets the host serve task t and returns the reply. A task holds only the digests of arrays that the host has
// got before. If the host lacks some of them, ask fails with errMissing, and sends all arrays with the next attempt.
func (r *remote) serve(ctx context.Context, t *Task) (reply *Reply, err error) {
	for range maxAttempts {
		reply, err = r.ask(ctx, t)
		if !errors.Is(err, errMissing) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("message %d to node %d, at host %s: %w", t.Number, t.Node, r.host, err)
	}
	return reply, nil
}

// ask sends task t to the host and waits for the reply. After an error it is not known any more which arrays the host
// holds, so all of them are sent again with the next task.
func (r *remote) ask(ctx context.Context, t *Task) (_ *Reply, err error) {
	r.sending.Lock()
	// Another frame may be sent when this one has arrived, or has failed.
	arrived := sync.OnceFunc(r.sending.Unlock)
	defer func() {
		arrived()
		if err != nil {
			r.sending.Lock()
			r.held = holder{}
			r.sending.Unlock()
		}
	}()
	header, blobs := r.held.request(t)
	var frame bytes.Buffer
	if err := writeFrame(&frame, nil, header, blobs); err != nil {
		return nil, err
	}
	answer, err := r.call(ctx, t.Partition, frame.Bytes(), arrived)
	if err != nil {
		return nil, err
	}
	var a clientReply
	parts, err := readFrame(bufio.NewReader(bytes.NewReader(answer)), nil, &a)
	if err != nil {
		return nil, err
	}
	if a.Missing {
		return nil, errMissing
	}
	if err := a.err(); err != nil {
		return nil, err
	}
	return a.reply(t, parts)
}

// Desk is the host's side of a remote: its pool on this machine serves the frames that the pool of another process
// sends.
type Desk struct {
	pool *Pool
	// mu guards the fields below.
	mu sync.Mutex
	// arrays are those of earlier frames, by digest, and bytes is the size of all together.
	arrays map[string][]byte
	bytes  int
}

// NewDesk returns a desk whose frames the pool serves.
func NewDesk(pool *Pool) *Desk { return &Desk{pool: pool, arrays: map[string][]byte{}} }

// Serve serves the frame of one message and returns the frame of its reply. The blobs of the frame are the arrays
// that the header lists in Names, the text of the message, and the node's state. The message may also refer to
// arrays of earlier frames; if this host has one of them no more, the reply is Missing, and the sender repeats the
// message with all arrays. A task that fails has a reply, too, with the failure. It is an error if the frame is
// not valid, or if ctx ends.
func (d *Desk) Serve(ctx context.Context, frame []byte) ([]byte, error) {
	var header clientRequest
	blobs, err := readFrame(bufio.NewReader(bytes.NewReader(frame)), nil, &header)
	if err != nil {
		return nil, err
	}
	sentArrays := len(header.Names)
	if len(blobs) < sentArrays+1 {
		return nil, fmt.Errorf("a message of %d blobs, want %d arrays and a text", len(blobs), sentArrays)
	}
	t := &Task{
		Message: Message{
			Node:    header.Node,
			Type:    header.Type,
			TTL:     header.TTL,
			Group:   header.Group,
			Content: &Content{Text: string(blobs[sentArrays])},
		},
		ID:        header.ID,
		Partition: header.Partition,
		Ordinal:   header.Ordinal,
		State:     blobs[sentArrays+1:],
	}
	if t.Partition < 0 {
		return nil, fmt.Errorf("a message for partition %d, want 0 or more", t.Partition)
	}
	t.Content.Arrays = d.storeArrays(&header, blobs)
	if len(t.Content.Arrays) < len(header.Arrays) {
		return encodeReply(&clientReply{Missing: true}, nil)
	}
	// One result comes for each task, also when the pool is closed.
	done := make(chan Result, 1)
	d.pool.Submit(t, func(r Result) { done <- r })
	select {
	case r := <-done:
		return encodeResult(&r)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// storeArrays stores the arrays of a frame and drops those that its header lists in Drop. It returns the arrays of the
// message in their order, fewer if this host lacks some.
func (d *Desk) storeArrays(header *clientRequest, blobs [][]byte) []Array {
	d.mu.Lock()
	defer d.mu.Unlock()
	// A sender drops arrays beyond maxHeld. If it does not, all are dropped here, and it sends again what is missing.
	if d.bytes > 2*maxHeld {
		clear(d.arrays)
		d.bytes = 0
	}
	for _, digest := range header.Drop {
		d.bytes -= len(d.arrays[digest])
		delete(d.arrays, digest)
	}
	for i, digest := range header.Names {
		d.bytes += len(blobs[i]) - len(d.arrays[digest])
		d.arrays[digest] = blobs[i]
	}
	var list []Array
	for _, digest := range header.Arrays {
		if data, ok := d.arrays[digest]; ok {
			list = append(list, Array{digest, data})
		}
	}
	return list
}

// encodeResult returns the reply's frame for the result of a task: the reply, or the failure. The node's state is part
// of it only if it has changed.
func encodeResult(r *Result) ([]byte, error) {
	if r.Err != nil {
		var failed *Failed
		refused := errors.As(r.Err, &failed) && failed.Refused
		return encodeReply(&clientReply{failure: failure{r.Err.Error(), refused}}, nil)
	}
	a := &clientReply{
		Replied: r.Reply.Content != nil,
		Size:    r.Reply.Size,
		Steps:   r.Reply.Steps,
		Known:   r.Reply.Known,
		Metrics: r.Reply.Metrics,
		Seconds: r.Reply.Seconds,
		Raised:  r.Reply.Raised,
		Code:    r.Reply.Code,
		State:   "same",
	}
	blobs := r.Reply.Content
	if a.Replied {
		a.Arrays = len(blobs) - 1
	}
	if a.Replied && !sameState(r.Reply.State, r.Task.State) {
		a.State = "new"
		blobs = append(blobs[:len(blobs):len(blobs)], r.Reply.State...)
	}
	return encodeReply(a, blobs)
}

// sameState reports whether two states share their memory, as the state of a reply does with that of its task if the
// node has not changed it. Equal states in different memory are not the same.
func sameState(a, b [][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	return len(a) == 0 || &a[0] == &b[0]
}

// encodeReply returns the frame of a reply with header a and these blobs.
func encodeReply(a *clientReply, blobs [][]byte) ([]byte, error) {
	var frame bytes.Buffer
	err := writeFrame(&frame, nil, a, blobs)
	return frame.Bytes(), err
}
