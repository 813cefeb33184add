package timeline

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"fedpace/coordinator/round"
	"fedpace/internal/keyed"
)

// Limits of what is kept of a round.
const (
	MaxSlowest = 1 << 10
	MaxSample  = 1 << 16
	MaxDevices = 1 << 12 // tasks of real devices; more are counted in Record.Ended alone
)

// Config says what is kept.
type Config struct {
	Seed    uint64
	Slowest int // tasks a round that took longest
	Sample  int // tasks a round of the other clients
	// Real says whether a client is a real device; nil: none is.
	Real func(client int) bool
	// Class is the number of a simulated client's device class; nil: all have 0.
	Class func(client int) int
}

// Task is a task that is kept.
type Task struct {
	round.Ended
	Class int  // of a simulated client's device
	Real  bool // a real device's
	Slow  bool // among its round's slowest
}

// Record is a round with the tasks that are kept of it.
type Record struct {
	round.Report
	Ended int    // tasks that ended in it, probes included, kept or not
	Tasks []Task // by start, then number
}

// Collector keeps the tasks of the round that is open. It belongs to the run's goroutine.
type Collector struct {
	config  Config
	key     uint64
	slowest top
	sample  top
	devices []round.Ended
	ended   int
	round   Record
	places  []place // reused from round to round
}

// New makes a collector.
func New(c Config) (*Collector, error) {
	switch {
	case c.Slowest < 0 || c.Slowest > MaxSlowest:
		return nil, fmt.Errorf("timeline: the slowest %d tasks of a round, want 0 to %d", c.Slowest, MaxSlowest)
	case c.Sample < 0 || c.Sample > MaxSample:
		return nil, fmt.Errorf("timeline: a sample of %d tasks a round, want 0 to %d", c.Sample, MaxSample)
	}
	return &Collector{
		config: c, key: keyed.Hash(c.Seed, keyed.Timeline),
		slowest: top{limit: c.Slowest}, sample: top{limit: c.Sample},
	}, nil
}

// Task takes a task that is complete; e is copied if it is kept.
func (c *Collector) Task(e *round.Ended) {
	c.ended++
	if c.config.Real != nil && c.config.Real(e.Client) {
		if len(c.devices) < MaxDevices {
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
func (c *Collector) hash(client int) uint64 { return keyed.Nth(c.key, uint64(client)) }

// Report closes the round and returns what was kept of it. The result's memory
// is reused by the next call.
func (c *Collector) Report(r *round.Report) *Record {
	c.round = Record{Report: *r, Ended: c.ended, Tasks: c.Open(c.round.Tasks[:0])}
	c.slowest.reset()
	c.sample.reset()
	c.devices, c.ended = c.devices[:0], 0
	return &c.round
}

// Open is the part of a round that has not closed, as a checkpoint keeps it.
type Open struct {
	Tasks []round.Ended // that are kept so far
	Ended int           // that have ended, kept or not
}

// Save is the round that is open.
func (c *Collector) Save() Open {
	o := Open{Ended: c.ended}
	for _, t := range c.Open(nil) {
		o.Tasks = append(o.Tasks, t.Ended)
	}
	return o
}

// Restore puts a new collector where one was saved: the highest of what was
// kept are the highest of all.
func (c *Collector) Restore(o Open) {
	for i := range o.Tasks {
		c.Task(&o.Tasks[i])
	}
	c.ended = o.Ended
}

// Open appends the tasks that are kept of the round so far, by start, then number.
func (c *Collector) Open(list []Task) []Task {
	c.places = c.places[:0]
	for i := range c.devices {
		c.places = append(c.places, place{e: &c.devices[i], real: true})
	}
	for i := range c.slowest.held {
		c.places = append(c.places, place{e: &c.slowest.held[i], slow: true})
	}
	for i := range c.sample.held {
		c.places = append(c.places, place{e: &c.sample.held[i]})
	}
	// A task that is among the slowest may be drawn, too: it is slow first.
	slices.SortStableFunc(c.places, func(a, b place) int {
		if a.e.Start != b.e.Start {
			return cmp.Compare(a.e.Start, b.e.Start)
		}
		return cmp.Compare(a.e.Task, b.e.Task)
	})
	last := uint64(0)
	for _, p := range c.places {
		if p.e.Task == last {
			continue
		}
		last = p.e.Task
		list = append(list, Task{Ended: *p.e, Real: p.real, Slow: p.slow})
		if f := c.config.Class; f != nil && !p.real {
			list[len(list)-1].Class = f(p.e.Client)
		}
	}
	return list
}

// place is a task that is kept, where it is.
type place struct {
	e          *round.Ended
	real, slow bool
}
