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
	"fedpace/internal/human"
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
	announceEvery  = time.Second
	heartbeatEvery = 2 * time.Second
	silentAfter    = 3 * heartbeatEvery

	maxHosts   = 1 << 12 // whose presence a coordinator keeps
	maxWorkers = 1 << 12 // of one host that count
)

// hostRegistry is the coordinator's end: it announces the run, answers with its
// configuration and knows which hosts are there.
type hostRegistry struct {
	*bus.CoordinatorConfig // with an Info and a Notice
	answer                 []byte
	conn                   *Conn

	warned bool // of hosts that are missing; of the announcing goroutine

	mu    sync.Mutex
	hosts map[string]presence
}

type presence struct {
	workers int
	seen    time.Time
}

func newHostRegistry(conn *Conn, run string, config *bus.CoordinatorConfig) (*hostRegistry, error) {
	r := &hostRegistry{CoordinatorConfig: config, conn: conn, hosts: map[string]presence{}}
	if r.Notice == nil {
		r.Notice = func(string) {}
	}
	r.Info.Run = run
	err := r.Info.Seal()
	if err == nil {
		err = r.Info.Validate()
	}
	if err == nil {
		r.answer, err = bus.Marshal(nil, r.Info)
	}
	return r, err
}

// onRequest answers and returns the name of a host that was not there before.
func (r *hostRegistry) onRequest(m *nats.Msg) (joined string) {
	if Relayed(m) {
		return ""
	}
	var w bus.InfoRequest
	if err := bus.Unmarshal(m.Data, &w); err != nil {
		return ""
	}
	if w.Host != "" && names.CheckToken("host", w.Host) == nil {
		joined = r.seen(w.Host, int(min(w.Workers, maxWorkers)), w.Leaves)
	}
	if m.Reply != "" {
		_ = m.Respond(r.answer) // a closed connection has its own handler
	}
	return joined
}

// seen notes that a host is there and returns its name if it is new.
func (r *hostRegistry) seen(host string, workers int, leaves bool) (joined string) {
	now := time.Now()
	r.mu.Lock()
	before, known := r.hosts[host]
	line := ""
	switch {
	case leaves && known:
		delete(r.hosts, host)
		line = fmt.Sprintf("Host %s has left.", host)
	case leaves, !known && len(r.hosts) >= maxHosts:
	default:
		r.hosts[host] = presence{workers, now}
		if known && before.workers == workers {
			break
		}
		joined = host
		line = fmt.Sprintf("Host %s is there with %d %s.", host, workers, human.Plural(workers, "trainer"))
		if workers == 0 && r.Info.Kernel != "" {
			line = fmt.Sprintf("Host %s is there for plans; it does not train.", host)
		}
	}
	r.mu.Unlock()
	if line != "" {
		r.Notice(line)
	}
	return joined
}

// present counts the hosts that have shown themselves lately and their workers.
func (r *hostRegistry) present() (hosts, workers int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.hosts {
		workers += p.workers
	}
	return len(r.hosts), workers
}

// expireHosts forgets the hosts that have been silent for too long.
func (r *hostRegistry) expireHosts() {
	now := time.Now()
	var silent []string
	r.mu.Lock()
	for name, a := range r.hosts {
		if now.Sub(a.seen) > silentAfter {
			delete(r.hosts, name)
			silent = append(silent, name)
		}
	}
	r.mu.Unlock()
	slices.Sort(silent)
	for _, name := range silent {
		r.Notice(fmt.Sprintf("Host %s is silent; others do its work.", name))
	}
}

// warnNoHosts says once that no host can do what is waiting, and again after one
// has been there.
func (r *hostRegistry) warnNoHosts(opened time.Time) {
	hosts, workers := r.present()
	switch {
	case !r.NeedsHosts || hosts > 0 && (workers > 0 || r.Info.Kernel == ""):
		r.warned = false
	case r.warned || time.Since(opened) < 2*announceEvery:
	case hosts == 0:
		r.warned = true
		r.Notice("No host is there; the run waits for one (fedpace host).")
	default:
		r.warned = true
		r.Notice(fmt.Sprintf("No host that is there trains with kernel class %s; the run waits for one.", r.Info.Kernel))
	}
}

// announce says that the run is there until ctx ends.
func (r *hostRegistry) announce(ctx context.Context) {
	opened := time.Now()
	r.conn.repeat(ctx, announceEvery, subject.Announce, func(last bool) bus.Message {
		if last {
			return nil // sayOver does, once nothing of the run is under way
		}
		r.expireHosts()
		r.warnNoHosts(opened)
		return &bus.Announcement{Run: r.Info.Run, Stamp: r.Info.Stamp}
	})
}

// sayOver tells hosts that the run is over. A host whose connection is away at that
// moment finds out by the silence.
func (r *hostRegistry) sayOver(ctx context.Context) error {
	b, err := bus.Marshal(nil, &bus.Announcement{Run: r.Info.Run, Stamp: r.Info.Stamp, Over: true})
	if err != nil {
		return err
	}
	return r.conn.remove(ctx, "announce the end of run "+r.Info.Run, func(ctx context.Context) error {
		if err := r.conn.nats.Publish(subject.Announce, b); err != nil {
			return err
		}
		return r.conn.nats.FlushWithContext(ctx)
	})
}

// heartbeat shows the coordinator that the host is there until it ends.
func (h *Host) heartbeat() {
	h.conn.repeat(h.life, heartbeatEvery, subject.Info(h.run), func(last bool) bus.Message {
		return &bus.InfoRequest{Host: h.config.Name, Workers: uint32(h.config.Workers), Leaves: last}
	})
}

// repeat publishes a message at once, periodically, and a last time when ctx ends;
// none where it is nil.
func (c *Conn) repeat(ctx context.Context, every time.Duration, subject string, message func(last bool) bus.Message) {
	send := func(last bool) {
		m := message(last)
		if m == nil {
			return
		}
		if b, err := bus.Marshal(nil, m); err == nil {
			_ = c.nats.Publish(subject, b) // a closed connection has its own handler
		}
	}
	send(false)
	for range Ticks(ctx, every) {
		send(false)
	}
	send(true)
}
