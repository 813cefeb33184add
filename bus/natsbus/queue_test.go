package natsbus_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"fedpace/bus"
	"fedpace/bus/embedded"
	"fedpace/bus/natsbus"
)

// Jobs carry no Nats-Msg-Id: a resumed coordinator must be able to send a job
// again at once, and may do so while the first is still under way.
func TestJob_SentTwice(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		d := p.Ends(t, bus.CoordinatorConfig{})
		bare := p.bare(t)
		defer bare.Close()
		first, err := bare.SubscribeSync("fedpace.r.jobs.go")
		d.OK(err)
		d.OK(bare.Flush())
		d.Send(1)
		m, err := first.NextMsg(patience)
		d.OK(err)
		d.OK(bare.Publish(m.Subject, m.Data)) // as one who does not know that the first was taken
		for i := range 2 {
			x := d.Next()
			done := d.Post(d.Sum(1))
			if i == 0 {
				d.Take().Accept()
			}
			d.OK(<-done)
			d.OK(x.Done(t.Context()))
		}
		d.Quiet()
		d.None(100 * time.Millisecond)
	})
}

func TestDelivery_MarksOfProgress(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		bare := p.bare(t)
		defer bare.Close()
		marks, err := bare.SubscribeSync("$JS.ACK.fedpace_r_jobs.>")
		d := p.Ends(t, bus.CoordinatorConfig{AckWait: 6 * time.Second}) // a busy machine pauses for some of them
		d.OK(err)
		d.Send(1)
		x := d.Next()
		for range 4 { // each comes after a third of what an idle holder has
			m, err := marks.NextMsg(patience)
			d.OK(err)
			if string(m.Data) != "+WPI" {
				t.Fatalf("the holder says %q, want a mark of progress", m.Data)
			}
		}
		d.None(100 * time.Millisecond)
		d.OK(x.Done(t.Context()))
		js, err := jetstream.New(bare)
		d.OK(err)
		s, err := js.Stream(t.Context(), "fedpace_r_jobs")
		d.OK(err)
		if n := s.CachedInfo().State.Msgs; n != 0 {
			t.Errorf("%d jobs are queued, want none", n)
		}
	})
}

// dies takes a job as a trainer that dies then.
func (p *place) dies(t *testing.T) {
	t.Helper()
	conn := p.bare(t)
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := js.Consumer(t.Context(), "fedpace_r_jobs", "go")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := consumer.Next(); err != nil {
		t.Fatal(err)
	}
}

func TestJob_DeadTrainer(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		d := p.Ends(t, bus.CoordinatorConfig{AckWait: 200 * time.Millisecond})
		d.Send(1)
		p.dies(t)
		x := d.Next()
		done := d.Post(d.Sum(1))
		d.Take().Accept()
		d.OK(<-done)
		d.OK(x.Done(t.Context()))
	})
}

func TestJob_NeverFinished(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		d := p.Ends(t, bus.CoordinatorConfig{AckWait: 100 * time.Millisecond})
		d.Send(7)
		for range 5 {
			p.dies(t)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		go func() { _, _ = d.H.NextJob(ctx, "go") }() // the server counts when somebody asks
		_, err := d.C.TakeSum(ctx)
		const want = "job 7 (train, round 2, kernel go) was given out 5 times and no trainer finished it"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("got %v, want %q", err, want)
		}
		if _, again := d.C.TakePlans(ctx, nil); again == nil || again.Error() != err.Error() {
			t.Errorf("TakePlans says %v, want the same", again)
		}
	})
}

func TestJob_Unreadable(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		d := p.Ends(t, bus.CoordinatorConfig{})
		conn := p.bare(t)
		defer conn.Close()
		d.OK(conn.Publish("fedpace.r.jobs.go", natsbus.Sealed([]byte{0x08, 0x01})))
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		go func() { _, _ = d.H.NextJob(ctx, "go") }()
		_, err := d.C.TakeSum(ctx)
		if want := "a trainer cannot read a job: bus: job: model_digest is 0 bytes"; err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("got %v, want %q", err, want)
		}
	})
}

func TestStreams_Gone(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		d := p.Ends(t, bus.CoordinatorConfig{})
		conn := p.bare(t)
		defer conn.Close()
		js, err := jetstream.New(conn)
		d.OK(err)
		d.Send(1)
		for _, name := range []string{"fedpace_r_jobs", "fedpace_r_models"} {
			if err := js.DeleteStream(t.Context(), name); err != nil && (p.PublishModels || name == "fedpace_r_jobs") {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if _, err := d.C.TakeSum(ctx); !errors.Is(err, bus.ErrInterrupted) || !strings.Contains(err.Error(), "made again") {
			t.Fatalf("got %v, want ErrInterrupted", err)
		}
		d.Send(1) // as the driver does
		x := d.Next()
		if got, err := d.H.Model(t.Context(), d.Digest); err != nil || len(got) != len(model) {
			t.Fatalf("got %v, %v, want the model", got, err)
		}
		done := d.Post(d.Sum(1))
		d.Take().Accept()
		d.OK(<-done)
		d.OK(x.Done(t.Context()))
		d.Quiet() // one signal, not two
	})
}

func TestJob_RefusedByStream(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		d := p.Ends(t, bus.CoordinatorConfig{})
		conn := p.bare(t)
		defer conn.Close()
		js, err := jetstream.New(conn)
		d.OK(err)
		d.OK(js.DeleteStream(t.Context(), "fedpace_r_jobs"))
		d.Send(1)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if _, err := d.C.TakeSum(ctx); !errors.Is(err, bus.ErrInterrupted) {
			t.Fatalf("got %v, want ErrInterrupted", err)
		}
		d.Send(1)
		d.OK(d.Next().Done(t.Context()))
	})
}

func TestCoordinator_ServerRestarted(t *testing.T) {
	t.Parallel()
	p := newPlace(t, true)
	d := p.Ends(t, bus.CoordinatorConfig{PlanPatience: 300 * time.Millisecond})
	d.OK(d.H.ServeTasks(t.Context(), answerAtOnce))
	d.Send(1)
	addr := strings.TrimPrefix(p.server.URL(), "nats://")
	p.server.Close()
	s, err := embedded.Start(t.Context(), embedded.Config{Listen: addr, Open: true})
	d.OK(err)
	defer s.Close()
	defer func() { d.OK(d.C.Close(context.Background())) }()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := d.C.TakeSum(ctx); !errors.Is(err, bus.ErrInterrupted) {
		t.Fatalf("got %v, want ErrInterrupted", err)
	}
	if _, err := d.C.TakePlans(ctx, nil); !errors.Is(err, bus.ErrInterrupted) {
		t.Fatalf("got %v, want ErrInterrupted for plans, too", err)
	}
	again := func(err error) bool { return errors.Is(err, bus.ErrInterrupted) } // the stream, the connection and the plans may all say so
	var plans []bus.ClientPlan
	for err = bus.ErrInterrupted; again(err); { // the host may be back later than the coordinator
		d.OK(d.C.SendTask(5, someTask(1)))
		plans, err = d.C.TakePlans(ctx, nil)
	}
	if err != nil || len(plans) == 0 || plans[0].Client != 5 {
		t.Fatalf("got %v, %v, want the plan of client 5", plans, err)
	}
	d.Send(1)
	x := d.Next()
	if _, err := d.H.Model(ctx, d.Digest); err != nil {
		t.Fatal(err)
	}
	done := d.Post(d.Sum(1))
	sum, err := d.C.TakeSum(ctx)
	for again(err) {
		sum, err = d.C.TakeSum(ctx)
	}
	d.OK(err)
	sum.Accept()
	d.OK(<-done)
	d.OK(x.Done(ctx))
}

func TestOpenCoordinator_EmptiesQueue(t *testing.T) {
	t.Parallel()
	p := newPlace(t, true)
	conn := p.connect(t)
	first, err := conn.OpenCoordinator(t.Context(), "r", bus.CoordinatorConfig{Kernel: "go", Lease: brief.Lease})
	if err != nil {
		t.Fatal(err)
	}
	if err := first.SendJob(t.Context(), someJob(1, bus.DigestOf(model), 3)); err != nil {
		t.Fatal(err)
	}
	conn.Close() // a crash: nothing is tidied up
	d := p.Ends(t, brief)
	d.None(100 * time.Millisecond)
	d.Send(1) // with the same number
	d.OK(d.Next().Done(t.Context()))
}

func TestOpenCoordinator_SecondOne(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		usual := bus.CoordinatorConfig{Lease: 5 * time.Second}
		d := p.Ends(t, usual)
		d.Send(1)
		_, err := p.connect(t).OpenCoordinator(t.Context(), "r", usual)
		if err == nil || !strings.Contains(err.Error(), "run r has a coordinator on this server already") {
			t.Errorf("got %v", err)
		}
		d.OK(d.Next().Done(t.Context())) // the run still has its job
		p.Coordinator(t, "other")
	})
}

func TestModel_WrongDigest(t *testing.T) {
	t.Parallel()
	p := newPlace(t, true)
	d := p.Ends(t, bus.CoordinatorConfig{})
	wrong := bus.DigestOf([]float32{9})
	d.OK(d.C.PutModel(t.Context(), wrong, model))
	if _, err := d.H.Model(t.Context(), wrong); err == nil || !strings.Contains(err.Error(), "arrived as "+d.Digest.String()) {
		t.Errorf("got %v, want the two digests", err)
	}
}

func TestClose_RemovesStreams(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		d := p.Ends(t, bus.CoordinatorConfig{})
		d.Send(1)
		d.OK(d.C.Close(t.Context()))
		conn := p.bare(t)
		defer conn.Close()
		js, err := jetstream.New(conn)
		d.OK(err)
		for name := range js.StreamNames(t.Context()).Name() {
			t.Errorf("stream %s is still there", name)
		}
		if _, err := d.C.TakeSum(t.Context()); err == nil || !strings.Contains(err.Error(), "the coordinator is closed") {
			t.Errorf("TakeSum after Close: %v", err)
		}
	})
}

func TestPlan_OfDevice(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		c, h := p.Coordinator(t, "r"), p.Host(t, "r")
		if err := h.ServeTasks(t.Context(), answerAtOnce); err != nil {
			t.Fatal(err)
		}
		conn := p.bare(t)
		defer conn.Close()
		plans, err := conn.SubscribeSync("fedpace.r.client.pi4.plan")
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []nats.Msg{
			{Subject: "fedpace.r.client.pi4.task", Data: []byte{0x08, 0x01}},
			{Subject: "fedpace.r.client.pi4.plan", Data: []byte{0x08, 0x01}},
		} {
			if err := conn.PublishMsg(&m); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := plans.NextMsg(patience); err != nil { // our own
			t.Fatal(err)
		}
		if m, err := plans.NextMsg(50 * time.Millisecond); err == nil {
			t.Errorf("the host answered for a device: %q", m.Data)
		}
		// The plan of a simulated client comes behind the device's.
		if err := c.SendTask(1, someTask(1)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.TakePlans(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if got := c.Ignored(); got != 1 {
			t.Errorf("%d messages ignored, want the device's plan", got)
		}
	})
}
