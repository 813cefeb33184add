//go:build unix

package cmd

import (
	le "encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"fedpace/bus"
	"fedpace/bus/auth"
)

// raw is a device's credentials in the hands of a test that speaks docs/protocol.md itself. What devices can do to
// harm a run is in the attack suite.
type raw struct {
	*site
	id    string
	nats  *nats.Conn
	tasks *nats.Subscription
	last  uint64 // task
}

func (s *site) raw(id string) *raw {
	s.Helper()
	h := &raw{site: s, id: id}
	var err error
	h.nats, err = nats.Connect(s.url, nats.UserCredentials(s.creds(id)), nats.CustomInboxPrefix(auth.InboxPrefix(id)),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), nats.MaxReconnects(5))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(h.nats.Close)
	h.tasks, err = h.nats.SubscribeSync("fedpace.mixed.client." + id + ".task")
	if err != nil {
		s.Fatal(err)
	}
	return h
}

func (h *raw) subject(verb string) string { return "fedpace.mixed.client." + h.id + "." + verb }

// ask sends a request until it is answered.
func (h *raw) ask(subject string, m proto.Message) *bus.DeviceReply {
	h.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		h.Fatal(err)
	}
	for asked := range 50 {
		answer, err := h.nats.Request(subject, b, 20*time.Second)
		if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, nats.ErrTimeout) {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		if err != nil {
			h.Fatal(err)
		}
		var r bus.DeviceReply
		if err := proto.Unmarshal(answer.Data, &r); err != nil {
			h.Fatal(err)
		}
		if asked > 0 && r.Status == bus.Status_STATUS_REPEATED { // the first was accepted, and its answer was late
			r.Status = bus.Status_STATUS_ACCEPTED
		}
		return &r
	}
	h.Fatalf("no answer to %T on %s", m, subject)
	return nil
}

func (h *raw) join() {
	h.Helper()
	if r := h.ask(h.subject("join"), &bus.Join{Name: h.id}); r.Status != bus.Status_STATUS_ACCEPTED {
		h.Fatalf("the join is answered %v: %s", r.Status, r.Reason)
	}
}

// task is the next task. One that is sent again, because it takes long, is the same.
func (h *raw) task() *bus.Task {
	h.Helper()
	for {
		m, err := h.tasks.NextMsg(30 * time.Second)
		if err != nil {
			h.Fatalf("no task for %s: %v\n%v", h.id, err, h.lines)
		}
		var t bus.Task
		if err := proto.Unmarshal(m.Data, &t); err != nil {
			h.Fatal(err)
		}
		if t.Task != 0 && t.Task != h.last || t.Over {
			h.last = t.Task
			return &t
		}
	}
}

// send sends an update of these values and returns the last answer.
func (h *raw) send(task uint64, values []float32, change func(*bus.Update)) *bus.DeviceReply {
	h.Helper()
	b := make([]byte, 0, 4*len(values))
	for _, x := range values {
		b = le.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	const size = 1 << 19
	chunks := (len(b) + size - 1) / size
	for i := range chunks {
		u := &bus.Update{Task: task, Chunk: uint32(i), Chunks: uint32(chunks), Values: b[i*size : min((i+1)*size, len(b))]}
		if r := h.ask(h.subject(fmt.Sprint("update.", i)), u); r.Status != bus.Status_STATUS_CONTINUE {
			return r
		}
	}
	last := &bus.Update{Task: task, Chunk: uint32(chunks), Chunks: uint32(chunks), DownloadNs: 1e6, ComputeNs: 1e6, UploadNs: 1e6, FirstStepLoss: 1, Samples: 10}
	if change != nil {
		change(last)
	}
	return h.ask(h.subject(fmt.Sprint("update.", chunks)), last)
}

// model fetches a task's model as docs/protocol.md has it.
func (h *raw) model(task *bus.Task) (values []float32) {
	h.Helper()
	for i, chunks := 0, 1; i < chunks; i++ {
		m, err := h.nats.Request(fmt.Sprintf("$JS.API.DIRECT.GET.fedpace_mixed_models.fedpace.mixed.model.%x.%d", task.ModelDigest, i), nil, 5*time.Second)
		if err != nil {
			h.Fatal(err)
		}
		var c bus.ModelChunk
		if err := proto.Unmarshal(m.Data, &c); err != nil {
			h.Fatal(err)
		}
		chunks = int(c.Chunks)
		for b := c.Values; len(b) >= 4; b = b[4:] {
			values = append(values, math.Float32frombits(le.LittleEndian.Uint32(b)))
		}
	}
	return values
}
