package coordinator

import (
	"fmt"

	"fedpace/bus"
	"fedpace/coordinator/round"
)

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
			if err = v.check(&bus.DeviceUpdate{Update: &bus.Update{Task: task}, Values: a.Values}); err != nil {
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
	copy(v.there, s.Present)
	for _, t := range s.Devices.List {
		if t.Status == round.TaskIssued || t.Forced != round.Accepted {
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
