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

// model is small enough for one chunk.
var model = []float32{1, 2, 3}

// ends are a coordinator and a host with one model on the bus.
type ends struct {
	*testing.T
	c      bus.Coordinator
	h      bus.Host
	digest bus.Digest
}

func newEnds(t *testing.T, p *place, config bus.CoordinatorConfig) *ends {
	t.Helper()
	d := &ends{T: t, c: p.coordinatorWith(t, "r", config), h: p.host(t, "r"), digest: bus.DigestOf(model)}
	d.ok(d.c.PutModel(t.Context(), d.digest, model))
	return d
}

func (d *ends) ok(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

func (d *ends) send(n uint64) *bus.Job {
	d.Helper()
	j := someJob(n, d.digest, len(model))
	d.ok(d.c.SendJob(d.Context(), j))
	return j
}

func (d *ends) next() bus.Delivery {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), patience)
	defer cancel()
	x, err := d.h.NextJob(ctx, "go")
	d.ok(err)
	return x
}

// none checks that no job can be had for a while.
func (d *ends) none(wait time.Duration) {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), wait)
	defer cancel()
	if x, err := d.h.NextJob(ctx, "go"); !errors.Is(err, context.DeadlineExceeded) {
		d.Fatalf("got %v, %v, want no job", x, err)
	}
}

func (d *ends) sum(n uint64) *bus.Result {
	return result(n, d.digest, []int64{4, 5, 6}, &bus.ClientLoss{Task: 9, FirstStepLoss: 0.25})
}

// post sends a sum in the background.
func (d *ends) post(s *bus.Result) <-chan error {
	done := make(chan error, 1)
	go func() { done <- d.h.SendSum(d.Context(), s) }()
	return done
}

func (d *ends) take() *bus.ReceivedSum {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), patience)
	defer cancel()
	s, err := d.c.TakeSum(ctx)
	d.ok(err)
	return s
}

// quiet checks that there is no sum to take.
func (d *ends) quiet() {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), 50*time.Millisecond)
	defer cancel()
	if s, err := d.c.TakeSum(ctx); !errors.Is(err, context.DeadlineExceeded) {
		d.Fatalf("got %v, %v, want no sum", s, err)
	}
}

// Jobs carry no Nats-Msg-Id: a resumed coordinator must be able to send a job
// again at once, and may do so while the first is still under way.
func TestAJobSentAgainIsDeliveredAgainAndItsSumCountsOnce(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		d := newEnds(t, p, bus.CoordinatorConfig{})
		bare := p.bare(t)
		defer bare.Close()
		first, err := bare.SubscribeSync("fedpace.r.jobs.go")
		d.ok(err)
		d.ok(bare.Flush())
		d.send(1)
		m, err := first.NextMsg(patience)
		d.ok(err)
		d.ok(bare.Publish(m.Subject, m.Data)) // as one who does not know that the first was taken
		for i := range 2 {
			x := d.next()
			done := d.post(d.sum(1))
			if i == 0 {
				d.take().Accept()
			}
			d.ok(<-done)
			d.ok(x.Done(t.Context()))
		}
		d.quiet()
		d.none(100 * time.Millisecond)
	})
}

func TestMarksOfProgressKeepAJob(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		bare := p.bare(t)
		defer bare.Close()
		marks, err := bare.SubscribeSync("$JS.ACK.fedpace_r_jobs.>")
		d := newEnds(t, p, bus.CoordinatorConfig{AckWait: 1500 * time.Millisecond})
		d.ok(err)
		d.send(1)
		x := d.next()
		for range 4 { // each comes after a third of what an idle holder has
			m, err := marks.NextMsg(patience)
			d.ok(err)
			if string(m.Data) != "+WPI" {
				t.Fatalf("the holder says %q, want a mark of progress", m.Data)
			}
		}
		d.none(100 * time.Millisecond)
		d.ok(x.Done(t.Context()))
		js, err := jetstream.New(bare)
		d.ok(err)
		s, err := js.Stream(t.Context(), "fedpace_r_jobs")
		d.ok(err)
		if n := s.CachedInfo().State.Msgs; n != 0 {
			t.Errorf("%d jobs are queued, want none", n)
		}
	})
}

// dies takes a job as a trainer that is never heard of again.
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

func TestTheJobOfADeadTrainerGoesToAnother(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		d := newEnds(t, p, bus.CoordinatorConfig{AckWait: 200 * time.Millisecond})
		d.send(1)
		p.dies(t)
		x := d.next()
		done := d.post(d.sum(1))
		d.take().Accept()
		d.ok(<-done)
		d.ok(x.Done(t.Context()))
	})
}

func TestAJobThatNobodyFinishesFailsTheRunInWords(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		d := newEnds(t, p, bus.CoordinatorConfig{AckWait: 100 * time.Millisecond})
		d.send(7)
		for range 5 {
			p.dies(t)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		go func() { _, _ = d.h.NextJob(ctx, "go") }() // the server counts when somebody asks
		_, err := d.c.TakeSum(ctx)
		const want = "job 7 (train, round 2, kernel go) was given out 5 times and no trainer finished it"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("got %v, want %q", err, want)
		}
		if _, again := d.c.TakePlans(ctx, nil); again == nil || again.Error() != err.Error() {
			t.Errorf("TakePlans says %v, want the same", again)
		}
	})
}

func TestAJobThatATrainerCannotReadFailsTheRunInWords(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		d := newEnds(t, p, bus.CoordinatorConfig{})
		conn := p.bare(t)
		defer conn.Close()
		d.ok(conn.Publish("fedpace.r.jobs.go", natsbus.Sealed([]byte{0x08, 0x01})))
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		go func() { _, _ = d.h.NextJob(ctx, "go") }()
		_, err := d.c.TakeSum(ctx)
		if want := "a trainer cannot read a job: bus: job: model_digest is 0 bytes"; err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("got %v, want %q", err, want)
		}
	})
}

func TestAStreamThatIsGoneIsMadeAgain(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		d := newEnds(t, p, bus.CoordinatorConfig{})
		conn := p.bare(t)
		defer conn.Close()
		js, err := jetstream.New(conn)
		d.ok(err)
		d.send(1)
		for _, name := range []string{"fedpace_r_jobs", "fedpace_r_models"} {
			if err := js.DeleteStream(t.Context(), name); err != nil && (p.chunks || name == "fedpace_r_jobs") {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if _, err := d.c.TakeSum(ctx); !errors.Is(err, bus.ErrInterrupted) || !strings.Contains(err.Error(), "made again") {
			t.Fatalf("got %v, want ErrInterrupted", err)
		}
		d.send(1) // as the driver does
		x := d.next()
		if got, err := d.h.Model(t.Context(), d.digest); err != nil || len(got) != len(model) {
			t.Fatalf("got %v, %v, want the model", got, err)
		}
		done := d.post(d.sum(1))
		d.take().Accept()
		d.ok(<-done)
		d.ok(x.Done(t.Context()))
		d.quiet() // one signal, not two
	})
}

func TestAJobThatTheStreamDoesNotTakeIsASignal(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		d := newEnds(t, p, bus.CoordinatorConfig{})
		conn := p.bare(t)
		defer conn.Close()
		js, err := jetstream.New(conn)
		d.ok(err)
		d.ok(js.DeleteStream(t.Context(), "fedpace_r_jobs"))
		d.send(1)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if _, err := d.c.TakeSum(ctx); !errors.Is(err, bus.ErrInterrupted) {
			t.Fatalf("got %v, want ErrInterrupted", err)
		}
		d.send(1)
		d.ok(d.next().Done(t.Context()))
	})
}

func TestAServerThatIsStartedAgainIsASignal(t *testing.T) {
	p := newPlace(t, true)
	d := newEnds(t, p, bus.CoordinatorConfig{PlanPatience: 300 * time.Millisecond})
	d.ok(d.h.ServeTasks(t.Context(), answerAtOnce))
	d.send(1)
	addr := strings.TrimPrefix(p.server.URL(), "nats://")
	p.server.Close()
	s, err := embedded.Start(t.Context(), embedded.Config{Listen: addr, Open: true})
	d.ok(err)
	defer s.Close()
	defer func() { d.ok(d.c.Close(context.Background())) }()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := d.c.TakeSum(ctx); !errors.Is(err, bus.ErrInterrupted) {
		t.Fatalf("got %v, want ErrInterrupted", err)
	}
	if _, err := d.c.TakePlans(ctx, nil); !errors.Is(err, bus.ErrInterrupted) {
		t.Fatalf("got %v, want ErrInterrupted for plans, too", err)
	}
	again := func(err error) bool { return errors.Is(err, bus.ErrInterrupted) } // the stream, the connection and the plans may all say so
	var plans []bus.ClientPlan
	for err = bus.ErrInterrupted; again(err); { // the host may be back later than the coordinator
		d.ok(d.c.SendTask(5, someTask(1)))
		plans, err = d.c.TakePlans(ctx, nil)
	}
	if err != nil || len(plans) == 0 || plans[0].Client != 5 {
		t.Fatalf("got %v, %v, want the plan of client 5", plans, err)
	}
	d.send(1)
	x := d.next()
	if _, err := d.h.Model(ctx, d.digest); err != nil {
		t.Fatal(err)
	}
	done := d.post(d.sum(1))
	sum, err := d.c.TakeSum(ctx)
	for again(err) {
		sum, err = d.c.TakeSum(ctx)
	}
	d.ok(err)
	sum.Accept()
	d.ok(<-done)
	d.ok(x.Done(ctx))
}

func TestAResumedCoordinatorFindsNoOldJobs(t *testing.T) {
	p := newPlace(t, true)
	conn := p.connect(t)
	first, err := conn.OpenCoordinator(t.Context(), "r", bus.CoordinatorConfig{Kernel: "go"})
	if err != nil {
		t.Fatal(err)
	}
	if err := first.SendJob(t.Context(), someJob(1, bus.DigestOf(model), 3)); err != nil {
		t.Fatal(err)
	}
	conn.Close() // a crash: nothing is tidied up
	d := newEnds(t, p, bus.CoordinatorConfig{})
	d.none(100 * time.Millisecond)
	d.send(1) // with the same number
	d.ok(d.next().Done(t.Context()))
}

func TestARunHasOneCoordinator(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		d := newEnds(t, p, bus.CoordinatorConfig{})
		d.send(1)
		_, err := p.connect(t).OpenCoordinator(t.Context(), "r", bus.CoordinatorConfig{})
		if err == nil || !strings.Contains(err.Error(), "run r has a coordinator on this server already") {
			t.Errorf("got %v", err)
		}
		d.ok(d.next().Done(t.Context())) // the run still has its job
		p.coordinator(t, "other")
	})
}

func TestAModelIsCheckedAgainstItsDigest(t *testing.T) {
	p := newPlace(t, true)
	d := newEnds(t, p, bus.CoordinatorConfig{})
	wrong := bus.DigestOf([]float32{9})
	d.ok(d.c.PutModel(t.Context(), wrong, model))
	if _, err := d.h.Model(t.Context(), wrong); err == nil || !strings.Contains(err.Error(), "arrived as "+d.digest.String()) {
		t.Errorf("got %v, want the two digests", err)
	}
}

func TestCloseRemovesTheRunsStreams(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		d := newEnds(t, p, bus.CoordinatorConfig{})
		d.send(1)
		d.ok(d.c.Close(t.Context()))
		conn := p.bare(t)
		defer conn.Close()
		js, err := jetstream.New(conn)
		d.ok(err)
		for name := range js.StreamNames(t.Context()).Name() {
			t.Errorf("stream %s is still there", name)
		}
		if _, err := d.c.TakeSum(t.Context()); err == nil || !strings.Contains(err.Error(), "the coordinator is closed") {
			t.Errorf("TakeSum after Close: %v", err)
		}
	})
}

func TestDevicesAreNoSimulatedClients(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		c, h := p.coordinator(t, "r"), p.host(t, "r")
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
