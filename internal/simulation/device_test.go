package simulation

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"fedpace/actors/real"
	"fedpace/bus"
	"fedpace/coordinator/realdevices"
	"fedpace/coordinator/round"
	"fedpace/data/federated"
	"fedpace/data/synthetic"
	"fedpace/learn"
)

// Limits of devices, in simulated time. A heartbeat, every fourth part of the first,
// must not fall on the instant at which a request is over, or a seed does not replay. The
// fourth part is below the two seconds between heartbeats that are the most.
const (
	liveness  = 7919 * time.Millisecond
	taskLimit = 2 * time.Minute
)

// samples is the data of all clients, and of devices.
var samples = sync.OnceValues(func() (federated.Set, error) {
	return synthetic.Mixtures{Clients: clients, Features: 4, Classes: 2, Samples: 12, Heterogeneity: 1, Seed: 1}.Set()
})

func init() { federated.Readers.Register("paced", "a simulated device's samples", paced{}) }

// paced reads samples that take a while, as a device's minibatches do. Its files
// hold how long a batch takes.
type paced struct{}

const pacedHead = "paced "

func (paced) Recognises(s *federated.Source) federated.Match {
	if strings.HasPrefix(s.Head, pacedHead) {
		return federated.ByContent
	}
	return federated.NoMatch
}

func (paced) Open(s *federated.Source, _ federated.Options) (federated.Set, error) {
	batch, err := time.ParseDuration(strings.TrimPrefix(s.Head, pacedHead))
	if err != nil {
		return nil, err
	}
	set, err := samples()
	return pacedSet{set, batch}, err
}

type pacedSet struct {
	federated.Set
	batch time.Duration
}

func (s pacedSet) Batch(dst *learn.Batch, client int, list []int32) error {
	time.Sleep(s.batch)
	return s.Set.Batch(dst, client, list)
}

func (pacedSet) Close() error { return nil }

// paces are how long a device's batch may take. Four of the longest are more than
// the limit of a task. None is a round number: a batch must not end at the instant of
// a heartbeat, or a seed does not replay.
var paces = []time.Duration{1013 * time.Microsecond, 307 * time.Millisecond, 5011 * time.Millisecond, 40009 * time.Millisecond}

// writePaces writes the devices' files.
func writePaces(folder string) error {
	for _, pace := range paces {
		if err := os.WriteFile(filepath.Join(folder, pace.String()), []byte(pacedHead+pace.String()), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// pi is a seed's real device.
type pi struct {
	pace  time.Duration // of a batch
	after time.Duration // when it is started
	waits bool          // for any run that calls, where others ask for theirs
}

func (s *scenario) deviceName(i int) string { return fmt.Sprint("pi", i) }

// serveDevice is one life of the i-th device, which has the samples of the i-th
// client.
func (c *cluster) serveDevice(p *part, i int) error {
	x := c.devices[i]
	config := real.Config{ID: c.deviceName(i), Run: "r", Data: filepath.Join(c.world.folder, x.pace.String()), Owner: strconv.Itoa(i)}
	if x.waits {
		config.Run = ""
	}
	config.Notice = func(line string) { c.net.log("%v %s: %s", time.Since(epoch), p.name, line) }
	device, err := real.Open(config)
	if err != nil {
		return err
	}
	err = device.Work(p.ctx, c.bus.Connect(p.name))
	return errors.Join(err, device.Close())
}

// record is what a coordinator was told by devices, as a [realdevices.Record], with
// the tasks that they answered.
type record struct {
	answers  map[uint64]answered
	presence []realdevices.Presence
	bans     []realdevices.Ban
	next     int       // of a replay
	to       io.Writer // an output that keeps it, too

	mu   sync.Mutex
	sent map[uint64]*bus.Task // the last of each number
}

type answered struct {
	realdevices.Answer
	task *bus.Task
}

func newRecord() *record {
	return &record{answers: map[uint64]answered{}, sent: map[uint64]*bus.Task{}}
}

// spoken is one entry of a record as an output holds it.
type spoken struct {
	Answer   *realdevices.Answer
	Task     []byte // that it answers
	Presence *realdevices.Presence
	Ban      *realdevices.Ban
}

// read reads an output, in which each entry is a stream of encoding/gob.
func (r *record) read(in *bytes.Reader) error {
	for in.Len() > 0 {
		var s spoken
		if err := gob.NewDecoder(in).Decode(&s); err != nil {
			return err
		}
		if s.Presence != nil {
			r.presence = append(r.presence, *s.Presence)
			continue
		}
		if s.Ban != nil {
			r.bans = append(r.bans, *s.Ban)
			continue
		}
		var task *bus.Task
		if len(s.Task) > 0 {
			task = new(bus.Task)
			if err := bus.Unmarshal(s.Task, task); err != nil {
				return err
			}
		}
		r.answers[s.Answer.Task] = answered{*s.Answer, task}
	}
	return nil
}

func (r *record) AddAnswer(a *realdevices.Answer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	task := r.sent[a.Task] // nil: it was refused before it was sent, to a device that is banned
	if task == nil && a.Kind != round.Invalid {
		return fmt.Errorf("task %d, which was not sent, is answered", a.Task)
	}
	r.answers[a.Task] = answered{*a, task}
	text, err := proto.Marshal(task)
	return errors.Join(err, gob.NewEncoder(r.to).Encode(spoken{Answer: a, Task: text}))
}

func (r *record) AddPresence(p realdevices.Presence) error {
	r.presence = append(r.presence, p)
	return gob.NewEncoder(r.to).Encode(spoken{Presence: &p})
}

func (r *record) AddBan(b realdevices.Ban) error {
	r.bans = append(r.bans, b)
	return gob.NewEncoder(r.to).Encode(spoken{Ban: &b})
}

func (r *record) Bans() []realdevices.Ban { return r.bans }

func (r *record) Answer(task uint64) (*realdevices.Answer, error) {
	if a, ok := r.answers[task]; ok {
		return &a.Answer, nil
	}
	return nil, nil
}

func (r *record) Presence() (p realdevices.Presence, ok bool, err error) {
	if r.next == len(r.presence) {
		return p, false, nil
	}
	r.next++
	return r.presence[r.next-1], true, nil
}

// line is a gateway's, with a note of the tasks that are sent on it.
type line struct {
	bus.Line
	record *record
}

func (l line) Publish(subject string, data []byte) error {
	t := new(bus.Task)
	if strings.HasSuffix(subject, ".task") && bus.Unmarshal(data, t) == nil && t.Task != 0 {
		l.record.mu.Lock()
		l.record.sent[t.Task] = t
		l.record.mu.Unlock()
	}
	return l.Line.Publish(subject, data)
}

// deviceConfig is the devices' part of a run whose line is l; nil: of a replay.
func (s *scenario) deviceConfig(r *record, l bus.Line, notice func(string)) *realdevices.Config {
	if len(s.devices) == 0 {
		return nil
	}
	c := &realdevices.Config{
		Welcome: &bus.Welcome{Task: "simulated"}, Liveness: liveness, TaskLimit: taskLimit, Record: r, Replay: l == nil, Notice: notice,
	}
	for i := range s.devices {
		c.Names = append(c.Names, s.deviceName(i))
	}
	if l != nil {
		c.Conn = line{l, r}
	}
	return c
}

// isDevice reports whether a task is a device's.
func isDevice(task uint64) bool { return task >= round.FirstDeviceTask }
