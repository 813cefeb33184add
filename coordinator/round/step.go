package round

import "fmt"

// step is the time of the machine's newest step, and what follows from it. The parts of
// the machine share it.
type step struct {
	now Time
	// nextTimer is the number of the next timer.
	nextTimer uint64
	effects   Effects
}

// set asks the driver to put timer t on the clock, and returns the number by which it can be
// cancelled. Numbers are never used twice.
func (s *step) set(t Timer) uint64 {
	t.Seq = s.nextTimer
	s.nextTimer++
	s.effects.Timers = append(s.effects.Timers, t)
	return t.Seq
}

// cancel asks the driver to take a timer off the clock, if it is set, and sets its number to 0.
func (s *step) cancel(timer *uint64) {
	if *timer != 0 {
		s.effects.Cancel = append(s.effects.Cancel, *timer)
		*timer = 0
	}
}

// unset sets a timer to 0 because it fell due. It is an error if t is not this timer: then it was
// cancelled or belongs to something else.
func unset(timer *uint64, t Timer) error {
	if *timer != t.Seq {
		return fmt.Errorf("round: timer %d is not set", t.Seq)
	}
	*timer = 0
	return nil
}

// emitOutcome adds the outcome o of a task or candidate, which ended at the time end, to the effects.
// newest is the newest version of the model. The report is filled in place, without a copy, since this
// happens once for each task of a run.
func (s *step) emitOutcome(t *TaskState, o Outcome, end Time, newest uint64, candidate bool) {
	e := grow(&s.effects.Ended)
	e.Task = t.Task
	e.Client = int(t.Client)
	e.LocalSteps = int(t.LocalSteps)
	e.Probe = candidate
	e.Outcome = o
	e.Revises = false
	e.Model = t.Model
	e.Staleness = int(newest - t.Model)
	e.Start = t.Start
	e.End = end
	e.Plan.Download = t.Download
	e.Plan.Compute = t.Compute
	e.Plan.Upload = t.Upload
	e.Plan.Drops = t.Drops
	e.Plan.Dropout = t.Dropout
}

// describe fills x with the task as the driver sees it, and returns x. Without training, train is
// false, and the task's model is 0, because there is only one.
func (t *TaskState) describe(x *Task, train bool) *Task {
	x.Task = t.Task
	x.Client = int(t.Client)
	x.Round = int(t.Round)
	x.Model = 0
	x.LocalSteps = int(t.LocalSteps)
	x.LearningRate = t.LearningRate
	x.StepsDone = t.StepsDone
	x.Start = 0
	x.Staleness = 0
	x.Probe = false
	x.Joules = 0
	if train {
		x.Model = t.Model
	}
	return x
}

// grow appends an element to a list and returns it, to be filled in place: it
// may hold what its memory held before.
func grow[T any](list *[]T) *T {
	n := len(*list)
	if n == cap(*list) {
		*list = append(*list, *new(T))
	}
	*list = (*list)[:n+1]
	return &(*list)[n]
}
