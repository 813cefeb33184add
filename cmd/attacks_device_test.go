//go:build unix && !race

package cmd

import (
	"context"
	le "encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"fedpace/bus"
	"fedpace/bus/auth"
	attacks "fedpace/internal/testkit/hostile"
)

// attacker is evil in one run: a connection on which it says what it likes, and others as the
// attack opens them.
type attacker struct {
	*besieged
	id    string
	creds string

	nats  *nats.Conn
	tasks *nats.Subscription

	open   *bus.Task // the last task that it got
	before *bus.Task // the one that it got before; nil: none
	ended  bool      // the run is over for it
}

const suiteSubjects = "fedpace.suite.client."

func (a *attacker) subject(verb string) string { return suiteSubjects + a.id + "." + verb }

// connect connects with the credentials of a device.
func (a *attacker) connect() {
	a.Helper()
	var err error
	a.nats, err = nats.Connect(a.url, nats.UserCredentials(a.creds), nats.CustomInboxPrefix(auth.InboxPrefix(a.id)),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), nats.NoReconnect())
	if err != nil {
		a.Fatal(err)
	}
	a.Cleanup(a.nats.Close)
	a.tasks, err = a.nats.SubscribeSync(a.subject("task"))
	if err != nil {
		a.Fatal(err)
	}
}

// join connects, and joins the run. It is the process 1 of its device.
func (a *attacker) join() {
	a.Helper()
	a.connect()
	a.want(a.ask("join", &bus.Join{Name: a.id, Protocol: bus.DeviceProtocol, Process: 1}), bus.Status_STATUS_ACCEPTED, "")
}

// ask sends a request until it is answered; nil: the run is over, or the device is heard no more.
func (a *attacker) ask(verb string, m proto.Message) *bus.DeviceReply {
	a.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		a.Fatal(err)
	}
	return a.askBytes(verb, b)
}

func (a *attacker) askBytes(verb string, b []byte) *bus.DeviceReply {
	a.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && a.over.Err() == nil; {
		asking, stop := context.WithTimeout(a.Context(), 5*time.Second) // the last answer may come when the run is over
		answer, err := a.nats.RequestWithContext(asking, a.subject(verb), b)
		stop()
		switch {
		case errors.Is(err, nats.ErrNoResponders), errors.Is(err, context.DeadlineExceeded):
			time.Sleep(20 * time.Millisecond)
			continue
		case err != nil:
			return nil
		}
		r := new(bus.DeviceReply)
		if err := proto.Unmarshal(answer.Data, r); err != nil {
			a.Fatal(err)
		}
		return r
	}
	return nil
}

// want checks an answer.
func (a *attacker) want(r *bus.DeviceReply, status bus.Status, reason string) {
	a.Helper()
	switch {
	case r == nil:
		a.isOver()
	case r.Status != status || !strings.Contains(r.Reason, reason):
		a.Errorf("it is answered %v: %q; want %v with %q", r.Status, r.Reason, status, reason)
	}
}

// never checks the answer to what cannot count any more.
func (a *attacker) never(r *bus.DeviceReply) {
	a.Helper()
	switch {
	case r == nil:
		a.isOver()
	case r.Status != bus.Status_STATUS_REFUSED && r.Status != bus.Status_STATUS_REPEATED:
		a.Errorf("it is answered %v: %q", r.Status, r.Reason)
	}
}

// isOver checks that what has no answer came when the run had ended: its last task was decided.
func (a *attacker) isOver() {
	a.Helper()
	select {
	case <-a.over.Done():
	case <-time.After(20 * time.Second):
		a.Error("there is no answer, and the run is not over")
	}
}

// next waits for another task; nil: the run is over.
func (a *attacker) next() *bus.Task {
	a.Helper()
	for !a.ended {
		m, err := a.tasks.NextMsgWithContext(a.over)
		if err != nil {
			break
		}
		t := new(bus.Task)
		if err := proto.Unmarshal(m.Data, t); err != nil {
			a.Fatal(err)
		}
		switch {
		case t.Over:
			a.ended = true
		case t.Task != 0 && (a.open == nil || t.Task != a.open.Task):
			a.before = a.open
			a.open = t
			return t
		}
	}
	a.ended = true
	return nil
}

// modelOf fetches a task's model, which is one chunk.
func (a *attacker) modelOf(t *bus.Task) []float32 {
	a.Helper()
	m, err := a.nats.Request(fmt.Sprintf("$JS.API.DIRECT.GET.fedpace_suite_models.fedpace.suite.model.%x.0", t.ModelDigest), nil, 5*time.Second)
	if err != nil {
		a.Fatal(err)
	}
	var c bus.ModelChunk
	if err := proto.Unmarshal(m.Data, &c); err != nil {
		a.Fatal(err)
	}
	return floats(c.Values)
}

func floats(b []byte) (values []float32) {
	for ; len(b) >= 4; b = b[4:] {
		values = append(values, math.Float32frombits(le.LittleEndian.Uint32(b)))
	}
	return values
}

func bytesOf(values []float32) (b []byte) {
	for _, x := range values {
		b = le.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// chunk sends a message of the open task's update.
func (a *attacker) chunk(on, chunk int, chunks uint32, values []byte) *bus.DeviceReply {
	a.Helper()
	return a.ask(fmt.Sprint("update.", on), &bus.Update{Task: a.open.Task, Chunk: uint32(chunk), Chunks: chunks, Values: values, Process: 1})
}

// send sends an update of these values and returns the last answer.
func (a *attacker) send(t *bus.Task, values []float32, change func(*bus.Update)) *bus.DeviceReply {
	a.Helper()
	r := a.ask("update.0", &bus.Update{Task: t.Task, TaskDigest: t.Digest, Chunks: 1, Values: bytesOf(values), Process: 1})
	if r == nil || r.Status != bus.Status_STATUS_CONTINUE {
		return r
	}
	last := &bus.Update{Task: t.Task, TaskDigest: t.Digest, Chunk: 1, Chunks: 1, ComputeNs: 1, FirstStepLoss: 0.5, Samples: 20, Process: 1}
	if change != nil {
		change(last)
	}
	return a.ask("update.1", last)
}

// spoil ends the open task by an update that cannot count.
func (a *attacker) spoil() {
	a.Helper()
	if r := a.chunk(0, 0, 1, make([]byte, 44)); r == nil || r.Status == bus.Status_STATUS_REFUSED {
		return
	}
	a.Error("a model of 11 values is taken for one of 10")
}

// resign ends the tasks that there are yet, and to come, so that they do not count.
func (a *attacker) resign() {
	a.Helper()
	for a.nats.IsConnected() && a.next() != nil {
		a.spoil()
	}
}

// enter opens another connection with the same credentials.
func (a *attacker) enter() *attacks.Client {
	a.Helper()
	c := a.dial()
	if err := c.Connect(a.over, a.read(a.creds)); err != nil {
		a.Fatal(err)
	}
	return c
}

// dial opens a connection and shows nothing yet.
func (a *attacker) dial() *attacks.Client {
	a.Helper()
	c, err := attacks.Dial(a.over, strings.TrimPrefix(a.url, "nats://"), "")
	if err != nil {
		a.Fatal(err)
	}
	a.Cleanup(func() { _ = c.Close() })
	return c
}

func (a *attacker) read(path string) []byte {
	a.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		a.Fatal(err)
	}
	return b
}

// refused waits for the server's refusal on a connection.
func (a *attacker) refused(c *attacks.Client, want string) {
	a.Helper()
	waiting, stop := context.WithTimeout(a.over, 20*time.Second)
	defer stop()
	for {
		m, err := c.Next(waiting)
		if err == nil && m != nil {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			a.Errorf("the server says %v; want %q", err, want)
		}
		return
	}
}

// during does something while the run waits for the first task, which does not count then.
func during(what func(*attacker)) func(*attacker) {
	return func(a *attacker) {
		if a.next() == nil {
			a.Fatal("there is no task")
		}
		what(a)
		if a.nats.IsConnected() {
			a.spoil()
		}
	}
}

// besiege does what attacks on a server do, with so many connections, for a moment.
func besiege(name string, count int) func(*attacker) {
	return during(func(a *attacker) {
		attack, err := attacks.Named(name)
		if err != nil {
			a.Fatal(err)
		}
		moment, stop := context.WithTimeout(a.over, 300*time.Millisecond)
		defer stop()
		err = attack.Run(moment, &attacks.Target{
			Address: strings.TrimPrefix(a.url, "nats://"), Run: "suite", Devices: []string{a.id}, Creds: [][]byte{a.read(a.creds)}, Count: count,
		})
		if err != nil {
			a.Error(err)
		}
	})
}

// forbidden says something that the server refuses to a device.
func forbidden(lines ...string) func(*attacker) {
	return during(func(a *attacker) {
		for _, line := range lines {
			c := a.enter()
			if err := c.Say("%s", line); err != nil {
				a.Error(err)
			}
			a.refused(c, "Permissions Violation")
			_ = c.Close()
		}
	})
}

// publish is a message as NATS's protocol has it.
func publish(subject string) string { return "PUB " + subject + " 2\r\n{}\r\n" }

// inTask does something in a task, whose model has these values.
type inTask func(a *attacker, t *bus.Task, values []float32)

// each does it in each task.
func (what inTask) each(a *attacker) {
	for t := a.next(); t != nil; t = a.next() {
		what(a, t, a.modelOf(t))
	}
}

// refusedUpdate sends an update, which is refused for a reason.
func refusedUpdate(reason string, change func([]float32) []float32, last func(*bus.Update)) inTask {
	return func(a *attacker, t *bus.Task, values []float32) {
		if change != nil {
			values = change(values)
		}
		a.want(a.send(t, values, last), bus.Status_STATUS_REFUSED, reason)
	}
}

// acceptedUpdate sends an update, which is taken.
func acceptedUpdate(change func([]float32) []float32, last func(*bus.Update)) inTask {
	return func(a *attacker, t *bus.Task, values []float32) {
		a.want(a.send(t, change(values), last), bus.Status_STATUS_ACCEPTED, "")
	}
}

// all sets every value.
func all(f func(i int, x float32) float32) func([]float32) []float32 {
	return func(values []float32) []float32 {
		for i := range values {
			values[i] = f(i, values[i])
		}
		return values
	}
}

// one sets one value.
func one(at int, x float64) func([]float32) []float32 {
	return func(values []float32) []float32 {
		values[at] = float32(x)
		return values
	}
}
