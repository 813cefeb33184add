package admission

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fedpace/bus/quota"
	"fedpace/internal/connlimit"
)

// Many slow readers leave room for others: they are closed for each other.
func TestBacklog_SlowReadersLeaveRoom(t *testing.T) {
	all := backlogs{limit: 8 << 10, open: map[*backlog]bool{}}
	closed, honest := 0, true
	small := all.newBacklog(4<<10, func() { honest = false })
	small.put(make([]byte, 512))
	for range 100 {
		over := false
		q := all.newBacklog(4<<10, func() { over = true; closed++ })
		for range 100 {
			if q.put(make([]byte, 64)); over {
				break
			}
		}
		if n := all.bytes(); n > all.limit {
			t.Fatalf("%d bytes wait", n)
		}
	}
	if closed != 100 || !honest || small.waiting.Load() != 512 {
		t.Errorf("%d of 100 are closed, and the one that reads is not: %v", closed, honest)
	}
}

// What is put comes out, whatever the pieces, and nothing is counted at the end.
func TestBacklog_PassesEverything(t *testing.T) {
	all := backlogs{limit: 1 << 30, open: map[*backlog]bool{}}
	var sent atomic.Int64
	q := all.newBacklog(1<<30, func() { t.Error("it is given up") })
	to, from := net.Pipe()
	var want, got bytes.Buffer
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = got.ReadFrom(from) })
	var drained error
	var draining sync.WaitGroup
	draining.Go(func() { drained = q.drain(to, &sent); to.Close() })
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 200 {
		part := bytes.Repeat([]byte{byte(i)}, r.IntN(40_000))
		want.Write(part)
		q.put(part)
	}
	if !q.await(0) {
		t.Fatal("it is broken")
	}
	q.end()
	draining.Wait()
	reading.Wait()
	if drained != nil || !bytes.Equal(got.Bytes(), want.Bytes()) || sent.Load() != int64(want.Len()) || all.bytes() != 0 {
		t.Errorf("%v: %d of %d bytes, %d counted as sent, %d as waiting", drained, got.Len(), want.Len(), sent.Load(), all.bytes())
	}
}

// A client that is gone holds nothing.
func TestBacklog_AbandonedDropsBytes(t *testing.T) {
	all := backlogs{limit: 1 << 20, open: map[*backlog]bool{}}
	var sent atomic.Int64
	q := all.newBacklog(1<<20, func() { t.Error("it is given up") })
	to, from := net.Pipe()
	from.Close()
	q.put(make([]byte, 1000))
	if err := q.drain(to, &sent); err == nil {
		t.Error("it was written")
	}
	q.put(make([]byte, 1000))
	if q.await(0) || all.bytes() != 0 || len(all.open) > 0 {
		t.Errorf("%d bytes wait for nobody", all.bytes())
	}
}

func TestParse(t *testing.T) {
	for line, want := range map[string]message{
		"PUB a 5\r\n": {"a", "", 7}, "pub a b 5\r\n": {"a", "b", 7}, "PUB\ta\t5 \r\n": {"a", "", 7}, "HPUB a 12 17\r\n": {"a", "", 19}, "HPUB a b 12 17\n": {"a", "b", 19},
		"PUB a 0\r\n": {"a", "", 2}, "PING\r\n": {}, "PUB\r\n": {}, "PUB 5\r\n": {}, "HPUB a 5\r\n": {}, "PUB a -5\r\n": {}, "PUB a x\r\n": {}, "PUB a 99999999999\r\n": {}, "PUBa 5 5\r\n": {}, "": {},
	} {
		if got, ok := parse([]byte(line), "PUB", "HPUB"); got != want || ok != (want.size > 0) {
			t.Errorf("%q: %v, want %v", line, got, want)
		}
	}
}

// The process keeps descriptors for itself, however few there are.
func TestConnections_BelowDescriptors(t *testing.T) {
	for descriptors, want := range map[int][2]int{64: {8, 24}, 256: {32, 96}, 1024: {128, 384}, 20_000: {512, 18_976}, 1 << 20: {512, 59_488}} {
		if waiting, admitted := connections(descriptors); [2]int{waiting, admitted} != want {
			t.Errorf("%d descriptors: %d and %d connections, want %v", descriptors, waiting, admitted, want)
		}
	}
}

// A client that connects too often is turned away, another is not.
func TestAddresses_Rates(t *testing.T) {
	a := newAddresses()
	from := func(i int) net.Addr { return &net.TCPAddr{IP: net.IPv4(10, byte(i>>16), byte(i>>8), byte(i))} }
	took := 0
	for started := time.Now(); time.Since(started) < 20*time.Millisecond || took < addressBurst; {
		if a.allow(connlimit.Origin(from(1))) {
			took++
		}
	}
	if took > 2*addressBurst {
		t.Errorf("one address may open %d at once", took)
	}
	if !a.allow(connlimit.Origin(from(2))) {
		t.Error("another may not")
	}
	for i := range 3 * maxAddresses {
		a.allow(connlimit.Origin(from(i)))
	}
	if len(a.byPrefix) > maxAddresses {
		t.Errorf("%d addresses are remembered", len(a.byPrefix))
	}
}

// Of a device's requests few wait for an answer, of which the first copy counts.
func TestDevice_Requests(t *testing.T) {
	q := quota.Default()
	d := newDevice(&q)
	ask := func(reply string, want bool) {
		t.Helper()
		if got, err := d.takeRequest(reply, false); got != want || err != nil {
			t.Errorf("a request to be answered on %s is taken: %v, %v", reply, got, err)
		}
	}
	ask("a", true)
	ask("b", true)
	ask("c", false)
	d.answered("a")
	ask("c", true)
	d.answered("a")
	ask("d", false)
	if _, err := d.takeRequest("a", true); !errors.Is(err, errRepeated) {
		t.Errorf("a reply subject is used again: %v", err)
	}
	if ok, err := d.takeRequest("d", true); !ok || err != nil || !slices.Equal(d.unanswered, []string{"c", "d"}) {
		t.Errorf("impatiently: %v, %v; waiting for answers are %v", ok, err, d.unanswered)
	}
}
