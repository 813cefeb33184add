package round

import "fedpace/simclock"

// Batteries are what simulated clients run on. A battery is charged while its client has
// no task, and gives what a task takes for as long as it is under way, whatever becomes
// of it. A client whose battery holds too little gets no task until it has been charged.
//
// The machine remembers what each battery holds, in joules, because that follows from the
// tasks that the client has had; what tasks take and how charging goes is asked here. All
// methods are pure. The plan of a task knows what its client's battery held when it was
// issued ([Task].Joules), and drops out where that is used up.
type Batteries interface {
	// Start returns the joules that a client's battery holds at time 0, negative if the client has no
	// battery.
	Start(client int) float64
	// Charged returns the joules that it holds now if it held this many at the time since and there
	// was no task in between.
	Charged(client int, joules float64, since, now Time) float64
	// Ready returns the first time, not before since, at which the client can have a task if its
	// battery holds this many joules at since; [simclock.Never] if there is none.
	Ready(client int, joules float64, since Time) Time
	// Spent returns the joules that a task with this plan uses in its first after nanoseconds.
	Spent(client int, p Plan, after Time) float64
}

// Charge is what a client's battery held at a time.
type Charge struct {
	// Joules is the charge, negative for a client without a battery.
	Joules float64
	// Since is the time of that charge: when the client's last task started or ended, 0 before its
	// first task.
	Since Time
}

// batteries has the batteries of a run's simulated clients; it is nil if no client has one.
type batteries struct {
	model   Batteries
	charges []Charge
	// ready holds for each client when its battery allows a task, 0 if it has none.
	ready []Time
}

// newBatteries returns the batteries of the simulated clients. charges are those of a checkpoint, and
// change with the run; nil means that the run begins, and the model says what the batteries hold. The
// result is nil if there is no model, in a run without batteries.
func newBatteries(model Batteries, clients int, charges []Charge) *batteries {
	if model == nil {
		return nil
	}
	if charges == nil {
		charges = make([]Charge, clients)
		for client := range charges {
			// A negative charge stands for a client without a battery.
			charges[client].Joules = max(-1, model.Start(client))
		}
	}
	b := &batteries{
		model:   model,
		charges: charges,
		ready:   make([]Time, len(charges)),
	}
	for client, charge := range charges {
		hasBattery := charge.Joules >= 0
		if hasBattery {
			b.ready[client] = model.Ready(client, charge.Joules, charge.Since)
		}
	}
	return b
}

// chargeOf returns the charge of a client's battery, which the caller may change. It is nil if the client
// has no battery, as a real device.
func (b *batteries) chargeOf(client int) *Charge {
	if b == nil || client >= len(b.charges) || b.charges[client].Joules < 0 {
		return nil
	}
	return &b.charges[client]
}

// joules returns what a client's battery held at the start or end of its last task, whichever was
// later; 0 if the client has no battery.
func (b *batteries) joules(client int) float64 {
	if charge := b.chargeOf(client); charge != nil {
		return charge.Joules
	}
	return 0
}

// allows reports whether a client's battery allows a task now.
func (b *batteries) allows(client int, now Time) bool { return b == nil || b.ready[client] <= now }

// stopCharging ends the charging of a client's battery, because the client gets a task now, and notes the
// charge that the battery has reached. It does nothing for a client without a battery.
func (b *batteries) stopCharging(client int, now Time) {
	charge := b.chargeOf(client)
	if charge == nil {
		return
	}
	charge.Joules = b.model.Charged(client, charge.Joules, charge.Since, now)
	charge.Since = now
}

// discharge subtracts from the battery of task t's client what the task has used until it ended now. From then on the
// battery is charged; discharge sets when it allows the next task. It does nothing for a client without a battery.
func (b *batteries) discharge(t *TaskState, now Time) {
	client := int(t.Client)
	charge := b.chargeOf(client)
	if charge == nil {
		return
	}
	plan := Plan{Download: t.Download, Compute: t.Compute, Upload: t.Upload}
	used := b.model.Spent(client, plan, now-t.Start)
	charge.Joules = max(0, charge.Joules-used)
	charge.Since = now
	b.ready[client] = b.model.Ready(client, charge.Joules, charge.Since)
}

// nextReady looks at the clients that are not busy, for a round that waits for one. charged reports whether
// the battery of one allows a task now, and next is the first time after now at which a further one does,
// [simclock.Never] if none will. A client without a battery counts as charged.
func (b *batteries) nextReady(now Time, busy func(client int) bool) (charged bool, next Time) {
	next = simclock.Never
	for client, ready := range b.ready {
		switch {
		case busy(client):
		case ready <= now:
			charged = true
		default:
			next = min(next, ready)
		}
	}
	return charged, next
}
