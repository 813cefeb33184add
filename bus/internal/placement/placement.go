package placement

import (
	"math"
	"slices"
	"sync"
	"time"

	"fedpace/bus"
)

const (
	// firstRest is how long a host rests the first time.
	firstRest = 250 * time.Millisecond
	// maxDoublings is how often that time is doubled at most.
	maxDoublings = 8
	// slowest: a host rests if it takes at least this many times as long as the quickest host, and
	// exceeds it by at least tolerated.
	slowest = 4
	// tolerated is the excess over the quickest host for which no host has to rest.
	tolerated = time.Millisecond
	// wellEnough: a host without a rest for this many of its last rests begins with firstRest
	// again.
	wellEnough = 10
)

// Target is the host that a task goes to, by the verb of its subject, and a token that the plan
// repeats. The zero value of Host is any host.
type Target struct {
	Host  string
	Verb  string
	Token uint64
}

// Table is the hosts of a run and who of them gets the next task. Its methods may be called
// concurrently.
type Table struct {
	verb func(host string) string
	// now returns the monotonic time since the table was made.
	now func() time.Duration
	// first is the token of tasks that are for any host. All other tokens are higher.
	first uint64

	mu    sync.Mutex
	hosts []*host
	// tokens holds the hosts by their present token.
	tokens map[uint64]*host
	// next counts turns, since the hosts get tasks in rotation.
	next int
	// last is the last token that was given to a host.
	last uint64
	// started is when the present batch of tasks began.
	started time.Duration
}

// host is what the table knows of one host. Its token changes whenever what it was sent is given up.
type host struct {
	Target
	// sent counts the tasks with the present token, in this batch.
	sent int
	// answered counts those of them that were answered.
	answered int
	// done is when the last of them was answered.
	done time.Duration

	// resting says that the host gets no tasks while others do.
	resting bool
	// until is when the host's rest ends.
	until time.Duration
	// since is when the host's last rest ended.
	since time.Duration
	// restTime is how long the host's last rest was.
	restTime time.Duration
}

// New makes a table without hosts. verb gives the verb of the tasks of a host; now is a monotonic
// clock.
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

// open is how many tasks the host has not answered.
func (h *host) open() int { return h.sent - h.answered }

// renew gives a host another token and forgets what it was sent: answers that still arrive are not
// counted for it.
func (t *Table) renew(h *host) {
	delete(t.tokens, h.Token)
	t.last++
	h.Token = t.last
	h.sent = 0
	h.answered = 0
	t.tokens[h.Token] = h
}

// Join adds the host with this name, so that tasks are placed on it. A host that is in the table
// stays as it is.
func (t *Table) Join(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.find(name) < 0 {
		h := &host{Target: Target{Host: name, Verb: t.verb(name)}, since: t.now()}
		t.renew(h)
		t.hosts = append(t.hosts, h)
	}
}

// Leave removes the host with this name, which is not present any more. Plans with its token no
// longer count as answers.
func (t *Table) Leave(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := t.find(name); i >= 0 {
		delete(t.tokens, t.hosts[i].Token)
		t.hosts = slices.Delete(t.hosts, i, i+1)
	}
}

// find is the index of a host; -1 if the table does not have it.
func (t *Table) find(name string) int {
	return slices.IndexFunc(t.hosts, func(h *host) bool { return h.Host == name })
}

// passOver makes a host rest: for twice as long as the last time, or, if that was long ago, for
// firstRest.
func (t *Table) passOver(h *host) {
	now := t.now()
	if now-h.since > wellEnough*h.restTime {
		h.restTime = 0
	}
	h.restTime = min(max(2*h.restTime, firstRest), firstRest<<maxDoublings)
	t.renew(h)
	h.resting = true
	h.until = now + h.restTime
}

// Begin is called before the first task that follows a wait for plans. If the last batch was answered
// in full, a new batch begins: hosts that were much slower than the quickest rest from now on, and
// those that have rested get tasks again.
func (t *Table) Begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	quickest := time.Duration(math.MaxInt64 / slowest)
	for _, h := range t.hosts {
		switch {
		case h.resting:
		case h.open() > 0:
			// Some tasks are not answered yet, so the batch continues.
			return
		case h.sent > 0:
			quickest = min(quickest, h.done-t.started)
		}
	}
	now := t.now()
	limit := max(slowest*quickest, quickest+tolerated)
	for _, h := range t.hosts {
		tooSlow := h.sent > 0 && h.done-t.started > limit
		switch {
		case h.resting && now >= h.until:
			h.resting = false
			h.since = now
		case !h.resting && tooSlow:
			t.passOver(h)
		}
		h.sent = 0
		h.answered = 0
	}
	t.started = now
}

// Place chooses the host for the next task: the hosts take turns, those that rest only if all do. It
// returns a target without a host where none is known.
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

// turn is the host whose turn it is.
func (t *Table) turn() *host { return t.hosts[t.next%len(t.hosts)] }

// Answered counts a plan by its token. It returns false for the answer to a task of another table, which
// must not count. A late answer counts, although its host was given another token: it may still be the
// first answer to its task.
func (t *Table) Answered(token uint64) (counts bool) {
	if !bus.SameNumbering(t.first, token) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.tokens[token]
	if h == nil {
		return true
	}
	h.answered++
	if h.answered == h.sent {
		h.done = t.now()
	}
	return true
}

// Stalled is called when no plan has arrived for a while. If some hosts have not answered all their tasks
// and others have, the late ones rest. If all hosts that do not rest are late, those that rest get tasks
// again. It returns true in either case: the open tasks are then to be sent again, to other hosts.
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
	// Some hosts have answered all their tasks, so the late ones hold the run up.
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

// Reset is called when messages may have been lost. It forgets what the hosts were sent, since all open
// tasks are sent again.
func (t *Table) Reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range t.hosts {
		t.renew(h)
	}
	t.started = t.now()
}
