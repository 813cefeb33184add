package natsbus_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"fedpace/bus"
	"fedpace/bus/embedded"
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

func TestARepeatedSumIsDiscardedByItsJob(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		d := newEnds(t, p, bus.CoordinatorConfig{})
		d.send(1)
		x := d.next()
		first, second := d.post(d.sum(1)), d.post(d.sum(1))
		s := d.take()
		d.quiet() // the repeat waits
		s.Accept()
		d.ok(<-first)
		d.ok(<-second)
		d.ok(<-d.post(d.sum(1))) // and one that comes later still
		d.quiet()
		d.ok(x.Done(t.Context()))
		if got := d.c.Ignored(); got != 2 {
			t.Errorf("%d messages ignored, want the 2 repeats", got)
		}
	})
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

func TestTheTrainerMayAcknowledgeOnlyWhatTheCoordinatorHas(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		d := newEnds(t, p, bus.CoordinatorConfig{})
		d.send(1)
		x := d.next()
		done := d.post(d.sum(1))
		s := d.take()
		select {
		case err := <-done:
			t.Fatalf("SendSum returned %v before the sum was accepted", err)
		case <-time.After(50 * time.Millisecond):
		}
		s.Reject("the coordinator's disk is full")
		if err := <-done; !errors.Is(err, bus.ErrRefused) || !strings.Contains(err.Error(), "disk is full") {
			t.Fatalf("got %v, want the refusal with its reason", err)
		}
		d.ok(x.Release(false))
		x = d.next() // by whomever
		done = d.post(d.sum(1))
		d.take().Accept()
		d.ok(<-done)
		d.ok(x.Done(t.Context()))
	})
}

func TestASumThatIsNotItsJobsIsRefused(t *testing.T) {
	other := bus.DigestOf([]float32{7})
	for _, c := range []struct {
		name  string
		spoil func(s *bus.Result)
		want  string
	}{
		{"other model", func(s *bus.Result) { s.ModelDigest = other.Bytes() }, "model_digest is " + other.String()},
		{"values missing", func(s *bus.Result) { s.Values = s.Values[:2] }, "number of values is 2, want 3"},
		{"values too many", func(s *bus.Result) { s.Values = make([]int64, 4) }, "4"},
		{"client missing", func(s *bus.Result) { s.Clients = nil }, "number of clients is 0, want 1"},
		{"other client", func(s *bus.Result) { s.Clients[0].Task = 8 }, "clients[0].task is 8, want 9"},
		{"loss is not finite", func(s *bus.Result) { s.Clients[0].FirstStepLoss = nan }, "first_step_loss is NaN"},
		{"evaluation", func(s *bus.Result) { s.Shards = []*bus.ShardScore{{}} }, "number of shards is 1, want 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			places(t, func(t *testing.T, p *place) {
				d := newEnds(t, p, bus.CoordinatorConfig{})
				d.send(1)
				s := d.sum(1)
				c.spoil(s)
				if err := <-d.post(s); !errors.Is(err, bus.ErrRefused) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want a refusal with %q", err, c.want)
				}
				d.quiet()
				done := d.post(d.sum(1)) // the job is still open
				d.take().Accept()
				d.ok(<-done)
			})
		})
	}
}

func TestAFailureReachesTheCoordinator(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		d := newEnds(t, p, bus.CoordinatorConfig{})
		d.send(1)
		want := &bus.Failure{Kind: "diverged", Task: 9, Client: 4, Text: "diverged: task 9, client 4"}
		sum := result(1, d.digest, nil)
		sum.Failure = want
		done := d.post(sum)
		s := d.take()
		if !proto.Equal(s.Failure, want) {
			t.Errorf("got %+v, want %+v", s.Failure, want)
		}
		s.Accept()
		d.ok(<-done)
	})
}

func TestEvaluationReturnsScoresOfItsShards(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		d := newEnds(t, p, bus.CoordinatorConfig{})
		j := someJob(1, d.digest, len(model))
		j.Kind, j.Clients = bus.Evaluate, nil
		j.Shards = []*bus.Shard{{Index: 3, From: 3072, Count: 1024}, {Index: 4, From: 4096, Count: 7}}
		d.ok(d.c.SendJob(t.Context(), j))
		x := d.next()
		sum := result(1, d.digest, nil)
		sum.Shards = []*bus.ShardScore{{Index: 3, LossSum: 70.5, Correct: 1000}, {Index: 4, LossSum: 1, Correct: 7}}
		done := d.post(sum)
		s := d.take()
		if len(s.Shards) != 2 || !proto.Equal(s.Shards[0], sum.Shards[0]) || !proto.Equal(s.Shards[1], sum.Shards[1]) {
			t.Errorf("got %+v, want %+v", s.Shards, sum.Shards)
		}
		s.Accept()
		d.ok(<-done)
		d.ok(x.Done(t.Context()))
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
		d.ok(conn.Publish("fedpace.r.jobs.go", []byte{0x08, 0x01}))
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

func TestModelsAreThereUntilDeleted(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		d := newEnds(t, p, bus.CoordinatorConfig{})
		next := []float32{4, 5, 6}
		if _, err := d.h.Model(t.Context(), bus.DigestOf(next)); !errors.Is(err, bus.ErrNoModel) {
			t.Errorf("got %v, want ErrNoModel", err)
		}
		d.ok(d.c.PutModel(t.Context(), bus.DigestOf(next), next))
		d.ok(d.c.DeleteModel(t.Context(), d.digest))
		d.ok(d.c.DeleteModel(t.Context(), d.digest)) // harmless
		if _, err := d.h.Model(t.Context(), d.digest); !errors.Is(err, bus.ErrNoModel) {
			t.Errorf("got %v, want ErrNoModel", err)
		}
		if _, err := d.h.Model(t.Context(), bus.DigestOf(next)); err != nil {
			t.Error(err)
		}
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
