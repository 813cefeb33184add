package natsbus

import (
	"cmp"
	"context"
	"fmt"
	"maps"
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

// These are the times of announcements and heartbeats, and the bounds of what is kept of them.
const (
	// announceEvery is the time between two announcements of a run.
	announceEvery = time.Second
	// heartbeatEvery is the time between two heartbeats of a host.
	heartbeatEvery = time.Second
	// hostLease is how long a host counts as present after its last heartbeat.
	hostLease = 3 * heartbeatEvery

	// maxHosts is how many hosts a coordinator knows at once.
	maxHosts = 1 << 12
	// maxWorkers is the largest number of workers that counts for one host.
	maxWorkers = 1 << 12
)

// hostRegistry is the coordinator's view of its hosts: it announces the run, answers requests for the
// run's configuration, knows which hosts are present, and places tasks on them.
type hostRegistry struct {
	// The configuration has an Info and a Notice here.
	*bus.CoordinatorConfig
	// answer is the encoded answer to requests for the run's configuration.
	answer []byte
	// conn is the coordinator's connection.
	conn *Conn
	// placement decides which host gets the next task.
	placement *placement.Table
	// jobs knows which hosts hold which jobs, and finds lost and slow ones.
	jobs *placement.Jobs

	// warnedNoHost says that a notice was given that no host can do what waits. Like lastExpiry it
	// is used only by the goroutine that announces the run.
	warnedNoHost bool
	// lastExpiry is when expireHosts ran last.
	lastExpiry time.Time

	// mu guards the fields below.
	mu sync.Mutex
	// hosts has the last heartbeat of each host that is present, by its name.
	hosts map[string]presence
	// workersChanged is called with each host in another process whose number of workers has changed, 0 when the host
	// has gone; nil if the changes are not watched.
	workersChanged func(host string, workers int)
}

// presence is the content of a host's last heartbeat.
type presence struct {
	// workers is how many jobs the host can train at a time.
	workers int
	// local says that the host is in this process.
	local bool
	// lastSeen is when the heartbeat arrived.
	lastSeen time.Time
}

// newHostRegistry makes the registry of a run without hosts. It completes the run's information
// with the name and the stamp of the run, and returns an error if the information is not valid.
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
	// The stamp covers the information, so it is sealed after the name is set.
	err := cmp.Or(r.Info.Seal(), r.Info.Validate())
	if err == nil {
		r.answer, err = bus.Marshal(nil, r.Info)
	}
	return r, err
}

// onRequest answers a request for the run's information (Info). A request that gives a host's name is also the
// heartbeat of that host. changed is the name of the host if it has joined with this message or changed its number of
// workers, and otherwise empty. isFirst says that no host was present before. seenFence is the highest fencing token
// that the sender has seen, noFence if it says none.
func (r *hostRegistry) onRequest(m *nats.Msg) (changed string, isFirst bool, seenFence uint64) {
	if natsconn.IsMisdirected(m) {
		return "", false, noFence
	}
	var request bus.InfoRequest
	if err := bus.Unmarshal(m.Data, &request); err != nil {
		return "", false, noFence
	}
	// A question without a host's name, such as that of AskRun, is only answered.
	if request.Host != "" && names.CheckToken("host", request.Host) == nil {
		changed, isFirst = r.update(&request)
	}
	if m.Reply != "" {
		// A closed connection has a handler of its own.
		_ = m.Respond(r.answer)
	}
	return changed, isFirst, request.Fence
}

// update takes a heartbeat, by which a host joins, stays, changes its number of workers, or leaves. changed is the
// name of a host that has joined or changed its workers, empty if none has. isFirst says that no host was present
// before this heartbeat. update gives notice of hosts in other processes that join, change or leave.
func (r *hostRegistry) update(heartbeat *bus.InfoRequest) (changed string, isFirst bool) {
	after := presence{
		workers:  int(min(heartbeat.Workers, maxWorkers)),
		local:    heartbeat.Local,
		lastSeen: time.Now(),
	}
	r.mu.Lock()
	before, present := r.hosts[heartbeat.Host]
	isFirst = len(r.hosts) == 0
	var notice bus.Notice
	switch {
	case heartbeat.Leaves && present:
		r.remove(heartbeat.Host)
		notice = bus.Notice{
			Subject: heartbeat.Host,
			State:   bus.HostLeft,
			Text:    fmt.Sprintf("Host %s has left.", heartbeat.Host),
		}
	case heartbeat.Leaves:
	// Hosts beyond the bound do not count, so that invented names cannot fill the memory.
	case !present && len(r.hosts) >= maxHosts:
	default:
		r.hosts[heartbeat.Host] = after
		r.jobs.UpdateHost(heartbeat.Host, after.workers, heartbeat.Jobs)
		unchanged := present && before.workers == after.workers
		// A host gets tasks from now on if it is new, and is reported again if its workers changed.
		if !unchanged {
			r.placement.AddHost(heartbeat.Host)
			r.reportChange(heartbeat.Host, after)
			changed = heartbeat.Host
			notice = bus.HostJoined(heartbeat.Host, after.workers, r.Info.Kernel != "")
		}
	}
	r.mu.Unlock()
	if notice.Text != "" && !after.local {
		r.Notice(notice)
	}
	return changed, isFirst
}

// remove forgets a host: it gets no more tasks, and its jobs are queued again. The caller holds the
// lock.
func (r *hostRegistry) remove(host string) {
	r.reportChange(host, presence{local: r.hosts[host].local})
	delete(r.hosts, host)
	r.placement.RemoveHost(host)
	r.jobs.RemoveHost(host)
}

// reportChange calls workersChanged, if it is set, with a host whose number of workers has changed. Hosts of this
// process are left out. The caller holds the lock.
func (r *hostRegistry) reportChange(host string, p presence) {
	if r.workersChanged != nil && !p.local {
		r.workersChanged(host, p.workers)
	}
}

// watch sets the function that is called with every change of the workers of a host in another process. It calls the
// function at once for each such host that is present. A second call replaces the function of the first.
func (r *hostRegistry) watch(changed func(host string, workers int)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.workersChanged = changed
	for _, host := range slices.Sorted(maps.Keys(r.hosts)) {
		r.reportChange(host, r.hosts[host])
	}
}

// present returns the number of the hosts in other processes that are present, and of their
// workers.
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

// expireHosts removes the hosts that have been silent for longer than their lease, and gives notice
// of those in other processes. If this process stood still or its connection was away, heartbeats
// may have been missed here, so all hosts get a new lease instead.
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
	// The order of a map is random, and that of notices should not be.
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

// warnNoHosts gives notice, once, that no present host can do the work of the run; and again if that
// happens after such a host has been present. A run with hosts in its own process needs no others.
// opened is when the run was first announced: hosts get a moment to join.
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

// announce makes the run known once a second until ctx ends; each time it also removes silent hosts
// and gives notice of missing ones. The end of the run is left to announceEnd, since work may still
// be under way when ctx ends.
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

// announceEnd announces to hosts that the run is over. A host whose connection is away at that moment
// finds out because the run is announced no more, so it is no error if the connection is lost or ctx has
// ended.
func (r *hostRegistry) announceEnd(ctx context.Context) error {
	b, err := bus.Marshal(nil, &bus.Announcement{Run: r.Info.Run, Stamp: r.Info.Stamp, Over: true})
	if err != nil {
		return err
	}
	return r.conn.atClose(ctx, "announce the end of run "+r.Info.Run, func(ctx context.Context) error {
		if err := r.conn.Publish(subject.Announce, b); err != nil {
			return err
		}
		return r.conn.NATS().FlushWithContext(ctx)
	})
}
