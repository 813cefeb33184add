package natsbus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"fedpace/bus"
	"fedpace/bus/internal/subject"
)

// openCalls opens the coordinator's end of a run whose hosts serve calls.
func openCalls(t *testing.T, p *place) bus.Caller {
	t.Helper()
	config := withInfo()
	config.Kernel = ""
	c, err := p.connect(t).OpenCoordinator(t.Context(), "r", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c.(bus.Caller)
}

// serveCalls joins the run as a host that serves calls by fn.
func serveCalls(t *testing.T, p *place, name string, fn func(context.Context, int, []byte) ([]byte, error)) bus.Host {
	t.Helper()
	h, err := p.connect(t).OpenHost(t.Context(), "r", bus.HostConfig{Name: name, Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	if err := h.(bus.Callee).ServeCalls(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
	return h
}

// echo answers a call with the client's number and the frame backwards.
func echo(_ context.Context, client int, frame []byte) ([]byte, error) {
	answer := fmt.Appendf(nil, "%d ", client)
	for i := range frame {
		answer = append(answer, frame[len(frame)-1-i])
	}
	return answer, nil
}

// A frame of several parts and its reply arrive as they were sent, at the host that is named.
func TestCall_RoundTrip(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		c := openCalls(t, p)
		serveCalls(t, p, "one", echo)
		serveCalls(t, p, "two", func(context.Context, int, []byte) ([]byte, error) { return []byte("two"), nil })
		frame := bytes.Repeat([]byte("frame"), bus.ChunkBytes/2)
		var fetched atomic.Int32
		got, err := c.Call(t.Context(), "one", 17, frame, func() { fetched.Add(1) })
		want, _ := echo(t.Context(), 17, frame)
		if err != nil || !bytes.Equal(got, want) || fetched.Load() != 1 {
			t.Errorf("%d bytes, fetched %d times, %v; want %d bytes, fetched once", len(got), fetched.Load(), err, len(want))
		}
		if got, err := c.Call(t.Context(), "two", 0, []byte("x"), nil); string(got) != "two" || err != nil {
			t.Errorf("host two answers %q, %v", got, err)
		}
		if c.Ignored() != 0 {
			t.Errorf("%d messages were ignored", c.Ignored())
		}
	})
}

// A host that starts again under its name in the middle of a call serves it again.
func TestCall_HostStartsAgain(t *testing.T) {
	t.Parallel()
	p := newPlace(t, true)
	c := openCalls(t, p)
	begun := make(chan bool)
	first := serveCalls(t, p, "one", func(ctx context.Context, _ int, _ []byte) ([]byte, error) {
		close(begun)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	answer := make(chan string, 1)
	go func() {
		got, err := c.Call(t.Context(), "one", 3, []byte("abc"), nil)
		answer <- fmt.Sprint(string(got), err)
	}()
	<-begun
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	serveCalls(t, p, "one", echo)
	if got := <-answer; got != "3 cba<nil>" {
		t.Errorf("%s, want 3 cba", got)
	}
}

// A call ends with its context. What its host says of it afterwards is answered that it is over, and the host goes on.
func TestCall_Over(t *testing.T) {
	t.Parallel()
	p := newPlace(t, true)
	c := openCalls(t, p)
	begun := make(chan bool, 1)
	release := make(chan bool)
	h := serveCalls(t, p, "one", func(ctx context.Context, client int, frame []byte) ([]byte, error) {
		if client == 1 {
			begun <- true
			<-release
		}
		return echo(ctx, client, frame)
	})
	gone := errors.New("the host has gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := c.Call(ctx, "one", 1, []byte("ab"), nil)
		ended <- err
	}()
	<-begun
	cancel(gone)
	if err := <-ended; !errors.Is(err, gone) {
		t.Errorf("the call ends with %v, want %v", err, gone)
	}
	close(release)
	if got, err := c.Call(t.Context(), "one", 2, []byte("ab"), nil); string(got) != "2 ba" || err != nil {
		t.Errorf("the next call: %q, %v", got, err)
	}
	if h.Err() != nil {
		t.Error(h.Err())
	}
}

// A part from a host that does not have the call, or for another client, is not taken.
func TestCall_StrangersParts(t *testing.T) {
	t.Parallel()
	p := newPlace(t, true)
	c := openCalls(t, p)
	release := make(chan bool)
	serveCalls(t, p, "one", func(ctx context.Context, client int, frame []byte) ([]byte, error) {
		<-release
		return echo(ctx, client, frame)
	})
	conn := p.bare(t)
	defer conn.Close()
	sub, err := conn.SubscribeSync(subject.AnyClient("r", subject.MessageFor("one")))
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	answer := make(chan string, 1)
	go func() {
		got, err := c.Call(t.Context(), "one", 3, []byte("abc"), nil)
		answer <- fmt.Sprint(string(got), err)
	}()
	m, err := sub.NextMsg(patience)
	if err != nil {
		t.Fatal(err)
	}
	w := new(bus.Call)
	if err := bus.Unmarshal(m.Data, w); err != nil {
		t.Fatal(err)
	}
	for client, host := range map[int]string{3: "two", 4: "one"} {
		b, err := bus.MarshalSealed(&bus.CallPart{Call: w.Call, Parts: 1, Data: []byte("forged"), Host: host})
		if err != nil {
			t.Fatal(err)
		}
		reply, err := conn.Request(subject.ClientSubjects("r").Subject(client, subject.Reply), b, patience)
		if err != nil {
			t.Fatal(err)
		}
		var r bus.SumReply
		if err := bus.UnmarshalSealed(reply.Data, &r); err != nil || r.Status != bus.Repeated {
			t.Errorf("the part of host %s for client %d is answered %v, %v", host, client, r.Status, err)
		}
	}
	close(release)
	if got := <-answer; got != "3 cba<nil>" {
		t.Errorf("%s, want 3 cba", got)
	}
}

// The coordinator learns which hosts come, and which go.
func TestWatchHosts(t *testing.T) {
	t.Parallel()
	p := newPlace(t, true)
	c := openCalls(t, p)
	changes := make(chan string, 16)
	c.WatchHosts(func(host string, workers int) { changes <- fmt.Sprint(host, workers) })
	h := serveCalls(t, p, "one", echo)
	if got := <-changes; got != "one2" {
		t.Errorf("%s, want host one with 2 workers", got)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if got := <-changes; got != "one0" {
		t.Errorf("%s, want that host one has gone", got)
	}
}
