package simulation

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"fedpace/actors/host"
	"fedpace/bus"
	"fedpace/bus/bustest/simbus"
	"fedpace/bus/memory"
	"fedpace/coordinator"
	"fedpace/coordinator/round"
	"fedpace/internal/keyed"
)

// outcome is all that a run leaves behind.
type outcome struct {
	Fingerprint uint64
	Params      []float32
	Stop        round.Stop
	Rows        []string // of the reports, in their order

	history history
}

// cluster is the parts of one seed's run.
type cluster struct {
	*scenario
	world *world
	net   *network
	bus   *simbus.Bus
	info  *bus.RunInfo
	want  *outcome // nil: what devices measure decides it
	got   *outcome // of the run that was completed
	said  *record  // by devices in it

	stall   stall // the longest one
	counted int   // updates of devices that count
	cuts    int   // of power, in the middle of something that is to be on the disk

	work sync.WaitGroup // all that was started
	over context.Context
	end  context.CancelCauseFunc // nil: the run ended as it must

	mu    sync.Mutex
	parts []*part // hosts, then devices: the newest of each
	lead  *part   // the newest coordinator
	opens *part   // the coordinator that was the last to open the run
	since time.Time
	moved time.Time // when something last happened to the newest coordinator, or to the bus
	disk  *disk     // of the newest coordinator
	count int       // parts so far
}

// part is one process.
type part struct {
	name    string
	ctx     context.Context
	stop    context.CancelFunc
	crashed atomic.Bool
	ending  atomic.Bool   // another takes its place soon
	done    chan struct{} // closed when it has ended
}

// refusals are the errors with which an attempt of a coordinator may end although
// nobody stopped it. Another attempt goes on.
var refusals = []string{
	"run r has a coordinator already: let it end, or choose another name",
	"run r: another coordinator has taken the run over",
	"and no trainer finished it",
}

// reference plays the run without faults: one host, nothing in between. What
// devices said is on record.
func (s *scenario) reference(w *world, said *record) (*outcome, error) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	b := memory.New()
	host, err := host.Start(ctx, b.Connect("host"), s.host(w))
	if err != nil {
		return nil, err
	}
	defer host.Close()
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() error { return host.Train(inner) })
	var o outcome
	group.Go(func() error {
		defer stop()
		c := s.config(w)
		c.Observer = coordinator.Observer{Report: o.report, Task: o.history.task, Model: o.history.model}
		c.Devices = s.deviceConfig(said, nil, nil)
		r, err := coordinator.Run(inner, b.Connect("coordinator"), c)
		if err == nil {
			o.take(r)
		}
		return err
	})
	return &o, group.Wait()
}

func (o *outcome) report(r *round.Report) error {
	o.history.report(r)
	o.Rows = append(o.Rows, row(r))
	return nil
}

// row is the line of a report.
func row(r *round.Report) string { return fmt.Sprintf("%+v\n", *r) }

func (o *outcome) take(r *coordinator.Result) {
	o.Fingerprint, o.Params, o.Stop = r.Fingerprint, r.Params, r.Stop
}

// differs says how an outcome is other than another; "": it is not.
func (o *outcome) differs(want *outcome) string {
	switch {
	case o.Fingerprint != want.Fingerprint:
		return fmt.Sprintf("fingerprint %x, want %x", o.Fingerprint, want.Fingerprint)
	case !slices.Equal(o.Params, want.Params):
		return "another model"
	case fmt.Sprintf("%+v", o.Stop) != fmt.Sprintf("%+v", want.Stop):
		return fmt.Sprintf("it stopped as %+v, want %+v", o.Stop, want.Stop)
	case !reflect.DeepEqual(o.Rows, want.Rows):
		return fmt.Sprintf("other reports:\n%swant:\n%s", strings.Join(o.Rows, ""), strings.Join(want.Rows, ""))
	}
	return ""
}

func (s *scenario) host(w *world) host.Config {
	return host.Config{Run: "r", Fleet: w.leaving, Workers: 1, Problem: s.problem(w)}
}

// Limits in simulated time: until messages no longer fail, and until the run must
// have ended.
const (
	calmAfter = 5 * time.Minute
	mostTime  = time.Hour
)

// play plays the run with its faults. It must be called in a bubble.
func (s *scenario) play(w *world, want *outcome, log func(string, ...any)) (*cluster, error) {
	c := &cluster{scenario: s, world: w, want: want, net: newNetwork(s.seed, s.weather, time.Now().Add(calmAfter))}
	c.net.log = log
	c.bus, c.moved = simbus.New(c.net), epoch.Add(-longest)
	c.net.sent = c.sent
	c.info = &bus.RunInfo{Run: "r", Configuration: "simulated"}
	if err := c.info.Seal(); err != nil {
		return c, err
	}
	c.stall.begin(s, time.Now())
	ctx, cancel := context.WithTimeoutCause(context.Background(), mostTime, fmt.Errorf("the run has not ended after %v", mostTime))
	defer cancel()
	c.over, c.end = context.WithCancelCause(ctx)
	c.parts = make([]*part, s.hosts+len(s.devices))
	for i := range s.hosts {
		c.start(i)
	}
	for i, x := range s.devices {
		if x.after == 0 {
			c.start(s.hosts + i)
			continue
		}
		c.work.Go(func() {
			if c.pause(x.after) {
				c.start(s.hosts + i)
			}
		})
	}
	c.startCoordinator(newDisk())
	c.work.Go(func() {
		for _, f := range s.faults {
			if !c.pause(time.Until(epoch.Add(f.at))) {
				return
			}
			log("%v %v of part %d for %v", time.Since(epoch), f.kind, f.part, f.long)
			c.inflict(f)
		}
	})
	<-c.over.Done()
	c.work.Wait()
	if err := context.Cause(c.over); !errors.Is(err, errRight) {
		return c, err
	}
	return c, nil
}

// errRight is why a run is over that ended as it must.
var errRight = errors.New("the run ended as it must")

// pause reports false where the run is over before.
func (c *cluster) pause(length time.Duration) bool {
	select {
	case <-time.After(length):
		return true
	case <-c.over.Done():
		return false
	}
}

func (c *cluster) newPart(kind string) *part {
	c.count++
	p := &part{name: fmt.Sprintf("%s%d", kind, c.count), done: make(chan struct{})}
	p.ctx, p.stop = context.WithCancel(c.over)
	return p
}

// start starts a host or a device in the i-th place.
func (c *cluster) start(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kind, run := "host", c.serve
	if i >= c.hosts {
		kind, run = "device", func(p *part) error { return c.serveDevice(p, i-c.hosts) }
	}
	p := c.newPart(kind)
	c.parts[i] = p
	c.work.Go(func() {
		err := run(p)
		p.stop()
		close(p.done)
		if err != nil && p.ctx.Err() == nil {
			c.end(fmt.Errorf("%s ended: %w", p.name, err))
		}
	})
}

func (c *cluster) serve(p *part) error {
	config := c.host(c.world)
	config.Name, config.Stamp = p.name, c.info.Stamp
	host, err := host.Start(p.ctx, c.bus.Connect(p.name), config)
	if err != nil {
		return err
	}
	group, inner := errgroup.WithContext(p.ctx)
	group.Go(func() error { return host.Wait(inner) })
	if c.rounds.Train {
		group.Go(func() error { return host.Train(inner) })
	}
	return errors.Join(group.Wait(), host.Close())
}

// startCoordinator starts one that goes on from what is on the disk, and others
// after it until one completes the run.
func (c *cluster) startCoordinator(d *disk) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.newPart("coordinator")
	c.lead, c.disk = p, d
	c.work.Go(func() {
		err := c.drive(p, d)
		p.stop()
		close(p.done)
		c.net.log("%v %s ended: %v", time.Since(epoch), p.name, err)
		switch {
		case err == nil, c.over.Err() != nil, p.crashed.Load():
		case errors.Is(err, context.Canceled), slices.ContainsFunc(refusals, func(s string) bool { return strings.Contains(err.Error(), s) }):
			if c.newest(p) && c.pause(time.Second) && c.newest(p) {
				c.startCoordinator(c.saved())
			}
		default:
			c.end(fmt.Errorf("%s ended: %w", p.name, err))
		}
	})
}

func (c *cluster) newest(p *part) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lead == p
}

// saved is a copy of the newest coordinator's disk, as programs see it.
func (c *cluster) saved() *disk {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.disk.clone()
}

// drive is one attempt of a coordinator.
func (c *cluster) drive(p *part, d *disk) error {
	config := c.config(c.world)
	o, said := outcome{}, newRecord()
	results, err := c.openResults(p, d, &o, said)
	if err != nil {
		return err
	}
	config.Devices = c.deviceConfig(said, c.bus.Connect(p.name), func(line string) { c.told(p, line) })
	config.Bus = bus.CoordinatorConfig{Info: proto.CloneOf(c.info), NeedsHosts: true, AckWait: 10 * time.Second, PlanPatience: 2 * time.Second}
	config.Resume = results.last.State
	events, attempt := uint64(0), c.attempt(p)
	config.Observer.Stats = func(*coordinator.Stats) { c.opened(p) }
	config.Observer.Report = func(r *round.Report) error {
		_, err := results.rows.Write([]byte(row(r)))
		return errors.Join(err, o.report(r), c.mayReport(p, r.Round))
	}
	config.Checkpoint.Due = func() bool {
		events++
		if err := c.stall.progress(time.Now()); err != nil {
			c.end(fmt.Errorf("%s: %w", p.name, err))
		}
		return keyed.Float64(keyed.Hash(c.seed, ofEvent, attempt, events)) < c.due
	}
	config.Checkpoint.Save = func(s *coordinator.State) error {
		err := results.save(s)
		if err == nil && keyed.Float64(keyed.Hash(c.seed, ofEvent, attempt, events, 1)) < c.last && c.newest(p) && time.Since(epoch) < calmAfter {
			c.inflict(fault{kind: crash, part: -1, long: time.Second})
		}
		return err
	}
	r, err := coordinator.Run(p.ctx, c.bus.Connect(p.name), config)
	if err != nil {
		return err
	}
	o.take(r)
	o.Rows = results.lines()
	c.got, c.said = &o, said
	if len(c.devices) > 0 { // a replay will tell
		c.end(errRight)
	} else if what := o.differs(c.want); what != "" {
		c.end(fmt.Errorf("%s completed the run with %s", p.name, what))
	} else {
		c.end(errRight)
	}
	return nil
}

// told takes what a coordinator tells of devices. Where hardly any message is lost or
// late, only a slow one may take too long for a task: one that is lost on its way is
// sent again.
func (c *cluster) told(p *part, line string) {
	c.net.log("%v %s: %s", time.Since(epoch), p.name, line)
	var i int
	if _, err := fmt.Sscanf(line, "Device pi%d has worked on one task for more than", &i); err == nil && c.devices[i].pace < paces[3] && c.weather.loss < 0.1 && c.weather.late < 0.1 {
		c.end(fmt.Errorf("%s: %s", p.name, line))
	}
}

// opened notes that a coordinator has opened the run. It must not while another
// drives it that nothing keeps from showing that it is there.
func (c *cluster) opened(p *part) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := c.opens; o != nil && o.ctx.Err() == nil && c.weather.loss == 0 && c.weather.late == 0 && time.Since(c.moved) > longest {
		c.end(fmt.Errorf("%s opens the run although %s drives it, to which nothing has happened for %v", p.name, o.name, time.Since(c.moved)))
	}
	c.opens, c.since = p, time.Now()
}

// sent has the coordinator crash soon after some of the jobs that it sends.
func (c *cluster) sent(from, kind string, n uint64) {
	if kind != "job" || from == simbus.Server || time.Since(epoch) > calmAfter {
		return
	}
	id := fnv.New64a()
	id.Write([]byte(from))
	if h := keyed.Hash(c.seed, ofJob, id.Sum64(), n); keyed.Float64(h) < c.asked {
		time.AfterFunc(time.Duration(keyed.Float64(keyed.Nth(h, 1))*float64(3*time.Second)), func() {
			if p := c.struck(fault{part: -1}); p.name == from && c.over.Err() == nil {
				c.inflict(fault{kind: crash, part: -1, long: time.Second})
			}
		})
	}
}

// longest is how long a message may be under way, or a part unheard of.
const longest = 2 * time.Minute

// mayReport refuses the reports of a coordinator that drives the run beside another
// that opened it later: what was under way then has arrived long ago.
func (c *cluster) mayReport(p *part, number int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.opens != p && c.opens.ctx.Err() == nil && time.Since(c.since) > longest {
		return fmt.Errorf("it reports round %d although %s drives the run for %v", number, c.opens.name, time.Since(c.since))
	}
	return nil
}

func (c *cluster) attempt(p *part) (n uint64) {
	_, _ = fmt.Sscanf(strings.TrimPrefix(p.name, "coordinator"), "%d", &n)
	return n
}

// inflict does what a fault does, up to its end.
func (c *cluster) inflict(f fault) {
	p := c.struck(f)
	if p == nil {
		return // a device that has not come yet
	}
	c.stall.disturb(time.Now().Add(f.long))
	if f.part < 0 && f.kind != rival {
		c.mu.Lock()
		c.moved = time.Now().Add(f.long)
		c.mu.Unlock()
	}
	switch f.kind {
	case crash, stop:
		if p.ending.Swap(true) {
			return
		}
		if f.kind == crash {
			p.crashed.Store(true)
			c.net.crash(p.name)
		}
		c.work.Go(func() {
			p.stop()
			<-p.done
			if !c.pause(f.long) {
				return
			}
			switch {
			case p != c.struck(f): // another has its place already
			case f.part >= 0:
				c.start(f.part)
			case f.kind == crash:
				c.startCoordinator(c.afterCrash(p))
			default:
				c.startCoordinator(c.saved())
			}
		})
	case partition:
		c.net.mark(c.net.cut, p.name, f.long)
	case hang:
		c.net.mark(c.net.held, p.name, f.long)
	case slow:
		c.net.mark(c.net.slow, p.name, f.long)
	case twin:
		c.net.mark(c.net.held, p.name, f.long)
		c.startCoordinator(c.saved())
	case rival:
		c.startCoordinator(c.saved())
	case forget:
		c.net.mark(c.net.cut, simbus.Server, f.long)
		c.bus.Forget()
		c.mu.Lock()
		c.moved = time.Now().Add(f.long)
		c.since = time.Now() // until the newer one is heard of again, an older one may have the bus
		c.mu.Unlock()
	}
}

// struck is the part that a fault is about.
func (c *cluster) struck(f fault) *part {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.part >= 0 {
		return c.parts[f.part]
	}
	return c.lead
}
