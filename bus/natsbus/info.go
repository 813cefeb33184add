package natsbus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/bus"
	"fedpace/bus/internal/subject"
	"fedpace/internal/names"
)

// WatchRuns tells of the runs that coordinators announce, each about once a
// second, until stop is called. fn runs on one goroutine.
func (c *Conn) WatchRuns(ctx context.Context, fn func(*bus.Announcement)) (stop func(), err error) {
	sub, err := c.subscribe(subject.Announce, "", func(m *nats.Msg) {
		if Relayed(m) {
			return
		}
		a := new(bus.Announcement)
		if err := bus.Unmarshal(m.Data, a); err == nil { // else it is no coordinator's
			fn(a)
		}
	})
	if err != nil {
		return nil, err
	}
	return func() { _ = sub.Unsubscribe() }, c.Settled(ctx)
}

// ErrNoRun is wrapped by AskRun's error when no coordinator of that name answers.
var ErrNoRun = errors.New("no coordinator of this run answers")

// AskRun asks a run's coordinator for its configuration.
func (c *Conn) AskRun(ctx context.Context, run string) (*bus.RunInfo, error) {
	if err := names.CheckToken("run", run); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	m, err := c.nats.RequestWithContext(ctx, subject.Info(run), nil)
	if errors.Is(err, nats.ErrNoResponders) {
		return nil, fmt.Errorf("bus: run %s: %w", run, ErrNoRun)
	}
	if err != nil {
		return nil, fmt.Errorf("bus: run %s: ask for its configuration: %w", run, err)
	}
	info := new(bus.RunInfo)
	if err = bus.Unmarshal(m.Data, info); err == nil && info.Run != run {
		err = fmt.Errorf("bus: asked about run %s, the answer is about %s", run, info.Run)
	}
	return info, err
}

// Rhythms of those who say that they are there.
const (
	announceEvery = time.Second
	attendEvery   = 2 * time.Second
	absentAfter   = 3 * attendEvery
)

// infoDesk is the coordinator's end: it announces the run, answers with its
// configuration and knows which hosts are there.
type infoDesk struct {
	info   *bus.RunInfo
	answer []byte
	conn   *Conn
	notice func(string)
	needs  bool // hosts, there being none in this process

	mu    sync.Mutex
	hosts map[string]attendance
}

type attendance struct {
	workers int
	seen    time.Time
}

func newInfoDesk(conn *Conn, run string, config *bus.CoordinatorConfig) (*infoDesk, error) {
	info := config.Info
	info.Run = run
	if err := info.Seal(); err != nil {
		return nil, err
	}
	if err := info.Validate(); err != nil {
		return nil, err
	}
	b, err := bus.Marshal(nil, info)
	if err != nil {
		return nil, err
	}
	d := &infoDesk{info: info, answer: b, conn: conn, hosts: map[string]attendance{}, notice: config.Notice, needs: config.NeedsHosts}
	if d.notice == nil {
		d.notice = func(string) {}
	}
	return d, nil
}

// onRequest answers and returns the name of a host that was not there before.
func (d *infoDesk) onRequest(m *nats.Msg) (joined string) {
	if Relayed(m) {
		return ""
	}
	var w bus.InfoRequest
	if err := bus.Unmarshal(m.Data, &w); err != nil {
		return ""
	}
	if w.Host != "" && names.CheckToken("host", w.Host) == nil {
		joined = d.attends(w.Host, int(min(w.Workers, maxWorkers)), w.Leaves)
	}
	if m.Reply != "" {
		_ = m.Respond(d.answer) // a closed connection has its own handler
	}
	return joined
}

// attends notes that a host is there and returns its name if it is new.
func (d *infoDesk) attends(host string, workers int, leaves bool) (joined string) {
	now := time.Now()
	d.mu.Lock()
	before, known := d.hosts[host]
	line := ""
	switch {
	case leaves && known:
		delete(d.hosts, host)
		line = fmt.Sprintf("Host %s has left.", host)
	case leaves, !known && len(d.hosts) >= maxHosts:
	default:
		d.hosts[host] = attendance{workers, now}
		if known && before.workers == workers {
			break
		}
		joined = host
		line = fmt.Sprintf("Host %s is there with %d %s.", host, workers, plural(workers, "trainer"))
		if workers == 0 && d.info.Kernel != "" {
			line = fmt.Sprintf("Host %s is there for plans; it does not train.", host)
		}
	}
	d.mu.Unlock()
	if line != "" {
		d.notice(line)
	}
	return joined
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// present counts the hosts that have shown themselves lately and their workers.
func (d *infoDesk) present() (hosts, workers int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.hosts {
		hosts++
		workers += a.workers
	}
	return hosts, workers
}

// roll forgets the hosts that have been silent for too long.
func (d *infoDesk) roll() {
	now := time.Now()
	var silent []string
	d.mu.Lock()
	for name, a := range d.hosts {
		if now.Sub(a.seen) > absentAfter {
			delete(d.hosts, name)
			silent = append(silent, name)
		}
	}
	d.mu.Unlock()
	slices.Sort(silent)
	for _, name := range silent {
		d.notice(fmt.Sprintf("Host %s is silent; others do its work.", name))
	}
}

// lonely tells, once for each time, when nobody is there for what is waiting.
func (d *infoDesk) lonely(since time.Time, said *bool) {
	hosts, workers := d.present()
	trains := d.info.Kernel != ""
	if !d.needs || hosts > 0 && (workers > 0 || !trains) {
		*said = false
		return
	}
	if *said || time.Since(since) < 2*announceEvery {
		return
	}
	*said = true
	switch {
	case hosts == 0:
		d.notice("No host is there; the run waits for one (fedpace host).")
	default:
		d.notice(fmt.Sprintf("No host that is there trains with kernel class %s; the run waits for one.", d.info.Kernel))
	}
}

// announce says that the run is there until ctx ends, and then that it is over.
func (d *infoDesk) announce(ctx context.Context) {
	say := func(over bool) {
		b, err := bus.Marshal(nil, &bus.Announcement{Run: d.info.Run, Stamp: d.info.Stamp, Over: over})
		if err == nil {
			_ = d.conn.nats.Publish(subject.Announce, b) // a closed connection has its own handler
		}
	}
	tick := time.NewTicker(announceEvery)
	defer tick.Stop()
	since, said := time.Now(), false
	for say(false); ; say(false) {
		d.roll()
		d.lonely(since, &said)
		select {
		case <-ctx.Done():
			say(true)
			return
		case <-tick.C:
		}
	}
}

// attend shows the coordinator that the host is there until ctx ends.
func (h *Host) attend(ctx context.Context, workers int) {
	say := func(leaves bool) {
		b, err := bus.Marshal(nil, &bus.InfoRequest{Host: h.name, Workers: uint32(workers), Leaves: leaves})
		if err == nil {
			_ = h.conn.nats.Publish(subject.Info(h.run), b) // a closed connection has its own handler
		}
	}
	tick := time.NewTicker(attendEvery)
	defer tick.Stop()
	for say(false); ; say(false) {
		select {
		case <-ctx.Done():
			say(true)
			return
		case <-tick.C:
		}
	}
}
