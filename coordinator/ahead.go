package coordinator

import "fedpace/coordinator/round"

// runAhead handles the events that no plan under way can reach, and adds the
// tasks that follow from them to those to be planned: where rounds overlap
// tasks are so planned many at a time. A run that is paced has no haste.
func (d *driver) runAhead() error {
	if d.config.Round.Soonest <= 0 || d.config.Pace > 0 {
		return nil
	}
	tasks := append([]round.Task(nil), d.unsent...)
	for {
		next, ok := d.clock.Peek()
		if !ok || !d.machine.RunsAhead(next) {
			d.unsent = tasks
			return nil
		}
		d.unsent = d.unsent[:0]
		d.clock.Pop()
		if err := d.step(round.Event{Kind: round.Due, Timer: next}); err != nil {
			return err
		}
		tasks = append(tasks, d.unsent...)
	}
}
