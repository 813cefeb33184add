package natsbus_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"fedpace/bus"
	"fedpace/bus/internal/subject"
	"fedpace/bus/natsbus"
)

// withInfo returns the configuration of a run that admits hosts in other processes.
func withInfo() bus.CoordinatorConfig {
	return bus.CoordinatorConfig{Kernel: "go", Info: &bus.RunInfo{Run: "r", Configuration: "x", Protocol: bus.HostProtocol}}
}

// planned sends a task and waits for its plan. It sends the task again after an interruption.
func planned(t *testing.T, c bus.Coordinator, task uint64) *bus.Plan {
	t.Helper()
	for {
		if err := c.SendTask(1, someTask(task)); err != nil {
			t.Fatal(err)
		}
		plans, err := c.TakePlans(t.Context(), nil)
		if errors.Is(err, bus.ErrInterrupted) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return plans[0].Plan
	}
}

func TestFence_PlansRepeatTokenOfLease(t *testing.T) {
	t.Parallel()
	p := newPlace(t, true)
	first, err := p.connect(t).OpenCoordinator(t.Context(), "r", withInfo())
	if err != nil {
		t.Fatal(err)
	}
	h := p.Host(t, "r")
	if err := h.ServeTasks(t.Context(), answerAtOnce); err != nil {
		t.Fatal(err)
	}
	before := planned(t, first, 1).Fence
	if before != natsbus.Token(first) || before == 0 {
		t.Errorf("the plan has the token %d, the coordinator %d", before, natsbus.Token(first))
	}
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The bucket was removed, so that of the next coordinator counts from 1: the host says that its token may be
	// too low.
	second, err := p.connect(t).OpenCoordinator(t.Context(), "r", withInfo())
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close(context.Background())
	if after := planned(t, second, 1).Fence; after <= before && after != natsbus.Token(second) {
		t.Errorf("the second coordinator's plan has the token %d, the first's had %d", after, before)
	}
}

// A coordinator that lost the run while it stood still sends a task and a job, and does not know it yet.
func TestFence_HostsRefuseEarlierCoordinator(t *testing.T) {
	t.Parallel()
	p := newPlace(t, true)
	c, err := p.connect(t).OpenCoordinator(t.Context(), "r", withInfo())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	h := p.Host(t, "r")
	asked := make(chan uint64, 8)
	err = h.ServeTasks(t.Context(), func(client int, task *bus.Task, plan *bus.Plan) error {
		asked <- task.Task
		return answerAtOnce(client, task, plan)
	})
	if err != nil {
		t.Fatal(err)
	}
	planned(t, c, 1)
	conn := p.bare(t)
	defer conn.Close()
	send := func(task uint64, token uint64) {
		stale := someTask(task)
		stale.Fence = token
		stale.Stamp = natsbus.Stamp(c)
		b, err := bus.Marshal(nil, stale)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Publish("fedpace.r.client.1.task", b); err != nil {
			t.Fatal(err)
		}
	}
	send(100, natsbus.Token(c)-1)
	send(101, natsbus.Token(c))
	task := <-asked
	for task == 1 {
		task = <-asked
	}
	if task != 101 {
		t.Errorf("the host answers task %d, want 101 alone, of the coordinator that has the run", task)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	digest := bus.DigestOf(model)
	if err := c.PutModel(t.Context(), digest, model); err != nil {
		t.Fatal(err)
	}
	for number, token := range []uint64{natsbus.Token(c) - 1, natsbus.Token(c)} {
		job := someJob(uint64(number+1), digest, len(model))
		job.Fence = token
		b, err := bus.MarshalSealed(job)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := js.Publish(t.Context(), subject.Jobs("r", "go"), b); err != nil {
			t.Fatal(err)
		}
	}
	x, err := h.NextJob(t.Context(), "go")
	if err != nil {
		t.Fatal(err)
	}
	if x.Job().Job != 2 {
		t.Errorf("the host takes job %d, want 2 alone", x.Job().Job)
	}
}

// The bucket of the lease was lost with its revisions, and a host has seen a higher one.
func TestFence_HolderTakesHigherToken(t *testing.T) {
	t.Parallel()
	p := newPlace(t, true)
	config := withInfo()
	config.Lease = time.Second
	c, err := p.connect(t).OpenCoordinator(t.Context(), "r", config)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	high := natsbus.Token(c) + 1000<<16
	conn := p.bare(t)
	defer conn.Close()
	b, err := bus.Marshal(nil, &bus.InfoRequest{Host: "h", Fence: high})
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Publish(subject.Info("r"), b); err != nil {
		t.Fatal(err)
	}
	// The loss is signalled to the driver, which sends again what is open.
	if _, err := c.TakePlans(t.Context(), nil); !errors.Is(err, bus.ErrInterrupted) {
		t.Fatalf("got %v, want ErrInterrupted", err)
	}
	for natsbus.Token(c) <= high {
		if _, err := c.TakePlans(t.Context(), nil); !errors.Is(err, bus.ErrInterrupted) {
			t.Fatalf("got %v with the token %d, want ErrInterrupted until it is above %d", err, natsbus.Token(c), high)
		}
	}
}

// A bucket that is made again a moment later, as by a run that is resumed at once, gives a higher token, though its
// revisions count from 1 again; and JavaScript holds tokens exactly.
func TestFence_NextBucketIsHigher(t *testing.T) {
	made := time.Date(2026, 11, 30, 20, 0, 0, 0, time.UTC)
	before := natsbus.TokenOf(made, 2)
	after := natsbus.TokenOf(made.Add(30*time.Millisecond), 1)
	if after <= before {
		t.Errorf("the token after %d is %d", before, after)
	}
	last := natsbus.TokenOf(time.Date(2056, 12, 31, 0, 0, 0, 0, time.UTC), 1)
	if limit := uint64(1) << 53; last >= limit {
		t.Errorf("in 2056 a token is %d, want one below %d", last, limit)
	}
}
