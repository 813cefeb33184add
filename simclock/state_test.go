package simclock

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

// some returns a clock in mid-life.
func some() *Clock {
	c := New()
	for i := range uint64(200) {
		c.Schedule(Event{At: Time(i * i % 97), Seq: i, Task: i / 3, Priority: int32(i%5) - 2, Kind: uint32(i % 7)})
	}
	for range 50 {
		c.Pop()
	}
	for i := range uint64(60) {
		c.Cancel(3 * i)
	}
	return c
}

// A state does not tell how the clock came there.
func TestState_AnyHistory(t *testing.T) {
	want := some().State()

	c := some()
	c.Peek()
	c.Schedule(Event{At: 1e9, Seq: 999}) // and leaves a cancelled one
	c.Cancel(999)
	if got := c.State(); !reflect.DeepEqual(got, want) {
		t.Error("peeking, or scheduling and cancelling, changed the state")
	}

	var events []Event
	d := some()
	for d.live > 0 {
		e, _ := d.Pop()
		events = append(events, e)
	}
	rand.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	d = New()
	d.now, d.hash = c.now, c.hash
	for _, e := range events {
		d.Schedule(e)
	}
	if got := d.State(); !reflect.DeepEqual(got, want) {
		t.Error("the order of scheduling changed the state")
	}
}

// A clock that was restored goes on to the fingerprint of one that was not.
func TestRestore_Continues(t *testing.T) {
	c := some()
	d := Restore(c.State())
	for i := uint64(1000); c.live > 0; i++ {
		e, _ := c.Pop()
		f, _ := d.Pop()
		if e != f {
			t.Fatalf("popped %v after restoring, want %v", f, e)
		}
		if i < 1100 {
			e.At, e.Seq = e.At+Time(i%13), i
			c.Schedule(e)
			d.Schedule(e)
		}
	}
	if c.Fingerprint() != d.Fingerprint() || d.live != 0 {
		t.Errorf("fingerprint %x after restoring, want %x", d.Fingerprint(), c.Fingerprint())
	}
}
