package bus

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"fedpace/bus/wire"
)

// RunInfo is what a host in another process must know to stand in for the
// clients of a run.
type RunInfo struct {
	Run           string
	Version       string // of the coordinator's program, for people
	Configuration string // resolved, as YAML
	Kernel        string // class that the run's jobs are for; empty: it does not train
	Spec          Spec   // zero: it does not train
	Files         []File // that the configuration names, its data apart

	// Stamp tells one configuration from another. Tasks repeat it, so that no host
	// answers for clients of another run of the same name.
	Stamp uint64
}

// File tells one file's content from another's.
type File struct {
	Path   string // as in the configuration
	Digest Digest // SHA-256 of its bytes
}

// seal sets the stamp, which depends on all that decides plans and sums.
func (r *RunInfo) seal() error {
	w := r.message()
	w.Run, w.Version, w.Stamp = "", "", 0
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(w)
	if err != nil {
		return fmt.Errorf("bus: encode RunInfo: %w", err)
	}
	sum := sha256.Sum256(b)
	r.Stamp = max(binary.LittleEndian.Uint64(sum[:]), 1) // 0 says that there is none
	return nil
}

func (r *RunInfo) message() *wire.RunInfo {
	w := &wire.RunInfo{Run: r.Run, Stamp: r.Stamp, Version: r.Version, Configuration: r.Configuration, Kernel: r.Kernel}
	if r.Spec != (Spec{}) {
		w.Spec = &wire.Spec{Model: r.Spec.Model, DataDigest: r.Spec.Data, Seed: r.Spec.Seed, Batch: uint32(r.Spec.Batch), Augment: r.Spec.Augment}
	}
	for _, f := range r.Files {
		w.Files = append(w.Files, &wire.File{Path: f.Path, Digest: f.Digest[:]})
	}
	return w
}

func decodeRunInfo(b []byte) (*RunInfo, error) {
	var w wire.RunInfo
	if err := unmarshal(b, &w); err != nil {
		return nil, err
	}
	c := checker{message: "run info"}
	c.token("run", w.Run)
	c.name("stamp", w.Stamp)
	c.text("version", w.Version)
	if n := len(w.Configuration); n > maxConfiguration {
		c.refuse("configuration", fmt.Sprint(n, " bytes"), fmt.Sprint("at most ", maxConfiguration))
	}
	if w.Kernel != "" {
		c.token("kernel", w.Kernel)
	}
	c.number("number of files", int64(len(w.Files)), 0, maxFiles)
	r := &RunInfo{Run: w.Run, Stamp: w.Stamp, Version: w.Version, Configuration: w.Configuration, Kernel: w.Kernel}
	if s := w.Spec; s != nil {
		c.text("spec.model", s.Model)
		c.text("spec.data_digest", s.DataDigest)
		c.text("spec.augment", s.Augment)
		c.number("spec.batch", int64(s.Batch), 1, MaxBatch)
		r.Spec = Spec{Model: s.Model, Data: s.DataDigest, Seed: s.Seed, Batch: narrow(s.Batch), Augment: s.Augment}
	}
	for _, f := range w.Files {
		c.text("files.path", f.GetPath())
		r.Files = append(r.Files, File{Path: f.GetPath(), Digest: c.digest("files.digest", f.GetDigest(), false)})
	}
	if c.err != nil {
		return nil, c.err
	}
	return r, nil
}

// Announcement says that there is a run.
type Announcement struct {
	Run   string
	Stamp uint64 // RunInfo's
	Over  bool   // it has ended, or its coordinator has stopped
}

func decodeAnnouncement(b []byte) (Announcement, error) {
	var w wire.Announcement
	if err := unmarshal(b, &w); err != nil {
		return Announcement{}, err
	}
	c := checker{message: "announcement"}
	c.token("run", w.Run)
	c.name("stamp", w.Stamp)
	return Announcement{Run: w.Run, Stamp: w.Stamp, Over: w.Over}, c.err
}

// WatchRuns tells of the runs that coordinators announce, each about once a
// second, until stop is called. fn runs on one goroutine.
func (c *Conn) WatchRuns(ctx context.Context, fn func(Announcement)) (stop func(), err error) {
	sub, err := c.subscribe(announceSubject, "", func(m *nats.Msg) {
		if relayed(m) {
			return
		}
		if a, err := decodeAnnouncement(m.Data); err == nil { // else it is no coordinator's
			fn(a)
		}
	})
	if err != nil {
		return nil, err
	}
	return func() { _ = sub.Unsubscribe() }, c.settled(ctx)
}

// ErrNoRun is wrapped by AskRun's error when no coordinator of that name answers.
var ErrNoRun = errors.New("no coordinator of this run answers")

// AskRun asks a run's coordinator for its configuration.
func (c *Conn) AskRun(ctx context.Context, run string) (*RunInfo, error) {
	if err := CheckToken("run", run); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	m, err := c.nats.RequestWithContext(ctx, infoSubject(run), nil)
	if errors.Is(err, nats.ErrNoResponders) {
		return nil, fmt.Errorf("bus: run %s: %w", run, ErrNoRun)
	}
	if err != nil {
		return nil, fmt.Errorf("bus: run %s: ask for its configuration: %w", run, err)
	}
	info, err := decodeRunInfo(m.Data)
	if err == nil && info.Run != run {
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
	info   *RunInfo
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

func newInfoDesk(conn *Conn, run string, config *CoordinatorConfig) (*infoDesk, error) {
	info := config.Info
	info.Run = run
	if err := info.seal(); err != nil {
		return nil, err
	}
	b, err := marshal(nil, info.message())
	if err != nil {
		return nil, err
	}
	if _, err := decodeRunInfo(b); err != nil {
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
	if relayed(m) {
		return ""
	}
	var w wire.InfoRequest
	if err := unmarshal(m.Data, &w); err != nil {
		return ""
	}
	if w.Host != "" && CheckToken("host", w.Host) == nil {
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
		b, err := marshal(nil, &wire.Announcement{Run: d.info.Run, Stamp: d.info.Stamp, Over: over})
		if err == nil {
			_ = d.conn.nats.Publish(announceSubject, b) // a closed connection has its own handler
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
		b, err := marshal(nil, &wire.InfoRequest{Host: h.name, Workers: uint32(workers), Leaves: leaves})
		if err == nil {
			_ = h.conn.nats.Publish(infoSubject(h.run), b) // a closed connection has its own handler
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
