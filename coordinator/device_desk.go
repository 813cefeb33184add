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
	"fedpace/bus/gateway"
	"fedpace/coordinator/aggregate"
	"fedpace/coordinator/round"
	"fedpace/simclock"
)

// deviceDesk is the driver's part for devices.
type deviceDesk struct {
	*Devices
	run    *driver
	first  int              // client number of the first
	desk   *gateway.Gateway // nil: a replay
	opened time.Time

	open    map[uint64]*openTask     // without an answer
	updates map[uint64]*DeviceAnswer // that may yet count
	there   []bool                   // as the machine knows it
	arrived []int                    // devices that joined and that the machine does not know of yet
	banned  []bool
	news    []gateway.Event
	looked  time.Time

	mu    sync.Mutex // guards bases, which the desk's goroutines read
	bases map[uint64][]float32

	presence *DevicePresence // next of a replay
	origin   uint64          // fingerprint of a clock of which nothing has been taken

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
		bases: map[uint64][]float32{}, origin: simclock.New().Fingerprint(), there: make([]bool, len(c.Names)), banned: make([]bool, len(c.Names)),
	}
	d.devices, d.learner.devices = v, v
	if c.Replay {
		return v.nextPresence()
	}
	w := c.Welcome
	w.Clients, w.Params, w.Spec = uint64(v.first+len(c.Names)), uint32(d.config.Learning.Model.Params()), d.config.Learning.Spec
	w.HeartbeatSeconds = min(max(c.Liveness/4, 50*time.Millisecond), 10*time.Second).Seconds()
	v.desk, err = gateway.Open(ctx, c.Conn, d.config.Run, gateway.Config{Devices: c.Names, First: v.first, Welcome: w, Check: v.check})
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
	if v.Replay {
		return nil
	}
	// No task takes longer than its limit in wall time: whoever measures more would
	// have the run wait for what did not happen.
	if took := u.DownloadNs + u.ComputeNs + u.UploadNs; took > v.TaskLimit.Nanoseconds() {
		return fmt.Errorf("it says that it took %v, the limit is %v (devices.task_seconds)", time.Duration(took), v.TaskLimit)
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
	v.news, err = v.desk.TakeEvents(ctx, v.news)
	if err != nil {
		return err
	}
	for i := range v.news {
		n := &v.news[i]
		name := v.Names[n.Device]
		switch n.Kind {
		case gateway.Joined:
			v.notice("Device %s has joined (%d samples, kernel %s).", name, n.Join.Samples, n.Join.Kernel)
			v.arrived = append(v.arrived, n.Device)
			for _, o := range v.open { // it was restarted
				if o.device == n.Device {
					err = errors.Join(err, v.send(o))
				}
			}
		case gateway.Updated, gateway.Refused:
			a := v.answerOf(n)
			if n.Kind == gateway.Refused {
				v.notice("An update of device %s is refused: %s.", name, n.Text)
			}
			if _, ok := v.open[a.Task]; ok && answered != nil {
				err = errors.Join(err, answered(a))
			}
		case gateway.Flooded:
			v.notice("Device %s has no place in the run any more: %s.", name, n.Text)
			err = errors.Join(err, v.ban(n.Device))
		case gateway.Ignored:
			if v.Refuse != nil {
				v.Refuse(name, n.Text)
			}
		case gateway.Reconnected:
			for _, o := range v.open {
				err = errors.Join(err, v.send(o))
			}
		}
	}
	return err
}

// answerOf is an update as an answer.
func (v *deviceDesk) answerOf(n *gateway.Event) *DeviceAnswer {
	u := n.Update
	a := &DeviceAnswer{
		Kind: round.Planned, Task: u.Task, Client: v.first + n.Device, Loss: u.FirstStepLoss, Samples: int(u.Samples), Values: u.Values,
		Plan: round.Plan{Download: round.Time(u.DownloadNs), Compute: round.Time(u.ComputeNs), Upload: round.Time(u.UploadNs)},
	}
	if v.Link != nil {
		a.Plan.Download, a.Plan.Upload = v.Link(a.Client)
	}
	if n.Kind == gateway.Refused {
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
// the clock: so a replay can do it at the same place. Before the first event it
// cannot be told from the start, at which [deviceDesk.gather] does it.
func (v *deviceDesk) meet() error {
	if v.run.clock.Fingerprint() == v.origin {
		return nil
	}
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
