package simclock

import (
	"cmp"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "fedpace/internal/testkit/testseed"
)

// model is the specification: a slice of pending events and a sort.
type model struct {
	now     Time
	pending []Event
}

// inOrder is the documented order, written apart from the clock's own.
func inOrder(e, f Event) int {
	return cmp.Or(cmp.Compare(e.At, f.At), cmp.Compare(e.Priority, f.Priority), cmp.Compare(e.Seq, f.Seq))
}

func (m *model) pop() (Event, bool) {
	if len(m.pending) == 0 {
		return Event{}, false
	}
	slices.SortFunc(m.pending, inOrder)
	e := m.pending[0]
	m.pending = m.pending[1:]
	m.now = e.At
	return e, true
}

func (m *model) cancel(seq uint64) bool {
	for i, e := range m.pending {
		if e.Seq == seq {
			m.pending = slices.Delete(m.pending, i, i+1)
			return true
		}
	}
	return false
}

// check compares what can be seen of a clock, and its inner invariants.
func check(t interface {
	Helper()
	Fatalf(string, ...any)
}, c *Clock, m *model) {
	t.Helper()
	if c.Now() != m.now || c.live != len(m.pending) {
		t.Fatalf("now %d len %d, want %d and %d", c.Now(), c.live, m.now, len(m.pending))
	}
	if c.cancelledCount() > c.live+deadAllowance {
		t.Fatalf("%d cancelled events are kept beside %d live ones", c.cancelledCount(), c.live)
	}
	for i := 1; i < len(c.queue.heap); i++ {
		if c.queue.heap[i].before(c.queue.heap[(i-1)/4]) {
			t.Fatalf("event %d of the heap comes before its parent", i)
		}
	}
	for i := 1; i < len(c.queue.run); i++ {
		if c.queue.run[i].before(c.queue.run[i-1]) {
			t.Fatalf("event %d of the run comes before the one before it", i)
		}
	}
}

// increments draws waiting times of very different kinds, many of them equal.
func increments(t *rapid.T) *rapid.Generator[Time] {
	shape := rapid.SampledFrom([]string{"zero", "few", "narrow", "wide", "log"})
	return rapid.Custom(func(t *rapid.T) Time {
		switch shape.Draw(t, "shape") {
		case "zero":
			return 0
		case "few":
			return rapid.SampledFrom([]Time{0, 1, 63, 64, 4095, 4096, 1e9}).Draw(t, "dt")
		case "narrow":
			return Time(rapid.Int64Range(0, 100).Draw(t, "dt"))
		case "wide":
			return Time(rapid.Int64Range(0, 1e12).Draw(t, "dt"))
		default:
			return Time(1) << rapid.IntRange(0, 61).Draw(t, "log2")
		}
	})
}

// TestClock_SortedList runs random programs against the model.
func TestClock_SortedList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, m := New(), &model{}
		dt := increments(t)
		next := rapid.SampledFrom([]uint64{0, 1 << 40, 1<<64 - 20000}).Draw(t, "first sequence")
		stride := rapid.SampledFrom([]uint64{1, 1, 3, 1 << 11}).Draw(t, "stride")
		var old []uint64 // every sequence number ever used
		event := func() Event {
			at := m.now + dt.Draw(t, "dt")
			if at < m.now {
				at = Never
			}
			e := Event{
				At: at, Seq: next, Task: next ^ 7,
				Priority: int32(rapid.IntRange(-1, 1).Draw(t, "priority")), Kind: uint32(next % 3),
			}
			next += stride
			old = append(old, e.Seq)
			return e
		}
		t.Repeat(map[string]func(*rapid.T){
			"schedule": func(*rapid.T) {
				e := event()
				c.Schedule(e)
				m.pending = append(m.pending, e)
			},
			"batch": func(t *rapid.T) {
				batch := make([]Event, rapid.IntRange(0, 2*minRun).Draw(t, "n"))
				same := rapid.Bool().Draw(t, "at one instant")
				for i := range batch {
					batch[i] = event()
					if same {
						batch[i].At = batch[0].At
					}
				}
				// Not ascending: the last half comes first.
				batch = slices.Concat(batch[len(batch)/2:], batch[:len(batch)/2])
				for _, e := range batch {
					c.Schedule(e)
				}
				m.pending = append(m.pending, batch...)
			},
			"pop": func(t *rapid.T) {
				for range rapid.IntRange(1, 200).Draw(t, "n") {
					e, ok := c.Pop()
					f, want := m.pop()
					if e != f || ok != want {
						t.Fatalf("popped %v %v, want %v %v", e, ok, f, want)
					}
				}
			},
			"peek": func(t *rapid.T) {
				e, ok := c.Peek()
				slices.SortFunc(m.pending, inOrder)
				if ok != (len(m.pending) > 0) || ok && e != m.pending[0] {
					t.Fatalf("peeked %v %v", e, ok)
				}
			},
			"cancel": func(t *rapid.T) {
				if len(old) == 0 {
					t.Skip("nothing to cancel")
				}
				for range rapid.IntRange(1, 100).Draw(t, "n") {
					seq := rapid.SampledFrom(old).Draw(t, "sequence")
					if got, want := c.Cancel(seq), m.cancel(seq); got != want {
						t.Fatalf("cancel %d: %v, want %v", seq, got, want)
					}
				}
			},
			"cancel never scheduled": func(t *rapid.T) {
				if c.Cancel(next + rapid.Uint64Range(0, 1<<20).Draw(t, "ahead")) {
					t.Fatalf("cancelled what was never scheduled")
				}
			},
			"state and restore": func(t *rapid.T) {
				s := c.State()
				d := Restore(s)
				if !reflect.DeepEqual(d.State(), s) || d.Fingerprint() != c.Fingerprint() {
					t.Fatalf("a restored clock has another state")
				}
				c = d
			},
			"": func(t *rapid.T) { check(t, c, m) },
		})
	})
}
