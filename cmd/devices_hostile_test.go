//go:build unix

package cmd

import (
	le "encoding/binary"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"fedpace/bus"
	"fedpace/bus/auth"
	"fedpace/coordinator/round"
	"fedpace/internal/testkit/slow"
)

// hostile is a device's credentials in the hands of somebody else.
type hostile struct {
	*site
	id    string
	nats  *nats.Conn
	tasks *nats.Subscription
	last  uint64 // task
	hello *bus.Welcome
}

func (s *site) raw(id string) *hostile {
	s.Helper()
	h := &hostile{site: s, id: id}
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

func (h *hostile) subject(verb string) string { return "fedpace.mixed.client." + h.id + "." + verb }

// ask sends a request until it is answered.
func (h *hostile) ask(subject string, m proto.Message) *bus.DeviceReply {
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

func (h *hostile) join() {
	h.Helper()
	if r := h.ask(h.subject("join"), &bus.Join{Name: h.id}); r.Status == bus.Status_STATUS_ACCEPTED {
		h.hello = r.Welcome
	} else {
		h.Fatalf("the join is answered %v: %s", r.Status, r.Reason)
	}
}

// task is the next task. One that is sent again, because it takes long, is the same.
func (h *hostile) task() *bus.Task {
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
func (h *hostile) send(task uint64, values []float32, change func(*bus.Update)) *bus.DeviceReply {
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
func (h *hostile) model(task *bus.Task) (values []float32) {
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

// Whatever a device with its credentials sends, its run's result is that of the
// run in which it only ever answered with what cannot count: nothing is stopped,
// nothing is counted twice, and a flood costs the device its place alone.
func TestDevices_Hostile(t *testing.T) {
	t.Parallel()
	s := newSite(t, 6, 3, 7, "devices: {keep_updates: true, names: [evil, good], liveness_seconds: 20, norm_limit: 1000, link: modelled}\n")
	h := s.raw("evil")
	h.join()
	s.actor("good")
	refused := func(what string, r *bus.DeviceReply, reason string) {
		t.Helper()
		if r.Status != bus.Status_STATUS_REFUSED || !strings.Contains(r.Reason, reason) {
			t.Errorf("%s is answered %v: %q; want a refusal with %q", what, r.Status, r.Reason, reason)
		}
	}
	var last *bus.Task
	for n, attack := range []struct {
		name   string
		change func(values []float32) []float32
		last   func(*bus.Update)
		reason string
	}{
		{"not a number", func(v []float32) []float32 { v[7] = float32(math.NaN()); return v }, nil, "parameter 7 is NaN"},
		{"infinity", func(v []float32) []float32 { v[0] = float32(math.Inf(-1)); return v }, nil, "parameter 0 is -Inf"},
		{"a huge norm", func(v []float32) []float32 { v[3] += 1001; return v }, nil, "norm is 1e+03, the limit is 1000"},
		{"a wrong shape", func(v []float32) []float32 { return v[:100] }, nil, "100 values"},
		{"10 MB", func([]float32) []float32 { return make([]float32, 10<<20/4) }, nil, "over 209662 values"},
		{"nine years", nil, func(u *bus.Update) { u.DownloadNs = 1 << 58 }, "took 80063h"},
		{"negative durations", nil, func(u *bus.Update) { u.ComputeNs = -1 }, "compute_ns is -1"},
	} {
		task := h.task()
		values := h.model(task)
		if n == 0 {
			// Another's task, an old round, replays and noise, none of which ends the task.
			refused("another's task", h.send(task.Task+1, values, nil), "is not open")
			refused("no task", h.ask(h.subject("update.0"), &bus.Update{Task: 1, Chunks: 1, Values: []byte{1, 2, 3, 4}}), "task 1 is not open")
			refused("noise as a join", h.ask(h.subject("join"), &bus.Join{Samples: 1 << 60}), "samples")
			for _, verb := range []string{"update.0", "join", "heartbeat"} {
				if err := h.nats.Publish(h.subject(verb), []byte("\xff\xff\xff noise \x00")); err != nil {
					t.Fatal(err)
				}
			}
		}
		if last != nil {
			refused("an old round", h.send(last.Task, values, nil), "is not open")
		}
		if attack.change != nil {
			values = attack.change(values)
		}
		refused(attack.name, h.send(task.Task, values, attack.last), attack.reason)
		refused(attack.name+" again", h.send(task.Task, h.ones(10), nil), "")
		last = task
	}
	summary := s.end()
	if r, a := summary.Outcomes[round.Refused], summary.Outcomes[round.Accepted]; r != 7 || a != 7*7 {
		t.Errorf("%d refused, %d accepted; want 7 and the others' 49:\n%v", r, a, s.lines)
	}
	// Each reason is told once for the device, and each refused update.
	for pattern, most := range map[string]int{"ignored \\(stale": 1, "ignored \\(malformed": 1, "is refused": 7} {
		if n := len(regexp.MustCompile(pattern).FindAllString(s.lines.String(), -1)); n < 1 || n > most {
			t.Errorf("%q is said %d times, want 1 to %d:\n%v", pattern, n, most, s.lines)
		}
	}

	// What it sent left no trace: the honest device's and the simulated clients'
	// updates alone give this model.
	if _, stderr, exit := finish(t, fedpace(t, "run", "--replay", s.path("run"), "--out", s.path("again"), "--quiet")); exit != 0 {
		t.Fatal(stderr)
	}
	if again := s.summary("again"); *again.ModelSHA256 != *summary.ModelSHA256 || again.Fingerprint != summary.Fingerprint {
		t.Errorf("a replay comes to %s, the run came to %s", again.Fingerprint, summary.Fingerprint)
	}
	answers := answersOf(t, s.path("run"))
	for _, a := range answers {
		if evil := a.Client == 200; evil != (a.Kind == round.Invalid) || evil && a.Values != nil {
			t.Errorf("task %d of client %d is kept as %v", a.Task, a.Client, a.Kind)
		}
	}
}

func (h *hostile) ones(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = 1
	}
	return v
}

// A flood of heartbeats costs its sender the place, and neither the run nor the
// other device anything.
func TestDevice_FloodIsBanned(t *testing.T) {
	slow.Test(t, "a device floods a run")
	t.Parallel()
	s := newSite(t, 6, 3, 4, "devices: {names: [evil, good], liveness_seconds: 20}\n")
	h := s.raw("evil")
	h.join()
	s.actor("good")
	h.task()
	b, err := proto.Marshal(&bus.Heartbeat{})
	if err != nil {
		t.Fatal(err)
	}
	for range 1_000_000 {
		if err := h.nats.Publish(h.subject("heartbeat"), b); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			break
		}
	}
	_ = h.nats.FlushTimeout(10 * time.Second)
	summary := s.end()
	if refused, accepted := summary.Outcomes[round.Refused], summary.Outcomes[round.Accepted]; refused != 1 || accepted != 4*7 {
		t.Errorf("%d refused, %d accepted; want 1 and the others' 28:\n%v", refused, accepted, s.lines)
	}
	if len(summary.Banned) != 1 || summary.Banned[0].Device != "evil" || summary.VirtualSeconds > 15+summary.WallSeconds { // 15: four rounds of simulated clients
		t.Errorf("banned are %+v; %g virtual seconds in %g", summary.Banned, summary.VirtualSeconds, summary.WallSeconds)
	}
	// For its budget, or since NATS dropped messages before that was spent.
	s.lines.await(t, "Device evil has no place in the run any more: ")
}
