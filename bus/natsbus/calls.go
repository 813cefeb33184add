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

// A call is a message of a Flower app to a simulated client, which a host serves. The coordinator says on the
// client's subject that there is one, again and again until it has the reply. The host fetches the frame of the
// message in parts, and sends that of the reply in parts; both are requests of the host, which tries them again. So a
// message that is lost on its way, and a host that starts again, cost time and nothing else.

const (
	// callAgain is the time between two announcements of a call.
	callAgain = 2 * time.Second
	// moreCalls is how many calls a host holds beside those that its workers serve: they are on their way
	// meanwhile.
	moreCalls = 8
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
	// fetched is told when the host has asked for the last part; nil: nobody wants to know.
	fetched func()
	// reply are the parts of the reply that have come, nil for one that has not, and size their bytes.
	reply [][]byte
	size  int
	// answer takes the frame of the reply, once.
	answer chan []byte
}

// WatchHosts implements [bus.Caller]. Without Info in its configuration, the coordinator has no hosts in
// other processes, and changed is never called.
func (c *Coordinator) WatchHosts(changed func(host string, workers int)) {
	if c.hosts != nil {
		c.hosts.watch(changed)
	}
}

// Call implements [bus.Caller].
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
		client:  client,
		host:    host,
		parts:   slices.Collect(slices.Chunk(frame, 4*c.chunkSize())),
		fetched: fetched,
		answer:  make(chan []byte, 1),
	}
	number := c.calls.begin(o)
	defer c.calls.end(number)
	ctx, cancel := bus.Until(ctx, c.life)
	defer cancel()
	again := time.NewTicker(callAgain)
	defer again.Stop()
	for {
		if err := c.announceCall(number, o); err != nil {
			return nil, err
		}
		select {
		case answer := <-o.answer:
			return answer, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-again.C:
		}
	}
}

// announceCall tells the host of the open call o with this number. Over a connection that is away the message is lost,
// which the next announcement makes up for.
func (c *Coordinator) announceCall(number uint64, o *openCall) error {
	w := &bus.Call{Call: number, Parts: uint32(len(o.parts)), Fence: c.lease.fence.token.Load()}
	if c.hosts != nil {
		w.Stamp = c.hosts.Info.Stamp
	}
	b, err := bus.Marshal(nil, w)
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

// end forgets a call. What its host still asks or sends is answered that it is over.
func (t *callTable) end(number uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, number)
}

// find returns the open call that the message p on a subject of a client belongs to; nil if there is none, or if
// another host has it.
func (t *callTable) find(p *bus.CallPart, client int) *openCall {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.open[p.Call]
	if o == nil || o.client != client || o.host != p.Host {
		return nil
	}
	return o
}

// readPart decodes what a host says of a call, on a subject of a client with a verb. A message that no host sends
// counts as ignored, and ok is false; a damaged one has no answer, so the host asks again.
func (c *Coordinator) readPart(m *nats.Msg, verb string) (p *bus.CallPart, client int, ok bool) {
	client, ok = c.subject.Client(m.Subject, verb)
	p = new(bus.CallPart)
	if !ok || natsconn.Relayed(m) || bus.UnmarshalSealed(m.Data, p) != nil {
		c.ignored.Add(1)
		return nil, 0, false
	}
	return p, client, true
}

// onFetch answers a host that asks for a part of a call's frame. An answer without parts says that the call is
// over.
func (c *Coordinator) onFetch(m *nats.Msg) {
	p, client, ok := c.readPart(m, subject.Fetch)
	if !ok {
		return
	}
	answer := &bus.CallPart{Call: p.Call, Host: p.Host}
	o := c.calls.find(p, client)
	isLast := false
	if o != nil && int(p.Part) < len(o.parts) {
		answer.Part = p.Part
		answer.Parts = uint32(len(o.parts))
		answer.Data = o.parts[p.Part]
		isLast = p.Part == answer.Parts-1
	}
	// The caller hears of the last part before the host does, so never after the call's reply.
	if isLast && o.fetched != nil {
		o.fetched()
	}
	if b, err := bus.MarshalSealed(answer); err == nil {
		// A closed connection has a handler of its own.
		_ = m.Respond(b)
	}
}

// onReply takes a part of a reply. The host sends the next one when it has the answer.
func (c *Coordinator) onReply(m *nats.Msg) {
	p, client, ok := c.readPart(m, subject.Reply)
	if !ok {
		return
	}
	o := c.calls.find(p, client)
	// A call that is over has its reply, or another host has it now.
	if o == nil {
		c.sums.reply(m, bus.Repeated, "")
		return
	}
	if err := o.add(p); err != nil {
		c.sums.reply(m, bus.Refused, err.Error())
		return
	}
	c.sums.reply(m, bus.Continue, "")
}

// add takes a part of the reply, in any order and repeatedly. A host that divides the reply otherwise than before has
// started over. Only the subscription to replies calls it, so it needs no lock.
func (o *openCall) add(p *bus.CallPart) error {
	if p.Parts == 0 {
		return bus.Fault("call part", "parts", p.Parts, "at least 1 in a reply")
	}
	if len(o.reply) != int(p.Parts) {
		o.reply = make([][]byte, p.Parts)
		o.size = 0
	}
	o.size += len(p.Data) - len(o.reply[p.Part])
	if o.size > bus.MaxFrame {
		return bus.Fault("call part", "parts", fmt.Sprint(o.size, " bytes"), fmt.Sprint("at most ", bus.MaxFrame))
	}
	// An empty part has come, too.
	o.reply[p.Part] = append([]byte{}, p.Data...)
	if slices.ContainsFunc(o.reply, func(part []byte) bool { return part == nil }) {
		return nil
	}
	select {
	case o.answer <- bytes.Join(o.reply, nil):
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

// begin notes that the host holds a call, and reports whether it is to serve it: it holds the call not yet,
// and less than limit others.
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

// ServeCalls implements [bus.Callee]. The host's heartbeats begin here.
func (h *Host) ServeCalls(
	ctx context.Context,
	fn func(ctx context.Context, client int, frame []byte) ([]byte, error),
) error {
	clients := subject.ClientSubjects(h.run)
	verb := subject.MessageFor(h.config.Name)
	sub, err := h.conn.Listen(subject.AnyClient(h.run, verb), "", func(m *nats.Msg) {
		client, ok := clients.Client(m.Subject, verb)
		w := new(bus.Call)
		if !ok || natsconn.Relayed(m) || bus.Unmarshal(m.Data, w) != nil {
			return
		}
		if h.config.Stamp != 0 && w.Stamp != h.config.Stamp {
			h.end(fmt.Errorf("bus: run %s: %w", h.run, bus.ErrStale))
			return
		}
		// A call beyond the limit is announced again.
		if !h.fence.admits(w.Fence) || !h.calls.begin(w.Call, h.config.Workers+moreCalls) {
			return
		}
		h.serving.Go(func() {
			defer h.calls.end(w.Call)
			if err := h.serveCall(clients, client, w, fn); err != nil {
				h.end(err)
			}
		})
	})
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

// errCallOver is the error of a call that the coordinator does not wait for any more.
var errCallOver = errors.New("the call is over")

// serveCall serves the call w for a client: it fetches the frame, lets fn serve it, and sends the reply. It returns nil
// for a call that is over meanwhile, and an error by which the host ends.
func (h *Host) serveCall(
	clients subject.Clients,
	client int,
	w *bus.Call,
	fn func(ctx context.Context, client int, frame []byte) ([]byte, error),
) error {
	frame, err := h.fetchCall(clients.Subject(client, subject.Fetch), w)
	if err == nil {
		frame, err = fn(h.life, client, frame)
	}
	if err == nil {
		err = h.sendReply(clients.Subject(client, subject.Reply), w.Call, frame)
	}
	// A host that ends has no other error to tell.
	if errors.Is(err, errCallOver) || h.life.Err() != nil {
		return nil
	}
	return err
}

// fetchCall asks on a subject for the frame of a call, part by part.
func (h *Host) fetchCall(on string, w *bus.Call) ([]byte, error) {
	var frame []byte
	for part := range w.Parts {
		var answer bus.CallPart
		question := &bus.CallPart{
			Call:  w.Call,
			Part:  part,
			Parts: w.Parts,
			Host:  h.config.Name,
		}
		if err := h.callRequest(on, question, func(b []byte) error { return bus.UnmarshalSealed(b, &answer) }); err != nil {
			return nil, err
		}
		if answer.Parts != w.Parts || answer.Part != part {
			return nil, errCallOver
		}
		frame = append(frame, answer.Data...)
		if len(frame) > bus.MaxFrame {
			return nil, errCallOver
		}
	}
	return frame, nil
}

// sendReply sends on a subject the frame of a reply, part by part.
func (h *Host) sendReply(on string, call uint64, frame []byte) error {
	size := min(bus.ChunkBytes, int(h.conn.NATS().MaxPayload())-1024)
	parts := slices.Collect(slices.Chunk(frame, size))
	for i, data := range parts {
		var answer bus.SumReply
		w := &bus.CallPart{
			Call:  call,
			Part:  uint32(i),
			Parts: uint32(len(parts)),
			Data:  data,
			Host:  h.config.Name,
		}
		if err := h.callRequest(on, w, func(b []byte) error { return bus.UnmarshalSealed(b, &answer) }); err != nil {
			return err
		}
		if answer.Status != bus.Continue {
			return errCallOver
		}
	}
	return nil
}

// callRequest sends p on a subject until it is answered by something that decode can read. It ends with the host.
func (h *Host) callRequest(on string, p *bus.CallPart, decode func([]byte) error) error {
	b, err := bus.MarshalSealed(p)
	if err != nil {
		return err
	}
	damaged := 0
	passes := func(err error) bool {
		return h.conn.Transient(err) || errors.Is(err, bus.ErrDamaged) && damaged < natsconn.MaxDamaged
	}
	err = h.conn.Retry(h.life, natsconn.Retry{Attempt: sumPatience, Transient: passes}, func(ctx context.Context) error {
		reply, err := h.conn.NATS().RequestWithContext(ctx, on, b)
		if err != nil {
			return err
		}
		err = decode(reply.Data)
		if err != nil {
			damaged++
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("bus: call on %s: %w", on, err)
	}
	return nil
}
