package metrics

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"fedpace/coordinator/round"
	"fedpace/internal/keyed"
)

// maxDevices bounds the tasks of real devices that are kept of a round; more are counted in
// Round.Ended alone.
const maxDevices = 1 << 12

// Task is a task that is kept.
type Task struct {
	round.TaskReport
	Name  string // of a simulated client in the data; "": it has a number alone
	Class int    // of a simulated client's device
	Real  bool   // a real device's
	Slow  bool   // among its round's slowest
}

// maxName bounds the name of a client, in bytes: a log has many.
const maxName = 64

// collector keeps the tasks of the open round that outputs see: the slowest, all of real devices,
// and a sample of the others. A task that is not kept costs a few nanoseconds; those that are kept
// are sorted when the round closes. Memory grows with neither clients nor rounds. The sample holds
// the tasks of the clients with the smallest keyed hashes, so the same clients are met again from
// round to round, and in a run that is repeated.
type collector struct {
	run     *Run
	key     uint64
	slowest top
	sample  top
	devices []round.TaskReport
	ended   int
	round   Round
}

func newCollector(run *Run) *collector {
	return &collector{
		run:     run,
		key:     keyed.Hash(run.Seed, keyed.Timeline),
		slowest: top{limit: run.Slowest},
		sample:  top{limit: run.Sample},
	}
}

// task takes a task that is complete; e is copied if it is kept.
func (c *collector) task(e *round.TaskReport) {
	if e.Revises {
		for _, held := range [][]ranked{c.slowest.held, c.sample.held} {
			if i := slices.IndexFunc(held, func(o ranked) bool { return o.Task == e.Task }); i >= 0 {
				held[i].Outcome = e.Outcome
			}
		}
		return
	}
	c.ended++
	if c.run.Real(e.Client) {
		if len(c.devices) < maxDevices {
			c.devices = append(c.devices, *e)
		}
		return
	}
	// Of those cut at the same deadline the one that had most to do is slower.
	slow := rank{uint64(e.End - e.Start), uint64(e.Plan.Total()), math.MaxUint64 - e.Task}
	if c.slowest.wants(&slow) {
		c.slowest.put(slow, e)
	}
	drawn := rank{math.MaxUint64 - c.hash(e.Client), math.MaxUint64 - e.Task, 0}
	if c.sample.wants(&drawn) {
		c.sample.put(drawn, e)
	}
}

// hash is what the sample is drawn by.
func (c *collector) hash(client int) uint64 { return keyed.Nth(c.key, uint64(client)) }

// report closes the round and returns what was kept of it. The result's memory
// is reused by the next call.
func (c *collector) report(r *round.Report) *Round {
	c.round = Round{Report: *r, Ended: c.ended, Tasks: c.open(c.round.Tasks[:0])}
	c.slowest.held, c.sample.held = c.slowest.held[:0], c.sample.held[:0]
	c.devices = c.devices[:0]
	c.ended = 0
	return &c.round
}

// restore takes the tasks that another collector had open: the highest of what it
// kept are the highest of all.
func (c *collector) restore(tasks []Task, ended int) {
	for i := range tasks {
		c.task(&tasks[i].TaskReport)
	}
	c.ended = ended
}

// open appends the tasks that are kept of the round so far, by start, then number.
func (c *collector) open(list []Task) []Task {
	add := func(e *round.TaskReport, real, slow bool) {
		t := Task{TaskReport: *e, Real: real, Slow: slow}
		if f := c.run.Class; f != nil && !real {
			t.Class = f(e.Client)
		}
		if f := c.run.Client; f != nil && !real {
			t.Name = f(e.Client)
			t.Name = strings.ToValidUTF8(t.Name[:min(len(t.Name), maxName)], "")
		}
		list = append(list, t)
	}
	for i := range c.devices {
		add(&c.devices[i], true, false)
	}
	for i := range c.slowest.held {
		add(&c.slowest.held[i].TaskReport, false, true)
	}
	for i := range c.sample.held {
		add(&c.sample.held[i].TaskReport, false, false)
	}
	// A task that is among the slowest may be drawn, too: it is slow first.
	slices.SortStableFunc(list, func(a, b Task) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.TaskReport.Task, b.TaskReport.Task))
	})
	return slices.CompactFunc(list, func(a, b Task) bool { return a.TaskReport.Task == b.TaskReport.Task })
}

// rank orders tasks: the first number decides, then the next.
type rank [3]uint64

func (r *rank) above(o *rank) bool { return slices.Compare(r[:], o[:]) > 0 }

// top holds the limit highest of the tasks that it is offered. Those that do not get in, nearly all
// of a large round, cost one comparison.
type top struct {
	limit int
	held  []ranked // lowest rank first
}

type ranked struct {
	rank rank
	round.TaskReport
}

// wants says whether a task of that rank gets in.
func (t *top) wants(r *rank) bool {
	return len(t.held) < t.limit || t.limit > 0 && r.above(&t.held[0].rank)
}

// put takes in a task that wants has let pass.
func (t *top) put(r rank, e *round.TaskReport) {
	if len(t.held) < t.limit {
		t.held = append(t.held, ranked{})
	} else {
		copy(t.held, t.held[1:])
	}
	place := len(t.held) - 1
	for ; place > 0 && t.held[place-1].rank.above(&r); place-- {
		t.held[place] = t.held[place-1]
	}
	t.held[place] = ranked{r, *e}
}
