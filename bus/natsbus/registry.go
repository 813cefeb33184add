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

const (
	announceEvery  = time.Second        // between announcements of a run
	heartbeatEvery = time.Second        // between heartbeats of a host
	hostLease      = 3 * heartbeatEvery // how long a host counts as present after its last heartbeat

	maxHosts   = 1 << 12 // hosts that a coordinator knows at once
	maxWorkers = 1 << 12 // workers that count of one host
)

// hostRegistry is the coordinator's view of its hosts: it announces the run, answers requests for the
// run's configuration, knows which hosts are present, and places tasks on them.
type hostRegistry struct {
	*bus.CoordinatorConfig // with an Info and a Notice
	answer                 []byte
	conn                   *Conn
	placement              *placement.Table
	jobs                   *placement.Jobs

	// Only the goroutine that announces the run uses these two.
	warnedNoHost bool      // the user was told that no host can do what waits
	lastExpiry   time.Time // when expireHosts ran last

	mu    sync.Mutex
	hosts map[string]presence
}

// presence is what a host said of itself in its last heartbeat.
type presence struct {
	workers  int
	local    bool // it is in this process
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

// onRequest answers a request for the configuration and takes what the asking host says of itself. It
// returns the name of a host that has newly joined, and whether no other host was present before.
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

// update takes a heartbeat: a host joins, stays, changes its number of workers, or leaves.
func (r *hostRegistry) update(w *bus.InfoRequest) (joined string, first bool) {
	p := presence{
		workers:  int(min(w.Workers, maxWorkers)),
		local:    w.Local,
		lastSeen: time.Now(),
	}
	r.mu.Lock()
	before, present := r.hosts[w.Host]
	first = len(r.hosts) == 0
	var notice bus.Notice
	switch {
	case w.Leaves && present:
		r.remove(w.Host)
		notice = bus.Notice{Subject: w.Host, State: bus.HostLeft, Text: fmt.Sprintf("Host %s has left.", w.Host)}
	case w.Leaves:
	case !present && len(r.hosts) >= maxHosts:
	default:
		r.hosts[w.Host] = p
		r.jobs.UpdateHost(w.Host, p.workers, w.Jobs)
		unchanged := present && before.workers == p.workers
		if !unchanged {
			r.placement.Join(w.Host)
			joined = w.Host
			notice = bus.HostJoined(w.Host, p.workers, r.Info.Kernel != "")
		}
	}
	r.mu.Unlock()
	if notice.Text != "" && !p.local {
		r.Notice(notice)
	}
	return joined, first
}

// remove forgets a host: it gets no more tasks, and its jobs are queued again. The caller holds the
// lock.
func (r *hostRegistry) remove(host string) {
	delete(r.hosts, host)
	r.placement.Leave(host)
	r.jobs.Leave(host)
}

// present counts the hosts in other processes that are present, and their workers.
func (r *hostRegistry) present() (hosts, workers int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.hosts {
		if !p.local {
			hosts++
			workers += p.workers
		}
	}
	return hosts, workers
}

// expireHosts removes the hosts that have been silent for longer than their lease and tells the user.
// If this process or its connection stood still instead, the heartbeats may have been missed here: then
// all hosts get a new lease.
func (r *hostRegistry) expireHosts() {
	now := time.Now()
	stoodStill := now.Sub(r.lastExpiry) > 2*announceEvery || !r.conn.NATS().IsConnected()
	r.lastExpiry = now
	var silent []string
	r.mu.Lock()
	for name, p := range r.hosts {
		switch {
		case stoodStill:
			p.lastSeen = now
			r.hosts[name] = p
		case now.Sub(p.lastSeen) > hostLease:
			r.remove(name)
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

// warnNoHosts tells the user, once, that no present host can do what the run waits for; and again if
// that happens after such a host has been present. opened is when the run was announced first: hosts
// get a moment to join.
func (r *hostRegistry) warnNoHosts(opened time.Time) {
	hosts, workers := r.present()
	canTrain := workers > 0 || r.Info.Kernel == ""
	served := !r.NeedsHosts || hosts > 0 && canTrain
	if served {
		r.warnedNoHost = false
		return
	}
	if r.warnedNoHost || time.Since(opened) < 2*announceEvery {
		return
	}
	r.warnedNoHost = true
	if hosts == 0 {
		r.Notice(bus.Notice{State: bus.NoHost, Text: "No host is there; the run waits for one (fedpace host)."})
		return
	}
	r.Notice(bus.Notice{
		State: bus.NoTrainer,
		Text: fmt.Sprintf(
			"No host that is there trains with kernel class %s; the run waits for one.",
			r.Info.Kernel,
		),
	})
}

// announce makes the run known, once a second until ctx ends, and looks after the hosts meanwhile. The
// end of the run is announced by announceEnd, when nothing of the run is under way any more.
func (r *hostRegistry) announce(ctx context.Context) {
	opened := time.Now()
	r.conn.publishEvery(ctx, announceEvery, subject.Announce, func(last bool) bus.Message {
		if last {
			return nil
		}
		r.expireHosts()
		r.warnNoHosts(opened)
		return &bus.Announcement{Run: r.Info.Run, Stamp: r.Info.Stamp}
	})
}

// announceEnd tells hosts that the run is over. A host whose connection is away at that moment finds
// out because the run is announced no more.
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
