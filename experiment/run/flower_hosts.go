package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"fedpace/actors/calibrate"
	"fedpace/actors/flower"
	"fedpace/bus"
	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/experiment/grid"
	"fedpace/experiment/identity"
	"fedpace/experiment/problem"
	"fedpace/internal/human"
)

// flowerBus is the connection over which hosts in other processes join a run that plays a Flower app: they serve
// messages to its clients, each on the client's subject.
type flowerBus struct {
	engine      *engine
	coordinator bus.Caller
}

// join lets hosts in other processes help to play the app. It opens the run's bus and, until the caller
// calls leave, adds each host that joins there to pool, the processes that serve messages to clients. ready
// has the libraries that the app's server has loaded, which hosts must have, too. lost is called with the
// cause if another coordinator takes over the run or the connection is lost for good. Where no other process
// can reach the run, no host joins.
func (r *flowerRun) join(
	ctx context.Context,
	pool *flower.Pool,
	ready *flower.Ready,
	lost func(error),
) (leave func() error, err error) {
	b := &flowerBus{engine: &engine{p: &experiment{options: r.options}}}
	b.engine.p.Config = r.config
	if err := b.open(ctx, pool, ready); err != nil {
		return nil, errors.Join(err, b.close())
	}
	if b.coordinator == nil {
		return b.close, nil
	}
	// A coordinator whose run another has taken over, or whose connection is lost for good, ends the run.
	life := b.coordinator.Life()
	unwatch := context.AfterFunc(life, func() { lost(context.Cause(life)) })
	// A host that joins or leaves changes how many workers it has in the pool. The pool sends a message (a
	// frame) for a client to the host by a call over the bus, whose result is the client's reply.
	b.coordinator.WatchHosts(func(host string, workers int) {
		call := func(ctx context.Context, client int, frame []byte, fetched func()) ([]byte, error) {
			return b.coordinator.Call(ctx, host, client, frame, fetched)
		}
		pool.SetHost(host, workers, call)
	})
	leave = func() error {
		unwatch()
		return b.close()
	}
	return leave, nil
}

// open starts the embedded server or connects to another one, and opens the coordinator's end. If no
// other process could reach the server, it opens nothing and leaves b.coordinator nil. pool and ready
// are those of join.
func (b *flowerBus) open(ctx context.Context, pool *flower.Pool, ready *flower.Ready) error {
	p := b.engine.p
	if p.serverURL() == config.Embedded && p.Config.NATS.Listen == "" && !p.options.RemoteHosts {
		return nil
	}
	if err := b.engine.open(ctx); err != nil {
		return err
	}
	if !b.engine.external {
		return nil
	}
	conn, err := b.engine.connect(ctx, "coordinator of "+p.Config.Name, p.options.HostNotice)
	if err != nil {
		return err
	}
	// A client's process may have loaded more than the server's.
	libraries := slices.Concat(ready.Libraries, pool.Libraries())
	slices.Sort(libraries)
	info, err := problem.AppInfo(&p.Config, p.options.Version, slices.Compact(libraries))
	if err != nil {
		return err
	}
	c, err := conn.OpenCoordinator(ctx, p.Config.Name, bus.CoordinatorConfig{
		Replicas:   p.Config.NATS.Replicas,
		Info:       info,
		NeedsHosts: p.options.RemoteHosts,
		Notice:     p.options.HostNotice,
	})
	if err != nil {
		return err
	}
	caller, ok := c.(bus.Caller)
	if !ok {
		return errors.Join(errors.New("nats.url: this transport has no hosts for Flower apps"), c.Close(ctx))
	}
	b.coordinator = caller
	return nil
}

// close ends the run on the bus and closes its connections.
func (b *flowerBus) close() (err error) {
	if b.coordinator != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closingTime)
		defer cancel()
		err = b.coordinator.Close(ctx)
	}
	b.engine.Close()
	return err
}

// VerifyApp plays the Flower app of the run in the folder dir again, whose configuration is c, and returns
// the number of messages that were compared. It returns an error if the run is not complete, if an input
// file has changed, or if a message, a reply, the times or the model differ from the run's. Nothing that
// the app writes is kept.
func VerifyApp(ctx context.Context, dir string, c *config.Config) (messages int, err error) {
	s, err := folder.ReadSummary(filepath.Join(dir, folder.SummaryFile))
	if err != nil {
		return 0, err
	}
	if !s.Completed {
		return 0, errors.New("the run is not complete, and what it has done is not known yet (fedpace resume goes " +
			"on with it)")
	}
	files, err := identity.Files(c)
	if err != nil {
		return 0, err
	}
	now := &identity.Identity{Config: *c, Files: files}
	if d := identity.OfSummary(*c, &s).Difference(now); d != nil && d.Part == identity.File {
		return 0, d
	}
	file, err := os.Open(filepath.Join(dir, folder.MessagesFile))
	if err != nil {
		return 0, err
	}
	expected, err := grid.ReadSums(file)
	err = errors.Join(err, file.Close())
	if err != nil {
		return 0, err
	}
	// An app that the run's limit of virtual time has stopped is stopped after as many rounds; others end
	// by themselves.
	rounds := 0
	if c.Stop.VirtualSeconds > 0 {
		rounds = s.Rounds
	}
	result, err := playAside(ctx, c, rounds, expected, nil)
	switch {
	case err != nil:
		return 0, err
	case rounds == 0 && len(result.Sums) != len(expected):
		return 0, fmt.Errorf(
			"the ServerApp %w: it sends %d messages, and sent %d",
			grid.ErrNotRepeated,
			len(result.Sums),
			len(expected),
		)
	case fmt.Sprintf("%016x", result.Fingerprint) != s.Fingerprint:
		return 0, fmt.Errorf("the ServerApp %w: its times are others", grid.ErrNotRepeated)
	case s.ModelSHA256 != nil && *s.ModelSHA256 != result.Digest:
		return 0, fmt.Errorf("the ServerApp %w: of the same replies it makes another model", grid.ErrNotRepeated)
	}
	return len(expected), nil
}

// MeasureApp plays the Flower app of configuration c to its end, with one process for its clients, and returns the
// processor time of their local steps. notice takes lines for the user. Nothing that the app writes is kept.
func MeasureApp(ctx context.Context, c *config.Config, notice func(string)) (m calibrate.Compute, err error) {
	result, err := playAside(ctx, c, 0, nil, notice)
	if err != nil {
		return m, err
	}
	var list []calibrate.AppTask
	for _, t := range result.Measured {
		list = append(list, calibrate.AppTask{Steps: t.Steps, Seconds: t.Seconds})
	}
	return calibrate.ComputeOfApp(result.App, "flwr "+result.Flwr, list)
}

// playAside plays the Flower app of configuration c in a temporary folder, and returns what package grid
// has counted. The app is stopped after this many rounds, or ends by itself if rounds is 0. notice takes
// lines for the user; it may be nil.
//
// It serves two purposes. With expected, the checksums of the messages of an earlier run, the app must repeat that
// run, and a process for each core serves clients. With nil the processor time of local steps is measured, and one
// process serves all clients, so that no other disturbs it.
func playAside(
	ctx context.Context,
	c *config.Config,
	rounds int,
	expected []grid.Sum,
	notice func(string),
) (result *grid.Result, err error) {
	scratch, err := os.MkdirTemp("", "fedpace-app-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	devices, err := c.NewFleet()
	if err != nil {
		return nil, err
	}
	app, err := filepath.Abs(c.Flower.App)
	if err != nil {
		return nil, err
	}
	processes := *appConfig(c, scratch, nil)
	processes.Hello.App = app
	processes.Hello.Out = scratch
	isMeasured := expected == nil
	processes.Hello.MeasureAll = isMeasured
	workers := runtime.GOMAXPROCS(0)
	if isMeasured {
		workers = 1
	}
	result, err = grid.Play(ctx, grid.Config{
		App:       processes,
		Workers:   workers,
		Fleet:     devices,
		Nodes:     c.Clients,
		Heartbeat: round.Time(c.Flower.ReportedAfter()),
		InOrder:   c.Flower.Order == config.SentOrder,
		Journal:   filepath.Join(scratch, folder.JournalFile),
		Expected:  expected,
		Observer:  grid.Observer{Notice: notice, Round: stopAfter(rounds)},
	})
	if errors.Is(err, errTimeUp) {
		err = nil
	}
	return result, err
}

// stopAfter returns a function to be called after each round of an app, whose error errTimeUp ends the app
// after this number of rounds. With 0 rounds it never ends the app.
func stopAfter(rounds int) func(*grid.Round) error {
	done := 0
	return func(*grid.Round) error {
		done++
		if done == rounds {
			return errTimeUp
		}
		return nil
	}
}

// closingTime bounds how long the end of a run may take on the bus, in wall time.
const closingTime = 10 * time.Second

// serveApp serves the clients of the run r that plays a Flower app, until ctx ends or the run cannot be
// served any longer. info is what the coordinator has published of the run, and c its configuration with
// the paths of this machine. It sets r.refused where this machine can never serve the run, such as for
// lack of the app's libraries.
func (s *service) serveApp(ctx context.Context, r *served, info *bus.RunInfo, c *config.Config) (err error) {
	scratch, err := os.MkdirTemp("", "fedpace-app-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	pool, err := flower.StartPool(ctx, appConfig(c, scratch, s.options.Output), s.options.Workers)
	if err != nil {
		var failed *flower.Failed
		r.refused = errors.As(err, &failed) && failed.Refused
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	if err := problem.CheckLibraries(info.Libraries, pool.Libraries()); err != nil && !c.Flower.AnyVersion {
		r.refused = true
		return err
	}
	hostEnd, err := s.conn.OpenHost(ctx, r.run, bus.HostConfig{
		Name:    s.options.Name,
		Stamp:   info.Stamp,
		Workers: s.options.Workers,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hostEnd.Close()) }()
	s.noteVersion(info)
	s.options.Notice(fmt.Sprintf(
		"Run %s: here, with %d %s for clients of its Flower app.",
		r.run,
		s.options.Workers,
		human.Plural(s.options.Workers, "process"),
	))
	s.serving.Add(1)
	defer s.serving.Add(-1)
	// Each call is a message of the app to one client; its processes answer it, and it counts as one job.
	desk := flower.NewDesk(pool)
	answer := func(ctx context.Context, _ int, frame []byte) ([]byte, error) {
		began := time.Now()
		defer func() {
			s.counts.Jobs.Add(1)
			s.counts.Busy.Add(int64(time.Since(began)))
		}()
		return desk.Serve(ctx, frame)
	}
	if err := hostEnd.(bus.Callee).ServeCalls(ctx, answer); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-hostEnd.Done():
		return hostEnd.Err()
	}
}
