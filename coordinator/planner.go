package coordinator

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"fedpace/bus"
	"fedpace/coordinator/round"
)

// maxUnplanned is how many tasks may be on the bus without a plan. It bounds the
// messages under way to what the subscriptions' pending limits hold.
const maxUnplanned = 8192

// planner has the simulated clients' tasks planned by the clients' hosts, over the bus. At most maxUnplanned
// tasks are on the bus at a time, so the bus never holds more than its pending limits.
type planner struct {
	bus bus.Coordinator

	// unplanned lists the tasks that were issued since all tasks had plans last. Some may have got theirs
	// meanwhile: the list is emptied only when all have.
	unplanned []round.Task
	// sent is how many of them were sent, the first ones of the list.
	sent int
	// plans are those that the bus returned last.
	plans []bus.ClientPlan
	// plansTaken is how many of plans, from the first on, were handed to the machine.
	plansTaken int
	// message is the memory of the message that is sent, reused for each.
	message bus.Task
	// firstSent is the wall time at which the first task of the list was sent.
	firstSent time.Time
	// lag is how many nanoseconds of wall time passed from then until the last plan was back.
	lag atomic.Int64
}

// forgetPlanned empties the list of tasks to plan once all of them have a plan, that is, once waiting, the
// number of tasks without one, is 0. It notes how long the plans took in wall time.
func (p *planner) forgetPlanned(waiting int) {
	if waiting == 0 && p.sent > 0 {
		p.lag.Store(int64(time.Since(p.firstSent)))
		p.unplanned = p.unplanned[:0]
		p.sent = 0
	}
}

// nextPlan writes the machine's next event while tasks have no plan: a client's host, on the other side of
// the bus, first says how long each task will take (its plan). The event is such a plan or, if only real
// devices have open tasks, the answer of a device. Plans come from the bus in batches, and are handed to the
// machine one by one.
//
// Where rounds overlap, a timer that is due before any open task can end is returned before plans are
// awaited, so that many tasks are planned at the same time. A paced run waits for wall time anyway and does
// not do that.
func (d *driver) nextPlan(ctx context.Context, event *round.Event) error {
	planner := &d.planner
	for planner.plansTaken == len(planner.plans) {
		mayRunAhead := d.config.Round.Soonest > 0 && d.config.Pace == 0
		if mayRunAhead {
			if next, ok := d.clock.Peek(); ok && d.machine.RunsAhead(next) {
				d.clock.Pop()
				setDueEvent(event, &next)
				return nil
			}
		}
		// waiting is the number of simulated clients' tasks without a plan.
		waiting := d.machine.Waiting() - d.devices.Open()
		// Only devices have open tasks, so the next event is an answer of one of them.
		if waiting == 0 {
			planner.forgetPlanned(waiting)
			var err error
			*event, err = d.devices.Answer(ctx, d.machine.ClosesAfter)
			return err
		}
		// planned is the number of tasks of the list that have their plan.
		planned := len(planner.unplanned) - waiting
		if err := d.sendTasks(planned); err != nil {
			return err
		}
		if err := d.takePlans(ctx); err != nil {
			return err
		}
	}
	answer := &planner.plans[planner.plansTaken]
	planner.plansTaken++
	setPlanEvent(event, answer)
	return nil
}

// takePlans waits for the next batch of plans from the bus. If a server was lost, messages may be lost with
// it: then the batch is empty, and all tasks without a plan count as not sent. Hosts plan such a task again,
// and the machine ignores a repeated plan.
func (d *driver) takePlans(ctx context.Context) (err error) {
	planner := &d.planner
	planner.plans, err = planner.bus.TakePlans(ctx, planner.plans[:0])
	planner.plansTaken = 0
	if !errors.Is(err, bus.ErrInterrupted) {
		return err
	}
	// The list has tasks that got their plan meanwhile, which are not sent again. Of the others none counts as
	// sent.
	hasPlan := func(t round.Task) bool { return !d.machine.Unplanned(t.Task) }
	planner.unplanned = slices.DeleteFunc(planner.unplanned, hasPlan)
	planner.sent = 0
	planner.plans = planner.plans[:0]
	return nil
}

// setPlanEvent writes the machine's event for a plan from the bus: how many nanoseconds of virtual time each
// phase of the task takes its client, and whether and when the client drops out.
func setPlanEvent(event *round.Event, answer *bus.ClientPlan) {
	plan := answer.Plan
	// The fields are set in place, because there are millions of plans.
	*event = round.Event{}
	event.Kind = round.Planned
	event.Task = plan.Task
	event.Client = answer.Client
	event.Stages = stagesOf(plan)
	event.Plan.Download = round.Time(plan.DownloadNs)
	event.Plan.Compute = round.Time(plan.ComputeNs)
	event.Plan.Upload = round.Time(plan.UploadNs)
	event.Plan.Drops = plan.Dropout != nil
	event.Plan.Dropout = round.Time(plan.Dropout.GetAfterNs())
}

// stagesOf returns the durations, in virtual time, of the stages of secure aggregation in a client's plan,
// nil if the plan has none.
func stagesOf(p *bus.Plan) *round.Stages {
	if len(p.StageNs) != bus.SecureStages {
		return nil
	}
	return &round.Stages{
		Keys:      round.Time(p.StageNs[0]),
		Shares:    round.Time(p.StageNs[1]),
		Survivors: round.Time(p.StageNs[2]),
		Recovery:  round.Time(p.StageNs[3]),
	}
}

// sendTasks sends further tasks of the list p.unplanned to be planned, until maxUnplanned of those sent have no plan or
// all are sent. p.sent is how many have been sent, the first ones of the list; planned is how many of these have their
// plan already.
func (d *driver) sendTasks(planned int) error {
	p := &d.planner
	if p.sent == 0 {
		p.firstSent = time.Now()
	}
	for ; p.sent < len(p.unplanned) && p.sent-planned < maxUnplanned; p.sent++ {
		t := &p.unplanned[p.sent]
		d.fillTask(&p.message, t)
		if err := p.bus.SendTask(t.Client, &p.message); err != nil {
			return err
		}
	}
	return nil
}
