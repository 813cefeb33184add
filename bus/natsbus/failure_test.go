package natsbus_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"fedpace/bus"
	"fedpace/bus/natsbus"
)

var nan = math.NaN()

// planFailure waits for TakePlans to fail.
func planFailure(t *testing.T, c bus.Coordinator) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		if _, err := c.TakePlans(ctx, nil); err != nil {
			return err
		}
	}
}

func TestAPlanThatIsNotValidFailsTheRun(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		c := p.coordinator(t, "r")
		conn := p.bare(t)
		defer conn.Close()
		if err := conn.Publish("fedpace.r.client.17.plan", []byte("\x08\x05\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")); err != nil {
			t.Fatal(err)
		}
		err := planFailure(t, c)
		if want := "plan: download_ns is -1, want 0 to"; !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "client 17") {
			t.Errorf("got %v, want %q of client 17", err, want)
		}
	})
}

func TestAHostThatCannotAnswerSaysSo(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		for name, fn := range map[string]func(int, *bus.Task, *bus.Plan) error{
			"error":   func(int, *bus.Task, *bus.Plan) error { return errors.New("no such client") },
			"invalid": func(_ int, _ *bus.Task, p *bus.Plan) error { p.UploadNs = -1; return nil },
		} {
			c, h := p.coordinator(t, name), p.host(t, name)
			if err := h.ServeTasks(t.Context(), fn); err != nil {
				t.Fatal(err)
			}
			if err := c.SendTask(3, someTask(8)); err != nil {
				t.Fatal(err)
			}
			select {
			case <-h.Done():
			case <-time.After(patience):
				t.Fatal("the host goes on")
			}
			if err := h.Err(); !strings.Contains(err.Error(), "plan of client 3 for task 8") {
				t.Errorf("%s: got %v", name, err)
			}
		}
	})
}

func TestASlowConsumersDropFailsTheRunWithItsCause(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		c, h := p.coordinator(t, "r"), p.host(t, "r")
		if err := h.ServeTasks(t.Context(), answerAtOnce); err != nil {
			t.Fatal(err)
		}
		release := natsbus.HoldPlans(c, 10) // at most ten may wait
		for i := range 1000 {
			if err := c.SendTask(i, someTask(uint64(i+1))); err != nil {
				t.Fatal(err)
			}
		}
		<-natsbus.Broken(c)
		release()
		err := planFailure(t, c)
		for _, want := range []string{"slow consumer", "messages dropped", "fedpace.r.client.*.plan"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q is not in %v", want, err)
			}
		}
		if _, sumErr := c.TakeSum(t.Context()); sumErr == nil || sumErr.Error() != err.Error() {
			t.Errorf("TakeSum says %v, want the same", sumErr)
		}
	})
}

func TestTheEndOfTheEmbeddedServerIsAFailure(t *testing.T) {
	p := newPlace(t, false)
	c, h := p.coordinator(t, "r"), p.host(t, "r")
	time.AfterFunc(50*time.Millisecond, p.server.Close)
	if _, err := h.NextJob(t.Context(), "go"); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("NextJob: %v", err)
	}
	if err := planFailure(t, c); !strings.Contains(err.Error(), "connection closed") {
		t.Errorf("TakePlans: %v", err)
	}
	if h.Err() == nil {
		t.Error("the host does not know")
	}
}

func TestTasksThatNoHostGetsAreASignal(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		c := p.coordinatorWith(t, "r", bus.CoordinatorConfig{PlanPatience: 100 * time.Millisecond})
		if err := c.SendTask(3, someTask(1)); err != nil {
			t.Fatal(err)
		}
		if err := planFailure(t, c); !errors.Is(err, bus.ErrInterrupted) || !strings.Contains(err.Error(), "no plan for 100ms") {
			t.Fatalf("got %v", err)
		}
		if err := p.host(t, "r").ServeTasks(t.Context(), answerAtOnce); err != nil {
			t.Fatal(err)
		}
		for { // on a busy machine the plan, too, may take longer than the patience
			if err := c.SendTask(3, someTask(1)); err != nil {
				t.Fatal(err)
			}
			plans, err := c.TakePlans(t.Context(), nil)
			if errors.Is(err, bus.ErrInterrupted) {
				continue
			}
			if err != nil || plans[0].Plan.Task != 1 {
				t.Errorf("got %v, %v, want the plan", plans, err)
			}
			break
		}
	})
}

func TestWaitingHonoursItsContext(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		c, h := p.coordinator(t, "r"), p.host(t, "r")
		for _, x := range []struct {
			name string
			wait func(context.Context) error
		}{
			{"TakePlans", func(ctx context.Context) error { _, err := c.TakePlans(ctx, nil); return err }},
			{"TakeSum", func(ctx context.Context) error { _, err := c.TakeSum(ctx); return err }},
			{"NextJob", func(ctx context.Context) error { _, err := h.NextJob(ctx, "nobody"); return err }},
			{"SendSum", func(ctx context.Context) error { // nobody takes it
				if err := c.SendJob(ctx, someJob(1, bus.DigestOf(model), 3)); err != nil {
					return err
				}
				return h.SendSum(ctx, result(1, bus.DigestOf(model), make([]int64, 3), &bus.ClientLoss{Task: 9}))
			}},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
			if err := x.wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: got %v", x.name, err)
			}
			cancel()
		}
	})
}

func TestWhatCannotBeSentIsRefused(t *testing.T) {
	p := newPlace(t, false)
	c := p.coordinator(t, "r")
	task := func(f func(*bus.Task)) error { x := someTask(1); f(x); return c.SendTask(1, x) }
	job := func(f func(*bus.Job)) error {
		j := someJob(1, bus.DigestOf(model), 3)
		f(j)
		return c.SendJob(t.Context(), j)
	}
	for want, err := range map[string]error{
		"task: task is 0, want at least 1":           task(func(x *bus.Task) { x.Task = 0 }),
		"task: round is 0, want 1 to 2147483647":     task(func(x *bus.Task) { x.Round = 0 }),
		"task: local_steps is 4294967295, want 1 to": task(func(x *bus.Task) { x.LocalSteps = math.MaxUint32 }),
		"task: learning_rate is NaN, want 0 to":      task(func(x *bus.Task) { x.LearningRate = nan }),
		"task: learning_rate is +Inf":                task(func(x *bus.Task) { x.LearningRate = math.Inf(1) }),
		"task: steps_done is 9223372036854775807":    task(func(x *bus.Task) { x.StepsDone = math.MaxUint64 }),
		"task: model_bits is 9223372036854775807":    task(func(x *bus.Task) { x.ModelBits = math.MaxUint64 }),
		"client -1, want 0 to":                       c.SendTask(-1, someTask(1)),
		"job: job is 0":                              job(func(j *bus.Job) { j.Job = 0 }),
		"job: kind is 0, want train (1) or evaluate": job(func(j *bus.Job) { j.Kind = 0 }),
		"job: model_digest is empty":                 job(func(j *bus.Job) { j.ModelDigest = make([]byte, 32) }),
		"job: number of clients is 0":                job(func(j *bus.Job) { j.Clients = nil }),
		"job: clients.weight is 1.5, want 0 to 1":    job(func(j *bus.Job) { j.Clients[0].Weight = 1.5 }),
		"job: clients.weight is NaN":                 job(func(j *bus.Job) { j.Clients[0].Weight = nan }),
		"job: spec.batch is 0":                       job(func(j *bus.Job) { j.Spec.Batch = 0 }),
		"kernel \"a.b\" holds '.'":                   job(func(j *bus.Job) { j.Kernel = "a.b" }),
		`job: kernel is avx2, want the run's, "go"`:  job(func(j *bus.Job) { j.Kernel = "avx2" }),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	for _, name := range []string{"", "a.b", "a b", "*", ">", "ü", strings.Repeat("x", 65)} {
		if _, err := p.connect(t).OpenCoordinator(t.Context(), name, bus.CoordinatorConfig{}); err == nil {
			t.Errorf("run %q is taken", name)
		}
		if _, err := p.connect(t).OpenHost(t.Context(), name, bus.HostConfig{}); err == nil {
			t.Errorf("a host joins run %q", name)
		}
	}
}
