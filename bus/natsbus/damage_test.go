package natsbus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"fedpace/bus"
)

// A sum in which a bit is another is asked for again, and counts when it is whole.
func TestSum_Damaged(t *testing.T) {
	t.Parallel()
	p := newPlace(t, true)
	d := p.Ends(t, bus.CoordinatorConfig{})
	d.Send(1)
	bare := p.bare(t)
	defer bare.Close()
	s := d.Sum(1)
	s.Sum.Trainer, s.Sum.Chunks, s.Sum.Params, s.Sum.Values = "box", 1, 3, bytes.Repeat([]byte{7}, 24)
	b, err := bus.MarshalSealed(s.Sum)
	d.OK(err)
	b[bytes.IndexByte(b, 7)] ^= 0x10
	m, err := bare.Request("fedpace.r.sums", b, patience)
	d.OK(err)
	var reply bus.SumReply
	d.OK(bus.UnmarshalSealed(m.Data, &reply))
	if reply.Status != bus.SendAgain {
		t.Fatalf("got %v (%s)", reply.Status, reply.Reason)
	}
	d.Quiet()
	done := d.Post(d.Sum(1))
	got := d.Take()
	if got.Values[2] != 6 {
		t.Errorf("got %v", got.Values)
	}
	got.Accept()
	d.OK(<-done)
}

// A trainer whose messages never arrive whole gives the job back.
func TestSum_AlwaysDamaged(t *testing.T) {
	t.Parallel()
	p := newPlace(t, true)
	bare := p.bare(t)
	defer bare.Close()
	h := p.Host(t, "r")
	var asked atomic.Int64
	_, err := bare.Subscribe("fedpace.r.sums", func(m *nats.Msg) { // in place of a coordinator
		asked.Add(1)
		_ = m.Respond([]byte("noise"))
	})
	if err == nil {
		err = bare.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	err = h.SendSum(t.Context(), result(1, bus.DigestOf(model), []int64{4, 5, 6}, &bus.ClientLoss{Task: 9}))
	if !errors.Is(err, bus.ErrRefused) || !strings.Contains(err.Error(), "damaged") || asked.Load() != 5 {
		t.Errorf("after %d attempts: %v", asked.Load(), err)
	}
}

// A chunk of a model that lies damaged on the bus is no model: the coordinator puts
// it again.
func TestModel_Damaged(t *testing.T) {
	t.Parallel()
	p := newPlace(t, true)
	d := p.Ends(t, bus.CoordinatorConfig{})
	js, err := jetstream.New(p.bare(t))
	d.OK(err)
	defer js.Conn().Close()
	subject := "fedpace.r.model." + d.Digest.String() + ".0"
	stream, err := js.Stream(t.Context(), "fedpace_r_models")
	d.OK(err)
	put, err := stream.GetLastMsgForSubject(t.Context(), subject)
	d.OK(err)
	put.Data[len(put.Data)-1] ^= 0x10
	_, err = js.Publish(t.Context(), subject, put.Data)
	d.OK(err)
	if _, err := d.H.Model(t.Context(), d.Digest); !errors.Is(err, bus.ErrNoModel) || !strings.Contains(err.Error(), "arrived as") {
		t.Fatalf("got %v", err)
	}
	d.OK(d.C.PutModelsAgain(t.Context()))
	if _, err := d.H.Model(t.Context(), d.Digest); err != nil {
		t.Fatal(err)
	}
}

// A job that lies damaged in the queue is sent again.
func TestJob_Damaged(t *testing.T) {
	t.Parallel()
	p := newPlace(t, true)
	d := p.Ends(t, bus.CoordinatorConfig{})
	j := someJob(1, d.Digest, len(model))
	b, err := bus.MarshalSealed(j)
	d.OK(err)
	b[bytes.Index(b, []byte("linear"))] ^= 0x01
	js, err := jetstream.New(p.bare(t))
	d.OK(err)
	defer js.Conn().Close()
	_, err = js.Publish(t.Context(), "fedpace.r.jobs.go", b)
	d.OK(err)
	found := make(chan bus.Delivery, 1)
	go func() { found <- d.Next() }()
	if _, err := d.C.TakeSum(t.Context()); !errors.Is(err, bus.ErrInterrupted) || !strings.Contains(err.Error(), "damaged") {
		t.Fatalf("got %v", err)
	}
	d.OK(d.C.SendJob(t.Context(), j)) // as the driver does
	x := <-found
	done := d.Post(d.Sum(1))
	d.Take().Accept()
	d.OK(<-done)
	d.OK(x.Done(t.Context()))
}

// A job that no trainer ever gets whole ends the run.
func TestJob_AlwaysDamaged(t *testing.T) {
	t.Parallel()
	p := newPlace(t, true)
	d := p.Ends(t, bus.CoordinatorConfig{})
	bare := p.bare(t)
	defer bare.Close()
	j := d.Send(1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for sent := 1; ; sent++ {
		for number := range sent { // as trainers make the server say
			text := fmt.Sprintf(`{"stream_seq": %d, "reason": "damaged"}`, number+1)
			d.OK(bare.Publish("$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.fedpace_r_jobs.go", []byte(text)))
		}
		if _, err := d.C.TakeSum(ctx); !errors.Is(err, bus.ErrInterrupted) {
			if want := "job 1 arrived damaged at trainers 5 times"; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
			return
		}
		d.OK(d.C.SendJob(ctx, j)) // as the driver does
	}
}

// A configuration that arrives other than it was sent is asked for again: a host that
// took it would make other plans.
func TestAskRun_DamagedConfiguration(t *testing.T) {
	t.Parallel()
	p := newPlace(t, true)
	info := someInfo()
	info.Run, info.Protocol = "r", bus.HostProtocol
	if err := info.Seal(); err != nil {
		t.Fatal(err)
	}
	whole, err := bus.Marshal(nil, info)
	if err != nil {
		t.Fatal(err)
	}
	bare := p.bare(t)
	defer bare.Close()
	var asked, damaged atomic.Int64
	damaged.Store(1)
	_, err = bare.Subscribe("fedpace.r.info", func(m *nats.Msg) {
		b := bytes.Clone(whole)
		if asked.Add(1) <= damaged.Load() {
			b[bytes.Index(b, []byte("name: r"))] ^= 0x01
		}
		_ = m.Respond(b)
	})
	if err == nil {
		err = bare.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	conn := p.connect(t)
	got, err := conn.AskRun(t.Context(), "r")
	if err != nil || got.Configuration != info.Configuration || asked.Load() != 2 {
		t.Errorf("asked %d times: %v, %v", asked.Load(), got, err)
	}
	damaged.Store(1 << 30)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if got, err := conn.AskRun(ctx, "r"); !errors.Is(err, bus.ErrDamaged) {
		t.Errorf("got %v, %v", got, err)
	}
}
