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

// setTimer asks the driver to put timer t on the clock, and returns the number by which it can be
// cancelled. No number is used twice.
func (s *step) setTimer(t Timer) uint64 {
	t.Seq = s.nextTimer
	s.nextTimer++
	s.effects.Timers = append(s.effects.Timers, t)
	return t.Seq
}

// cancelTimer asks the driver to remove a timer, if it is set, from the clock, and sets its number to
// noTimer.
func (s *step) cancelTimer(timer *uint64) {
	if *timer != 0 {
		s.effects.Cancel = append(s.effects.Cancel, *timer)
		*timer = 0
	}
}

// clearTimer sets a timer's number to noTimer because it fell due. It is an error if t has another number:
// it then was cancelled, or is another timer.
func clearTimer(timer *uint64, t Timer) error {
	if *timer != t.Seq {
		return fmt.Errorf("round: timer %d is not set", t.Seq)
	}
	*timer = 0
	return nil
}

// emitOutcome adds to the effects the report that t, a task or candidate, ended at the time end with
// outcome o. newest is the newest version of the model. The report is filled in place, without a copy,
// because a run has one for each task.
func (s *step) emitOutcome(t *TaskState, o Outcome, end Time, newest uint64, candidate bool) {
	e := appendElement(&s.effects.Ended)
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

// describe fills x with the task as the driver sees it, and returns x. train says whether the run trains;
// without training there is a single model, number 0.
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

// appendElement appends an element to a list and returns a pointer to it, for the caller to fill: it may
// hold what its memory held before.
func appendElement[T any](list *[]T) *T {
	n := len(*list)
	if n == cap(*list) {
		*list = append(*list, *new(T))
	}
	*list = (*list)[:n+1]
	return &(*list)[n]
}
