package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"fedpace/actors/host"
	"fedpace/bus"
	"fedpace/bus/natsbus"
	"fedpace/bus/natsconn"
	"fedpace/experiment/problem"
	"fedpace/internal/human"
	"fedpace/metrics"
	"fedpace/metrics/prometheus"
	"fedpace/metrics/web"
)

// HostOptions are those of a host of runs that other processes coordinate.
type HostOptions struct {
	Version string
	NATS    natsconn.Config
	// Run is the name of the run to serve; if it is empty, the host serves every run that is
	// announced.
	Run string
	// Workers is the number of trainers for each run; 0 means one for each core.
	Workers int
	// Data is the path of the data on this machine; if it is empty, the run's own path is used.
	Data string
	// Trainer is the command of the trainer of runs that have one; if it is empty, there is none.
	Trainer string
	// App is the folder of the Flower app whose clients the host serves; if it is empty, there is none. Python is the
	// command of a Python for it, and Output takes what the app prints; it may be nil.
	App, Python string
	Output      io.Writer
	// Name is the host's name for people; if it is empty, it is the machine's name with a random
	// suffix.
	Name string
	// Once says that the host ends with the first run that ends.
	Once bool
	// HTTP is the address at which the host serves its metrics; if it is empty, it serves none.
	HTTP string
	// Notice takes a line for each thing that happens; it may be nil.
	Notice func(string)
}

const (
	// maxAnnouncements is how many announcements may wait; those beyond it are repeats.
	maxAnnouncements = 256
	// retryAfter is how long after its failure the service of a run is begun again.
	retryAfter = 5 * time.Second
	// forgetTime is the silence after which a run is not expected back.
	forgetTime = 10 * time.Minute
	// silenceBeforeReconnect is how long nothing may be heard of a run, which is announced every second, before the
	// host reconnects: its server may be cut off from its cluster, or may have dropped a subscription.
	silenceBeforeReconnect = 8 * time.Second
	// maxReconnects is how often the host reconnects in one silence: if another server does not have the run's
	// messages either, its coordinator is gone.
	maxReconnects = 2
	// reconnectGrace is how long a run may stay silent after a lost connection has come back. A run
	// that stays silent longer may have announced its end meanwhile.
	reconnectGrace = 30 * time.Second
)

// Host answers tasks for the simulated clients of runs and trains for them, until ctx is cancelled
// or, with Once, a run is over. If this machine lacks a run's data or kernel class, Host only
// answers its tasks, and says so. Where a server's max_payload was lowered, it connects anew. It returns
// why it ended.
func Host(ctx context.Context, o HostOptions) (err error) {
	// Options that are not set have their defaults.
	if o.Notice == nil {
		o.Notice = func(string) {}
	}
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	waiting := "Waiting for runs."
	if o.Run != "" {
		waiting = fmt.Sprintf("Waiting for run %s.", o.Run)
	}
	if o.Name == "" {
		o.Name = randomHostName()
	}
	err = serveRuns(ctx, o, waiting)
	for natsconn.PayloadExceeded(err) && ctx.Err() == nil {
		o.Notice(err.Error() + "; connecting anew.")
		select {
		case <-ctx.Done():
		case <-time.After(retryAfter):
		}
		err = serveRuns(ctx, o, waiting)
	}
	return err
}

// serveRuns connects to the server, and serves the runs that are announced there until ctx is cancelled, the
// connection is lost for good or, with Once, a run is over. It returns why it ended. All options must be set.
// waiting tells the user which runs the host waits for.
func serveRuns(ctx context.Context, o HostOptions, waiting string) (err error) {
	// The host waits for the server as long as it takes.
	settings := o.NATS
	settings.Name = "host " + o.Name
	settings.Patience = -1
	settings.Await = true
	settings.Notice = func(n bus.Notice) { o.Notice(n.Text) }
	conn, err := natsbus.Connect(ctx, settings, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	s := &service{
		options:       o,
		conn:          conn,
		endedServices: make(chan *served),
		runs:          map[string]*served{},
	}
	// The page of metrics is there as long as the host.
	if o.HTTP != "" {
		server, err := web.Serve(ctx, o.HTTP, prometheus.HostPage(o.Name, o.Version, s.hostCounts))
		if err != nil {
			return fmt.Errorf("http: %w", err)
		}
		defer func() { err = errors.Join(err, server.Close()) }()
		o.Notice("This host's metrics are on http://" + server.Addr() + "/metrics.")
	}
	// Announcements are repeated, so those that find the channel full can be dropped.
	heard := make(chan *bus.Announcement, maxAnnouncements)
	unsubscribe, err := conn.WatchRuns(ctx, func(a *bus.Announcement) {
		if o.Run != "" && a.Run != o.Run {
			return
		}
		select {
		case heard <- a:
		default:
		}
	})
	if err != nil {
		return err
	}
	defer unsubscribe()
	o.Notice(waiting)
	// The services use the connection, so they end before it is closed.
	defer s.stopAll()
	// A run may have ended while the connection was lost, so it is noted when it came back.
	unwatch := conn.Watch(func(error) {}, func(error) { s.lastReconnect.Store(new(time.Now())) })
	defer unwatch()
	return s.handleEvents(ctx, heard)
}

// handleEvents is the loop of a host: it handles the announcements of runs in heard, services of runs that
// have ended and, four times in silenceBeforeReconnect, runs of which nothing is heard any more. It returns why
// the host ends. It alone changes the table of runs, so the table needs no lock.
func (s *service) handleEvents(ctx context.Context, heard <-chan *bus.Announcement) error {
	tick := time.NewTicker(silenceBeforeReconnect / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case a := <-heard:
			s.handleAnnouncement(ctx, a)
		// A service that has ended may end the host, too.
		case r := <-s.endedServices:
			if s.finished(r) {
				return r.err
			}
		case <-tick.C:
			s.dropSilent()
			s.reconnectSilent()
		case <-s.conn.Life().Done():
			return s.conn.Err()
		}
	}
}

// randomHostName returns a name that no other process should have: up to 40 bytes of the machine's name,
// with an underscore for each character that a NATS subject cannot have, and a random number.
func randomHostName() string {
	machine, err := os.Hostname()
	if err != nil || machine == "" {
		machine = "host"
	}
	token := regexp.MustCompile(`[^A-Za-z0-9_-]`).ReplaceAllString(machine[:min(len(machine), 40)], "_")
	return fmt.Sprintf("%s-%06x", token, rand.N(1<<24))
}

// service is a host at work: the runs that it serves, by name, on one connection.
type service struct {
	options HostOptions
	conn    *natsbus.Conn
	// endedServices receives each service of a run that has ended, from its goroutine.
	endedServices chan *served
	// runs are the runs that the host knows, by name: those that it serves, and those that it has failed to serve or
	// has refused.
	runs map[string]*served
	// counts counts the tasks and jobs of all runs.
	counts host.Counts
	// serving is the number of runs that are being served.
	serving atomic.Int64
	// lastReconnect is when the connection came back last; it is nil if it was never lost.
	lastReconnect atomic.Pointer[time.Time]
}

// hostCounts returns what the host has done so far, for its page of metrics: runs, tasks, jobs and
// its traffic. It is safe for concurrent use.
func (s *service) hostCounts() prometheus.HostCounts {
	done := &s.counts
	passed := s.conn.NATS().Stats()
	// Times are in nanoseconds, and traffic is that of the one connection for all runs.
	return prometheus.HostCounts{
		Runs:  int(s.serving.Load()),
		Tasks: done.Tasks.Load(),
		Jobs:  done.Jobs.Load(),
		Fails: done.Fails.Load(),
		Busy:  time.Duration(done.Busy.Load()),
		Traffic: metrics.Traffic{
			InMessages:  float64(passed.InMsgs),
			OutMessages: float64(passed.OutMsgs),
			InBytes:     float64(passed.InBytes),
			OutBytes:    float64(passed.OutBytes),
		},
	}
}

// served is a run that the host serves, or one that it refused or failed to serve.
type served struct {
	// run is the name of the run, and stamp tells it from others of its name.
	run   string
	stamp uint64
	// lastHeard is when the last announcement of the run came.
	lastHeard time.Time
	// reconnects is how often the host has reconnected since then, to hear of the run again.
	reconnects int
	// stop ends the service of the run.
	stop context.CancelFunc
	// runOver says that the coordinator has announced the end of the run, or may have while the connection was lost.
	runOver bool

	// serviceEnded says that the host's work for the run has ended, endedAt when, and err why; err is nil if it was
	// stopped.
	serviceEnded bool
	endedAt      time.Time
	err          error
	// refused says that this machine cannot serve the run.
	refused bool
}

// handleAnnouncement takes one announcement of a run: it starts to serve a run that is new, or whose
// service failed some time ago, and stops one that is over or has been replaced by another of its
// name. Announcements are repeated every second, so anything missed comes again.
func (s *service) handleAnnouncement(ctx context.Context, a *bus.Announcement) {
	r, isKnown := s.runs[a.Run]
	if !isKnown {
		if !a.Over {
			s.startService(ctx, a)
		}
		return
	}
	isSameRun := r.stamp == a.Stamp && !a.Over
	// A run that this machine can never serve is not tried again.
	mayRetry := r.serviceEnded && !r.refused && time.Since(r.endedAt) > retryAfter
	switch {
	// The run is being served, or has failed and is not to be tried again yet.
	case isSameRun && !mayRetry:
		r.lastHeard = time.Now()
		r.reconnects = 0
	// The run is over, or another run of its name has taken its place. In the latter case the next
	// announcement starts the other run, once this one has stopped.
	case !r.serviceEnded:
		r.runOver = a.Over
		r.stop()
	case a.Over:
		r.runOver = true
		delete(s.runs, a.Run)
	default:
		s.startService(ctx, a)
	}
}

// startService begins to serve the run that is announced, in a goroutine, and puts it into the table of
// runs. At its end the service is sent to s.endedServices, for the loop that owns the table.
func (s *service) startService(ctx context.Context, a *bus.Announcement) {
	inner, stop := context.WithCancel(ctx)
	r := &served{
		run:       a.Run,
		stamp:     a.Stamp,
		lastHeard: time.Now(),
		stop:      stop,
	}
	s.runs[a.Run] = r
	go func() {
		r.err = s.serveRun(inner, r)
		// What the context held is released also where the service ended by itself.
		stop()
		s.endedServices <- r
	}()
}

// finished notes that the service of a run has ended, and reports whether the host ends, too: with the
// option Once, if the run is over or this machine can never serve it. A run that failed stays in the
// table, so that it is not tried again at each announcement.
func (s *service) finished(r *served) bool {
	r.serviceEnded = true
	r.endedAt = time.Now()
	if r.runOver {
		s.options.Notice(fmt.Sprintf("Run %s is over.", r.run))
	}
	// These errors are no failure: the service was stopped, or the run has ended or was replaced
	// meanwhile.
	harmless := []error{context.Canceled, bus.ErrStale, natsbus.ErrNoRun}
	isHarmless := slices.ContainsFunc(harmless, func(e error) bool { return errors.Is(r.err, e) })
	if r.err == nil || isHarmless {
		delete(s.runs, r.run)
		r.err = nil
		return s.options.Once && r.runOver
	}
	s.options.Notice(fmt.Sprintf("Run %s is not served: %v.", r.run, r.err))
	return s.options.Once && r.refused
}

// dropSilent ends the service of runs of which nothing was heard for forgetTime, or since a lost
// connection came back more than reconnectGrace ago: such a run may have announced its end meanwhile.
// Runs whose service has ended are then dropped from the table. The others are dropped once their service ends.
func (s *service) dropSilent() {
	for name, r := range s.runs {
		reconnected := s.lastReconnect.Load()
		// The end of the run may have been announced while the connection was lost.
		unheardSince := reconnected != nil && r.lastHeard.Before(*reconnected)
		mayHaveEnded := unheardSince && time.Since(*reconnected) > reconnectGrace
		switch {
		// A run that was heard of lately stays.
		case time.Since(r.lastHeard) < forgetTime && !mayHaveEnded:
		case r.serviceEnded:
			delete(s.runs, name)
		case !r.runOver:
			s.options.Notice(fmt.Sprintf(
				"Run %s has not been heard of for %v.",
				name,
				time.Since(r.lastHeard).Round(time.Second),
			))
			// A run that ended unnoticed counts as over, so that a host with Once ends.
			r.runOver = mayHaveEnded
			r.stop()
		}
	}
}

// reconnectSilent reconnects, to another server of the cluster, if nothing has been heard for
// silenceBeforeReconnect of a run that is being served. In one silence it does so at most maxReconnects times,
// silenceBeforeReconnect apart.
func (s *service) reconnectSilent() {
	for name, r := range s.runs {
		silent := time.Since(r.lastHeard)
		// Each reconnection gives the run as much time again to be heard.
		untilReconnect := time.Duration(r.reconnects+1) * silenceBeforeReconnect
		if r.serviceEnded || silent < untilReconnect || r.reconnects >= maxReconnects {
			continue
		}
		r.reconnects++
		s.conn.MoveOn(fmt.Sprintf("nothing has been heard of run %s for %v", name, silent.Round(time.Second)))
	}
}

// stopAll stops the services of all runs at once, and returns when each has ended. No other goroutine
// may receive from s.endedServices meanwhile.
func (s *service) stopAll() {
	for _, r := range s.runs {
		r.stop()
	}
	for _, r := range s.runs {
		for !r.serviceEnded {
			// The service that ended may be that of another run, for which the outer loop then does not wait.
			(<-s.endedServices).serviceEnded = true
		}
	}
}

// noteVersion tells the user if another version of the program coordinates the run of info. That is no
// error, as long as both speak the same protocol.
func (s *service) noteVersion(info *bus.RunInfo) {
	if info.Version == s.options.Version {
		return
	}
	s.options.Notice(fmt.Sprintf(
		"Run %s is coordinated by version %s. This host is version %s, which fits: both speak protocol %d.",
		info.Run,
		info.Version,
		s.options.Version,
		info.Protocol,
	))
}

// serveRun serves one run until ctx ends or it cannot be served any longer: it prepares the run's
// fleet and, where this machine has the data and the kernel class, what trains. It sets refused
// where this machine can never serve the run.
func (s *service) serveRun(ctx context.Context, r *served) (err error) {
	info, err := s.conn.AskRun(ctx, r.run)
	if err != nil {
		return err
	}
	// Another run has taken the name since the announcement.
	if info.Stamp != r.stamp {
		return bus.ErrStale
	}
	// A version that speaks another protocol can never serve the run.
	if err := info.CheckProtocol(s.options.Version); err != nil {
		r.refused = true
		return err
	}
	machine := problem.Host{
		Data:    s.options.Data,
		Trainer: s.options.Trainer,
		App:     s.options.App,
		Python:  s.options.Python,
		Notice:  s.options.Notice,
	}
	app, err := problem.AppForHost(info, machine)
	if err != nil {
		r.refused = true
		return err
	}
	if app != nil {
		return s.serveApp(ctx, r, info, app)
	}
	// lacks is why this machine cannot train for the run, nil if it can.
	p, lacks, err := problem.ForHost(ctx, info, machine)
	if err != nil {
		r.refused = true
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	// A host that cannot train, or need not, still answers tasks, with no trainers.
	workers := 0
	switch {
	case lacks != nil:
		s.options.Notice(fmt.Sprintf("Run %s: this host answers tasks alone, it cannot train: %v.", r.run, lacks))
	case !p.Config.Train:
		s.options.Notice(fmt.Sprintf("Run %s: here, answering tasks; it does not train.", r.run))
	default:
		workers = s.options.Workers
		s.options.Notice(fmt.Sprintf(
			"Run %s: here, with %d %s (%s).",
			r.run,
			workers,
			human.Plural(workers, "trainer"),
			p.Kernel,
		))
	}
	s.noteVersion(info)
	host, err := host.Start(ctx, s.conn, host.Config{
		Run:     r.run,
		Fleet:   p.Fleet,
		Workers: workers,
		Problem: *p.Learning(),
		Name:    s.options.Name,
		Stamp:   info.Stamp,
		Counts:  &s.counts,
		Notice:  func(line string) { s.options.Notice(fmt.Sprintf("Run %s: %s", r.run, line)) },
	})
	if err != nil {
		return err
	}
	// The host answers tasks and trains at once, and the first error ends both.
	s.serving.Add(1)
	defer s.serving.Add(-1)
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() error { return host.Wait(inner) })
	group.Go(func() error { return host.Train(inner) })
	err = group.Wait()
	if ctx.Err() != nil {
		// A host whose context was cancelled has not failed.
		err = nil
	}
	return errors.Join(err, host.Close())
}
