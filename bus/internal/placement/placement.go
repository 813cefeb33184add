package placement

import (
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"fedpace/bus"
	"fedpace/internal/keyed"
)

const (
	// MostHosts is how many hosts a table has at once.
	MostHosts = 1 << 12

	firstProbation = 250 * time.Millisecond
	mostStrikes    = 8 // doublings of the probation
	copyEvery      = 50 * time.Millisecond
	lostAfter      = time.Second // then a copy without an answer counts as lost
	copiesAnswered = 3           // answers that end a probation, at least
	slowest        = 2.0         // times a batch, in which a trusted host answers one task
	leastWeight    = 1. / 32     // as a share of the heaviest: a host with less goes on probation
	firstWeight    = 0.5         // after a probation
	haste          = 0.25        // exponent of a batch's correction of the weights
	memory         = 0.98        // exponent of the weights from one batch to the next
	smooth         = 0.2         // share of the newest in a smoothed time
)

// Target is where a task goes: to a host by its verb, with a token that the
// answer repeats. The zero value is no host.
type Target struct {
	Host  string
	Verb  string
	Token uint64
}

// Table is the hosts of a run. Its methods may be called concurrently.
type Table struct {
	verb  func(host string) string
	now   func() time.Duration // monotonic
	first uint64               // the first token, which tasks for any host have

	mu      sync.Mutex
	named   map[string]*host
	trusted []*host // hosts that are there, by name
	waiting []*host // those on probation
	next    int     // index in waiting: to be tried in this batch
	started time.Duration
	batch   time.Duration // smoothed time of a batch
	slots   []*host       // by the number in a token
}

// host is what the table knows of one.
type host struct {
	Target        // with the token of its present generation
	key    uint64 // for the hash
	there  bool

	sent, answered int           // tasks of the present generation
	last           time.Duration // when nothing was left to answer
	copies         bool          // it is on probation: its answers count for nothing else

	weight    float64
	strikes   int
	since     time.Duration // start of its trust, or of doing well on probation
	copied    time.Duration // when the last copy went out
	latency   float64       // smoothed, of copies, in seconds
	measured  int           // copies answered
	probation time.Duration
}

// New makes an empty table. verb gives the verb of a host's tasks.
func New(verb func(host string) string, now func() time.Duration) *Table {
	return &Table{verb: verb, now: now, first: bus.FirstNumber(), named: map[string]*host{}}
}

// open is the number of tasks that the host has not answered.
func (h *host) open() int { return h.sent - h.answered }

// renew forgets what the host was sent: its late answers are not counted.
func (h *host) renew() {
	h.Token = h.Token>>32<<32 | uint64(uint32(h.Token)+MostHosts)
	h.sent, h.answered = 0, 0
}

// Join adds a host, or finds that it is there again: then it has to prove itself,
// unless it is the only one.
func (t *Table) Join(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.named[name]
	if h == nil {
		if h = t.slot(); h == nil {
			return
		}
		h.Host, h.Verb, h.key = name, t.verb(name), keyOf(name)
		h.weight, h.strikes, h.copied = 1, 0, -copyEvery
		t.named[name] = h
		t.trust(h)
	} else if !h.there {
		t.doubt(h)
	}
	h.there = true
	t.keepOne()
}

// slot is one that no host has, or had lately.
func (t *Table) slot() *host {
	if n := len(t.slots); n < MostHosts {
		h := &host{Target: Target{Token: t.first + uint64(n)}}
		t.slots = append(t.slots, h)
		h.renew()
		return h
	}
	for name, h := range t.named {
		if !h.there {
			delete(t.named, name)
			h.renew()
			return h
		}
	}
	return nil
}

// keyOf spreads names over the keys of the hash.
func keyOf(name string) (key uint64) {
	for i := range len(name) {
		key = keyed.Nth(key, uint64(name[i]))
	}
	return key
}

// Leave removes a host that is not there any more.
func (t *Table) Leave(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.named[name]; h != nil && h.there {
		h.there = false
		t.remove(h)
		h.renew()
		t.keepOne()
	}
}

func (t *Table) remove(h *host) {
	is := func(x *host) bool { return x == h }
	t.trusted, t.waiting = slices.DeleteFunc(t.trusted, is), slices.DeleteFunc(t.waiting, is)
}

// trust makes a host own clients.
func (t *Table) trust(h *host) {
	t.remove(h)
	h.renew()
	h.copies = false
	h.since = t.now()
	t.trusted = append(t.trusted, h)
	slices.SortFunc(t.trusted, func(a, b *host) int { return strings.Compare(a.Host, b.Host) })
}

// doubt puts a host on probation, for twice as long as the last time unless that
// is long ago.
func (t *Table) doubt(h *host) {
	now := t.now()
	if !h.copies && now-h.since > 10*h.probation {
		h.strikes = 0
	}
	t.remove(h)
	h.renew()
	h.probation = firstProbation << h.strikes
	h.strikes = min(h.strikes+1, mostStrikes)
	h.copies = true
	h.since, h.measured, h.latency, h.weight = now, 0, 0, firstWeight
	t.waiting = append(t.waiting, h)
}

// keepOne trusts all hosts where otherwise none would own a client.
func (t *Table) keepOne() {
	if len(t.trusted) > 0 {
		return
	}
	for _, h := range slices.Clone(t.waiting) {
		t.trust(h)
	}
}

// Begin is called before the tasks that follow a wait for answers. It learns from
// the last batch if that has been answered in full.
func (t *Table) Begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range t.trusted {
		if h.open() > 0 {
			return // the batch goes on
		}
	}
	t.learn()
	t.review()
	for _, h := range t.trusted {
		h.sent, h.answered = 0, 0
	}
	t.started, t.next = t.now(), 0
}

// learn corrects the weights by how long each host took for its share.
func (t *Table) learn() {
	sum, n, longest := 0., 0, 0.
	for _, h := range t.trusted {
		if h.sent > 0 {
			took := h.took(t.started)
			sum, n, longest = sum+took, n+1, max(longest, took)
		}
	}
	if n == 0 {
		return
	}
	t.batch += time.Duration(smooth * (longest*float64(time.Second) - float64(t.batch)))
	if n < 2 {
		return
	}
	heaviest := 0.
	for _, h := range t.trusted {
		h.weight = math.Pow(h.weight, memory)
		if h.sent > 0 {
			h.weight *= math.Pow(min(max(sum/float64(n)/h.took(t.started), 0.5), 2), haste)
		}
		heaviest = max(heaviest, h.weight)
	}
	for _, h := range slices.Clone(t.trusted) {
		if h.weight /= heaviest; h.weight < leastWeight {
			t.doubt(h)
		}
	}
}

// took is how long the host took for its share of a batch, in seconds.
func (h *host) took(started time.Duration) float64 {
	return max((h.last - started).Seconds(), 1e-6)
}

// review trusts the hosts on probation that have done well.
func (t *Table) review() {
	now := t.now()
	for _, h := range slices.Clone(t.waiting) {
		switch waited := now - h.copied; {
		case h.open() > 0 && waited > lostAfter:
			h.renew()
			h.since = now
		case h.open() > 0 && waited > copyEvery:
			h.since = now // it stands still
		case h.open() > 0 || h.sent == 0:
		default:
			took := h.took(h.copied)
			if h.measured++; h.measured == 1 {
				h.latency = took
			}
			h.latency += smooth * (took - h.latency)
			h.sent, h.answered = 0, 0
			if h.measured >= copiesAnswered && now-h.since >= h.probation && h.latency <= slowest*t.batch.Seconds() {
				t.trust(h)
			}
		}
	}
}

// Place chooses the host that answers for a client, and perhaps another that gets
// a copy of its task. A target without a host is any: none is known.
func (t *Table) Place(client int) (owner, copied Target) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.trusted) == 0 {
		return Target{Token: t.first}, Target{}
	}
	h := t.owner(client)
	h.sent++
	for ; t.next < len(t.waiting); t.next++ {
		x := t.waiting[t.next]
		if now := t.now(); x.sent == 0 && now-x.copied >= copyEvery {
			x.copied = now
			x.sent++
			t.next++
			return h.Target, x.Target
		}
	}
	return h.Target, Target{}
}

// owner is the host with the largest u^(1/weight), u in [0, 1) being the hash of
// client and host: each owns a share in proportion to its weight. Weights are at
// most 1, so a host whose u is not the largest needs no power.
func (t *Table) owner(client int) *host {
	best, most := t.trusted[0], 0.
	if len(t.trusted) == 1 {
		return best
	}
	for _, h := range t.trusted {
		u := keyed.Float64(keyed.Nth(h.key, uint64(client)))
		if u <= most {
			continue
		}
		if h.weight != 1 {
			u = math.Pow(u, 1/h.weight)
		}
		if u > most {
			best, most = h, u
		}
	}
	return best
}

// Answered counts an answer by its token. It returns false for the answer to a
// copy, which another host answers, too, and to a task of another table.
func (t *Table) Answered(token uint64) (counts bool) {
	if !bus.SameNumbering(t.first, token) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if token == t.first || token%MostHosts >= uint64(len(t.slots)) {
		return true
	}
	h := t.slots[token%MostHosts]
	if h.Token != token {
		return true // late, but it may still be the first
	}
	if h.answered++; h.answered == h.sent {
		h.last = t.now()
	}
	return !h.copies
}

// Stalled is called when no answer has come for a while. It puts the hosts that
// have not answered all of their tasks on probation if others have, or else trusts
// those on probation, too. It reports whether it did so: then the tasks without an
// answer are to be sent again.
func (t *Table) Stalled() (again bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var late []*host
	for _, h := range t.trusted {
		if h.open() > 0 {
			late = append(late, h)
		}
	}
	switch {
	case len(late) == 0:
		return false
	case len(late) < len(t.trusted):
		for _, h := range late {
			t.doubt(h)
		}
		return true
	}
	for _, h := range slices.Clone(t.waiting) {
		if h.open() <= 0 {
			t.trust(h)
			again = true
		}
	}
	return again
}

// Forget is called when messages may have been lost: what is open is sent again.
func (t *Table) Forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range t.named {
		h.renew()
	}
	t.started = t.now()
}
