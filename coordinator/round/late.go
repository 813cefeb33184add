package round

import (
	"errors"
	"fmt"

	"fedpace/coordinator/closing"
	"fedpace/coordinator/selection"
	"fedpace/internal/registry"
)

// late reports whether a task is of an earlier round. Where rounds overlap none is
// late for that.
func (m *Machine) late(t *TaskState) bool {
	return int(t.Round) < m.s.Round.Round && m.overlapping == nil
}

// own is how many tasks of its own the round has had so far.
func (m *Machine) own() int {
	return m.s.Round.Cohort - m.s.Round.Earlier + m.s.Simulated.own() + m.s.Devices.own()
}

// endRest ends the tasks under way of a round that closes, but for those that may
// count in a later one.
func (m *Machine) endRest() {
	o, next := Cancelled, m.s.Model
	if m.s.Round.Overdue {
		o = Late
	}
	if m.s.Round.Outcomes[Accepted] > 0 {
		next++
	}
	if !closing.UsesLate(m.config.Late) {
		m.cancelRest(o)
		return
	}
	for _, tasks := range m.bothTasks() {
		for i := range tasks.List {
			if t := &tasks.List[i]; t.underWay() && !m.config.Late.Keeps(int(next-t.Model)) {
				m.setOutcome(t, Late)
				m.cancel(&t.Timer)
			}
		}
	}
}

// lateEnded goes on after a late task. It closes no round; one that has found no
// client yet may take this one.
func (m *Machine) lateEnded() error {
	if m.own() > 0 {
		return nil
	}
	m.shrink()
	return m.fillSlots()
}

// validateLate refuses late updates where there are none, or where they cannot count.
func (c *Config) validateLate() error {
	if c.Late == nil {
		return nil
	}
	if err := registry.Check(c.Late); err != nil {
		return fmt.Errorf("round: late updates: %w", err)
	}
	if _, all := c.Closing.(closing.All); !closing.UsesLate(c.Late) {
		return nil
	} else if all {
		return errors.New("round: no update is late where a round waits for all")
	}
	switch {
	case closing.Overlaps(c.Closing):
		return errors.New("round: no update is late where rounds overlap")
	case selection.QueryOf(c.Select) > 0:
		return errors.New("round: late updates do not go with candidates that are asked for their losses")
	}
	return nil
}

// standing is how the round stands.
func (m *Machine) standing() closing.Standing {
	r := &m.s.Round
	return closing.Standing{Cohort: m.config.Cohort, Tasks: m.own(), Accepted: r.Outcomes[Accepted] - r.Stale, Overdue: r.Overdue}
}

// stale reports whether an update from a base model is too old by now.
func (m *Machine) stale(model uint64) bool {
	age := int(m.s.Model - model)
	if m.overlapping != nil {
		return m.overlapping.Stale(age)
	}
	return age > 0 && closing.UsesLate(m.config.Late) && !m.config.Late.Keeps(age)
}
