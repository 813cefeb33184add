package round

import (
	"fmt"

	"fedpace/internal/bitset"
	"fedpace/simclock"
)

// clients are all clients of a run, simulated ones and then devices: which of them can be given
// a task now, and what is known of each.
type clients struct {
	config *Config
	step   *step
	// busy is the set of clients that have a task.
	busy bitset.Set
	// present says for each device whether it takes part.
	present []bool
	// known holds for each device its number of samples and how long its tasks took.
	known []KnownDevice
	// batteries holds the charge of each simulated client, nil if clients have no batteries.
	batteries *batteries
}

// device returns the place of a client among the devices. ok is false if the client is simulated.
func (c *clients) device(client int) (place int, ok bool) {
	return client - c.config.Clients, client >= c.config.Clients
}

// available reports whether a client can be given a task now: it has none, a device is present, and for a
// simulated client the battery and the availability model allow a task.
func (c *clients) available(client int) bool {
	if c.busy.Has(client) {
		return false
	}
	if i, ok := c.device(client); ok {
		return c.present[i]
	}
	if !c.batteries.allows(client, c.step.now) {
		return false
	}
	return c.config.Available == nil || c.config.Available(client, c.step.now)
}

// nextAvailable returns the next time at which a client may become available: when the availability of any
// client changes, or when a battery has been charged enough. ok is false if there is no such time. idle
// says that no client has a task, so that no task's end can make a client available.
func (c *clients) nextAvailable(idle bool) (at Time, ok bool) {
	if c.config.NextChange != nil {
		at, ok = c.config.NextChange(c.step.now)
	}
	if c.batteries == nil {
		return at, ok
	}
	charged, nextCharged := c.batteries.nextReady(c.step.now, c.busy.Has)
	// No client has a battery that allows a task, and no task will end and free another client. So a change in the
	// availability model makes no client available.
	if !charged && idle {
		ok = false
	}
	someWillBeCharged := nextCharged < simclock.Never
	if someWillBeCharged && (!ok || nextCharged < at) {
		return nextCharged, true
	}
	return at, ok
}

// beginTask marks a client as busy. Its battery is not charged while it has a task.
func (c *clients) beginTask(client int) {
	c.busy.Add(client)
	c.batteries.stopCharging(client, c.step.now)
}

// endTask frees the client of a task that has this outcome, and subtracts what the task has used from the
// client's battery. A client that is held stays busy if its update counts, until release is called.
func (c *clients) endTask(t *TaskState, o Outcome) {
	if o != Accepted || !c.holds(int(t.Client)) {
		c.busy.Remove(int(t.Client))
	}
	c.batteries.discharge(t, c.step.now)
}

// holds reports whether a client gets no task while its last update waits for a round to take it. A real device that
// masks its update in a group is held, as it takes part in the recovery of the sum.
func (c *clients) holds(client int) bool {
	_, isDevice := c.device(client)
	return c.config.Holds || isDevice && c.config.masksInGroups()
}

// release frees the client of an accepted task, whose update is in the model now or does not count after
// all.
func (c *clients) release(t *TaskState) {
	if c.holds(int(t.Client)) {
		c.busy.Remove(int(t.Client))
	}
}

// setPresence handles the event that a device has joined or left: it notes whether the device is present
// and how many samples it has reported. It is an error if the client is not one of the devices.
func (c *clients) setPresence(event *Event) error {
	i, ok := c.device(event.Client)
	if !ok || i >= len(c.present) {
		return fmt.Errorf(
			"round: client %d has %v and is none of the %d devices from %d on",
			event.Client,
			event.Kind,
			len(c.present),
			c.config.Clients,
		)
	}
	c.present[i] = event.Kind == Joined
	c.known[i].setSamples(event.Samples)
	return nil
}

// forceOutcome settles how the task of a real device will end, by an event that came in place of an update
// that counts: an Invalid update will be Refused, a task that TimedOut will be Late, and that of a Silent
// device will be Lost.
//
// A silent device is not present any more, and has measured no plan. The event gets a plan with a dropout at
// the time when the silence is noticed: after the liveness, or earlier if the device has said that it leaves
// or the deadline comes first. deadline is the time from the round's first task to its deadline, 0 if there
// is none.
func (c *clients) forceOutcome(task *TaskState, event *Event, deadline Time) error {
	i, ok := c.device(event.Client)
	if !ok {
		return fmt.Errorf("round: client %d is simulated, and its task is %v", event.Client, event.Kind)
	}
	switch event.Kind {
	case Invalid:
		task.Forced = Refused
		return nil
	case TimedOut:
		task.Forced = Late
		return nil
	}
	c.present[i] = false
	task.Forced = Lost
	dropout := c.config.Devices.Liveness
	// The plan of a device that has announced its leave has the time that it took until then, else 0.
	untilLeave := event.Plan.Total()
	if untilLeave > 0 {
		dropout = min(dropout, untilLeave)
	}
	// No later dropout than the deadline matters to the round.
	if deadline > 0 {
		dropout = min(dropout, deadline)
	}
	event.Plan = Plan{Drops: true, Dropout: dropout}
	return nil
}

// noteTask notes what an event, a device's answer to a task, shows of the device: how long its tasks take
// and how many samples it has. It does nothing for a simulated client.
func (c *clients) noteTask(t *TaskState, e *Event) {
	if i, ok := c.device(int(t.Client)); ok {
		c.known[i].noteTask(t, e)
	}
}

// noteSamples notes how many samples a device has, by the first of two answers to a task. The second one shows how fast
// it is.
func (c *clients) noteSamples(t *TaskState, e *Event) {
	if i, ok := c.device(int(t.Client)); ok {
		c.known[i].setSamples(e.Samples)
	}
}

// canLimit reports whether a selection may limit a client's local steps by its expected time. It may for a
// simulated client. It may for a device if the selection draws devices and the device's speed is known,
// from a task that it has done or from its class.
func (c *clients) canLimit(client int) bool {
	i, isDevice := c.device(client)
	devices := &c.config.Devices
	switch {
	case !isDevice:
		return true
	case !devices.Sampled:
		return false
	}
	hasDoneTask := c.known[i].Tasks > 0
	hasClass := devices.Modelled != nil && devices.Modelled(i)
	return hasDoneTask || hasClass
}

// expect returns how long a client is expected to take for a task with this many local steps: a device by
// the tasks that it has done, a simulated client and a device without such a task by the configuration.
func (c *clients) expect(client, steps int) Time {
	if i, ok := c.device(client); ok && c.known[i].Tasks > 0 {
		return c.known[i].expect(steps)
	}
	return c.config.Expect(client, steps)
}

// samples returns a client's number of training samples. A device that has not reported any counts
// with one.
func (c *clients) samples(client int) int {
	if i, ok := c.device(client); ok {
		return max(1, c.known[i].Samples)
	}
	return c.config.Samples(client)
}

// KnownDevice is what is known of a device: its number of samples, and how long its tasks took. Its
// fields are all that is remembered.
type KnownDevice struct {
	// Samples is the number of samples that the device reported last, 0 if it has reported none.
	Samples int
	// Link is how long the transfers of one task take.
	Link Time
	// Step is how long one local step takes.
	Step Time
	// Tasks is the number of tasks from which Link and Step follow.
	Tasks int
}

// setSamples notes the number of samples that a device has reported. 0 means that it has not reported
// any, and changes nothing.
func (d *KnownDevice) setSamples(samples int) {
	if samples > 0 {
		d.Samples = samples
	}
}

// noteTask learns from the answer to a task, an event, how fast a real device is: how long its transfers
// take (Link) and how long a local step (Step). A task that timed out would have taken at least as long as
// the coordinator has waited for it, so it counts only if that is longer than was expected of the device.
func (d *KnownDevice) noteTask(t *TaskState, event *Event) {
	link := event.Plan.Download + event.Plan.Upload
	compute := event.Plan.Compute
	steps := int(t.LocalSteps)
	switch event.Kind {
	case Planned:
		d.setSamples(event.Samples)
		d.averageTimes(link, compute, steps)
	case TimedOut:
		isSlower := d.Tasks == 0 || link+compute > d.expect(steps)
		if isSlower {
			d.Tasks++
			d.Link = link
			d.Step = compute / Time(steps)
		}
	}
}

// averageTimes takes the times of one more task with this many local steps into the running means: link is
// the time of its transfers, and compute that of its local steps. The newest task counts for a quarter, so
// that a device that has become slow is soon known to be slow.
func (d *KnownDevice) averageTimes(link, compute Time, steps int) {
	step := compute / Time(steps)
	d.Tasks++
	if d.Tasks > 1 {
		link = d.Link + (link-d.Link)/4
		step = d.Step + (step-d.Step)/4
	}
	d.Link = link
	d.Step = step
}

// expect returns how long a task with this many local steps is expected to take the device, transfers
// included, by the tasks that it has done. MaxDuration stands for one whose steps alone take longer than that.
func (d *KnownDevice) expect(steps int) Time {
	if d.Step > 0 && Time(steps) > MaxDuration/d.Step {
		return MaxDuration
	}
	return d.Link + Time(steps)*d.Step
}
