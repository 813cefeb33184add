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

// window is how many tasks may be on the bus without a plan. It bounds the
// messages under way to what the subscriptions' pending limits hold.
const window = 8192

// planner is the simulated clients' tasks that have no plan. They go out a
// window at a time, so the bus never holds more than its pending limits.
type planner struct {
	bus bus.Coordinator

	// open lists the tasks that were issued since the last time that none waited.
	open []round.Task
	// sent is how many of them are sent, which are the first.
	sent  int
	plans []bus.ClientPlan
	// taken is how many of the plans that came were handed on.
	taken int
	task  bus.Task
	// started is the wall time at which the first of the open tasks was sent.
	started time.Time
	// lag is how many nanoseconds of wall time passed from then until the last plan was back.
	lag atomic.Int64
}

// forgetPlanned forgets the tasks that were sent to be planned, once waiting, the number of those
// without a plan, is 0, and notes how long the plans took in wall time.
func (p *planner) forgetPlanned(waiting int) {
	if waiting == 0 && p.sent > 0 {
		p.lag.Store(int64(time.Since(p.started)))
		p.open = p.open[:0]
		p.sent = 0
	}
}

// plan returns the next event while tasks wait for their plans: the next plan of a simulated
// client's task or, when only devices have open tasks, the next answer of a device. Where rounds
// overlap, a timer that is due before any open task can end is returned first, so that many tasks
// are planned at a time. A paced run waits for wall time anyway and does not do that.
func (d *driver) plan(ctx context.Context) (round.Event, error) {
	p := &d.planner
	for p.taken == len(p.plans) {
		// An event that no open plan can come before is handled while the plans are on their way.
		if d.config.Round.Soonest > 0 && d.config.Pace == 0 {
			if next, ok := d.clock.Peek(); ok && d.machine.RunsAhead(next) {
				d.clock.Pop()
				return round.Event{Kind: round.Due, Timer: next}, nil
			}
		}
		waiting := d.machine.Waiting() - d.devices.Open()
		// Only devices have open tasks, so the next event is an answer of one of them.
		if waiting == 0 {
			p.forgetPlanned(waiting)
			return d.devices.Answer(ctx, d.machine.ClosesAfter)
		}
		if err := d.sendTasks(len(p.open) - waiting); err != nil {
			return round.Event{}, err
		}
		var err error
		p.plans, err = p.bus.TakePlans(ctx, p.plans[:0])
		p.taken = 0
		if errors.Is(err, bus.ErrInterrupted) {
			// All that have no plan are sent again. A repeated plan is ignored.
			p.open = slices.DeleteFunc(p.open, func(t round.Task) bool { return !d.machine.Unplanned(t.Task) })
			p.sent = 0
			p.plans = p.plans[:0]
			continue
		}
		if err != nil {
			return round.Event{}, err
		}
	}
	x := &p.plans[p.taken]
	p.taken++
	return round.Event{
		Kind:   round.Planned,
		Task:   x.Plan.Task,
		Client: x.Client,
		Stages: stagesOf(x.Plan),
		Plan: round.Plan{
			Download: round.Time(x.Plan.DownloadNs),
			Compute:  round.Time(x.Plan.ComputeNs),
			Upload:   round.Time(x.Plan.UploadNs),
			Drops:    x.Plan.Dropout != nil,
			Dropout:  round.Time(x.Plan.Dropout.GetAfterNs()),
		},
	}, nil
}

// stagesOf returns how long the stages of secure aggregation take the client of a plan, in virtual
// time. It is nil if the plan has none.
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

// sendTasks sends open tasks to be planned until as many are without a plan as the window allows.
// planned is the number of open tasks that have their plan already.
func (d *driver) sendTasks(planned int) error {
	p := &d.planner
	if p.sent == 0 {
		p.started = time.Now()
	}
	for ; p.sent < len(p.open) && p.sent-planned < window; p.sent++ {
		t := &p.open[p.sent]
		d.describe(&p.task, t)
		if err := p.bus.SendTask(t.Client, &p.task); err != nil {
			return err
		}
	}
	return nil
}
