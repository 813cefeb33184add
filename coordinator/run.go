package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"fedpace/bus"
	"fedpace/coordinator/round"
	"fedpace/simclock"
)

// Result is where a run ended.
type Result struct {
	Stop        round.Stop
	Fingerprint uint64    // of the clock's history
	Params      []float32 // the final model; nil when the run did not train
	Completed   bool      // false: interrupted
}

// window is how many tasks may be on the bus without a plan. It bounds the
// messages under way to what the subscriptions' pending limits hold.
const window = 8192

// Run plays a run to its end. When ctx is cancelled it returns what was done
// so far together with the context's error.
func Run(ctx context.Context, transport bus.Transport, c Config) (*Result, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	c.Bus.Kernel = c.Learning.Kernel
	c.Bus.PublishModels = c.Bus.PublishModels || c.Devices != nil && !c.Devices.Replay
	channel, err := transport.OpenCoordinator(ctx, c.Run, c.Bus)
	if err != nil {
		return nil, err
	}
	d := &driver{config: c, bus: channel}
	if c.Resume != nil {
		err = d.resume(ctx, c.Resume)
	} else {
		err = d.start(ctx)
	}
	if err != nil {
		return nil, closed(channel, errors.Join(err, d.devices.close()))
	}
	d.showVitals()
	if err = d.play(ctx); err != nil {
		err = errors.Join(err, d.save())
	}
	err = closed(channel, errors.Join(err, d.devices.close()))
	result := &Result{Stop: d.stop, Fingerprint: d.clock.Fingerprint(), Completed: err == nil}
	if d.learner != nil {
		result.Params = d.learner.params
	}
	return result, err
}

// closed ends the run's use of the bus, also when the run was cancelled, and
// joins what went wrong in that to err.
func closed(channel bus.Coordinator, err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return errors.Join(err, channel.Close(ctx))
}

// closeTimeout bounds the removal of the run's streams.
const closeTimeout = 5 * time.Second

// driver connects the machine to the bus, the clock and the trainers.
type driver struct {
	config  Config
	machine *round.Machine
	bus     bus.Coordinator
	clock   *simclock.Clock
	pacer   *simclock.Pacer
	learner *learner    // nil: timing only
	devices *deviceDesk // nil: all clients are simulated

	planning atomic.Int64 // wall time of the last cohort's tasks and plans

	unsent  []round.Task // tasks and probes that are being planned
	asked   []round.Task // devices' tasks that are to be sent
	plans   []bus.ClientPlan
	ask     []round.Task
	train   []round.Task
	release []uint64
	task    bus.Task

	stop round.Stop
	torn bool // a step is under way, or failed on its way: there is no state to be saved
}

// start makes what a run begins with.
func (d *driver) start(ctx context.Context) (err error) {
	d.clock = simclock.New()
	if d.machine, err = round.New(d.config.Round); err != nil {
		return err
	}
	if d.pacer, err = simclock.NewPacer(d.config.Pace, 0); err != nil {
		return err
	}
	if d.config.Round.Train {
		if d.learner, err = newLearner(ctx, d.bus, &d.config); err != nil {
			return err
		}
	}
	return d.openDevices(ctx)
}

// play runs the machine from where it stands to its last event.
func (d *driver) play(ctx context.Context) error {
	if d.machine.Phase() == round.Idle {
		if d.devices != nil {
			if err := d.devices.gather(ctx); err != nil {
				return err
			}
		}
		if err := d.step(round.Event{Kind: round.Started}); err != nil {
			return err
		}
	}
	due := d.config.Checkpoint.Due
	for {
		var err error
		if due != nil && due() {
			if err := d.save(); err != nil {
				return err
			}
		}
		switch d.machine.Phase() {
		case round.Planning:
			err = d.plan(ctx)
		case round.Clocked:
			err = d.tick(ctx)
		case round.Querying:
			err = d.losses(ctx)
		case round.Training:
			err = d.learn(ctx)
		case round.Evaluating:
			err = d.evaluate(ctx)
		case round.Stopped:
			return nil
		default:
			err = fmt.Errorf("coordinator: the machine is %v", d.machine.Phase())
		}
		if err == nil {
			err = d.releaseModels(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// step gives the machine one event and does what follows at once; what takes
// the bus or the trainers is left to the phase that the machine is then in.
func (d *driver) step(e round.Event) error {
	d.torn = true
	out, err := d.machine.Step(e)
	if err != nil {
		return err
	}
	d.clock.ScheduleBatch(out.Timers)
	for _, seq := range out.Cancel {
		d.clock.Cancel(seq)
	}
	if len(out.Query) > 0 {
		d.ask = append(d.ask[:0], out.Query...)
	}
	d.release = append(d.release, out.Release...)
	if len(out.Train) > 0 {
		d.train = append(d.train[:0], out.Train...)
	}
	if len(out.Tasks) > 0 {
		d.issued(out.Tasks)
	}
	if d.devices != nil {
		for i := range out.Ended {
			d.devices.ended(&out.Ended[i])
		}
	}
	if f := d.config.Observer.Settled; f != nil {
		for i := range out.Ended {
			f(&out.Ended[i])
		}
	}
	if out.Report != nil {
		if err := d.report(out.Report); err != nil {
			return err
		}
	}
	if out.Stopped != nil {
		d.stop = *out.Stopped
	}
	if out.Ignored != "" && d.config.Observer.Ignored != nil {
		d.config.Observer.Ignored(out.Ignored)
	}
	d.torn = false
	return nil
}

func (d *driver) report(r *round.Report) error {
	d.stop.Rounds, d.stop.At = r.Round, r.End
	for o, n := range r.Outcomes {
		d.stop.Outcomes[o] += n
	}
	if f := d.config.Observer.Report; f != nil {
		return f(r)
	}
	return nil
}

// plan sends the tasks that have been issued and takes their plans. Tasks go out a window at
// a time, so the bus never holds more than its pending limits.
func (d *driver) plan(ctx context.Context) error {
	if err := d.askDevices(); err != nil {
		return err
	}
	if err := d.runAhead(); err != nil {
		return err
	}
	started := time.Now()
	sent := 0
	total := len(d.unsent)
	for d.waiting() > 0 {
		underway := sent - (total - d.waiting())
		for ; sent < total && underway < window; sent, underway = sent+1, underway+1 {
			if err := d.send(d.unsent[sent]); err != nil {
				return err
			}
		}
		if err := d.bus.Flush(); err != nil {
			return err
		}
		var err error
		d.plans, err = d.bus.TakePlans(ctx, d.plans[:0])
		if errors.Is(err, bus.ErrInterrupted) {
			sent = 0 // all again: a repeated plan is ignored
			continue
		}
		if err != nil {
			return err
		}
		for i := range d.plans {
			if err := d.planned(&d.plans[i]); err != nil {
				return err
			}
		}
	}
	d.timePlans(started)
	for d.machine.Phase() == round.Planning { // for devices alone
		if err := d.devices.answers(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (d *driver) planned(p *bus.ClientPlan) error {
	if f := d.config.Observer.Plan; f != nil {
		f(p)
	}
	return d.step(round.Event{Kind: round.Planned, Task: p.Plan.Task, Client: p.Client, Plan: PlanOf(p.Plan)})
}

// PlanOf is a message's plan as the machine takes it.
func PlanOf(p *bus.Plan) round.Plan {
	return round.Plan{
		Download: round.Time(p.DownloadNs), Compute: round.Time(p.ComputeNs), Upload: round.Time(p.UploadNs),
		Drops: p.Dropout != nil, Dropout: round.Time(p.Dropout.GetAfterNs()),
	}
}

// send puts one task on its client's subject.
func (d *driver) send(t round.Task) error {
	d.describe(t)
	return d.bus.SendTask(t.Client, &d.task)
}

// describe makes d.task of a task.
func (d *driver) describe(t round.Task) {
	d.task = bus.Task{
		Task: t.Task, Round: uint32(t.Round), LocalSteps: uint32(t.LocalSteps), LearningRate: t.LearningRate,
		StepsDone: uint64(t.StepsDone), ModelBits: uint64(d.config.ModelBits), StartNs: int64(t.Start),
	}
	if d.learner != nil {
		d.task.ModelDigest = d.learner.models.digest(t.Model).Bytes()
	}
}

// tick waits for wall time, if the run is paced, and moves the clock on.
func (d *driver) tick(ctx context.Context) error {
	next, ok := d.clock.Peek()
	if !ok {
		return fmt.Errorf("coordinator: nothing left on the clock in a run that is not over")
	}
	if err := d.pacer.Wait(ctx, next.At); err != nil {
		return err
	}
	if d.devices != nil {
		if err := d.devices.meet(); err != nil {
			return err
		}
	}
	e, _ := d.clock.Pop()
	return d.step(round.Event{Kind: round.Due, Timer: e})
}
