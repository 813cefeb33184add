package simclock

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
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

// A snapshot is the state, not the way there.
func TestSnapshotDoesNotDependOnHistory(t *testing.T) {
	want := some().AppendSnapshot(nil)

	c := some()
	c.Peek()                             // moves events between the tiers
	c.Schedule(Event{At: 1e9, Seq: 999}) // and leaves a cancelled one
	c.Cancel(999)
	if got := c.AppendSnapshot(nil); !bytes.Equal(got, want) {
		t.Error("peeking, or scheduling and cancelling, changed the snapshot")
	}

	var events []Event
	d := some()
	for d.Len() > 0 {
		e, _ := d.Pop()
		events = append(events, e)
	}
	rand.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	d = New()
	d.now, d.hash = c.now, c.hash
	d.ScheduleBatch(events)
	if got := d.AppendSnapshot(nil); !bytes.Equal(got, want) {
		t.Error("the order of scheduling changed the snapshot")
	}
}

// A clock that was restored goes on to the fingerprint of one that was not.
func TestRestoreGoesOn(t *testing.T) {
	c := some()
	d, err := Restore(c.AppendSnapshot(nil))
	if err != nil {
		t.Fatal(err)
	}
	for i := uint64(1000); c.Len() > 0; i++ {
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
	if c.Fingerprint() != d.Fingerprint() || d.Len() != 0 {
		t.Errorf("fingerprint %x after restoring, want %x", d.Fingerprint(), c.Fingerprint())
	}
}

// sealed is a snapshot of given events with a right checksum.
func sealed(now int64, events ...Event) []byte {
	le := binary.LittleEndian
	b := append([]byte(nil), snapshotMagic...)
	b = le.AppendUint64(b, uint64(now))
	b = le.AppendUint64(b, 77)
	b = le.AppendUint64(b, uint64(len(events)))
	for _, e := range events {
		b = le.AppendUint64(b, uint64(e.At))
		b = le.AppendUint64(b, e.Seq)
		b = le.AppendUint64(b, e.Task)
		b = le.AppendUint32(b, uint32(e.Priority))
		b = le.AppendUint32(b, e.Kind)
	}
	return seal(b)
}

func seal(body []byte) []byte {
	return binary.LittleEndian.AppendUint32(body, crc32.Checksum(body, castagnoli))
}

func TestRestoreRefuses(t *testing.T) {
	good := some().AppendSnapshot(nil)
	flipped := bytes.Clone(good)
	flipped[100] ^= 4
	other := bytes.Clone(good)
	other[7] = 9
	miscounted := sealed(0, Event{At: 1, Seq: 1})
	miscounted[24] = 2
	miscounted = seal(miscounted[:len(miscounted)-sumLen])
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"nothing", nil, "0 bytes"},
		{"an end cut off", good[:len(good)-9], "checksum"},
		{"a flipped bit", flipped, "checksum"},
		{"another version", other, "begins with"},
		{"a wrong count", miscounted, "2 events"},
		{"a negative time", sealed(-1), "negative"},
		{"a past event", sealed(5, Event{At: 4, Seq: 1}), "before the clock's time 5"},
		{"disorder", sealed(0, Event{At: 4, Seq: 1}, Event{At: 3, Seq: 2}), "does not come after"},
		{"one event twice", sealed(0, Event{At: 4, Seq: 1}, Event{At: 4, Seq: 1}), "does not come after"},
		{"one number twice", sealed(0, Event{At: 4, Seq: 1}, Event{At: 5, Seq: 1}), "repeats the sequence number 1"},
	} {
		_, err := Restore(c.data)
		if !errors.Is(err, ErrSnapshot) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want it to say %q", c.name, err, c.want)
		}
	}
}

// FuzzRestore: whatever is accepted is exactly what a clock writes.
func FuzzRestore(f *testing.F) {
	f.Add(New().AppendSnapshot(nil), false)
	f.Add(some().AppendSnapshot(nil), false)
	f.Add(sealed(3, Event{At: 4, Seq: 1, Priority: -1}, Event{At: 4, Seq: 0})[:headLen+2*eventLen], true)
	f.Fuzz(func(t *testing.T, data []byte, fix bool) {
		if fix { // past the checksum
			data = seal(data)
		}
		c, err := Restore(data)
		if err != nil {
			if !errors.Is(err, ErrSnapshot) {
				t.Fatalf("error %v does not wrap ErrSnapshot", err)
			}
			return
		}
		if got := c.AppendSnapshot(nil); !bytes.Equal(got, data) {
			t.Fatalf("restored %x, which is written as %x", data, got)
		}
		last := c.Now()
		for n := c.Len(); n > 0; n-- {
			e, ok := c.Pop()
			if !ok || e.At < last {
				t.Fatalf("popped %v %v after %d", e, ok, last)
			}
			last = e.At
		}
	})
}
