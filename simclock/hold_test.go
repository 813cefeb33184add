package simclock

import (
	stdheap "container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// valueHeap is the usual Go event queue, what a Clock is measured against:
// container/heap over a slice of event values.
type valueHeap []Event

func (h valueHeap) Len() int { return len(h) }
func (h valueHeap) Less(i, j int) bool {
	e, f := &h[i], &h[j]
	if e.At != f.At {
		return e.At < f.At
	}
	if e.Priority != f.Priority {
		return e.Priority < f.Priority
	}
	return e.Seq < f.Seq
}
func (h valueHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *valueHeap) Push(x any)   { *h = append(*h, x.(Event)) }
func (h *valueHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}

// exponential is a table of waiting times with mean one second.
var exponential = func() []Time {
	r := rand.New(rand.NewPCG(1, 2))
	t := make([]Time, 1<<16)
	for i := range t {
		t[i] = Time(r.ExpFloat64() * 1e9)
	}
	return t
}()

func wait(i uint64) Time { return exponential[i%uint64(len(exponential))] }

type holdClock struct {
	c   *Clock
	seq uint64
}

func newHoldClock(n int) *holdClock {
	h := &holdClock{c: New()}
	for range n {
		h.c.Schedule(Event{At: wait(h.seq), Seq: h.seq})
		h.seq++
	}
	return h
}

func (h *holdClock) run(ops int) {
	for range ops {
		e, _ := h.c.Pop()
		h.c.Schedule(Event{At: e.At + wait(h.seq), Seq: h.seq})
		h.seq++
	}
}

type holdHeap struct {
	h   valueHeap
	seq uint64
}

func newHoldHeap(n int) *holdHeap {
	h := &holdHeap{}
	for range n {
		stdheap.Push(&h.h, Event{At: wait(h.seq), Seq: h.seq})
		h.seq++
	}
	return h
}

func (h *holdHeap) run(ops int) {
	for range ops {
		e := stdheap.Pop(&h.h).(Event)
		stdheap.Push(&h.h, Event{At: e.At + wait(h.seq), Seq: h.seq})
		h.seq++
	}
}

// BenchmarkHold is the hold model (pop one, schedule one, exponential waiting
// times) on a steady number of pending events. One operation is one hold of a
// Clock, with cancelling and fingerprint on; beside it container/heap does the
// same in turns of the same length, and the ratio of their rates is reported.
func BenchmarkHold(b *testing.B) {
	for _, n := range []int{10, 1_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			ours, theirs := newHoldClock(n), newHoldHeap(n)
			ours.run(2 * n) // past the start, into the steady state
			theirs.run(2 * n)
			var us, them time.Duration
			b.ResetTimer()
			for left := b.N; left > 0; {
				turn := min(left, 50_000)
				left -= turn
				t0 := time.Now()
				ours.run(turn)
				t1 := time.Now()
				us += t1.Sub(t0)
				b.StopTimer()
				t2 := time.Now()
				theirs.run(turn)
				them += time.Since(t2)
				b.StartTimer()
			}
			b.ReportMetric(float64(them)/float64(b.N), "heap-ns/op")
			b.ReportMetric(float64(them)/float64(us), "ratio")
			if next, _ := ours.c.Peek(); next != theirs.h[0] {
				b.Fatal("the two queues have lived different histories")
			}
		})
	}
}
