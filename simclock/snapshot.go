package simclock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
)

// The layout of a snapshot, all little-endian: the magic with its version, now,
// fingerprint, number of events; the events in their order, each At, Seq, Task,
// Priority, Kind; the CRC-32C of all that.
const (
	snapshotMagic = "simclk\x00\x01"
	headLen       = len(snapshotMagic) + 3*8
	eventLen      = 3*8 + 2*4
	sumLen        = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrSnapshot is wrapped by every error of [Restore].
var ErrSnapshot = errors.New("simclock: not a valid snapshot")

// AppendSnapshot appends the clock's state: its time, fingerprint and pending
// events. Clocks in the same state give the same bytes, in whatever order they
// came there.
func (c *Clock) AppendSnapshot(dst []byte) []byte {
	items := make([]item, 0, c.live)
	add := func(t item) {
		if c.pending.has(t.seq) {
			items = append(items, t)
		}
	}
	for _, t := range c.near {
		add(t)
	}
	c.far.each(add)
	slices.SortFunc(items, compare)

	start := len(dst)
	le := binary.LittleEndian
	dst = slices.Grow(dst, headLen+eventLen*len(items)+sumLen)
	dst = append(dst, snapshotMagic...)
	dst = le.AppendUint64(dst, uint64(c.now))
	dst = le.AppendUint64(dst, c.hash)
	dst = le.AppendUint64(dst, uint64(len(items)))
	for _, t := range items {
		e := t.event()
		dst = le.AppendUint64(dst, uint64(e.At))
		dst = le.AppendUint64(dst, e.Seq)
		dst = le.AppendUint64(dst, e.Task)
		dst = le.AppendUint32(dst, uint32(e.Priority))
		dst = le.AppendUint32(dst, e.Kind)
	}
	return le.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// Restore makes a clock from the bytes of [Clock.AppendSnapshot]. It goes on
// exactly as the clock that was written would have. Bytes that are damaged, or
// that no clock writes, give an error that wraps [ErrSnapshot].
func Restore(data []byte) (*Clock, error) {
	bad := func(format string, args ...any) (*Clock, error) {
		return nil, fmt.Errorf("%w: %s", ErrSnapshot, fmt.Sprintf(format, args...))
	}
	if len(data) < headLen+sumLen {
		return bad("%d bytes, where the shortest has %d", len(data), headLen+sumLen)
	}
	if got := string(data[:len(snapshotMagic)]); got != snapshotMagic {
		return bad("it begins with %q, where version 1 begins with %q", got, snapshotMagic)
	}
	le := binary.LittleEndian
	body, sum := data[:len(data)-sumLen], le.Uint32(data[len(data)-sumLen:])
	if got := crc32.Checksum(body, castagnoli); got != sum {
		return bad("its checksum is %08x, where its last bytes say %08x", got, sum)
	}
	c := New()
	c.now = Time(le.Uint64(body[8:]))
	c.hash = le.Uint64(body[16:])
	n := le.Uint64(body[24:])
	body = body[headLen:]
	if n != uint64(len(body)/eventLen) || len(body)%eventLen != 0 {
		return bad("%d bytes of events, where %d events have %d each", len(body), n, eventLen)
	}
	if c.now < 0 {
		return bad("its time %d is negative", c.now)
	}
	var last item
	for i := range int(n) {
		b := body[i*eventLen:]
		e := Event{
			At:       Time(le.Uint64(b)),
			Seq:      le.Uint64(b[8:]),
			Task:     le.Uint64(b[16:]),
			Priority: int32(le.Uint32(b[24:])),
			Kind:     le.Uint32(b[28:]),
		}
		switch {
		case e.At < c.now:
			return bad("event %d is at %d, before the clock's time %d", i, e.At, c.now)
		case i > 0 && !last.before(pack(&e)):
			return bad("event %d does not come after event %d", i, i-1)
		case c.pending.has(e.Seq):
			return bad("event %d repeats the sequence number %d", i, e.Seq)
		}
		c.Schedule(e)
		last = pack(&e)
	}
	return c, nil
}
