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
	// slowHostFactor is how many times as long as the quickest host another host may take. One that takes
	// longer, and by more than slowHostTolerance, rests.
	slowHostFactor = 4
	// slowHostTolerance is the excess over the quickest host for which no host has to rest.
	slowHostTolerance = time.Millisecond
	// healthyFactor is how many times the length of its last rest a host must have been without one for
	// its next rest to be firstRest again.
	healthyFactor = 10
)

// Target is the host for a task.
type Target struct {
	// Host is the name of the host, empty for any host.
	Host string
	// Verb is the verb of the task's subject, by which that host gets it; empty for any host.
	Verb string
	// Token is the number that the task carries and its plan repeats. It says whose answer the plan is.
	Token uint64
}

// Table is the hosts of a run, and decides which of them gets the next task. Its methods may be called
// concurrently.
type Table struct {
	verb func(host string) string
	// now returns the monotonic time since the table was made.
	now func() time.Duration
	// anyHostToken is the token of tasks that are for any host. All other tokens are higher.
	anyHostToken uint64

	mu    sync.Mutex
	hosts []*host
	// tokens holds the hosts by their present token.
	tokens map[uint64]*host
	// turns counts the turns, since the hosts get tasks in rotation.
	turns int
	// lastToken is the last token that was given to a host.
	lastToken uint64
	// batchStarted is when the present batch of tasks began.
	batchStarted time.Duration
}

// host is what the table knows of one host. It gets a new token, and counts its tasks from 0, when the tasks that it
// was sent are given up, because they are sent again to others.
type host struct {
	Target
	// batchSent counts the tasks that the host was sent in this batch with its present token.
	batchSent int
	// batchAnswered counts those of them that were answered.
	batchAnswered int
	// lastAnswer is when the last of them was answered.
	lastAnswer time.Duration

	// resting says that the host gets no tasks while others do.
	resting bool
	// restsUntil is when the host's rest ends.
	restsUntil time.Duration
	// restEnded is when the host's last rest ended.
	restEnded time.Duration
	// restTime is how long the host's last rest was.
	restTime time.Duration
}

// New makes a table without hosts. verb returns the verb of the subject of tasks for a host, and now the time by a
// monotonic clock. Tokens count up from a random number, so that a plan for an earlier coordinator of the run has
// none of this table's.
func New(verb func(host string) string, now func() time.Duration) *Table {
	first := bus.FirstNumber()
	return &Table{
		verb:         verb,
		now:          now,
		anyHostToken: first,
		lastToken:    first,
		tokens:       map[uint64]*host{},
	}
}

// open returns how many tasks of this batch the host has not answered.
func (h *host) open() int { return h.batchSent - h.batchAnswered }

// renewToken gives a host another token and forgets the tasks that were sent to it: answers that still arrive
// have the old token and are not counted for the host.
func (t *Table) renewToken(h *host) {
	delete(t.tokens, h.Token)
	t.lastToken++
	h.Token = t.lastToken
	h.batchSent = 0
	h.batchAnswered = 0
	t.tokens[h.Token] = h
}

// AddHost adds the host with this name, so that tasks are placed on it. A host that is in the table stays as it is.
func (t *Table) AddHost(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.find(name) < 0 {
		h := &host{Target: Target{Host: name, Verb: t.verb(name)}, restEnded: t.now()}
		t.renewToken(h)
		t.hosts = append(t.hosts, h)
	}
}

// RemoveHost removes the host with this name, which is not present any more. Plans with its token are not counted
// from now on.
func (t *Table) RemoveHost(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := t.find(name); i >= 0 {
		delete(t.tokens, t.hosts[i].Token)
		t.hosts = slices.Delete(t.hosts, i, i+1)
	}
}

// find returns the index of the host with this name, -1 if the table does not have it.
func (t *Table) find(name string) int {
	return slices.IndexFunc(t.hosts, func(h *host) bool { return h.Host == name })
}

// rest gives up the tasks that a host was sent, and gives it no others for a time while other hosts get some: for
// twice as long as its last rest, up to firstRest<<maxDoublings, or for firstRest if it had none for a while.
func (t *Table) rest(h *host) {
	now := t.now()
	if now-h.restEnded > healthyFactor*h.restTime {
		h.restTime = 0
	}
	h.restTime = min(max(2*h.restTime, firstRest), firstRest<<maxDoublings)
	t.renewToken(h)
	h.resting = true
	h.restsUntil = now + h.restTime
}

// BeginBatch is called before the first task that follows a wait for plans. If the last batch was answered in full, a
// new batch begins: hosts that were much slower than the quickest rest from now on, and those that have rested get
// tasks again. A host's time is that from the start of the batch to its last answer. If some tasks are not answered
// yet, the batch goes on.
func (t *Table) BeginBatch() {
	t.mu.Lock()
	defer t.mu.Unlock()
	// The division keeps the limit below from overflowing if no host had a task.
	quickest := time.Duration(math.MaxInt64 / slowHostFactor)
	for _, h := range t.hosts {
		switch {
		case h.resting:
		case h.open() > 0:
			// Some tasks are not answered yet, so the batch continues.
			return
		case h.batchSent > 0:
			quickest = min(quickest, h.lastAnswer-t.batchStarted)
		}
	}
	now := t.now()
	limit := max(slowHostFactor*quickest, quickest+slowHostTolerance)
	for _, h := range t.hosts {
		tooSlow := h.batchSent > 0 && h.lastAnswer-t.batchStarted > limit
		switch {
		case h.resting && now >= h.restsUntil:
			h.resting = false
			h.restEnded = now
		case !h.resting && tooSlow:
			t.rest(h)
		}
		h.batchSent = 0
		h.batchAnswered = 0
	}
	t.batchStarted = now
}

// Place chooses the host for the next task: the hosts take turns, those that rest only if all do. It
// returns a target without a host where none is known.
func (t *Table) Place() Target {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.hosts) == 0 {
		return Target{Token: t.anyHostToken}
	}
	for range t.hosts {
		t.turns++
		if !t.turn().resting {
			break
		}
	}
	h := t.turn()
	h.batchSent++
	return h.Target
}

// turn returns the host whose turn it is.
func (t *Table) turn() *host { return t.hosts[t.turns%len(t.hosts)] }

// CountAnswer counts a plan for the host whose present token it has. counts is false for the answer to a task of
// another table, which the coordinator must not take. It is true for a late answer, whose host has another token by
// now or is gone: it may still be the first answer to its task.
func (t *Table) CountAnswer(token uint64) (counts bool) {
	if !bus.SameNumbering(t.anyHostToken, token) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.tokens[token]
	if h == nil {
		return true
	}
	h.batchAnswered++
	if h.batchAnswered == h.batchSent {
		h.lastAnswer = t.now()
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
			t.rest(h)
		}
		return true
	}
	for _, h := range resting {
		h.resting = false
		h.restEnded = t.now()
	}
	return len(resting) > 0
}

// Reset is called when messages may have been lost and all open tasks are sent again. It gives each host a new token
// and begins a new batch, so that answers to the lost tasks are not counted for a host.
func (t *Table) Reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range t.hosts {
		t.renewToken(h)
	}
	t.batchStarted = t.now()
}
