package placement

import (
	"math"
	"slices"
	"sync"
	"time"

	"fedpace/bus"
)

const (
	firstRest  = 250 * time.Millisecond
	mostRests  = 8                // doublings of a rest
	slowest    = 4                // times as long as the quickest, which a host may take for its share
	unnoticed  = time.Millisecond // and what it may take longer whatever the others do
	wellEnough = 10               // times its last rest, after which a host that did well begins anew
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
	hosts   []*host
	tokens  map[uint64]*host
	next    int           // whose turn it is
	last    uint64        // token
	started time.Duration // of the batch
}

// host is what the table knows of one.
type host struct {
	Target                       // with the token of its present tasks
	sent, answered int           // tasks of that token
	done           time.Duration // when nothing was left to answer

	resting  bool
	until    time.Duration // it rests until then
	since    time.Duration // it has not rested since
	restTime time.Duration // the last one
}

// New makes an empty table. verb gives the verb of a host's tasks.
func New(verb func(host string) string, now func() time.Duration) *Table {
	first := bus.FirstNumber()
	return &Table{
		verb:   verb,
		now:    now,
		first:  first,
		last:   first,
		tokens: map[uint64]*host{},
	}
}

// open is the number of tasks that the host has not answered.
func (h *host) open() int { return h.sent - h.answered }

// renew forgets what the host was sent: its late answers are not counted.
func (t *Table) renew(h *host) {
	delete(t.tokens, h.Token)
	t.last++
	h.Token = t.last
	h.sent = 0
	h.answered = 0
	t.tokens[h.Token] = h
}

// Join adds a host, unless it is there.
func (t *Table) Join(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.find(name) < 0 {
		h := &host{Target: Target{Host: name, Verb: t.verb(name)}, since: t.now()}
		t.renew(h)
		t.hosts = append(t.hosts, h)
	}
}

// Leave removes a host that is not there any more.
func (t *Table) Leave(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := t.find(name); i >= 0 {
		delete(t.tokens, t.hosts[i].Token)
		t.hosts = slices.Delete(t.hosts, i, i+1)
	}
}

func (t *Table) find(name string) int {
	return slices.IndexFunc(t.hosts, func(h *host) bool { return h.Host == name })
}

// passOver has a host rest, for twice as long as the last time unless that is long ago.
func (t *Table) passOver(h *host) {
	now := t.now()
	if now-h.since > wellEnough*h.restTime {
		h.restTime = 0
	}
	h.restTime = min(max(2*h.restTime, firstRest), firstRest<<mostRests)
	t.renew(h)
	h.resting = true
	h.until = now + h.restTime
}

// Begin is called before the tasks that follow a wait for answers. Where the last batch
// has been answered in full it passes over the hosts that were slow, and asks those again
// that have rested.
func (t *Table) Begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	quickest := time.Duration(math.MaxInt64 / slowest)
	for _, h := range t.hosts {
		switch {
		case h.resting:
		case h.open() > 0:
			return // the batch goes on
		case h.sent > 0:
			quickest = min(quickest, h.done-t.started)
		}
	}
	now := t.now()
	for _, h := range t.hosts {
		switch {
		case h.resting && now >= h.until:
			h.resting = false
			h.since = now
		case !h.resting && h.sent > 0 && h.done-t.started > max(slowest*quickest, quickest+unnoticed):
			t.passOver(h)
		}
		h.sent = 0
		h.answered = 0
	}
	t.started = now
}

// Place chooses the host that answers next: one after the other, of those that do not
// rest if there are such. A target without a host is any: none is known.
func (t *Table) Place() Target {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.hosts) == 0 {
		return Target{Token: t.first}
	}
	for range t.hosts {
		t.next++
		if !t.turn().resting {
			break
		}
	}
	h := t.turn()
	h.sent++
	return h.Target
}

func (t *Table) turn() *host { return t.hosts[t.next%len(t.hosts)] }

// Answered counts an answer by its token. It returns false for the answer to a task of
// another table.
func (t *Table) Answered(token uint64) (counts bool) {
	if !bus.SameNumbering(t.first, token) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.tokens[token]; h != nil { // else it is late, but it may still be the first
		h.answered++
		if h.answered == h.sent {
			h.done = t.now()
		}
	}
	return true
}

// Stalled is called when no answer has come for a while. It passes over the hosts that
// have not answered all of their tasks if others have, or else asks those again that
// rest. It reports whether it did so: then the tasks without an answer are to be sent
// again.
func (t *Table) Stalled() (resend bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var late, resting []*host
	for _, h := range t.hosts {
		switch {
		case h.open() > 0:
			late = append(late, h)
		case h.resting:
			resting = append(resting, h)
		}
	}
	if len(late) == 0 {
		return false
	}
	if len(late)+len(resting) < len(t.hosts) {
		for _, h := range late {
			t.passOver(h)
		}
		return true
	}
	for _, h := range resting {
		h.resting, h.since = false, t.now()
	}
	return len(resting) > 0
}

// Reset is called when messages may have been lost: what is open is sent again.
func (t *Table) Reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range t.hosts {
		t.renew(h)
	}
	t.started = t.now()
}
