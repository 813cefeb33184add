package round

import (
	"cmp"
	"fmt"
	"slices"
)

// candidates are the clients that a round with the selection [selection.ByLosses] asks for their
// losses before it selects its cohort among them. They are issued and planned as tasks are, compute
// one local step, and are asked for their losses together. The list is empty once the cohort is
// selected.
type candidates struct {
	step      *step
	transfers *transfers
	// list holds the candidates of the round's query, numbered with the tasks of simulated clients.
	list []TaskState
	// answers is the timer of the last candidate's answer, where transfers are not shared.
	answers uint64
	// unanswered counts the candidates that have not answered, where transfers are shared.
	unanswered int
}

// underWay reports whether the round waits for candidates. As long as it does, the number of a task
// is that of a candidate.
func (c *candidates) underWay() bool { return len(c.list) > 0 }

// start begins the work of the candidates, which all have plans. Where transfers are not shared, one
// timer is set for the last answer, since all losses are asked for together. Where they are shared,
// the end of each candidate follows from the transfers of the others.
func (c *candidates) start() {
	last := Time(0)
	for i := range c.list {
		t := &c.list[i]
		last = max(last, t.duration())
		if c.transfers != nil {
			c.unanswered++
			const isCandidate = true
			const hasModel = false
			c.transfers.begin(t, isCandidate, hasModel)
		}
	}
	if c.transfers == nil {
		c.answers = c.step.set(Timer{At: c.step.now + last, Priority: priorityTask, Kind: CandidatesAnswered})
	}
}

// dropOut takes the candidate whose timer has come off the shared link, because its client drops
// out while it downloads. A timer that is not the candidate's current one is an error.
func (c *candidates) dropOut(timer Timer) error {
	t := find(c.list, timer.Task)
	if t == nil || t.Timer != timer.Seq {
		return fmt.Errorf("round: timer %d of task %d is not set", timer.Seq, timer.Task)
	}
	t.Timer = 0
	c.transfers.end(t)
	return nil
}

// removeUnavailable ends the part of candidates that cannot answer: those that dropped out, and
// those that are not available any more by the given function. The others stay in order.
func (c *candidates) removeUnavailable(available func(client int) bool) {
	c.list = slices.DeleteFunc(c.list, func(t TaskState) bool {
		switch {
		case t.Drops:
			c.finish(&t, Dropped)
		case !available(int(t.Client)):
			c.finish(&t, Cancelled)
		default:
			return false
		}
		return true
	})
}

// query asks the driver for the losses of all candidates, by effects that look like tasks. train says
// whether the run trains, since only then tasks name a version of the model.
func (c *candidates) query(train bool) {
	for i := range c.list {
		c.list[i].describe(grow(&c.step.effects.Query), train).Probe = true
	}
}

// choose ends the query of a round: it returns the clients of the cohort with the highest losses,
// in the order in which they were drawn, and ends the part of all other candidates. losses has one
// value for each candidate. Of equal losses the candidate that was drawn first is chosen. A loss
// that is not finite is an error.
func (c *candidates) choose(losses []float64, cohort int) (clients []int32, err error) {
	if len(losses) != len(c.list) {
		return nil, fmt.Errorf("round: %d losses of %d candidates", len(losses), len(c.list))
	}
	order := make([]int, len(losses))
	for i, loss := range losses {
		if t := &c.list[i]; !finite(loss) {
			return nil, fmt.Errorf("round: the loss of candidate %d in round %d is %v", t.Client, t.Round, loss)
		}
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(losses[j], losses[i]) })
	chosen := order[:min(cohort, len(order))]
	// The other candidates are done, and their clients are free again.
	for _, i := range order[len(chosen):] {
		c.finish(&c.list[i], Cancelled)
	}
	slices.Sort(chosen)
	for _, i := range chosen {
		c.finish(&c.list[i], Accepted)
		clients = append(clients, c.list[i].Client)
	}
	c.list = c.list[:0]
	return clients, nil
}

// cancel ends the part of all candidates with the outcome Cancelled, because the run ends, and
// takes the timer for their last answer off the clock.
func (c *candidates) cancel() {
	c.step.cancel(&c.answers)
	for i := range c.list {
		c.finish(&c.list[i], Cancelled)
	}
	c.list = c.list[:0]
}

// finish ends a candidate's part with an outcome, and reports it with the time at which the candidate
// was done, which may lie before now.
func (c *candidates) finish(t *TaskState, o Outcome) {
	c.transfers.end(t)
	c.step.cancel(&t.Timer)
	c.step.emitOutcome(t, o, min(c.step.now, t.Start+t.duration()), t.Model, true)
}
