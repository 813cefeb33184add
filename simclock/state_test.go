package simclock

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
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
func TestStateDoesNotDependOnHistory(t *testing.T) {
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
func TestRestoreGoesOn(t *testing.T) {
	c := some()
	d, err := Restore(c.State())
	if err != nil {
		t.Fatal(err)
	}
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

func TestRestoreRefuses(t *testing.T) {
	for _, c := range []struct {
		name  string
		state State
		want  string
	}{
		{"a negative time", State{Now: -1}, "negative"},
		{"a past event", State{Now: 5, Events: []Event{{At: 4, Seq: 1}}}, "before the clock's time 5"},
		{"disorder", State{Events: []Event{{At: 4, Seq: 1}, {At: 3, Seq: 2}}}, "does not come after"},
		{"one event twice", State{Events: []Event{{At: 4, Seq: 1}, {At: 4, Seq: 1}}}, "does not come after"},
		{"one number twice", State{Events: []Event{{At: 4, Seq: 1}, {At: 5, Seq: 1}}}, "repeats the sequence number 1"},
	} {
		_, err := Restore(c.state)
		if !errors.Is(err, ErrState) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want it to say %q", c.name, err, c.want)
		}
	}
}

// FuzzRestore: whatever is accepted is exactly the state of a clock.
func FuzzRestore(f *testing.F) {
	for _, s := range []State{New().State(), some().State(), {Now: 3, Events: []Event{{At: 4, Seq: 1, Priority: -1}, {At: 4}}}} {
		text, err := json.Marshal(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var s State
		if json.Unmarshal(text, &s) != nil {
			return
		}
		c, err := Restore(s)
		if err != nil {
			if !errors.Is(err, ErrState) {
				t.Fatalf("error %v does not wrap ErrState", err)
			}
			return
		}
		if got := c.State(); got.Now != s.Now || got.Fingerprint != s.Fingerprint || len(got.Events)+len(s.Events) > 0 && !reflect.DeepEqual(got.Events, s.Events) {
			t.Fatalf("restored %+v, which is %+v", s, got)
		}
		last := c.Now()
		for n := c.live; n > 0; n-- {
			e, ok := c.Pop()
			if !ok || e.At < last {
				t.Fatalf("popped %v %v after %d", e, ok, last)
			}
			last = e.At
		}
	})
}
