package simclock

import (
	stdheap "container/heap"
	"math/rand/v2"
	"testing"
	"time"
)

// anyQueue is what workloads run on: a Clock, or container/heap beside it.
type anyQueue interface {
	schedule(Event)
	pop() (Event, bool)
	peek() (Event, bool)
	cancel(Event)
}

type clockQueue struct{ *Clock }

func (q clockQueue) schedule(e Event)    { q.Schedule(e) }
func (q clockQueue) pop() (Event, bool)  { return q.Pop() }
func (q clockQueue) peek() (Event, bool) { return q.Peek() }
func (q clockQueue) cancel(e Event)      { q.Cancel(e.Seq) }

// heapQueue cancels by a mark that pop heeds.
type heapQueue struct {
	h         valueHeap
	cancelled map[uint64]bool
}

func (q *heapQueue) schedule(e Event) { stdheap.Push(&q.h, e) }
func (q *heapQueue) cancel(e Event)   { q.cancelled[e.Seq] = true }
func (q *heapQueue) pop() (Event, bool) {
	for len(q.h) > 0 {
		if e := stdheap.Pop(&q.h).(Event); !q.cancelled[e.Seq] {
			return e, true
		}
	}
	return Event{}, false
}
func (q *heapQueue) peek() (Event, bool) {
	for len(q.h) > 0 && q.cancelled[q.h[0].Seq] {
		stdheap.Pop(&q.h)
	}
	if len(q.h) == 0 {
		return Event{}, false
	}
	return q.h[0], true
}

// workloads are uses that bend a queue out of shape. Each reports what it
// popped and how many operations it did.
var workloads = []struct {
	name string
	run  func(q anyQueue, r *rand.Rand, n int, popped func(Event)) int
}{
	{"rounds of 10", func(q anyQueue, r *rand.Rand, n int, popped func(Event)) int {
		return playRounds(q, r, n/10, 10, popped)
	}},
	{"rounds of 1000", func(q anyQueue, r *rand.Rand, n int, popped func(Event)) int {
		return playRounds(q, r, max(2, n/1000), 1000, popped)
	}},
	{"one instant", func(q anyQueue, r *rand.Rand, n int, popped func(Event)) int {
		for i := range uint64(n) {
			q.schedule(Event{At: 5e9, Seq: i, Priority: int32(r.IntN(100))})
		}
		for i := range uint64(n / 2) { // more of it while it lasts
			e, _ := q.pop()
			popped(e)
			q.schedule(Event{At: e.At, Seq: uint64(n) + i, Priority: int32(r.IntN(100))})
		}
		return 2*n + drain(q, popped)
	}},
	{"few instants", func(q anyQueue, r *rand.Rand, n int, popped func(Event)) int {
		for i := range uint64(n) {
			q.schedule(Event{At: Time(1+r.IntN(4)) * 1e9, Seq: i})
		}
		return n + drain(q, popped)
	}},
	{"instant into spread", func(q anyQueue, r *rand.Rand, n int, popped func(Event)) int {
		for i := range uint64(n) {
			q.schedule(Event{At: 0, Seq: i})
		}
		for i := range uint64(n) { // a task each that ends later
			e, _ := q.pop()
			popped(e)
			q.schedule(Event{At: Time(r.ExpFloat64() * 1e10), Seq: uint64(n) + i})
		}
		return 3*n + drain(q, popped)
	}},
	{"gaps of all sizes", func(q anyQueue, r *rand.Rand, n int, popped func(Event)) int {
		for i := range uint64(n) {
			q.schedule(Event{At: Time(r.Uint64() >> (1 + r.IntN(63))), Seq: i})
		}
		return n + drain(q, popped)
	}},
	{"far cluster", func(q anyQueue, r *rand.Rand, n int, popped func(Event)) int {
		for i := range uint64(n) {
			q.schedule(Event{At: 1e17 + Time(r.IntN(1000)), Seq: i})
		}
		return n + drain(q, popped)
	}},
	{"dense with outliers", func(q anyQueue, r *rand.Rand, n int, popped func(Event)) int {
		seq := uint64(0)
		for range n / 4 {
			q.schedule(Event{At: Time(r.IntN(1000)), Seq: seq})
			seq++
		}
		for range n {
			e, _ := q.pop()
			popped(e)
			dt := Time(r.IntN(1000))
			if r.IntN(50) == 0 {
				dt = Time(r.Int64N(1e15))
			}
			q.schedule(Event{At: e.At + dt, Seq: seq})
			seq++
		}
		return 2*n + drain(q, popped)
	}},
	{"peek, then ever earlier", func(q anyQueue, r *rand.Rand, n int, popped func(Event)) int {
		for i := range uint64(n) {
			q.schedule(Event{At: 1e15 - Time(i)*1e9 + Time(r.IntN(1e9)), Seq: i})
			q.peek()
		}
		return 2*n + drain(q, popped)
	}},
	{"cancelled deadlines", func(q anyQueue, r *rand.Rand, n int, popped func(Event)) int {
		seq, now := uint64(0), Time(0)
		var deadlines []Event
		for range n / 100 {
			for range 50 {
				d := Event{At: now + 1e12 + Time(r.IntN(1e9)), Seq: seq}
				q.schedule(d)
				q.schedule(Event{At: now + Time(r.IntN(1e9)), Seq: seq + 1})
				deadlines = append(deadlines, d)
				seq += 2
			}
			for range 50 {
				e, _ := q.pop()
				popped(e)
				now = e.At
			}
			for _, d := range deadlines {
				q.cancel(d)
			}
			deadlines = deadlines[:0]
		}
		return n / 100 * 250
	}},
}

// playRounds plays rounds as a coordinator does: a cohort's tasks and a
// deadline; peek and pop until the tasks are done; withdraw the deadline.
func playRounds(q anyQueue, r *rand.Rand, rounds, cohort int, popped func(Event)) int {
	seq, now := uint64(0), Time(0)
	for range rounds {
		deadline := Event{At: now + 100e9, Seq: seq}
		q.schedule(deadline)
		seq++
		for i := range cohort {
			q.schedule(Event{At: now + 3e9 + Time(r.IntN(1e9)), Seq: seq, Task: uint64(i)})
			seq++
		}
		for range cohort {
			q.peek()
			e, _ := q.pop()
			popped(e)
			now = e.At
		}
		q.cancel(deadline)
	}
	return rounds * (3*cohort + 2)
}

func drain(q anyQueue, popped func(Event)) int {
	for n := 0; ; n++ {
		e, ok := q.pop()
		if !ok {
			return n
		}
		popped(e)
	}
}

// TestSkew runs workloads that are too long for the model beside a heap.
func TestSkew(t *testing.T) {
	for _, w := range workloads {
		t.Run(w.name, func(t *testing.T) {
			const n = 20_000
			var want []Event
			w.run(&heapQueue{cancelled: map[uint64]bool{}}, rand.New(rand.NewPCG(1, 2)), n, func(e Event) { want = append(want, e) })
			c, i := New(), 0
			w.run(clockQueue{c}, rand.New(rand.NewPCG(1, 2)), n, func(e Event) {
				if i >= len(want) || e != want[i] {
					t.Fatalf("event %d is %v", i, e)
				}
				i++
			})
			if i != len(want) {
				t.Fatalf("%d events, want %d", i, len(want))
			}
			if c.live == 0 && (c.queue.len() > deadAllowance || c.queue.room() > spareRoom) {
				t.Errorf("an empty clock keeps %d events and room for %d", c.queue.len(), c.queue.room())
			}
		})
	}
}

// BenchmarkSkew is the time of an operation (schedule, peek, pop or cancel) in
// these workloads, and the ratio to container/heap's.
func BenchmarkSkew(b *testing.B) {
	for _, w := range workloads {
		b.Run(w.name, func(b *testing.B) {
			const n = 200_000
			var us, them time.Duration
			ops := 0
			none := func(Event) {}
			for range b.N {
				start := time.Now()
				ops += w.run(clockQueue{New()}, rand.New(rand.NewPCG(1, 2)), n, none)
				us += time.Since(start)
				start = time.Now()
				w.run(&heapQueue{cancelled: map[uint64]bool{}}, rand.New(rand.NewPCG(1, 2)), n, none)
				them += time.Since(start)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(us)/float64(ops), "ns/operation")
			b.ReportMetric(float64(them)/float64(us), "ratio")
		})
	}
}
