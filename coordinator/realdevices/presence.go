package realdevices

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"fedpace/bus"
	"fedpace/coordinator/round"
	"fedpace/internal/human"
	"fedpace/simclock"
)

// WaitForAll waits, before the run starts, until each device has joined or is banned, for at most
// d.Liveness, the time for which a device may be silent. The run then starts without the missing ones,
// which take part once they join. It does nothing in a replay and in a run without devices (nil).
func (d *Devices) WaitForAll(ctx context.Context) error {
	if d == nil || d.gateway == nil {
		return nil
	}
	d.notice(
		"Waiting for %d %s to join, %v at most: %s.",
		len(d.Names),
		human.Plural(len(d.Names), "device"),
		d.Liveness,
		human.Some(d.Names),
	)
	waiting, stop := context.WithTimeout(ctx, d.Liveness)
	defer stop()
	for d.settledCount() < len(d.Names) {
		err := d.takeEvents(waiting)
		// The error is the end of the waiting time, not that of the run.
		if err != nil && ctx.Err() == nil && waiting.Err() != nil {
			break
		}
		if err != nil {
			return err
		}
	}
	if missing := len(d.Names) - d.settledCount(); missing > 0 {
		d.notice("The run starts without %d of %d devices; they can still join.", missing, len(d.Names))
	}
	d.reportVersions()
	return nil
}

// settledCount returns the number of devices for which the start of the run need not wait any longer: those
// that have joined, those that joined and left again, and those that are banned. A device that joined twice
// counts once.
func (d *Devices) settledCount() (n int) {
	settled := slices.Clone(d.banned)
	for device, gone := range d.gone {
		settled[device] = settled[device] || gone
	}
	for _, a := range d.arrived {
		settled[a.device] = true
	}
	return countTrue(settled)
}

// checkAnyLeft returns an error if each device is banned for good, so that none can join any more. A replay
// has no such check.
func (d *Devices) checkAnyLeft() error {
	if d.gateway == nil {
		return nil
	}
	for i, banned := range d.banned {
		isBannedForGood := banned && d.banEnds[i] == 0
		if !isBannedForGood {
			return nil
		}
	}
	last := d.bans[len(d.bans)-1]
	return fmt.Errorf(
		"realdevices: no device is left that may take part: the last to be banned was %s (%s); "+
			"start the run anew without what made it so",
		d.Names[d.deviceOf(last.Client)],
		last.Reason,
	)
}

// Presence returns the events of the devices that have joined or left since the last call. It is called
// between two events of the virtual clock; clock is the clock's fingerprint, by which a replay finds the
// same place. begin is true in the one call before the first round. Before the clock's first event later
// calls have the same fingerprint as that one, and a replay could not tell them apart, so they return
// nothing.
func (d *Devices) Presence(clock uint64, begin bool) (events []round.Event, err error) {
	if d == nil || clock == emptyClock && !begin {
		return nil, nil
	}
	return d.presenceChanges(clock, begin)
}

// AwaitChange waits until a device joins or leaves, in a run that has no client to select and whose virtual
// clock stands still. clock is the clock's fingerprint. It returns the events for the round machine. It is
// an error if no device can ever join.
func (d *Devices) AwaitChange(ctx context.Context, clock uint64) (events []round.Event, err error) {
	if d.gateway != nil {
		d.notice("No device is there that can be asked: the run waits for one to join.")
	}
	// The wall time for which the run waits for devices is shown to the user.
	began := time.Now()
	defer func() { d.heldTime.Add(int64(time.Since(began))) }()
	// Each turn looks for changes, makes sure that one can still come, and then waits for messages.
	for {
		const begin = false
		events, err = d.presenceChanges(clock, begin)
		if len(events) > 0 || err != nil {
			return events, err
		}
		if err := d.checkAnyLeft(); err != nil {
			return nil, err
		}
		// Without a gateway this is a replay, for which nothing new can come.
		if d.gateway == nil {
			return nil, errors.New("realdevices: the record has no device that joins a run that waits for one: the " +
				"run that left it went no further")
		}
		if err := d.takeWithin(ctx, checkInterval); err != nil {
			return nil, err
		}
	}
}

// presenceChanges returns the events of devices that have joined or left since the last call. clock is the
// fingerprint of the virtual clock, with which the record of the run notes each of them. begin is true before
// the run's first round, when only those that have joined count. In a replay the events are those that the
// record has for this fingerprint.
func (d *Devices) presenceChanges(clock uint64, begin bool) (events []round.Event, err error) {
	if d.gateway == nil {
		return d.replayPresence(clock)
	}
	if !begin {
		// Looking at the network takes time, so it happens at most once in checkInterval.
		now := time.Now()
		if now.Sub(d.presenceChecked) < checkInterval {
			return nil, nil
		}
		d.presenceChecked = now
		if err := d.takeWithin(context.Background(), 0); err != nil {
			return nil, err
		}
		events, err = d.recordLeavings(clock, now)
		if err != nil {
			return nil, err
		}
		// A device is readmitted only after the event that says that it left.
		if err := d.readmit(now); err != nil {
			return nil, err
		}
	}
	for _, a := range d.arrived {
		mayJoin := !d.knownPresent[a.device] && !d.banned[a.device]
		if !mayJoin {
			continue
		}
		events, err = d.recordPresence(events, Presence{
			Clock:   clock,
			Client:  d.clientOf(a.device),
			Joined:  true,
			Samples: a.samples,
		})
		if err != nil {
			return nil, err
		}
	}
	d.arrived = d.arrived[:0]
	d.reportVersions()
	return events, nil
}

// replayPresence returns the events of devices that joined or left the run that is replayed when its virtual
// clock had this fingerprint.
func (d *Devices) replayPresence(clock uint64) (events []round.Event, err error) {
	for err == nil && d.presence != nil && d.presence.Clock == clock {
		// A replay records nothing, so this cannot fail.
		events, _ = d.recordPresence(events, *d.presence)
		err = d.nextPresence()
	}
	return events, err
}

// recordLeavings records which of the present devices have left, and returns the events of that. A device has
// left if it has announced that, if it is banned, or if nothing was heard of it for d.Liveness.
func (d *Devices) recordLeavings(clock uint64, now time.Time) (events []round.Event, err error) {
	for device, present := range d.knownPresent {
		if !present {
			continue
		}
		lastHeard := d.gateway.LastHeard(device)
		if lastHeard.IsZero() {
			lastHeard = d.opened
		}
		isSilent := now.Sub(lastHeard) > d.Liveness
		hasLeft := d.banned[device] || d.gone[device] || isSilent
		if !hasLeft {
			continue
		}
		d.gateway.GiveUp(device)
		events, err = d.recordPresence(events, Presence{Clock: clock, Client: d.clientOf(device)})
		if err != nil {
			return nil, err
		}
	}
	return events, nil
}

// recordPresence adds to the record that a device has joined or left, unless a replay reads this from the record.
// It updates d.knownPresent, which says whom the round machine takes to be present, and returns events with the
// event for the machine added.
func (d *Devices) recordPresence(events []round.Event, presence Presence) ([]round.Event, error) {
	if !d.Replay {
		if err := d.Record.AddPresence(presence); err != nil {
			return nil, err
		}
	}
	kind := round.Departed
	if presence.Joined {
		kind = round.Joined
	}
	// The client is checked, because a record may hold anything.
	if device := d.deviceOf(presence.Client); device >= 0 && device < len(d.knownPresent) {
		d.knownPresent[device] = presence.Joined
	}
	return append(events, round.Event{Kind: kind, Client: presence.Client, Samples: presence.Samples}), nil
}

// nextPresence reads the next change of presence from the record of a replay into d.presence, nil at the
// record's end.
func (d *Devices) nextPresence() error {
	p, ok, err := d.Record.Presence()
	d.presence = nil
	if ok {
		d.presence = &p
	}
	return err
}

// replay answers all open tasks with the answers in the record. It is an error if an answer is missing, is
// of another client, has another number of values, or has values that would not be valid.
func (d *Devices) replay() error {
	for task, o := range d.open {
		recorded, err := d.Record.Answer(task)
		if err != nil {
			return err
		}
		switch client := d.clientOf(o.device); {
		case recorded == nil:
			return fmt.Errorf(
				"realdevices: the record has no answer of device %s to task %d: the run that left it went no further",
				d.Names[o.device],
				task,
			)
		case recorded.Client != client || recorded.Kind == round.Planned && len(recorded.Values) != d.run.Params:
			return fmt.Errorf(
				"realdevices: the record's answer to task %d is of client %d with %d values, want client %d",
				task,
				recorded.Client,
				len(recorded.Values),
				client,
			)
		// The recorded update must pass the checks that a live one passes.
		case recorded.Kind == round.Planned:
			update := &bus.DeviceUpdate{Update: &bus.Update{Task: task}, Values: recorded.Values}
			if err := d.checkUpdate(update); err != nil {
				return fmt.Errorf("realdevices: the record's answer to task %d: %w", task, err)
			}
		}
		d.answers = append(d.answers, recorded)
	}
	return nil
}

// PendingUpdates returns the devices' updates that are not part of a model yet, in the order of their
// tasks. A checkpoint holds them, since a resumed run cannot get them again.
func (d *Devices) PendingUpdates() (list []Answer) {
	if d == nil {
		return nil
	}
	for _, task := range slices.Sorted(maps.Keys(d.updates)) {
		list = append(list, *d.updates[task])
	}
	return list
}

// Resume takes over the devices' part of a checkpoint. state is the round machine's, with who is present
// and how many samples each device has. pending are the updates that were accepted and are not yet in a
// model, and found are the bans and corrections. It is an error if an update is missing that counts. A nil
// receiver has no devices.
func (d *Devices) Resume(state *round.State, pending []Answer, found Findings) error {
	if d == nil {
		return nil
	}
	copy(d.knownPresent, state.Present)
	for i := range d.firstSinceResume {
		d.firstSinceResume[i] = true
	}
	for i, k := range state.Known {
		d.reportedSamples[i] = k.Samples
	}
	d.takeBans(found.Bans)
	d.corrections = slices.Clone(found.Corrections)
	d.rollbacks.Store(int64(found.Returns))
	updates := map[uint64]*Answer{}
	for i := range pending {
		updates[pending[i].Task] = &pending[i]
	}
	for _, task := range state.Devices.List {
		// A task without an answer needs no update, nor does one that an event has given another outcome (Forced), or
		// one of which the first of two answers alone has come.
		if task.Status == round.TaskIssued || task.Forced != round.Accepted || state.IsTrained(task.Task) {
			continue
		}
		a := updates[task.Task]
		if a == nil || a.Kind != round.Planned || len(a.Values) != d.run.Params {
			return fmt.Errorf("realdevices: the state does not hold the update of task %d, which counts", task.Task)
		}
		d.updates[task.Task] = a
	}
	return nil
}

// emptyClock is the fingerprint of a clock without any event so far.
var emptyClock = simclock.New().Fingerprint()

// reportVersions gives notice of the devices that run another version of the program than the
// coordinator, once for each device.
func (d *Devices) reportVersions() {
	if len(d.otherVersions) == 0 {
		return
	}
	var list []string
	for _, device := range d.otherVersions {
		list = append(list, fmt.Sprintf("%s (%s)", d.Names[device], d.versions[device]))
	}
	d.otherVersions = d.otherVersions[:0]
	d.notice("The coordinator is of version %s, and these devices of another: %s.", d.Welcome.Version, human.Some(list))
}
