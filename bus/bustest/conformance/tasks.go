package conformance

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"fedpace/bus"
)

// tasksPlannedOnce sends tasks to three hosts: each arrives as it was sent, and exactly one plan
// of each comes back, as the host made it.
func tasksPlannedOnce(t *testing.T, p *Bus) {
	c := p.Coordinator(t, "r")
	for range 3 {
		h := p.Host(t, "r")
		err := h.ServeTasks(t.Context(), func(client int, task *bus.Task, plan *bus.Plan) error {
			ignored := protocmp.IgnoreFields(task, "placement", "fence")
			if diff := cmp.Diff(Task(task.Task), task, protocmp.Transform(), ignored); diff != "" {
				t.Errorf("task (-sent +received):\n%s", diff)
			}
			plan.DownloadNs, plan.ComputeNs, plan.UploadNs = int64(client), 2, 3
			if client%2 == 1 {
				plan.Dropout = &bus.Dropout{Phase: bus.Compute, AfterNs: int64(task.Task)}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	const n = 1000
	for i := range n {
		if err := c.SendTask(i, Task(uint64(i+1))); err != nil {
			t.Fatal(err)
		}
	}
	got := map[int]*bus.Plan{}
	var buf []bus.ClientPlan
	for len(got) < n {
		var err error
		buf, err = c.TakePlans(t.Context(), buf)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range buf {
			if _, twice := got[p.Client]; twice {
				t.Fatalf("client %d planned twice", p.Client)
			}
			// The plan is the caller's until the next call.
			plan := proto.CloneOf(p.Plan)
			// These two fields are notes of the transport, not of the host.
			plan.Placement = 0
			plan.Client = 0
			got[p.Client] = plan
		}
	}
	for i := range n {
		want := &bus.Plan{Task: uint64(i + 1), DownloadNs: int64(i), ComputeNs: 2, UploadNs: 3}
		if i%2 == 1 {
			want.Dropout = &bus.Dropout{Phase: bus.Compute, AfterNs: int64(i + 1)}
		}
		if !proto.Equal(got[i], want) {
			t.Fatalf("client %d: got %+v, want %+v", i, got[i], want)
		}
	}
}

// manyTasksAnswered sends far more tasks at once than a transport holds: the sender is slowed
// down, and none is lost.
func manyTasksAnswered(t *testing.T, p *Bus) {
	c, h := p.Coordinator(t, "r"), p.Host(t, "r")
	if err := h.ServeTasks(t.Context(), Answer); err != nil {
		t.Fatal(err)
	}
	const n = 30_000
	for i := range n {
		if err := c.SendTask(i, Task(uint64(i+1))); err != nil {
			t.Fatal(err)
		}
	}
	var buf []bus.ClientPlan
	for got := 0; got < n; got += len(buf) {
		var err error
		buf, err = c.TakePlans(t.Context(), buf)
		if err != nil {
			t.Fatalf("after %d plans: %v", got, err)
		}
	}
}

// hostsReportFailedPlans checks that a host ends if it has no plan for a task, or one that is not valid, with an
// error that names client and task.
func hostsReportFailedPlans(t *testing.T, p *Bus) {
	for name, fn := range map[string]func(int, *bus.Task, *bus.Plan) error{
		"error":   func(int, *bus.Task, *bus.Plan) error { return errors.New("no such client") },
		"invalid": func(_ int, _ *bus.Task, p *bus.Plan) error { p.UploadNs = -1; return nil },
	} {
		c := p.Coordinator(t, name)
		h := p.Host(t, name)
		if err := h.ServeTasks(t.Context(), fn); err != nil {
			t.Fatal(err)
		}
		if err := c.SendTask(3, Task(8)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		// No plan comes, so only the context ends this call.
		go func() { _, _ = c.TakePlans(ctx, nil) }()
		defer cancel()
		select {
		case <-h.Done():
		case <-time.After(Patience):
			t.Fatal("the host goes on")
		}
		if err := h.Err(); !strings.Contains(err.Error(), "plan of client 3 for task 8") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// tasksWithoutHostsReported checks that TakePlans returns ErrInterrupted when no plan arrives for PlanPatience,
// and that a task which is then sent again is planned.
func tasksWithoutHostsReported(t *testing.T, p *Bus) {
	c := p.CoordinatorWith(t, "r", bus.CoordinatorConfig{PlanPatience: 100 * time.Millisecond})
	if err := c.SendTask(3, Task(1)); err != nil {
		t.Fatal(err)
	}
	err := PlanFailure(t, c)
	if !errors.Is(err, bus.ErrInterrupted) || !strings.Contains(err.Error(), "no plan for 100ms") {
		t.Fatalf("got %v", err)
	}
	if err := p.Host(t, "r").ServeTasks(t.Context(), Answer); err != nil {
		t.Fatal(err)
	}
	// On a busy machine a plan, too, may take longer than the Patience.
	for {
		if err := c.SendTask(3, Task(1)); err != nil {
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
}
