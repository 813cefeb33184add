package metrics

import (
	"cmp"
	"math"
	"slices"

	"fedpace/coordinator/round"
	"fedpace/internal/keyed"
)

// maxDevices bounds the tasks of real devices that are kept of a round. Those beyond it are only counted,
// in Round.Ended.
const maxDevices = 1 << 12

// Task is a task that outputs see.
type Task struct {
	round.TaskReport
	// Name is the name of a simulated client in its data set; empty: the client has only a number.
	Name string
	// Class is the class of a simulated client's device, as an index of Run.Classes.
	Class int
	// Real says that the task was done by a real device.
	Real bool
	// Slow says that the task is among the slowest of its round.
	Slow bool
}

// collector keeps those tasks of the open round that outputs see: the slowest, all of real devices, and
// a sample of the others. A task that is not kept costs a few nanoseconds; those that are kept
// are sorted when the round closes. Its memory grows with neither clients nor rounds. The sample holds
// the tasks of the clients with the smallest keyed hashes, so the same clients appear again from
// round to round, and when the run is repeated.
type collector struct {
	run *Run
	// key is the key of the hash by which the sample is drawn. It depends on the run's seed alone.
	key     uint64
	slowest top
	sample  top
	devices []round.TaskReport
	// ended counts the tasks of the open round that have ended so far, kept or not.
	ended int
	// round is the last closed round, whose memory the next one reuses, as it does that of entries.
	round   Round
	entries []entry
}

// newCollector makes a collector of a run that has no task yet. It will keep the run.Slowest
// slowest tasks of each round and a random sample of run.Sample tasks.
func newCollector(run *Run) *collector {
	return &collector{
		run:     run,
		key:     keyed.Hash(run.Seed, keyed.Timeline),
		slowest: top{limit: run.Slowest},
		sample:  top{limit: run.Sample},
	}
}

// task takes the report of a task that has ended, and keeps a copy if the task is among the slowest or in
// the sample, or of a real device. A report that revises an earlier one only changes that task's outcome.
func (c *collector) task(e *round.TaskReport) {
	if e.Revises {
		c.slowest.revise(e)
		c.sample.revise(e)
		c.reviseDevice(e)
		return
	}
	c.ended++
	// All tasks of real devices are kept, up to the limit, and none of them takes part in the
	// ranks.
	if c.run.Real(e.Client) {
		if len(c.devices) < maxDevices {
			c.devices = append(c.devices, *e)
		}
		return
	}
	// Ranks are compared number by number. Of tasks that were cut at the same deadline, the one with the
	// longer plan counts as slower, and of equal ones that with the smaller number.
	bySlowness := rank{uint64(e.End - e.Start), uint64(e.Plan.Total()), math.MaxUint64 - e.Task}
	if c.slowest.wants(&bySlowness) {
		c.slowest.put(bySlowness, e)
	}
	// The sample has the clients with the smallest hashes, and of one client's tasks the earliest.
	byHash := rank{math.MaxUint64 - c.hash(e.Client), math.MaxUint64 - e.Task, 0}
	if c.sample.wants(&byHash) {
		c.sample.put(byHash, e)
	}
}

// reviseDevice replaces the outcome of a real device's task by that in the newer report of it, if the task is among
// those kept.
func (c *collector) reviseDevice(newer *round.TaskReport) {
	i := slices.IndexFunc(c.devices, func(kept round.TaskReport) bool { return kept.Task == newer.Task })
	if i >= 0 {
		c.devices[i].Outcome = newer.Outcome
	}
}

// hash is the keyed hash of a client; the sample has the clients with the smallest ones.
func (c *collector) hash(client int) uint64 { return keyed.Nth(c.key, uint64(client)) }

// report closes the round and returns it with the kept tasks. The next call reuses the result's memory.
func (c *collector) report(r *round.Report) *Round {
	c.round = Round{Report: *r, Ended: c.ended, Tasks: c.keptTasks(c.round.Tasks[:0])}
	// The kept tasks are forgotten, and the memory of the lists is reused.
	c.slowest.clear()
	c.sample.clear()
	c.devices = c.devices[:0]
	c.ended = 0
	return &c.round
}

// restore takes the tasks that the collector of an earlier attempt had kept of the open round, and how many had ended.
// It chooses the slowest and the sample among the kept tasks as task does among all. The result is the same, because
// those that it would choose among all were kept.
func (c *collector) restore(tasks []Task, ended int) {
	for i := range tasks {
		c.task(&tasks[i].TaskReport)
	}
	c.ended = ended
}

// keepReason is why a task was kept. The smaller one counts for a task that was kept for two.
type keepReason uint8

const (
	// isReal is a task of a real device.
	isReal keepReason = iota
	// isSlow is one of the slowest tasks of its round.
	isSlow
	// isSampled is a task of the sample.
	isSampled
)

// entry is a kept task in the order in which outputs see tasks.
type entry struct {
	start  int64
	task   uint64
	report *round.TaskReport
	reason keepReason
}

// entryOf returns the entry of a task that was kept for a reason.
func entryOf(e *round.TaskReport, reason keepReason) entry {
	return entry{
		start:  int64(e.Start),
		task:   e.Task,
		report: e,
		reason: reason,
	}
}

// compareEntries orders entries by start and then by number. A task may be both among the slowest and in the sample:
// of its two entries the slow one comes first.
func compareEntries(a, b entry) int {
	if a.start != b.start {
		return cmp.Compare(a.start, b.start)
	}
	if a.task != b.task {
		return cmp.Compare(a.task, b.task)
	}
	return cmp.Compare(a.reason, b.reason)
}

// keptTasks appends the kept tasks of the open round to list, by start and then by number, each once: those of real
// devices, the slowest and the sample. It sorts entries, which are much smaller than tasks.
func (c *collector) keptTasks(list []Task) []Task {
	c.entries = c.entries[:0]
	for i := range c.devices {
		c.entries = append(c.entries, entryOf(&c.devices[i], isReal))
	}
	for i := range c.slowest.held {
		c.entries = append(c.entries, entryOf(&c.slowest.held[i].TaskReport, isSlow))
	}
	for i := range c.sample.held {
		c.entries = append(c.entries, entryOf(&c.sample.held[i].TaskReport, isSampled))
	}
	slices.SortFunc(c.entries, compareEntries)
	list = slices.Grow(list, len(c.entries))
	for i, e := range c.entries {
		// A simulated client's task that is both slow and sampled has two entries, the slow one first. The second is
		// left out.
		if i > 0 && c.entries[i-1].task == e.task {
			continue
		}
		t := Task{TaskReport: *e.report, Real: e.reason == isReal, Slow: e.reason == isSlow}
		if classOf := c.run.Class; classOf != nil && !t.Real {
			t.Class = classOf(t.Client)
		}
		if !t.Real {
			t.Name = c.run.ClientName(t.Client)
		}
		list = append(list, t)
	}
	return list
}

// rank orders tasks: the first number that differs decides.
type rank [3]uint64

// above reports whether r is higher than o.
func (r *rank) above(o *rank) bool { return slices.Compare(r[:], o[:]) > 0 }

// top keeps the highest ranked of the tasks that it is offered, at most limit. A task that is not kept,
// as nearly all of a large round, costs one comparison; one that is kept costs at most log2(limit) moves.
type top struct {
	limit int
	// held contains the kept tasks, in the order in which they came unless it is a heap.
	held []ranked
	// heap says that held is a binary heap: the task at index i ranks below those at 2i+1 and 2i+2, so the
	// lowest one is first. It is made when a task comes that there is no room for.
	heap bool
}

// ranked is a task with its rank.
type ranked struct {
	rank rank
	round.TaskReport
}

// wants reports whether a task of rank r would be kept. put may be called only after it: once the list is full, wants
// turns it into a heap, which put relies on.
func (t *top) wants(r *rank) bool {
	if t.limit == 0 {
		return false
	}
	if len(t.held) < t.limit {
		return true
	}
	// The full list becomes a heap, in which the lowest ranked task comes first.
	if !t.heap {
		for i := t.limit/2 - 1; i >= 0; i-- {
			t.siftDown(i)
		}
		t.heap = true
	}
	return r.above(&t.held[0].rank)
}

// put keeps a task for which wants has returned true. If the list is full, the lowest ranked task leaves it.
func (t *top) put(r rank, e *round.TaskReport) {
	if len(t.held) < t.limit {
		t.held = append(t.held, ranked{r, *e})
		return
	}
	// The list is a heap since wants has found it full, so its first task is the lowest ranked.
	t.held[0] = ranked{r, *e}
	t.siftDown(0)
}

// clear forgets all tasks, and reuses their memory.
func (t *top) clear() {
	t.held = t.held[:0]
	t.heap = false
}

// siftDown moves the task at index i down in the heap until no task below it ranks lower. The tasks below i must
// form heaps already.
func (t *top) siftDown(i int) {
	for {
		lowest := 2*i + 1
		if lowest >= len(t.held) {
			return
		}
		right := lowest + 1
		if right < len(t.held) && t.held[lowest].rank.above(&t.held[right].rank) {
			lowest = right
		}
		if !t.held[i].rank.above(&t.held[lowest].rank) {
			return
		}
		t.held[i], t.held[lowest] = t.held[lowest], t.held[i]
		i = lowest
	}
}

// revise replaces the outcome of a task by that in the newer report of it, if the task is among those kept.
func (t *top) revise(newer *round.TaskReport) {
	i := slices.IndexFunc(t.held, func(kept ranked) bool { return kept.Task == newer.Task })
	if i >= 0 {
		t.held[i].Outcome = newer.Outcome
	}
}
