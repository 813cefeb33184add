package coordinator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"fedpace/bus"
	"fedpace/coordinator/aggregate"
	"fedpace/coordinator/round"
)

// Devices are a run's real devices, clients Round.Clients and up in the order of
// their names.
type Devices struct {
	Names []string
	// Conn is a connection for nothing but the devices, so that what one of them
	// sends too much of is lost there. Not used by a replay.
	Conn    *bus.Conn
	Welcome bus.Welcome // without client numbers

	// Liveness is how long a device may be silent before its task is lost, in
	// wall time; the run also waits that long for devices before it starts.
	Liveness time.Duration
	// TaskLimit is how long a task may take in wall time, however alive its
	// device is: one that takes longer has no place in the run any more.
	TaskLimit time.Duration
	// NormLimit is the largest Euclidean norm of an update; 0: none.
	NormLimit float64
	// Link replaces what a device measured of its link; nil: nothing does.
	Link func(client int) (download, upload round.Time)

	Record DeviceRecord // what the devices said, as it counted; may be nil
	Replay bool         // the record answers in place of the devices

	Notice func(string)                       // what the user should know; may be nil
	Plan   func(client int, plan round.Plan)  // of a valid update; may be nil
	Refuse func(device string, reason string) // the first message of a kind that does not count; may be nil
}

// DeviceAnswer is how a device's task was answered.
type DeviceAnswer struct {
	Kind    round.EventKind // Planned, Silent or Invalid
	Task    uint64
	Client  int
	Plan    round.Plan // durations as they count; 0 where they are not known
	Loss    float64    // Planned: before the first step
	Samples int        // Planned
	Values  []float32  // Planned: the device's model
}

// DevicePresence says that a device came or left.
type DevicePresence struct {
	Clock  uint64 // fingerprint of the clock at which it counted
	Client int
	Joined bool
}

// DeviceRecord keeps what devices said, so that a run goes on after a crash and
// can be played again. What is added is durable with the next checkpoint.
type DeviceRecord interface {
	AddAnswer(*DeviceAnswer) error
	AddPresence(DevicePresence) error
	// Answer is what was added for a task; nil: nothing.
	Answer(task uint64) (*DeviceAnswer, error)
	// Presence is the next one of a replay; false: there is no more.
	Presence() (DevicePresence, bool, error)
}

func (c *Config) validateDevices() error {
	v := c.Devices
	switch {
	case v == nil && c.Round.Devices.Count == 0:
		return nil
	case v == nil || len(v.Names) != c.Round.Devices.Count:
		return fmt.Errorf("coordinator: %d devices in the rounds and other names", c.Round.Devices.Count)
	case !v.Replay && v.Conn == nil:
		return errors.New("coordinator: devices need a connection")
	case v.Replay && v.Record == nil:
		return errors.New("coordinator: a replay needs a record of devices")
	case !v.Replay && (v.Liveness <= 0 || v.TaskLimit <= 0):
		return fmt.Errorf("coordinator: devices with a liveness of %v and a limit of %v", v.Liveness, v.TaskLimit)
	case !(v.NormLimit >= 0):
		return fmt.Errorf("coordinator: devices with a norm limit of %g", v.NormLimit)
	}
	if a := c.Learning.Algorithm; a != nil && a.Variates != nil {
		return fmt.Errorf("coordinator: %s keeps control variates, which devices do not send", a.Name)
	}
	return nil
}

// deviceDesk is the driver's part for devices.
type deviceDesk struct {
	*Devices
	run    *driver
	first  int       // client number of the first
	desk   *bus.Desk // nil: a replay
	opened time.Time

	open    map[uint64]*openTask     // without an answer
	updates map[uint64]*DeviceAnswer // that may yet count
	there   []bool                   // as the machine knows it
	arrived []int                    // devices that joined and that the machine does not know of yet
	banned  []bool
	news    []bus.DeviceNews
	looked  time.Time

	mu    sync.Mutex // guards bases, which the desk's goroutines read
	bases map[uint64][]float32

	presence *DevicePresence // next of a replay

	held atomic.Int64 // wall nanoseconds that the clock has stood for devices
}

// openTask is a task that waits for its device.
type openTask struct {
	task     round.Task
	device   int
	sent     time.Time // first
	repeated time.Time // last
}

// lookEvery is how often silence is looked for; resendAfter how long a task waits
// before it is sent again, should it have been lost.
const (
	lookEvery   = 100 * time.Millisecond
	resendAfter = 5 * time.Second
)

// openDevices opens the desk; nil where the run has no devices.
func (d *driver) openDevices(ctx context.Context) (err error) {
	c := d.config.Devices
	if c == nil {
		return nil
	}
	v := &deviceDesk{
		Devices: c, run: d, first: d.config.Round.Clients, opened: time.Now(), open: map[uint64]*openTask{}, updates: map[uint64]*DeviceAnswer{},
		bases: map[uint64][]float32{}, there: make([]bool, len(c.Names)), banned: make([]bool, len(c.Names)),
	}
	d.devices, d.learner.devices = v, v
	if c.Replay {
		return v.nextPresence()
	}
	w := c.Welcome
	w.Clients, w.Params, w.Spec = v.first+len(c.Names), d.config.Learning.Model.Params(), d.config.Learning.Spec
	w.Heartbeat = min(max(c.Liveness/4, 50*time.Millisecond), 10*time.Second)
	v.desk, err = bus.OpenDesk(ctx, c.Conn, d.config.Run, bus.DeskConfig{Devices: c.Names, First: v.first, Welcome: w, Check: v.check})
	return err
}

func (v *deviceDesk) close() error {
	if v == nil || v.desk == nil {
		return nil
	}
	return v.desk.Close()
}

func (v *deviceDesk) notice(format string, args ...any) {
	if v.Notice != nil {
		v.Notice(fmt.Sprintf(format, args...))
	}
}

// is tells whether a client is a device.
func (v *deviceDesk) is(client int) bool { return v != nil && client >= v.first }

// check says why an update cannot count. It runs on the desk's goroutines.
func (v *deviceDesk) check(u *bus.DeviceUpdate) error {
	v.mu.Lock()
	base := v.bases[u.Task]
	v.mu.Unlock()
	if base == nil {
		return fmt.Errorf("task %d is not open", u.Task)
	}
	if err := aggregate.Check(u.Values, base); err != nil {
		return err
	}
	if v.NormLimit == 0 {
		return nil
	}
	square := 0.0
	for i, x := range u.Values {
		d := float64(x) - float64(base[i])
		square += float64(d * d)
	}
	if norm := math.Sqrt(square); norm > v.NormLimit {
		return fmt.Errorf("the update's norm is %.3g, the limit is %g", norm, v.NormLimit)
	}
	return nil
}

// gather waits for all devices to join, as long as a device may be silent, and
// starts without those that have not: they take part once they are there.
func (v *deviceDesk) gather(ctx context.Context) error {
	if v.desk == nil {
		return v.apply()
	}
	v.notice("Waiting for %d devices to join, %v at most: %s.", len(v.Names), v.Liveness, names(v.Names))
	waiting, stop := context.WithTimeout(ctx, v.Liveness)
	defer stop()
	for len(v.arrived) < len(v.Names) {
		err := v.take(waiting, nil)
		if err != nil && ctx.Err() == nil && waiting.Err() != nil {
			break
		}
		if err != nil {
			return err
		}
	}
	if missing := len(v.Names) - len(v.arrived); missing > 0 {
		v.notice("The run starts without %d of %d devices; they can still join.", missing, len(v.Names))
	}
	return v.apply()
}

// names lists some names.
func names(list []string) string {
	const most = 8
	s := ""
	for i, name := range list[:min(len(list), most)] {
		if i > 0 {
			s += ", "
		}
		s += name
	}
	if len(list) > most {
		s += ", ..."
	}
	return s
}

// ask sends a task to its device.
func (v *deviceDesk) ask(t round.Task) error {
	now := time.Now()
	o := &openTask{task: t, device: t.Client - v.first, sent: now, repeated: now}
	if _, ok := v.open[t.Task]; ok {
		return nil
	}
	v.open[t.Task] = o
	base, ok := v.run.learner.models.params(t.Model)
	if !ok {
		return fmt.Errorf("coordinator: task %d starts from version %d of the model, which is not kept", t.Task, t.Model)
	}
	v.mu.Lock()
	v.bases[t.Task] = base
	v.mu.Unlock()
	if v.desk == nil {
		return nil
	}
	return v.send(o)
}

func (v *deviceDesk) send(o *openTask) error {
	v.run.describe(o.task)
	v.run.task.Proximal = v.run.learner.algorithm.Proximal
	return v.desk.SendTask(o.device, &v.run.task)
}

// answers waits until at least one open task has its answer, and gives the
// machine all that there are.
func (v *deviceDesk) answers(ctx context.Context) error {
	if v.desk == nil {
		return v.replay()
	}
	defer v.hold(time.Now())
	open := len(v.open)
	for len(v.open) == open {
		looking, stop := context.WithTimeout(ctx, lookEvery)
		err := v.take(looking, v.answered)
		stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		if err := v.look(); err != nil {
			return err
		}
	}
	return nil
}

// take takes the news there is. answered takes the answers to tasks.
func (v *deviceDesk) take(ctx context.Context, answered func(*DeviceAnswer) error) (err error) {
	v.news, err = v.desk.TakeNews(ctx, v.news)
	if err != nil {
		return err
	}
	for i := range v.news {
		n := &v.news[i]
		name := v.Names[n.Device]
		switch n.Kind {
		case bus.DeviceJoined:
			v.notice("Device %s has joined (%d samples, kernel %s).", name, n.Join.Samples, n.Join.Kernel)
			v.arrived = append(v.arrived, n.Device)
			for _, o := range v.open { // it was restarted
				if o.device == n.Device {
					err = errors.Join(err, v.send(o))
				}
			}
		case bus.DeviceUpdated, bus.DeviceRefused:
			a := v.answerOf(n)
			if n.Kind == bus.DeviceRefused {
				v.notice("An update of device %s is refused: %s.", name, n.Text)
			}
			if _, ok := v.open[a.Task]; ok && answered != nil {
				err = errors.Join(err, answered(a))
			}
		case bus.DeviceFlooded:
			v.notice("Device %s has no place in the run any more: %s.", name, n.Text)
			err = errors.Join(err, v.ban(n.Device))
		case bus.DeviceIgnored:
			if v.Refuse != nil {
				v.Refuse(name, n.Text)
			}
		case bus.DeskBack:
			for _, o := range v.open {
				err = errors.Join(err, v.send(o))
			}
		}
	}
	return err
}

// answerOf is an update as an answer.
func (v *deviceDesk) answerOf(n *bus.DeviceNews) *DeviceAnswer {
	u := n.Update
	a := &DeviceAnswer{
		Kind: round.Planned, Task: u.Task, Client: v.first + n.Device, Loss: u.FirstStepLoss, Samples: u.Samples, Values: u.Values,
		Plan: round.Plan{Download: round.Time(u.DownloadNs), Compute: round.Time(u.ComputeNs), Upload: round.Time(u.UploadNs)},
	}
	if v.Link != nil {
		a.Plan.Download, a.Plan.Upload = v.Link(a.Client)
	}
	if n.Kind == bus.DeviceRefused {
		a.Kind, a.Loss, a.Samples = round.Invalid, 0, 0
	}
	return a
}

// answered gives the machine an answer, once it is kept.
func (v *deviceDesk) answered(a *DeviceAnswer) error {
	if v.Record != nil && !v.Replay {
		if err := v.Record.AddAnswer(a); err != nil {
			return err
		}
	}
	delete(v.open, a.Task)
	v.mu.Lock()
	delete(v.bases, a.Task)
	v.mu.Unlock()
	switch a.Kind {
	case round.Planned:
		v.updates[a.Task] = a
		if v.Plan != nil {
			v.Plan(a.Client, a.Plan)
		}
	case round.Silent:
		v.there[a.Client-v.first] = false
	}
	return v.run.step(round.Event{Kind: a.Kind, Task: a.Task, Client: a.Client, Plan: a.Plan})
}

// look looks for devices that have fallen silent over their task.
func (v *deviceDesk) look() error {
	now := time.Now()
	for _, o := range v.open {
		name := v.Names[o.device]
		heard := v.desk.Heard(o.device)
		switch {
		case now.Sub(o.sent) > v.TaskLimit:
			v.notice("Device %s has worked on one task for more than %v and has no place in the run any more (devices.task_seconds).", name, v.TaskLimit)
			if err := v.ban(o.device); err != nil {
				return err
			}
		case now.Sub(o.sent) > v.Liveness && now.Sub(heard) > v.Liveness:
			v.notice("Device %s is lost: nothing was heard of it for %v.", name, v.Liveness)
			v.desk.Lost(o.device)
			if err := v.silent(o); err != nil {
				return err
			}
		case now.Sub(o.repeated) > resendAfter:
			o.repeated = now
			if err := v.send(o); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v *deviceDesk) silent(o *openTask) error {
	return v.answered(&DeviceAnswer{Kind: round.Silent, Task: o.task.Task, Client: o.task.Client})
}

// ban ends a device's part in the run; its open task is lost.
func (v *deviceDesk) ban(device int) error {
	v.banned[device] = true
	v.desk.Lost(device)
	for _, o := range v.open {
		if o.device == device {
			return v.silent(o)
		}
	}
	return nil
}

// meet tells the machine who has come and who has left, between two events of
// the clock: so a replay can do it at the same place.
func (v *deviceDesk) meet() error {
	if v.desk == nil {
		return v.apply()
	}
	now := time.Now()
	if now.Sub(v.looked) < lookEvery {
		return nil
	}
	v.looked = now
	waiting, stop := context.WithTimeout(context.Background(), 0)
	defer stop()
	if err := v.take(waiting, nil); err != nil && waiting.Err() == nil {
		return err
	}
	for i, there := range v.there {
		heard := v.desk.Heard(i)
		if heard.IsZero() {
			heard = v.opened
		}
		if there && (v.banned[i] || now.Sub(heard) > v.Liveness) {
			v.desk.Lost(i)
			if err := v.present(DevicePresence{Client: v.first + i}); err != nil {
				return err
			}
		}
	}
	return v.apply()
}

// apply tells the machine of those who have joined.
func (v *deviceDesk) apply() error {
	for v.desk == nil && v.presence != nil && v.presence.Clock == v.run.clock.Fingerprint() {
		if err := v.present(*v.presence); err != nil {
			return err
		}
		if err := v.nextPresence(); err != nil {
			return err
		}
	}
	arrived := v.arrived
	v.arrived = v.arrived[:0]
	for _, i := range arrived {
		if !v.there[i] && !v.banned[i] {
			if err := v.present(DevicePresence{Client: v.first + i, Joined: true}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v *deviceDesk) present(p DevicePresence) error {
	if v.Record != nil && !v.Replay {
		p.Clock = v.run.clock.Fingerprint()
		if err := v.Record.AddPresence(p); err != nil {
			return err
		}
	}
	kind := round.Left
	if p.Joined {
		kind = round.Joined
	}
	if i := p.Client - v.first; i >= 0 && i < len(v.there) {
		v.there[i] = p.Joined
	}
	return v.run.step(round.Event{Kind: kind, Client: p.Client})
}

func (v *deviceDesk) nextPresence() error {
	p, ok, err := v.Record.Presence()
	v.presence = nil
	if ok {
		v.presence = &p
	}
	return err
}

// replay answers the open tasks from the record.
func (v *deviceDesk) replay() error {
	for task, o := range v.open {
		a, err := v.Record.Answer(task)
		if err == nil && a == nil {
			err = fmt.Errorf("coordinator: the record has no answer of device %s to task %d: the run that left it went no further", v.Names[o.device], task)
		}
		if err == nil && (a.Client != o.task.Client || a.Kind == round.Planned && len(a.Values) != len(v.run.learner.params)) {
			err = fmt.Errorf("coordinator: the record's answer to task %d is of client %d with %d values, want client %d", task, a.Client, len(a.Values), o.task.Client)
		}
		if err == nil && a.Kind == round.Planned {
			if err = v.check(&bus.DeviceUpdate{Task: task, Values: a.Values}); err != nil {
				err = fmt.Errorf("coordinator: the record's answer to task %d: %w", task, err)
			}
		}
		if err != nil {
			return err
		}
		if err := v.answered(a); err != nil {
			return err
		}
	}
	return nil
}

// ended lets go of an update that does not count.
func (v *deviceDesk) ended(e *round.Ended) {
	if v.is(e.Client) && e.Outcome != round.Accepted {
		delete(v.updates, e.Task)
	}
}

// resume finds the updates that tasks under way still need.
func (v *deviceDesk) resume(s *round.State) error {
	for _, client := range s.Present {
		v.there[client-v.first] = true
	}
	for _, t := range s.Devices {
		if !t.Planned || t.Verdict != round.Accepted {
			continue
		}
		if v.Record == nil {
			return fmt.Errorf("coordinator: the update of task %d is lost: no record of devices was kept", t.Task)
		}
		a, err := v.Record.Answer(t.Task)
		if err != nil {
			return err
		}
		if a == nil || a.Kind != round.Planned || len(a.Values) != v.run.config.Learning.Model.Params() {
			return fmt.Errorf("coordinator: the record of devices does not hold the update of task %d", t.Task)
		}
		v.updates[t.Task] = a
	}
	return nil
}

// split is where the tasks of devices begin, which are the last ones.
func (v *deviceDesk) split(tasks []round.Task) int {
	n := len(tasks)
	for v != nil && n > 0 && v.is(tasks[n-1].Client) {
		n--
	}
	return n
}

// add adds the updates of devices to the sum: each is a term like any other, so
// the order does not matter.
func (v *deviceDesk) add(sum []int64, tasks []round.Task, weights, losses []float64) error {
	if len(tasks) == 0 {
		return nil
	}
	partial := make([]int64, len(sum))
	for i, t := range tasks {
		a := v.updates[t.Task]
		base, ok := v.run.learner.models.params(t.Model)
		if a == nil || !ok {
			return fmt.Errorf("coordinator: the update of task %d is accepted and not kept", t.Task)
		}
		if err := aggregate.Add(partial, weights[i], a.Values, base); err != nil {
			return fmt.Errorf("coordinator: update of task %d: %w", t.Task, err)
		}
		losses[i] = a.Loss
	}
	return aggregate.Merge(sum, partial)
}

// used lets go of the updates that are in the model.
func (v *deviceDesk) used(tasks []round.Task) {
	for _, t := range tasks {
		delete(v.updates, t.Task)
	}
}

// samples is what a device says that it holds.
func (v *deviceDesk) samples(t round.Task) int {
	if a := v.updates[t.Task]; a != nil {
		return a.Samples
	}
	return 0
}

// issued sorts the tasks that the machine issues by who gets them.
func (d *driver) issued(tasks []round.Task) {
	d.unsent = d.unsent[:0]
	for _, t := range tasks {
		if d.devices.is(t.Client) {
			d.asked = append(d.asked, t)
		} else {
			d.unsent = append(d.unsent, t)
		}
	}
}

// askDevices sends the devices' tasks, before those of simulated clients: they
// take real time.
func (d *driver) askDevices() error {
	for _, t := range d.asked {
		if err := d.devices.ask(t); err != nil {
			return err
		}
	}
	d.asked = d.asked[:0]
	return nil
}

// waiting is how many tasks of simulated clients have no plan.
func (d *driver) waiting() int {
	if d.devices == nil {
		return d.machine.Waiting()
	}
	return d.machine.Waiting() - len(d.devices.open)
}
