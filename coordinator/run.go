package coordinator

import (
	"context"
	"errors"
	"time"

	"fedpace/algorithm"
	"fedpace/algorithm/secagg"
	"fedpace/bus"
	"fedpace/coordinator/aggregate"
	"fedpace/coordinator/realdevices"
	"fedpace/coordinator/round"
	"fedpace/learn"
	"fedpace/learn/metric"
	"fedpace/registry"
	"fedpace/simclock"
)

// Result is where a run ended.
type Result struct {
	Stop round.Stop
	// Fingerprint is a hash of the clock's history, which is equal in equal runs.
	Fingerprint uint64
	// Params is the final model, nil if the run did not train.
	Params []float32
	// Completed is false if the run was interrupted.
	Completed bool
	Devices   realdevices.Findings
}

// Run runs a configuration to its end, over the bus that transport opens. If ctx is cancelled, or the run
// fails after it has begun, result is what was reached so far and err says why. result is nil if the run
// could not begin.
func Run(ctx context.Context, transport bus.Transport, config Config) (result *Result, err error) {
	if config.Resume != nil {
		// A panic becomes the error, and there is no result.
		defer Recovered(&err)
	}
	config.Bus.Kernel = config.Learning.Kernel
	hasLiveDevices := config.Devices != nil && !config.Devices.Replay
	config.Bus.PublishModels = config.Bus.PublishModels || hasLiveDevices
	channel, err := transport.OpenCoordinator(ctx, config.Run, config.Bus)
	if err != nil {
		return nil, err
	}
	running, stop := bus.Until(ctx, channel.Life())
	defer stop()
	d := &driver{config: config, bus: channel, planner: planner{bus: channel}}
	// The loss of the bus cancels the context of every wait. Its cause says more than that.
	d.cause = func(err error) error {
		busWasLost := ctx.Err() == nil && errors.Is(err, context.Canceled)
		if busWasLost {
			return context.Cause(running)
		}
		return err
	}
	err = d.open(running)
	if err != nil {
		return nil, errors.Join(d.cause(err), d.close())
	}
	if report := config.Observer.Stats; report != nil {
		report(&Stats{
			Stats:   channel,
			Pacer:   d.pacer,
			Devices: d.devices,
			lag:     &d.planner.lag,
		})
	}
	// The bus is closed in any case, and what was reached is the result.
	err = errors.Join(d.loop(running), d.close())
	result = &Result{
		Stop:        d.machine.Stop(),
		Fingerprint: d.clock.Fingerprint(),
		Completed:   err == nil,
		Devices:     d.devices.Findings(),
	}
	if d.aggregator != nil {
		result.Params = d.aggregator.Params()
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
	// aggregator makes the models, nil if the run does not train.
	aggregator *aggregate.Aggregator
	// devices are the real devices, nil if all clients are simulated.
	devices *realdevices.Devices

	// cause returns the error that it is given or, if that only says that the context was cancelled
	// because the bus was lost, why the bus was lost.
	cause func(error) error
}

// open makes the parts of a run (clock, machine, devices and aggregator) in their first state or, with a
// checkpoint to resume, in the state that it holds.
func (d *driver) open(ctx context.Context) (err error) {
	config := &d.config
	checkpoint := d.config.Resume
	if checkpoint != nil {
		err = d.restore(checkpoint)
	} else {
		d.clock = simclock.New()
		d.machine, err = round.New(config.Round)
	}
	if err != nil {
		return err
	}
	d.pacer = simclock.NewPacer(config.Pace, d.clock.Now())
	// A run that does not train has neither devices nor an aggregator.
	if !config.Round.Train {
		return nil
	}
	if config.Devices != nil {
		d.devices, err = d.openDevices(ctx)
		if err != nil {
			return err
		}
	}
	var resumed *aggregate.State
	if checkpoint != nil {
		resumed = checkpoint.aggregator()
	}
	d.aggregator, err = aggregate.New(ctx, d.bus, aggregate.Config{
		Learning: config.Learning,
		Round:    config.Round,
		Devices:  d.devices,
		Observer: aggregate.Observer{
			Trained: config.Observer.Trained,
			Best:    config.Observer.Best,
			Model:   config.Observer.Model,
		},
	}, resumed)
	if err != nil || checkpoint == nil {
		return err
	}
	err = d.devices.Resume(&checkpoint.Machine, checkpoint.Updates, checkpoint.Findings)
	if err != nil {
		return err
	}
	return d.sendToDevices(ctx, d.machine.Trained(), d.devices.Hold)
}

// openDevices opens the gateway for the run's real devices, which may join from then on. It tells the
// gateway what devices must know of the run, such as the model's size and what they keep between tasks.
func (d *driver) openDevices(ctx context.Context) (*realdevices.Devices, error) {
	config := &d.config
	run := realdevices.Run{
		Name:         config.Run,
		First:        config.Round.Clients,
		Params:       learn.Communicated(config.Learning.Model),
		Frozen:       config.Learning.Model.Params() - learn.Communicated(config.Learning.Model),
		Trainable:    config.Learning.Model.Trainable(),
		UpdateLength: aggregate.UpdateLength(&config.Learning),
		CheckBuffers: func(values []float32) error {
			return learn.CheckBuffers(config.Learning.Model, values)
		},
		Spec:             config.Learning.Spec,
		SelectsBySamples: registry.NeedsOf(config.Round.Select).Samples,
	}
	// Votes and kept state follow from the algorithm and its compression.
	if instance := config.Learning.Algorithm; instance != nil {
		_, run.Votes = instance.Compression.(algorithm.Voting)
		if instance.ClientStates != nil {
			run.StateValues = instance.ClientStates.Width()
		}
	}
	devices := *config.Devices
	if fenced, ok := d.bus.(bus.Fenced); ok {
		devices.Fence = fenced.Fence
	}
	return realdevices.Open(ctx, devices, run)
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

// loop runs the machine from its present state to its last event: it carries out the effects of a step,
// waits for the next event, and takes the next step with that. Between carrying out and waiting the run's
// state may be saved. What the run then waits for (a message of the bus, the clock or training) is not part
// of the state: a resumed run asks for it again.
func (d *driver) loop(ctx context.Context) error {
	effects := d.machine.Pending()
	// The event is written in place, since an event is long and there are millions of them.
	var event round.Event
	for {
		if err := d.carryOut(ctx, effects); err != nil {
			return d.cause(err)
		}
		if err := d.saveGroup(effects, &event); err != nil {
			return err
		}
		if err := d.issue(ctx, effects); err != nil || effects.Stopped != nil {
			return d.cause(err)
		}
		due := d.config.Checkpoint.Due
		isDue := d.devices.Urgent() || due != nil && due()
		if isDue {
			if err := d.save(); err != nil {
				return err
			}
		}
		found, err := d.awaitEvent(ctx, effects, &event)
		if err != nil {
			return errors.Join(d.cause(err), d.save())
		}
		// From here on the model may be a round ahead of the machine: no state is saved before the
		// machine has taken the event.
		if err := d.applyEvent(ctx, &event, found, effects); err != nil {
			return d.cause(err)
		}
		effects, err = d.machine.Step(&event)
		if err != nil {
			return err
		}
	}
}

// findings are what the driver found beside an event of the machine. Few events have any, so that they are
// not copied with each.
type findings struct {
	// outcome is what the next model is made of, for an event of kind Trained.
	outcome aggregate.Outcome
	// scores says how the model did on the clients' own samples, for an event of kind Evaluated.
	scores []metric.ClientScore
}

// applyEvent does what an event causes outside of the machine: after training it makes the next model and
// reports the tasks with their losses to the observer, and after an evaluation it reports the clients' scores.
// found is set for events of the kinds Trained and Evaluated. effects are those of the step before, which asked
// for that work.
func (d *driver) applyEvent(ctx context.Context, event *round.Event, found *findings, effects *round.Effects) error {
	switch {
	// Without the sum the model stays as it is.
	case event.Unrecovered:
	case event.Kind == round.Trained:
		if err := d.aggregator.Advance(ctx, found.outcome); err != nil {
			return err
		}
		if report := d.config.Observer.Losses; report != nil {
			report(effects.Train, event.Losses)
		}
	// The clients were measured, too: the number of the round for which they were is not 0.
	case event.Kind == round.Evaluated && effects.EvaluateClientsRound > 0:
		if report := d.config.Observer.Clients; report != nil {
			return report(effects.EvaluateClientsRound, found.scores)
		}
	}
	return nil
}

// carryOut carries out those effects of a step of the machine for which the driver need not wait: it sets
// and cancels timers, reports tasks and rounds to the observer, and releases models that no task needs any
// more. Then come [driver.issue] and what the machine waits for.
func (d *driver) carryOut(ctx context.Context, effects *round.Effects) error {
	for _, timer := range effects.Timers {
		d.clock.Schedule(timer)
	}
	for _, seq := range effects.Cancel {
		d.clock.Cancel(seq)
	}
	// The report of a task is reused by the machine, so observers must not keep it.
	for i := range effects.Ended {
		ended := &effects.Ended[i]
		d.devices.ForgetUnaccepted(ended)
		if report := d.config.Observer.Task; report != nil {
			report(ended)
		}
	}
	if report := d.config.Observer.Report; report != nil && effects.Report != nil {
		if err := report(effects.Report); err != nil {
			return err
		}
	}
	for _, version := range effects.Release {
		// A model is released even when the run is being cancelled, so that the bus keeps none.
		if err := d.aggregator.Release(context.WithoutCancel(ctx), version); err != nil {
			return err
		}
	}
	return nil
}

// saveGroup saves the run's state before real devices learn of it, where they mask updates in groups: that they have a
// group, or get new tasks since the sum of their group is in the model. A resumed run then never asks a device for a
// group of another composition, or for a task before its newest one. effects follow from event.
func (d *driver) saveGroup(effects *round.Effects, event *round.Event) error {
	changesGroup := len(effects.Mask) > 0 || event.Kind == round.Trained
	if !changesGroup || !d.devices.MasksInGroups() {
		return nil
	}
	return d.save()
}

// issue issues the tasks of a step, and has real devices mask their updates in a group.
func (d *driver) issue(ctx context.Context, effects *round.Effects) error {
	if err := d.issueTasks(ctx, effects.Tasks); err != nil || len(effects.Mask) == 0 {
		return err
	}
	factors := make([]uint64, len(effects.Mask))
	for i := range effects.Mask {
		factors[i] = d.aggregator.FreshnessFactor(effects.Mask[i].Staleness)
	}
	return d.devices.BeginGroup(d.machine.Round(), effects.Mask, factors)
}

// issueTasks sends real devices their tasks, and hands those of simulated clients to the planner. tasks are
// those that the machine has issued in a step; there may be none.
func (d *driver) issueTasks(ctx context.Context, tasks []round.Task) error {
	// The step may have taken the last plan that was missing; then the planner's list can be emptied.
	if len(tasks) == 0 {
		d.planner.forgetPlanned(d.machine.Waiting())
		return nil
	}
	for i := range tasks {
		if !d.devices.IsDevice(tasks[i].Client) {
			d.planner.unplanned = append(d.planner.unplanned, tasks[i])
			continue
		}
		if err := d.sendToDevices(ctx, tasks[i:i+1], d.devices.Issue); err != nil {
			return err
		}
	}
	return nil
}

// sendToDevices makes the messages of tasks of real devices, and calls send for each with its message, the model that
// it starts from, and whether that model is degraded.
func (d *driver) sendToDevices(
	ctx context.Context,
	tasks []round.Task,
	send func(task *round.Task, message *bus.Task, base []float32, degraded bool) error,
) error {
	for i := range tasks {
		task := &tasks[i]
		message := new(bus.Task)
		d.fillTask(message, task)
		base, degraded, err := d.aggregator.DeviceTask(ctx, task, message)
		if err != nil {
			return err
		}
		if err := send(task, message, base, degraded); err != nil {
			return err
		}
	}
	return nil
}

// fillTask fills the message for a task as a client's host or a device gets it: local steps, learning rate,
// sizes in bits, start in virtual time, and the digest of the model to start from.
func (d *driver) fillTask(message *bus.Task, task *round.Task) {
	// The fields are set in place, because there are millions of tasks.
	*message = bus.Task{}
	message.Task = task.Task
	message.Round = uint32(task.Round)
	message.LocalSteps = uint32(task.LocalSteps)
	message.LearningRate = task.LearningRate
	message.StepsDone = uint64(task.StepsDone)
	message.ModelBits = uint64(d.config.ModelBits)
	message.UpdateBits = uint64(d.config.UpdateBits)
	message.StartNs = int64(task.Start)
	message.Joules = task.Joules
	message.BatchPart = task.BatchPart
	// The client may have the device and the availability of other clients. Their numbers begin with 1 on the bus,
	// because 0 means that the client has its own.
	if d.config.DeviceOf != nil && !d.devices.IsDevice(task.Client) {
		device, presence := d.config.DeviceOf(task.Client)
		message.Device = uint32(device + 1)
		message.Presence = uint32(presence + 1)
	}
	if d.aggregator != nil {
		message.ModelDigest = d.aggregator.Digest(task.Model).Bytes()
	}
}

// awaitEvent waits for the machine's next event, which depends on its phase and on the effects of its last
// step, and writes it to event. It changes nothing that a checkpoint holds, except the clock, and the clock
// only if it returns no error.
func (d *driver) awaitEvent(ctx context.Context, effects *round.Effects, event *round.Event) (*findings, error) {
	phase := d.machine.Phase()
	// What the last step asked for comes before what is on the clock.
	switch {
	case phase == round.Idle:
		*event = round.Event{Kind: round.Started}
		return nil, d.awaitStart(ctx)
	case len(effects.Query) > 0:
		losses, err := d.aggregator.QueryLosses(ctx, d.machine.Round(), effects.Query)
		*event = round.Event{Kind: round.Queried, Losses: losses}
		return nil, err
	case len(effects.Train) > 0:
		return d.train(ctx, effects.Train, event)
	case effects.Evaluate || effects.EvaluateClientsRound > 0:
		return d.evaluate(ctx, effects, event)
	case phase == round.Planning:
		return nil, d.nextPlan(ctx, event)
	case phase == round.WaitingForClients:
		*event = round.Event{Kind: round.ClientsJoined}
		return nil, d.awaitDevices(ctx)
	}
	return nil, d.nextTimer(ctx, event)
}

// awaitStart waits for the run's real devices to join, reports to the machine which are present, and
// informs the observer that the run has begun.
func (d *driver) awaitStart(ctx context.Context) error {
	err := d.devices.WaitForAll(ctx)
	if err == nil {
		const begin = true
		err = d.reportPresence(begin)
	}
	if report := d.config.Observer.Begun; report != nil {
		report()
	}
	return err
}

// awaitDevices waits until a real device joins or leaves, in a run that has no client to select and whose
// virtual clock stands still, and reports the change to the machine.
func (d *driver) awaitDevices(ctx context.Context) error {
	// The fingerprint stands for the state of the clock, so that a replay has the change at the same one.
	events, err := d.devices.AwaitChange(ctx, d.clock.Fingerprint())
	if err != nil {
		return err
	}
	return d.reportToMachine(events)
}

// train has the round's accepted tasks trained and writes the event for the machine, with the losses and
// the refused updates. It returns the outcome that makes the next model. If secure aggregation cannot recover
// the sum, the event says that and the model stays as it is.
func (d *driver) train(ctx context.Context, tasks []round.Task, event *round.Event) (*findings, error) {
	outcome, err := d.aggregator.Train(ctx, aggregate.Round{Number: d.machine.Round(), Tasks: tasks})
	if errors.Is(err, secagg.ErrRound) {
		d.devices.GiveUpSum(tasks, err)
		*event = round.Event{Kind: round.Trained, Unrecovered: true}
		return nil, nil
	}
	*event = round.Event{
		Kind:    round.Trained,
		Loss:    outcome.Loss,
		Losses:  outcome.Losses,
		Refused: outcome.Refused,
	}
	return &findings{outcome: outcome}, err
}

// evaluate measures the newest model as effects asks: on the samples of each client, on the held-out
// samples, or on both. It writes the event with the held-out loss and metrics, and returns the clients' scores.
func (d *driver) evaluate(ctx context.Context, effects *round.Effects, event *round.Event) (*findings, error) {
	*event = round.Event{Kind: round.Evaluated}
	found := new(findings)
	var err error
	if roundNumber := effects.EvaluateClientsRound; roundNumber > 0 {
		found.scores, err = d.aggregator.EvaluateClients(ctx, roundNumber)
		if err != nil {
			return nil, err
		}
	}
	if effects.Evaluate {
		event.Loss, event.Metrics, err = d.aggregator.Evaluate(ctx, d.machine.Round(), d.clock.Now())
	}
	return found, err
}

// reportPresence reports to the machine which devices have joined or left. begin is true in the one call
// before the first round.
func (d *driver) reportPresence(begin bool) error {
	events, err := d.devices.Presence(d.clock.Fingerprint(), begin)
	return errors.Join(err, d.reportToMachine(events))
}

// reportToMachine gives the machine events of devices that have joined or left. Such a step has no effects,
// so nothing has to be carried out.
func (d *driver) reportToMachine(events []round.Event) error {
	for i := range events {
		if _, err := d.machine.Step(&events[i]); err != nil {
			return err
		}
	}
	return nil
}

// nextTimer advances the virtual clock to its next timer, and writes the event that says so. In a paced run
// it first waits for the wall time of that. Devices that have joined or left are reported to the machine
// before.
func (d *driver) nextTimer(ctx context.Context, event *round.Event) error {
	next, ok := d.clock.Peek()
	if !ok {
		return errors.New("coordinator: nothing left on the clock in a run that is not over")
	}
	if err := d.pacer.Wait(ctx, next.At); err != nil {
		return err
	}
	if d.devices != nil {
		const begin = false
		if err := d.reportPresence(begin); err != nil {
			return err
		}
	}
	d.clock.Pop()
	setDueEvent(event, &next)
	return nil
}

// setDueEvent writes the machine's event for a timer that has fallen due. The fields are set in place, because
// there are millions of events.
func setDueEvent(event *round.Event, timer *round.Timer) {
	*event = round.Event{}
	event.Kind = round.Due
	event.Timer = *timer
}
