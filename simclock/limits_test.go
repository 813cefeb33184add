package simclock

import (
	"math"
	"runtime"
	"testing"
	"unsafe"
)

func TestEvent_FourWords(t *testing.T) {
	if got := unsafe.Sizeof(Event{}); got != 32 {
		t.Errorf("an event has %d bytes, want 32", got)
	}
}

func panics(f func()) (what any) {
	defer func() { what = recover() }()
	f()
	return nil
}

func TestMisuse(t *testing.T) {
	c := New()
	c.Schedule(Event{At: 5, Seq: 1})
	c.Pop()
	if got := panics(func() { c.Schedule(Event{At: 4, Seq: 2}) }); got != "simclock: event scheduled in the past" {
		t.Errorf("scheduling in the past: %v", got)
	}
	c.Schedule(Event{At: 5, Seq: 3}) // now is not the past
	if got := panics(func() { c.Schedule(Event{At: 6, Seq: 3}) }); got != "simclock: sequence number is already pending" {
		t.Errorf("scheduling a number twice: %v", got)
	}
	if got := panics(func() { New().Schedule(Event{At: -1}) }); got == nil {
		t.Error("a negative time was accepted")
	}
}

func TestEmpty(t *testing.T) {
	c := New()
	before := c.Fingerprint()
	if e, ok := c.Pop(); ok {
		t.Errorf("popped %v from an empty clock", e)
	}
	if e, ok := c.Peek(); ok {
		t.Errorf("peeked %v in an empty clock", e)
	}
	if c.Cancel(0) {
		t.Error("cancelled in an empty clock")
	}
	if c.Now() != 0 || c.live != 0 || c.Fingerprint() != before {
		t.Error("reading an empty clock changed it")
	}
}

// Each field of an event, and the order of events, is in the fingerprint.
func TestFingerprint(t *testing.T) {
	print := func(events ...Event) uint64 {
		c := New()
		for _, e := range events {
			c.Schedule(e)
		}
		for c.live > 0 {
			c.Pop()
		}
		return c.Fingerprint()
	}
	a := Event{At: 7, Seq: 1, Task: 2, Priority: 3, Kind: 4}
	b := Event{At: 7, Seq: 2, Task: 5, Priority: 3, Kind: 4}
	seen := map[uint64]string{}
	add := func(name string, h uint64) {
		if other, ok := seen[h]; ok {
			t.Errorf("%s and %s have one fingerprint", name, other)
		}
		seen[h] = name
	}
	add("nothing", print())
	add("zero", print(Event{}))
	add("a", print(a))
	add("time", print(Event{8, 1, 2, 3, 4}))
	add("sequence", print(Event{7, 9, 2, 3, 4}))
	add("task", print(Event{7, 1, 9, 3, 4}))
	add("priority", print(Event{7, 1, 2, -3, 4}))
	add("kind", print(Event{7, 1, 2, 3, 5}))
	add("fields exchanged", print(Event{7, 1, 4, 3, 2}))
	add("a, b", print(a, b))
	a.Seq, b.Seq = 2, 1
	add("b, a", print(a, b))
	if print(a, b) != print(b, a) {
		t.Error("the order of scheduling is in the fingerprint")
	}
}

// The fingerprint is part of what a seed means: it is the same in every build.
func TestFingerprint_Fixed(t *testing.T) {
	c := some()
	for c.live > 0 {
		c.Pop()
	}
	if got := c.Fingerprint(); got != goldenFingerprint {
		t.Errorf("fingerprint %#x, want %#x", got, uint64(goldenFingerprint))
	}
}

const goldenFingerprint = 0xf3c3cc65b2d82e79

// Deadlines that are set and withdrawn by the million, far ahead, leave nothing.
func TestCancelled_LetGo(t *testing.T) {
	c := New()
	c.Schedule(Event{At: Never, Seq: math.MaxUint64})
	for i := range uint64(1_000_000) {
		c.Schedule(Event{At: Time(1e15 + i*1e6), Seq: i})
		if !c.Cancel(i) || c.Cancel(i) {
			t.Fatalf("event %d: want it cancelled once", i)
		}
		if kept := c.queue.len(); kept > 2*c.live+deadAllowance {
			t.Fatalf("%d events are kept for %d pending", kept, c.live)
		}
	}
	if len(c.pending.chunks) > 2 || c.queue.room() > spareRoom {
		t.Errorf("%d chunks and room for %d events are left", len(c.pending.chunks), c.queue.room())
	}
}

// A queue that was long gives its memory back.
func TestMemory_FollowsPending(t *testing.T) {
	heapBytes := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	start := heapBytes()
	c := New()
	const n = 500_000
	for i := range uint64(n) {
		c.Schedule(Event{At: wait(i) + wait(i>>16), Seq: i})
	}
	if full := int64(heapBytes() - start); full > 45*n {
		t.Errorf("%d bytes an event, want no more than 45", full/n)
	}
	for c.live > 10 {
		c.Pop()
	}
	c.Schedule(Event{At: c.Now(), Seq: n})
	if left := int64(heapBytes() - start); left > 2<<20 {
		t.Errorf("%d bytes are left for 11 events", left)
	}
	runtime.KeepAlive(c)
}

// Scheduling and popping in the steady state allocates nothing.
func TestHold_AllocatesNothing(t *testing.T) {
	h := newHoldClock(10_000)
	h.run(100_000)
	if got := testing.AllocsPerRun(20, func() { h.run(10_000) }); got > 60 {
		t.Errorf("%v allocations in 10,000 holds, want next to none", got)
	}
}

func TestSeconds(t *testing.T) {
	if got := Time(1_677_500_000).Seconds(); got != 1.6775 {
		t.Errorf("Seconds() = %v, want 1.6775", got)
	}
}
