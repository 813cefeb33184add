package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"fedpace/actors/host"
	"fedpace/algorithm"
	"fedpace/algorithm/privacy"
	"fedpace/bus"
	"fedpace/bus/embedded"
	"fedpace/bus/memory"
	"fedpace/bus/natsbus"
	"fedpace/bus/natsconn"
	"fedpace/config"
	"fedpace/coordinator"
	"fedpace/coordinator/aggregate"
	"fedpace/coordinator/realdevices"
	"fedpace/coordinator/round"
	"fedpace/experiment/devicelog"
	"fedpace/experiment/policies"
)

// engine carries one run: the transport of its messages, the connections of the coordinator and of
// the hosts of simulated clients in this process, and the server where the run has its own.
type engine struct {
	p *experiment
	// jobs is the number of jobs that the training of a round is split into for the trainers of this process;
	// the coordinator adds some for those of hosts that join from other processes.
	jobs int
	// conn is the coordinator's connection.
	conn bus.Transport
	// hosts are the connections of the hosts in this process.
	hosts []bus.Transport
	// workers is the number of trainers of each host, in the order of hosts.
	workers []int

	// memory carries the messages within this process; it is nil where a server does.
	memory *memory.Bus
	// embedded is the run's own server; it is nil if there is none or if another process has it.
	embedded *embedded.Embedded
	// conns are all connections that have to be closed.
	conns []*natsconn.Conn
	// external says that hosts may be in other processes.
	external bool
	// serverSettings say how connections to the server are made.
	serverSettings natsconn.Config
	// store is shared by all ends of the run's connections over NATS.
	store *natsbus.Store

	// deviceLog is the log of what real devices answer, written or, in a replay, read. It is nil for a run without
	// real devices.
	deviceLog *devicelog.Log
	// checkpoint says when the coordinator writes a checkpoint, and how; it is zero for a run that writes none.
	checkpoint coordinator.Checkpoint
	// resumeFrom is the state from which the run continues; it is nil for a run that starts.
	resumeFrom *coordinator.State
	// noiseKey is the secret key of the noise of differential privacy.
	noiseKey privacy.Secret
}

// startEngine opens the transport and connects the coordinator and the hosts of this process, which work
// for its simulated clients. It also decides how many trainers each host will have; play starts them. Close
// the engine after use.
func startEngine(ctx context.Context, p *experiment) (_ *engine, err error) {
	e := &engine{p: p, store: natsbus.NewStore()}
	defer func() {
		// What was opened before an error is closed again.
		if err != nil {
			e.Close()
		}
	}()
	if err := e.open(ctx); err != nil {
		return nil, err
	}
	// Real devices are in other processes, so they need a server that listens. A replay reads their answers
	// from a log.
	c := &p.Config
	waitsForDevices := c.Train && len(c.Devices.Names) > 0 && p.options.Replay == ""
	if waitsForDevices && !e.external {
		return nil, errors.New("devices.names: the devices cannot reach the embedded server (set nats.listen, or " +
			"nats.url to another server)")
	}
	// The coordinator's connection tells the user of lost connections for all of them, so the others have no notice.
	e.conn, err = e.connect(ctx, "coordinator of "+p.Config.Name, p.options.HostNotice)
	if err != nil {
		return nil, err
	}
	// Hosts in other processes do the work, so none is connected here.
	if p.options.RemoteHosts {
		return e, nil
	}
	hosts := max(1, p.options.Hosts)
	// The trainers of all hosts together, at least one each.
	workers := max(hosts, cmp.Or(p.options.Workers, runtime.GOMAXPROCS(0)))
	// Twice as many jobs as trainers even out jobs that take longer than others.
	e.jobs = 2 * workers
	for i := range hosts {
		conn, err := e.connect(ctx, fmt.Sprintf("host %d of %s", i+1, p.Config.Name), nil)
		if err != nil {
			return nil, err
		}
		e.hosts = append(e.hosts, conn)
		// Host i has the trainers from number first to below end, so that hosts differ by one at most.
		first := i * workers / hosts
		end := (i + 1) * workers / hosts
		e.workers = append(e.workers, end-first)
	}
	return e, nil
}

// recorder returns a new recorder of the engine's run, which ends at the virtual time limit, 0 for none.
// started is when this attempt began. Close the recorder's outputs after use.
func (e *engine) recorder(ctx context.Context, limit round.Time, started time.Time) (*recorder, error) {
	// waiting says for which operation of the server the coordinator waits, and since when.
	var waiting func() (operation string, since time.Time)
	if len(e.conns) > 0 {
		waiting = e.conns[0].Waiting
	}
	r, err := newRecorder(ctx, e.p, waiting, limit, started)
	if err != nil {
		return nil, err
	}
	r.server = e.embedded
	for _, n := range e.workers {
		r.workers += n
	}
	return r, nil
}

// play runs the rounds until limit, a virtual time (0: none), and returns how they ended; the result is
// nil if no round began. watch is called with what the coordinator reports. Coordinator and hosts run at
// the same time, in one group: the first error stops all of them, and the end of the coordinator stops
// the hosts.
func (e *engine) play(ctx context.Context, limit round.Time, watch coordinator.Observer) (*coordinator.Result, error) {
	c, err := e.coordinatorConfig(ctx, limit)
	if err != nil {
		return nil, err
	}
	c.Observer = watch
	inner, stop := context.WithCancel(ctx)
	defer stop()
	group, inner := errgroup.WithContext(inner)
	var hosts []*host.Host
	defer func() {
		for _, h := range hosts {
			h.Close()
		}
	}()
	// The coordinator calls this once, when it holds the run's name and before the first round. Only then
	// may the hosts start.
	c.Observer.Stats = func(s *coordinator.Stats) {
		if watch.Stats != nil {
			watch.Stats(s)
		}
		hosts = e.startHosts(inner, group, &c)
	}
	var result *coordinator.Result
	group.Go(func() (err error) {
		// The coordinator has ended, so the trainers have nothing left to do.
		defer stop()
		result, err = coordinator.Run(inner, e.conn, c)
		return err
	})
	err = group.Wait()
	// Errors that the interruption caused are not reported.
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return result, err
}

// coordinatorConfig returns the configuration of the run's coordinator, without an observer: the rounds,
// which end at the virtual time limit (0: none), what is learned in them, and the real devices.
func (e *engine) coordinatorConfig(ctx context.Context, limit round.Time) (c coordinator.Config, err error) {
	p := e.p
	rounds, err := p.Rounds(limit)
	if err != nil {
		return c, err
	}
	// The decisions that policies in Python make for these rounds are recorded; those that they make for
	// a forecast are not.
	rounds.K = policies.Recorded(rounds.K)
	rounds.Eta = policies.Recorded(rounds.Eta)
	rounds.Closing = policies.Recorded(rounds.Closing)
	rounds.Select = policies.Recorded(rounds.Select)
	c = coordinator.Config{
		Run:        p.Config.Name,
		Round:      rounds,
		ModelBits:  p.Bits.Down,
		Pace:       p.Config.Pace,
		Checkpoint: e.checkpoint,
		Resume:     e.resumeFrom,
	}
	// Compressed updates are smaller than the model.
	if p.Bits.Up != p.Bits.Down {
		c.UpdateBits = p.Bits.Up
	}
	// With a correlation, clients have other devices than those of their number.
	if p.Config.Correlation.Given() {
		c.DeviceOf = p.DeviceOf
	}
	// Without training the rounds only take time.
	if p.Config.Train {
		c.Learning = e.learning()
	}
	if err := e.announce(&c); err != nil {
		return c, err
	}
	c.Devices, err = e.realDevices(ctx)
	return c, err
}

// learning returns what the coordinator learns: the model, how it is measured, how updates are weighted
// and combined, and what protects them.
func (e *engine) learning() aggregate.Learning {
	p := e.p
	l := aggregate.Learning{
		Model:             p.Model,
		Initial:           p.Initial,
		Kernel:            p.Kernel,
		Jobs:              e.jobs,
		HeldOut:           p.Set.HeldOut(),
		EvaluatedSamples:  p.Config.Evaluate.Samples,
		Units:             p.Set.Info().TargetDeviation,
		Batch:             p.Batch(),
		Attackers:         p.Attackers(),
		EvaluationSamples: p.EvaluationSamples,
		Spec:              p.Learning().Spec(),
		Combine:           p.Config.Combining(),
		Algorithm: algorithm.NewInstance(
			p.Algorithm,
			p.Config.Compress,
			p.Model.Params(),
			p.Model.Trainable(),
			p.Learning().MemoryValues(),
			p.Population(),
		),
	}
	// Tasks and evaluations take the samples that are there at their time.
	if arrivals := p.Arrivals; arrivals != nil {
		l.Arrived = func(client int, start round.Time) (first, count int) {
			return arrivals.Samples(client, int64(start))
		}
		l.MeasuredAt = func(at round.Time) (first, count int) { return arrivals.HeldOut(int64(at)) }
	}
	// Secure aggregation adds masked integers, whose scale is set here.
	if v := p.Secure; v != nil {
		l.Secure = &aggregate.Secure{
			Shift:       v.Shift,
			MaxWeight:   p.Config.SecureMaxWeight(),
			FreshFactor: p.Config.NewestWeightFactor(),
		}
	}
	// Differential privacy clips updates and adds noise by the secret key.
	if v := p.Privacy; v != nil {
		l.Privacy = v.Mechanism(e.noiseKey)
	}
	// Updates are weighted by the clients' samples, or by those that they have taken, or equally.
	switch p.Config.Aggregate.Weights {
	case config.SampleWeights:
		l.Samples = p.Set.Samples
	case config.TakenWeights:
		l.SamplesPerStep = p.StepSamples
	}
	return l
}

// startHosts starts this process's hosts for the run of c and returns them. It must be called once
// the coordinator holds the run's name: before, they would answer the tasks of another run of that
// name. An error of a host ends the group, and with it the run.
func (e *engine) startHosts(ctx context.Context, group *errgroup.Group, c *coordinator.Config) (hosts []*host.Host) {
	settings := host.Config{
		Run:     c.Run,
		Fleet:   e.p.Fleet,
		Problem: *e.p.Learning(),
		Local:   true,
	}
	// The stamp tells the run from others of its name.
	if c.Bus.Info != nil {
		settings.Stamp = c.Bus.Info.Stamp
	}
	// Each host answers the tasks of simulated clients, and trains if the run does.
	for i, conn := range e.hosts {
		settings.Workers = e.workers[i]
		h, err := host.Start(ctx, conn, settings)
		if err != nil {
			// A host that cannot start ends the run as any other error does.
			group.Go(func() error { return err })
			break
		}
		hosts = append(hosts, h)
		group.Go(func() error { return h.Wait(ctx) })
		if e.p.Config.Train {
			group.Go(func() error { return h.Train(ctx) })
		}
	}
	return hosts
}

// Close closes all connections of the run, the newest first, and then the embedded server, if there
// is one.
func (e *engine) Close() {
	for _, conn := range slices.Backward(e.conns) {
		conn.Close()
	}
	if e.embedded != nil {
		e.embedded.Close()
	}
}

// realDevices returns the configuration of the run's real devices for the coordinator; nil where
// there are none. A replay reads their answers from a log and needs no connection; otherwise it
// opens one.
func (e *engine) realDevices(ctx context.Context) (*realdevices.Config, error) {
	c := &e.p.Config
	d := &c.Devices
	if len(d.Names) == 0 {
		return nil, nil
	}
	// Devices that wait for a calibration would join the run.
	if c.Name == bus.Calibration {
		return nil, &config.KeyError{
			Key: "name",
			Problem: "calibration is for fedpace calibrate, and devices that wait for a run do not join it (choose " +
				"another)",
		}
	}
	welcome, err := e.p.Welcome()
	if err != nil {
		return nil, err
	}
	// Devices are told of the run when they join.
	welcome.Version = e.p.options.Version
	v := &realdevices.Config{
		Names:       d.IDs(),
		NormLimit:   d.NormLimit,
		MaxSamples:  d.MaxSamples,
		Losses:      c.DecidesByLosses(),
		Liveness:    wall(d.LivenessSeconds),
		TaskLimit:   wall(d.TaskSeconds),
		Quota:       d.Quota,
		Welcome:     welcome,
		Usual:       e.p.ExpectedTask,
		Calibration: e.p.CalibrationContradiction,
		Tasks:       e.p.TaskContradiction,
		Notice:      e.p.options.Notify,
		Record:      e.deviceLog,
		Replay:      e.deviceLog.Replay,
	}
	// With secure aggregation, devices are told its terms when they join.
	if secure := e.p.Secure; secure != nil {
		v.Secure = &realdevices.Secure{Terms: secure.Devices.Terms, StageLimit: wall(c.Secure.StageSeconds)}
		welcome.Secure = secure.Terms(c)
	}
	// The link decides how long a task is expected to take.
	v.Link, err = e.p.ModelledLink()
	if err != nil {
		return nil, err
	}
	// A replay has no devices to connect to.
	if v.Replay {
		return v, nil
	}
	// The embedded server's front admits the connections of devices.
	if e.embedded != nil && e.embedded.Front() != nil {
		v.Front = e.embedded.Front()
	}
	settings := e.serverSettings
	settings.Name = "devices of " + c.Name
	conn, err := natsconn.Connect(ctx, settings)
	if err != nil {
		return nil, err
	}
	// The connection is closed with the others.
	e.conns = append(e.conns, conn)
	v.Conn = conn
	return v, nil
}

// wall returns a wall time in seconds as a duration.
func wall(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
