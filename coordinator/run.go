package coordinator

import (
	"context"
	"errors"
	"time"

	"fedpace/algorithm"
	"fedpace/bus"
	"fedpace/coordinator/realdevices"
	"fedpace/coordinator/round"
	"fedpace/learn"
	"fedpace/learn/metric"
	"fedpace/registry"
	"fedpace/simclock"
)

// Result is where a run ended.
type Result struct {
	Stop        round.Stop
	Fingerprint uint64    // hash of the clock's history
	Params      []float32 // the final model; nil when the run did not train
	Completed   bool      // false: interrupted
	Devices     realdevices.Findings
}

// Run plays a run to its end. When ctx is cancelled it returns what was done
// so far together with the context's error.
func Run(ctx context.Context, transport bus.Transport, c Config) (result *Result, err error) {
	if c.Resume != nil {
		defer Recovered(&err) // and without a result
	}
	c.Bus.Kernel = c.Learning.Kernel
	c.Bus.PublishModels = c.Bus.PublishModels || c.Devices != nil && !c.Devices.Replay
	channel, err := transport.OpenCoordinator(ctx, c.Run, c.Bus)
	if err != nil {
		return nil, err
	}
	driving, stop := bus.Until(ctx, channel.Life())
	defer stop()
	d := &driver{config: c, bus: channel, planner: planner{bus: channel}}
	d.why = func(err error) error {
		if ctx.Err() == nil && errors.Is(err, context.Canceled) { // what was waited for does not know why
			return context.Cause(driving)
		}
		return err
	}
	if err = d.open(driving); err != nil {
		return nil, errors.Join(d.why(err), d.close())
	}
	if f := c.Observer.Stats; f != nil {
		f(&Stats{
			Stats:   channel,
			Pacer:   d.pacer,
			Devices: d.devices,
			lag:     &d.planner.lag,
		})
	}
	err = errors.Join(d.play(driving), d.close())
	result = &Result{
		Stop:        d.machine.Stop(),
		Fingerprint: d.clock.Fingerprint(),
		Completed:   err == nil,
		Devices:     d.devices.Findings(),
	}
	if d.learner != nil {
		result.Params = d.learner.params
	}
	return result, err
}

// driver connects the machine to the bus, the clock and the trainers.
type driver struct {
	config  Config
	machine *round.Machine
	bus     bus.Coordinator
	clock   *simclock.Clock
	pacer   *simclock.Pacer
	planner planner
	learner *learner             // nil: timing only
	devices *realdevices.Devices // nil: all clients are simulated

	scores []metric.ClientScore // results of the last evaluation by client

	why func(error) error // an error, or why the bus was lost if that is what ended the wait
}

// open makes what a run begins with, or goes on with.
func (d *driver) open(ctx context.Context) (err error) {
	c := &d.config
	s := d.config.Resume
	if s != nil {
		err = d.restore(s)
	} else {
		d.clock = simclock.New()
		d.machine, err = round.New(c.Round)
	}
	if err != nil {
		return err
	}
	d.pacer = simclock.NewPacer(c.Pace, d.clock.Now())
	if !c.Round.Train {
		return nil // it has no devices
	}
	if d.learner, err = newLearner(ctx, d.bus, c); err != nil || c.Devices == nil {
		return err
	}
	v := realdevices.Run{
		Name:      c.Run,
		First:     c.Round.Clients,
		Params:    learn.Travels(c.Learning.Model),
		Frozen:    c.Learning.Model.Params() - learn.Travels(c.Learning.Model),
		Trainable: c.Learning.Model.Trainable(),
		Spec:      c.Learning.Spec,
		Selects:   registry.NeedsOf(c.Round.Select).Samples,
	}
	if of := c.Learning.Algorithm; of != nil {
		_, v.Votes = of.Compression.(algorithm.Voting)
		if of.Variates != nil {
			v.Kept = of.Variates.Width()
		}
	}
	if d.devices, err = realdevices.Open(ctx, *c.Devices, v); err != nil {
		return err
	}
	d.learner.devices = d.devices
	if s != nil {
		return d.devices.Resume(&s.Machine, s.Updates, s.Findings)
	}
	return nil
}

// close ends the run's use of the bus, also when the run was cancelled.
func (d *driver) close() error {
	err := d.devices.Close()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return errors.Join(err, d.bus.Close(ctx))
}

// closeTimeout bounds the removal of the run's streams.
const closeTimeout = 5 * time.Second

// play runs the machine from where it stands to its last event. Between two
// steps, when all that an event leads to at once is done, the run's state can
// be saved; what takes the bus, the clock or the trainers leads to the next
// event, and is asked for again when a run goes on from there.
func (d *driver) play(ctx context.Context) error {
	effects := d.machine.Pending()
	for {
		if err := d.act(ctx, effects); err != nil || effects.Stopped != nil {
			return d.why(err)
		}
		if due := d.config.Checkpoint.Due; d.devices.Urgent() || due != nil && due() {
			if err := d.save(); err != nil {
				return err
			}
		}
		e, err := d.next(ctx, effects)
		if err != nil {
			return errors.Join(d.why(err), d.save())
		}
		// From here on the algorithm may be a round ahead of the machine: no state is saved.
		if err := d.take(ctx, &e, effects); err != nil {
			return d.why(err)
		}
		if effects, err = d.machine.Step(e); err != nil {
			return err
		}
	}
}

// take does what an event leads to beside the machine: the next model, and what observers
// hear of training and evaluations.
func (d *driver) take(ctx context.Context, e *round.Event, effects *round.Effects) error {
	switch {
	case e.Kind == round.Trained:
		if err := d.learner.advance(ctx, d.machine.Round(), effects.Train); err != nil {
			return err
		}
		if f := d.config.Observer.Losses; f != nil {
			f(effects.Train, e.Losses)
		}
	case e.Kind == round.Evaluated && effects.EvaluateClients > 0:
		if f := d.config.Observer.Clients; f != nil {
			return f(effects.EvaluateClients, d.scores)
		}
	}
	return nil
}

// act does what a step leads to at once.
func (d *driver) act(ctx context.Context, effects *round.Effects) error {
	for _, timer := range effects.Timers {
		d.clock.Schedule(timer)
	}
	for _, seq := range effects.Cancel {
		d.clock.Cancel(seq)
	}
	for i := range effects.Ended {
		e := &effects.Ended[i]
		d.devices.Ended(e)
		if f := d.config.Observer.Task; f != nil {
			f(e)
		}
	}
	if f := d.config.Observer.Report; f != nil && effects.Report != nil {
		if err := f(effects.Report); err != nil {
			return err
		}
	}
	for _, version := range effects.Release {
		if err := d.learner.models.release(context.WithoutCancel(ctx), version); err != nil {
			return err
		}
	}
	return d.issue(ctx, effects.Tasks)
}

// issue sends devices their tasks, which take real time, and has the others
// planned.
func (d *driver) issue(ctx context.Context, tasks []round.Task) error {
	if len(tasks) == 0 {
		d.planner.rest(d.machine.Waiting())
		return nil
	}
	for i := range tasks {
		t := &tasks[i]
		if !d.devices.Has(t.Client) {
			d.planner.open = append(d.planner.open, *t)
			continue
		}
		message := new(bus.Task)
		d.describe(message, t)
		if err := d.learner.lend(ctx, t.Client, message); err != nil {
			return err
		}
		from := d.learner.models.list[t.Model]
		if err := d.devices.Issue(
			t,
			message,
			from.params[:learn.Travels(d.config.Learning.Model)],
			from.doubtful,
		); err != nil {
			return err
		}
	}
	return nil
}

// describe fills in the message of a task.
func (d *driver) describe(m *bus.Task, t *round.Task) {
	*m = bus.Task{
		Task:         t.Task,
		Round:        uint32(t.Round),
		LocalSteps:   uint32(t.LocalSteps),
		LearningRate: t.LearningRate,
		StepsDone:    uint64(t.StepsDone),
		ModelBits:    uint64(d.config.ModelBits),
		UpdateBits:   uint64(d.config.UpdateBits),
		StartNs:      int64(t.Start),
		Joules:       t.Joules,
	}
	if d.config.DeviceOf != nil && !d.devices.Has(t.Client) {
		device, presence := d.config.DeviceOf(t.Client)
		m.Device = uint32(device + 1)
		m.Presence = uint32(presence + 1)
	}
	if d.learner != nil {
		m.ModelDigest = d.learner.models.list[t.Model].digest.Bytes()
		if d.devices.Has(t.Client) {
			d.learner.models.nameFor(m, t.Model)
		}
	}
}

// next waits for the next event. It changes nothing that a state holds, but for
// the clock where it returns no error.
func (d *driver) next(ctx context.Context, effects *round.Effects) (round.Event, error) {
	switch {
	case d.machine.Phase() == round.Idle:
		err := d.devices.WaitForAll(ctx)
		if err == nil {
			err = d.reportPresence(true)
		}
		if f := d.config.Observer.Begun; f != nil {
			f()
		}
		return round.Event{Kind: round.Started}, err
	case len(effects.Query) > 0:
		losses, err := d.learner.losses(ctx, d.machine.Round(), effects.Query)
		return round.Event{Kind: round.Queried, Losses: losses}, err
	case len(effects.Train) > 0:
		loss, losses, err := d.learner.train(ctx, d.machine.Round(), effects.Train)
		return round.Event{
			Kind:    round.Trained,
			Loss:    loss,
			Losses:  losses,
			Refused: d.learner.refused,
		}, err
	case effects.Evaluate || effects.EvaluateClients > 0:
		return d.evaluate(ctx, effects)
	case d.machine.Phase() == round.Planning:
		return d.plan(ctx)
	case d.machine.Phase() == round.Awaiting:
		events, err := d.devices.Await(ctx, d.clock.Fingerprint())
		if err == nil {
			err = d.note(events)
		}
		return round.Event{Kind: round.Gathered}, err
	}
	return d.tick(ctx)
}

// evaluate measures the newest model as the machine asks.
func (d *driver) evaluate(ctx context.Context, effects *round.Effects) (e round.Event, err error) {
	e.Kind = round.Evaluated
	if number := effects.EvaluateClients; number > 0 {
		if d.scores, err = d.learner.evaluateClients(ctx, number); err != nil {
			return e, err
		}
	}
	if effects.Evaluate {
		e.Loss, e.Metrics, err = d.learner.evaluate(ctx, d.machine.Round())
	}
	return e, err
}

// reportPresence tells the machine which devices have come or left.
func (d *driver) reportPresence(begin bool) error {
	events, err := d.devices.Presence(d.clock.Fingerprint(), begin)
	return errors.Join(err, d.note(events))
}

// note tells the machine of devices that have come or left, which leads to nothing by itself.
func (d *driver) note(events []round.Event) error {
	for _, e := range events {
		if _, err := d.machine.Step(e); err != nil {
			return err
		}
	}
	return nil
}

// tick waits for wall time, if the run is paced, and moves the clock on.
func (d *driver) tick(ctx context.Context) (round.Event, error) {
	next, ok := d.clock.Peek()
	if !ok {
		return round.Event{}, errors.New("coordinator: nothing left on the clock in a run that is not over")
	}
	if err := d.pacer.Wait(ctx, next.At); err != nil {
		return round.Event{}, err
	}
	if d.devices != nil {
		if err := d.reportPresence(false); err != nil {
			return round.Event{}, err
		}
	}
	d.clock.Pop()
	return round.Event{Kind: round.Due, Timer: next}, nil
}
