package natsbus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/bus"
	"fedpace/bus/internal/subject"
	"fedpace/bus/natsconn"
)

// A call is a message of a Flower app to a simulated client, which a host serves. The coordinator announces the call
// on the client's subject repeatedly until it has the reply. The host fetches the frame of the message in parts, and
// sends the frame of the reply in parts; both are requests of the host, which repeats them. So a message that is
// lost on its way, and a host that starts again, cost time and nothing else.

const (
	// announceCallEvery is the time between two announcements of a call.
	announceCallEvery = 2 * time.Second
	// queuedCalls is how many calls a host holds beside those that its workers serve. Their frames are fetched
	// while the workers are busy.
	queuedCalls = 8
)

// callTable is the coordinator's calls that have no reply yet.
type callTable struct {
	mu sync.Mutex
	// last is the number of the newest call, and open are the calls by their numbers.
	last uint64
	open map[uint64]*openCall
}

// openCall is a call without a reply.
type openCall struct {
	// client and host are those that the call is for.
	client int
	host   string
	// parts is the frame of the message, in parts.
	parts [][]byte
	// fetched is called when the host has requested the last part. It may be nil.
	fetched func()
	// replyParts are the parts of the reply that have arrived, nil for one that has not, and replyBytes is the sum of
	// their lengths.
	replyParts [][]byte
	replyBytes int
	// replyFrame takes the frame of the reply, once.
	replyFrame chan []byte
}

// WatchHosts implements [bus.Caller]: it has changed called with the hosts that are present and with each
// change of their workers. Without Info in its configuration, the coordinator has no hosts in other
// processes, and changed is never called.
func (c *Coordinator) WatchHosts(changed func(host string, workers int)) {
	if c.hosts != nil {
		c.hosts.watch(changed)
	}
}

// Call implements [bus.Caller]: it sends a frame for a client to a host and returns the frame of the reply. It
// announces the call again and again until the reply arrives or ctx ends; the host fetches the frame and serves it.
// fetched, if not nil, is called when the host requests the last part of the frame, so that it has the whole; that
// may happen more than once.
func (c *Coordinator) Call(
	ctx context.Context,
	host string,
	client int,
	frame []byte,
	fetched func(),
) ([]byte, error) {
	if client < 0 || client > bus.MaxClients || len(frame) == 0 || len(frame) > bus.MaxFrame {
		return nil, fmt.Errorf(
			"bus: a call of %d bytes for client %d, want 1 to %d bytes for a client from 0 to %d",
			len(frame),
			client,
			bus.MaxFrame,
			bus.MaxClients,
		)
	}
	o := &openCall{
		client:     client,
		host:       host,
		parts:      slices.Collect(slices.Chunk(frame, c.conn.partBytes())),
		fetched:    fetched,
		replyFrame: make(chan []byte, 1),
	}
	number := c.calls.begin(o)
	defer c.calls.end(number)
	ctx, cancel := bus.Until(ctx, c.life)
	defer cancel()
	again := time.NewTicker(announceCallEvery)
	defer again.Stop()
	for {
		if err := c.announceCall(number, o); err != nil {
			return nil, err
		}
		select {
		case answer := <-o.replyFrame:
			return answer, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-again.C:
		}
	}
}

// announceCall announces the open call o with this number to its host. While the connection is away the message is
// lost without an error, since the next announcement follows.
func (c *Coordinator) announceCall(number uint64, o *openCall) error {
	announcement := &bus.Call{Call: number, Parts: uint32(len(o.parts)), Fence: c.lease.fence.token.Load()}
	// A host of another process needs the stamp of the run's configuration. Without a registry of such hosts there are
	// none.
	if c.hosts != nil {
		announcement.Stamp = c.hosts.Info.Stamp
	}
	b, err := bus.Marshal(nil, announcement)
	if err != nil {
		return err
	}
	err = c.conn.Publish(c.subject.Subject(o.client, subject.MessageFor(o.host)), b)
	if err != nil && !c.conn.Transient(err) {
		return fmt.Errorf("bus: message to client %d at host %s: %w", o.client, o.host, err)
	}
	return nil
}

// begin opens a call and returns its number.
func (t *callTable) begin(o *openCall) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	t.open[t.last] = o
	return t.last
}

// end forgets a call. Later requests of its host are answered that the call is over.
func (t *callTable) end(number uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, number)
}

// find returns the open call to which the message part of a host, on a subject of this client, belongs. It is nil if
// there is none, or if the call is for another host.
func (t *callTable) find(part *bus.CallPart, client int) *openCall {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.open[part.Call]
	if o == nil || o.client != client || o.host != part.Host {
		return nil
	}
	return o
}

// readPart decodes m, a host's message about a call, which names its client in the subject and has this verb. ok is
// false for a message that cannot be read or that no host sends: it counts as ignored and gets no answer, so a host
// whose message was damaged on its way sends it again.
func (c *Coordinator) readPart(m *nats.Msg, verb string) (p *bus.CallPart, client int, ok bool) {
	client, ok = c.subject.Client(m.Subject, verb)
	p = new(bus.CallPart)
	if !ok || natsconn.IsMisdirected(m) || bus.UnmarshalSealed(m.Data, p) != nil {
		c.ignored.Add(1)
		return nil, 0, false
	}
	return p, client, true
}

// onFetch answers a host's request for a part of a call's frame. An answer without parts says that the call is
// over.
func (c *Coordinator) onFetch(m *nats.Msg) {
	request, client, ok := c.readPart(m, subject.Fetch)
	if !ok {
		return
	}
	answer := &bus.CallPart{Call: request.Call, Host: request.Host}
	o := c.calls.find(request, client)
	isLast := false
	if o != nil && int(request.Part) < len(o.parts) {
		answer.Part = request.Part
		answer.Parts = uint32(len(o.parts))
		answer.Data = o.parts[request.Part]
		isLast = request.Part == answer.Parts-1
	}
	// The caller is informed before the host has the last part, and so before the call's reply.
	if isLast && o.fetched != nil {
		o.fetched()
	}
	if b, err := bus.MarshalSealed(answer); err == nil {
		// A closed connection has a handler of its own.
		_ = m.Respond(b)
	}
}

// onReply takes a part of a reply and answers it. The host sends the next part when it has the answer.
func (c *Coordinator) onReply(m *nats.Msg) {
	part, client, ok := c.readPart(m, subject.Reply)
	if !ok {
		return
	}
	o := c.calls.find(part, client)
	// A call that is over has its reply, or another host has it now.
	if o == nil {
		c.sums.reply(m, bus.Repeated, "")
		return
	}
	if err := o.addReplyPart(part); err != nil {
		c.sums.reply(m, bus.Refused, err.Error())
		return
	}
	c.sums.reply(m, bus.Continue, "")
}

// addReplyPart takes a part of the reply. Parts may arrive in any order and repeatedly; with the last that was missing
// the reply is complete. Another number of parts than before means that the host has started over. Only the
// subscription to replies calls addReplyPart, so it needs no lock.
func (o *openCall) addReplyPart(p *bus.CallPart) error {
	if p.Parts == 0 {
		return bus.Fault("call part", "parts", p.Parts, "at least 1 in a reply")
	}
	if len(o.replyParts) != int(p.Parts) {
		o.replyParts = make([][]byte, p.Parts)
		o.replyBytes = 0
	}
	// A part that arrives again takes the place of its first copy.
	o.replyBytes += len(p.Data) - len(o.replyParts[p.Part])
	if o.replyBytes > bus.MaxFrame {
		return bus.Fault("call part", "parts", fmt.Sprint(o.replyBytes, " bytes"), fmt.Sprint("at most ", bus.MaxFrame))
	}
	// An empty part has arrived, too, so it must not be nil.
	o.replyParts[p.Part] = append([]byte{}, p.Data...)
	if slices.ContainsFunc(o.replyParts, func(part []byte) bool { return part == nil }) {
		return nil
	}
	select {
	case o.replyFrame <- bytes.Join(o.replyParts, nil):
	// The reply is there already.
	default:
	}
	return nil
}

// servedCalls are the numbers of the calls that a host holds.
type servedCalls struct {
	mu   sync.Mutex
	open map[uint64]bool
}

// begin reports whether the host is to serve a call, and notes the call if so: the host does not hold the call
// yet, and holds fewer than limit others.
func (s *servedCalls) begin(number uint64, limit int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[number] || len(s.open) >= limit {
		return false
	}
	s.open[number] = true
	return true
}

// end notes that the host holds a call no longer.
func (s *servedCalls) end(number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, number)
}

// ServeCalls implements [bus.Callee]: it begins to answer the calls for this host, each by fn on a
// goroutine of its own, until the host ends. The host's heartbeats begin here, too.
func (h *Host) ServeCalls(
	ctx context.Context,
	fn func(ctx context.Context, client int, frame []byte) ([]byte, error),
) error {
	server := &callServer{host: h, clients: subject.ClientSubjects(h.run), serve: fn}
	announcements := subject.AnyClient(h.run, subject.MessageFor(h.config.Name))
	sub, err := h.conn.Listen(announcements, "", server.onCall)
	if err != nil {
		return err
	}
	h.serving.Go(func() {
		<-h.life.Done()
		// Unsubscribe fails only on a closed connection, which has no subscriptions.
		_ = sub.Unsubscribe()
	})
	if err := h.conn.Settled(ctx); err != nil {
		return err
	}
	h.serving.Go(func() { h.conn.publishEvery(h.life, heartbeatEvery, subject.Info(h.run), h.presence) })
	return nil
}

// callServer serves the calls for a host.
type callServer struct {
	host *Host
	// clients makes the subjects of the run's clients.
	clients subject.Clients
	// serve returns the frame of the reply to a frame for a client.
	serve func(ctx context.Context, client int, frame []byte) ([]byte, error)
}

// onCall handles the announcement of a call for the host, and begins to serve the call on a goroutine of its own. The
// coordinator repeats the announcement until it has the reply, so onCall does nothing for a call that the host
// serves already, and leaves one that is too many to a later announcement.
func (s *callServer) onCall(m *nats.Msg) {
	h := s.host
	client, ok := s.clients.Client(m.Subject, subject.MessageFor(h.config.Name))
	announced := new(bus.Call)
	if !ok || natsconn.IsMisdirected(m) || bus.Unmarshal(m.Data, announced) != nil {
		return
	}
	// The host joined an earlier attempt of the run, with another configuration.
	if h.config.Stamp != 0 && announced.Stamp != h.config.Stamp {
		h.end(fmt.Errorf("bus: run %s: %w", h.run, bus.ErrStale))
		return
	}
	if !h.highestFence.admits(announced.Fence) || !h.calls.begin(announced.Call, h.config.Workers+queuedCalls) {
		return
	}
	h.serving.Go(func() {
		defer h.calls.end(announced.Call)
		if err := s.answer(client, announced); err != nil {
			h.end(err)
		}
	})
}

// errCallOver is the error of a call that the coordinator does not wait for any more.
var errCallOver = errors.New("the call is over")

// answer answers a call for a client: it fetches the frame, serves it, and sends the frame of the reply. It returns
// nil if the call ends meanwhile. An error ends the host.
func (s *callServer) answer(client int, call *bus.Call) error {
	h := s.host
	frame, err := h.fetchCall(s.clients.Subject(client, subject.Fetch), call)
	if err == nil {
		frame, err = s.serve(h.life, client, frame)
	}
	if err == nil {
		err = h.sendReply(s.clients.Subject(client, subject.Reply), call.Call, frame)
	}
	// A host that ends already has an error.
	if errors.Is(err, errCallOver) || h.life.Err() != nil {
		return nil
	}
	return err
}

// fetchCall requests the frame of a call part by part, on a subject (fetch), and returns the frame. It returns
// errCallOver if the coordinator does not have the call any more.
func (h *Host) fetchCall(fetch string, call *bus.Call) ([]byte, error) {
	var frame []byte
	for part := range call.Parts {
		var answer bus.CallPart
		question := &bus.CallPart{
			Call:  call.Call,
			Part:  part,
			Parts: call.Parts,
			Host:  h.config.Name,
		}
		err := h.callRequest(fetch, question, func(b []byte) error { return bus.UnmarshalSealed(b, &answer) })
		if err != nil {
			return nil, err
		}
		if answer.Parts != call.Parts || answer.Part != part {
			return nil, errCallOver
		}
		frame = append(frame, answer.Data...)
		if len(frame) > bus.MaxFrame {
			return nil, errCallOver
		}
	}
	return frame, nil
}

// sendReply sends the frame of the reply to a call part by part, on a subject (reply). It returns errCallOver if the
// coordinator does not take it.
func (h *Host) sendReply(reply string, call uint64, frame []byte) error {
	parts := slices.Collect(slices.Chunk(frame, h.conn.partBytes()))
	for i, data := range parts {
		var answer bus.SumReply
		message := &bus.CallPart{
			Call:  call,
			Part:  uint32(i),
			Parts: uint32(len(parts)),
			Data:  data,
			Host:  h.config.Name,
		}
		err := h.callRequest(reply, message, func(b []byte) error { return bus.UnmarshalSealed(b, &answer) })
		if err != nil {
			return err
		}
		if answer.Status != bus.Continue {
			return errCallOver
		}
	}
	return nil
}

// callRequest sends a part on a subject, repeatedly until there is an answer that decode can read. It returns an error
// when the host ends.
func (h *Host) callRequest(subject string, part *bus.CallPart, decode func([]byte) error) error {
	b, err := bus.MarshalSealed(part)
	if err != nil {
		return err
	}
	if _, err := h.repeatRequest(h.life, subject, b, decode); err != nil {
		return fmt.Errorf("bus: call on %s: %w", subject, err)
	}
	return nil
}
