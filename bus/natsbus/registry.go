package natsbus

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/bus"
	"fedpace/bus/internal/placement"
	"fedpace/bus/internal/subject"
	"fedpace/bus/natsconn"
	"fedpace/internal/names"
)

// Rhythms of those who say that they are there.
const (
	announceEvery  = time.Second
	heartbeatEvery = time.Second
	hostLease      = 3 * heartbeatEvery // from its last heartbeat on

	maxHosts   = 1 << 12 // hosts that a coordinator knows at once
	maxWorkers = 1 << 12 // the most that count of one host
)

// hostRegistry is the coordinator's end: it announces the run, answers with its
// configuration, knows which hosts are there and places tasks on them.
type hostRegistry struct {
	*bus.CoordinatorConfig // with an Info and a Notice
	answer                 []byte
	conn                   *Conn
	placement              *placement.Table
	jobs                   *placement.Jobs

	warnedNoHost bool      // missing hosts were told; the announcing goroutine's
	lastExpiry   time.Time // when leases were looked at; the announcing goroutine's

	mu    sync.Mutex
	hosts map[string]presence
}

// presence is what a host says of itself.
type presence struct {
	workers  int
	local    bool // it is of this process
	lastSeen time.Time
}

func newHostRegistry(conn *Conn, run string, config *bus.CoordinatorConfig) (*hostRegistry, error) {
	opened := time.Now()
	r := &hostRegistry{
		CoordinatorConfig: config,
		conn:              conn,
		jobs:              placement.NewJobs(time.Now),
		hosts:             map[string]presence{},
		lastExpiry:        opened,
		placement:         placement.New(subject.TaskFor, func() time.Duration { return time.Since(opened) }),
	}
	if r.Notice == nil {
		r.Notice = func(bus.Notice) {}
	}
	r.Info.Run = run
	err := cmp.Or(r.Info.Seal(), r.Info.Validate())
	if err == nil {
		r.answer, err = bus.Marshal(nil, r.Info)
	}
	return r, err
}

// onRequest answers. It returns the name of a host that was not there before, and
// whether none was.
func (r *hostRegistry) onRequest(m *nats.Msg) (joined string, first bool) {
	if natsconn.Relayed(m) {
		return "", false
	}
	var w bus.InfoRequest
	if err := bus.Unmarshal(m.Data, &w); err != nil {
		return "", false
	}
	if w.Host != "" && names.CheckToken("host", w.Host) == nil {
		joined, first = r.update(&w)
	}
	if m.Reply != "" {
		_ = m.Respond(r.answer) // a closed connection has its own handler
	}
	return joined, first
}

// update takes what a host says of itself.
func (r *hostRegistry) update(w *bus.InfoRequest) (joined string, first bool) {
	now := presence{int(min(w.Workers, maxWorkers)), w.Local, time.Now()}
	r.mu.Lock()
	before, present := r.hosts[w.Host]
	first = len(r.hosts) == 0
	var notice bus.Notice
	switch {
	case w.Leaves && present:
		delete(r.hosts, w.Host)
		r.placement.Leave(w.Host)
		r.jobs.Leave(w.Host)
		notice = bus.Notice{Subject: w.Host, State: bus.HostLeft, Text: fmt.Sprintf("Host %s has left.", w.Host)}
	case w.Leaves, !present && len(r.hosts) >= maxHosts:
	default:
		r.hosts[w.Host] = now
		r.jobs.UpdateHost(w.Host, now.workers, w.Jobs)
		if present && before.workers == now.workers {
			break
		}
		r.placement.Join(w.Host)
		joined = w.Host
		notice = bus.HostJoined(w.Host, now.workers, r.Info.Kernel != "")
	}
	r.mu.Unlock()
	if notice.Text != "" && !now.local {
		r.Notice(notice)
	}
	return joined, first
}

// present counts the hosts of other processes that are there and their workers.
func (r *hostRegistry) present() (hosts, workers int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.hosts {
		if !p.local {
			hosts = hosts + 1
			workers = workers + p.workers
		}
	}
	return hosts, workers
}

// expireHosts drops the hosts that have missed their lease. It gives all of them a
// new one where this process or its connection was what stood still.
func (r *hostRegistry) expireHosts() {
	now := time.Now()
	stood := now.Sub(r.lastExpiry) > 2*announceEvery || !r.conn.NATS().IsConnected()
	r.lastExpiry = now
	var silent []string
	r.mu.Lock()
	for name, p := range r.hosts {
		if stood {
			p.lastSeen = now
			r.hosts[name] = p
		} else if now.Sub(p.lastSeen) > hostLease {
			delete(r.hosts, name)
			r.placement.Leave(name)
			r.jobs.Leave(name)
			if !p.local {
				silent = append(silent, name)
			}
		}
	}
	remaining := len(r.hosts)
	r.mu.Unlock()
	slices.SortFunc(silent, strings.Compare)
	for _, name := range silent {
		n := bus.Notice{
			Subject: name,
			State:   bus.HostSilent,
			Text:    fmt.Sprintf("Host %s is silent; others do its work.", name),
		}
		if remaining == 0 {
			n.Text = fmt.Sprintf("Host %s is silent.", name)
		}
		r.Notice(n)
	}
}

// warnNoHosts says once that no host can do what is waiting, and again after one
// has been there.
func (r *hostRegistry) warnNoHosts(opened time.Time) {
	hosts, workers := r.present()
	switch {
	case !r.NeedsHosts ||
		hosts > 0 && (workers > 0 || r.Info.Kernel == ""):
		r.warnedNoHost = false
	case r.warnedNoHost || time.Since(opened) < 2*announceEvery:
	case hosts == 0:
		r.warnedNoHost = true
		r.Notice(bus.Notice{State: bus.NoHost, Text: "No host is there; the run waits for one (fedpace host)."})
	default:
		r.warnedNoHost = true
		r.Notice(bus.Notice{
			State: bus.NoTrainer,
			Text: fmt.Sprintf(
				"No host that is there trains with kernel class %s; the run waits for one.",
				r.Info.Kernel,
			),
		})
	}
}

// announce says that the run is there until ctx ends.
func (r *hostRegistry) announce(ctx context.Context) {
	opened := time.Now()
	r.conn.publishEvery(ctx, announceEvery, subject.Announce, func(last bool) bus.Message {
		if last {
			return nil // sayOver does, once nothing of the run is under way
		}
		r.expireHosts()
		r.warnNoHosts(opened)
		return &bus.Announcement{Run: r.Info.Run, Stamp: r.Info.Stamp}
	})
}

// announceEnd tells hosts that the run is over. A host whose connection is away at that
// moment finds out by the silence.
func (r *hostRegistry) announceEnd(ctx context.Context) error {
	b, err := bus.Marshal(nil, &bus.Announcement{Run: r.Info.Run, Stamp: r.Info.Stamp, Over: true})
	if err != nil {
		return err
	}
	return r.conn.remove(ctx, "announce the end of run "+r.Info.Run, func(ctx context.Context) error {
		if err := r.conn.Publish(subject.Announce, b); err != nil {
			return err
		}
		return r.conn.NATS().FlushWithContext(ctx)
	})
}
