package run

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"fedpace/actors"
	"fedpace/bus"
	"fedpace/bus/embedded"
	"fedpace/bus/natsbus"
	"fedpace/coordinator"
	"fedpace/coordinator/aggregate"
	"fedpace/coordinator/devices"
	"fedpace/coordinator/round"
	"fedpace/experiment/config"
	"fedpace/experiment/devicelog"
)

// engine carries a run: the embedded server, the coordinator's connection and the
// hosts of simulated actors.
type engine struct {
	p       *problem
	jobs    int // a round is split into
	server  *embedded.Server
	conn    *natsbus.Conn
	conns   []*natsbus.Conn // the hosts'
	workers []int           // of each host

	external bool               // hosts may be in other processes
	to       natsbus.ConnConfig // how connections are made
	options  Options

	record     *devicelog.Log // of real devices; nil: none is kept
	checkpoint coordinator.Checkpoint
	resume     *coordinator.State // nil: the run starts
}

// startEngine starts everything but the trainers. Close it after use.
func startEngine(ctx context.Context, p *problem, o Options) (_ *engine, err error) {
	e := &engine{p: p, options: o}
	defer func() {
		if err != nil {
			e.Close()
		}
	}()
	to, err := e.connect(ctx)
	if err != nil {
		return nil, err
	}
	if c := &p.config; c.Train && len(c.Devices.Names) > 0 && !e.external && o.Replay == "" {
		return nil, errUnreachable
	}
	to.Notice = o.HostNotice
	to.Name = "coordinator of " + p.config.Name
	if e.conn, err = natsbus.Connect(ctx, to); err != nil {
		return nil, err
	}
	to.Notice = nil // the coordinator's connection reports for all of them
	e.to = to
	if o.RemoteHosts {
		e.jobs = 2
		return e, nil
	}
	hosts := max(1, o.Hosts)
	workers := o.Workers
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	workers = max(workers, hosts)
	e.jobs = 2 * workers
	for i := range hosts {
		to.Name = fmt.Sprintf("host %d of %s", i+1, p.config.Name)
		conn, err := natsbus.Connect(ctx, to)
		if err != nil {
			return nil, err
		}
		e.conns = append(e.conns, conn)
		e.workers = append(e.workers, (i+1)*workers/hosts-i*workers/hosts)
	}
	return e, nil
}

// play runs the rounds to limit (0: none) and returns where they ended.
func (e *engine) play(ctx context.Context, limit round.Time, watch coordinator.Observer) (*coordinator.Result, error) {
	p := e.p
	rounds, err := p.rounds(limit)
	if err != nil {
		return nil, err
	}
	c := coordinator.Config{
		Run: runToken(p.config.Name), Round: rounds, ModelBits: p.modelBits, Pace: p.config.Pace, Observer: watch,
		Checkpoint: e.checkpoint, Resume: e.resume,
	}
	if p.config.Train {
		c.Learning = coordinator.Learning{
			Model: p.model, Initial: p.initial, Kernel: p.kernel, Jobs: e.jobs, HeldOut: p.set.HeldOut(),
			Measured: p.config.Evaluate.Samples,
			Spec:     p.learning().Spec(), Algorithm: aggregate.New(p.algorithm, p.model.Params(), p.config.Clients),
		}
		if p.config.Aggregate.Weights == config.SampleWeights {
			c.Learning.Samples = p.set.Samples
		}
	}
	if err := e.announce(&c); err != nil {
		return nil, err
	}
	if c.Devices, err = e.realDevices(ctx); err != nil {
		return nil, err
	}
	if c.Devices != nil && c.Devices.Conn != nil {
		defer c.Devices.Conn.Close()
	}
	inner, stop := context.WithCancel(ctx)
	defer stop()
	group, inner := errgroup.WithContext(inner)
	for i, conn := range e.conns {
		host, err := actors.StartHost(inner, conn, actors.HostConfig{
			Run: c.Run, Fleet: p.fleet, Workers: e.workers[i], Kernel: p.kernel, Problem: *p.learning(),
		})
		if err != nil {
			stop()
			return nil, errors.Join(err, group.Wait())
		}
		defer host.Close()
		group.Go(func() error { return host.Wait(inner) })
		if p.config.Train {
			group.Go(func() error { return host.Train(inner) })
		}
	}
	var result *coordinator.Result
	group.Go(func() (err error) {
		defer stop() // the trainers have nothing left to do
		result, err = coordinator.Run(inner, e.conn, c)
		return err
	})
	err = group.Wait()
	if ctx.Err() != nil { // errors that the interruption caused are not reported
		err = ctx.Err()
	}
	return result, err
}

// Close stops everything that was started.
func (e *engine) Close() {
	for _, conn := range e.conns {
		conn.Close()
	}
	if e.conn != nil {
		e.conn.Close()
	}
	if e.server != nil {
		e.server.Close()
	}
}

// runToken is a run's name in the form that subjects allow.
func runToken(name string) string {
	token := []byte(name)
	for i, b := range token {
		if !(b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '-' || b == '_') {
			token[i] = '_'
		}
	}
	if len(token) == 0 {
		return "run"
	}
	return string(token[:min(len(token), 64)])
}

// errUnreachable refuses devices that have no way to the run.
var errUnreachable = errors.New("devices.names: the devices cannot reach the embedded server (set nats.listen, or nats.url to another server)")

// realDevices are the run's real devices as the coordinator takes them; nil where
// there are none. Its connection is to be closed.
func (e *engine) realDevices(ctx context.Context) (*devices.Config, error) {
	c := &e.p.config
	d := &c.Devices
	if len(d.Names) == 0 {
		return nil, nil
	}
	v := &devices.Config{
		Names: d.Names, NormLimit: d.NormLimit,
		Liveness: wall(d.LivenessSeconds), TaskLimit: wall(d.TaskSeconds),
		Welcome: &bus.Welcome{Task: string(c.Task), Heterogeneity: c.Synthetic.Heterogeneity, DataSeed: c.DataSeed()},
		Notice:  e.options.notice,
		Refuse: func(device, reason string) {
			e.options.notice(fmt.Sprintf("Device %s: a message is ignored (%s).", device, reason))
		},
		Record: e.record, Replay: e.record.Replay,
	}
	if d.Link == config.ModelledLink {
		bits := float64(e.p.modelBits)
		download, downErr := seconds(bits / (c.Network.DownloadMbps * 1e6))
		upload, upErr := seconds(bits / (c.Network.UploadMbps * 1e6))
		if err := errors.Join(downErr, upErr); err != nil {
			return nil, fmt.Errorf("devices.link: %w", err)
		}
		v.Link = func(int) (round.Time, round.Time) { return download, upload }
	}
	if v.Replay {
		return v, nil
	}
	to := e.to
	to.Name = "devices of " + c.Name
	var err error
	v.Conn, err = natsbus.Connect(ctx, to)
	return v, err
}

func wall(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
