package natsbus_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"fedpace/bus"
	"fedpace/bus/bustest/conformance"
)

// named joins run r as a host of another process, with this name and number of workers.
func (p *place) named(t *testing.T, name string, workers int) bus.Host {
	t.Helper()
	conn := p.connect(t)
	info, err := conn.AskRun(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	h, err := conn.OpenHost(t.Context(), "r", bus.HostConfig{Name: name, Stamp: info.Stamp, Workers: workers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// plansOf sends tasks to clients 0 to n-1, as the driver of a run does, until each has its plan.
func plansOf(t *testing.T, c bus.Coordinator, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	planned := map[int]bool{}
	send := func() {
		for i := range n {
			if planned[i] {
				continue
			}
			if err := c.SendTask(i, someTask(uint64(i+1))); err != nil {
				t.Fatal(err)
			}
		}
	}
	send()
	for len(planned) < n {
		plans, err := c.TakePlans(ctx, nil)
		if errors.Is(err, bus.ErrInterrupted) {
			send()
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range plans {
			if p.Plan.Task != uint64(p.Client+1) {
				t.Fatalf("the plan of client %d is for task %d", p.Client, p.Plan.Task)
			}
			planned[p.Client] = true
		}
	}
}

// A host that has stopped is passed over long before the run's patience, its
// lease or anything else ends; tasks go to it again after it has gone on.
func TestPlacement_AnsweringHosts(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		said := make(lines, 1000)
		c := p.CoordinatorWith(t, "r", bus.CoordinatorConfig{Info: someInfo(), PlanPatience: time.Hour, Notice: said.add})
		goOn, stands, answered := make(chan struct{}), make(chan struct{}, 1), make(chan struct{}, 1)
		note := func(c chan struct{}) {
			select {
			case c <- struct{}{}:
			default:
			}
		}
		if err := p.named(t, "well", 1).ServeTasks(t.Context(), answerAtOnce); err != nil {
			t.Fatal(err)
		}
		said.until(t, "Host well is there") // before the other may say so first
		err := p.named(t, "stopped", 1).ServeTasks(t.Context(), func(client int, task *bus.Task, plan *bus.Plan) error {
			note(stands)
			<-goOn
			note(answered)
			return answerAtOnce(client, task, plan)
		})
		if err != nil {
			t.Fatal(err)
		}
		said.until(t, "Host stopped is there")
		for range 100 {
			plansOf(t, c, 50)
		}
		<-stands
		close(goOn)
		<-answered
		for range 100 {
			plansOf(t, c, 50)
		}
	})
}

// The jobs of a host that is gone go to others at once, and the host does not
// count as a trainer that failed.
func TestCoordinator_HostGone(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		said := make(lines, 1000)
		c := p.CoordinatorWith(t, "r", bus.CoordinatorConfig{Info: someInfo(), AckWait: time.Hour, MaxDeliver: 2, Notice: said.add})
		d := &conformance.Ends{T: t, C: c, Digest: bus.DigestOf(model)}
		d.OK(c.PutModel(t.Context(), d.Digest, model))
		d.Send(1)
		for range 5 {
			h := p.named(t, "mortal", 1)
			d.OK(h.ServeTasks(t.Context(), answerAtOnce))
			said.until(t, "Host mortal is there")
			d.H = h
			_ = d.Next()
			d.OK(h.Close()) // it does not give the job back
			said.until(t, "Host mortal has left")
		}
		d.H = p.named(t, "well", 1)
		x := d.Next()
		done := d.Post(d.Sum(1))
		d.Take().Accept()
		d.OK(<-done)
		d.OK(x.Done(t.Context()))
		d.None(100 * time.Millisecond)
	})
}

// A plan of a task of the coordinator before, which may have had the same number and
// another start, does not count.
func TestPlan_OfAnotherCoordinator(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		c := p.CoordinatorWith(t, "r", bus.CoordinatorConfig{Info: someInfo()})
		h := p.named(t, "a", 0)
		if err := h.ServeTasks(t.Context(), func(client int, task *bus.Task, plan *bus.Plan) error {
			if client == 1 {
				plan.Placement += 1 << 32
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		send := func() {
			for _, client := range []int{1, 0, 2} {
				if err := c.SendTask(client, someTask(6)); err != nil {
					t.Fatal(err)
				}
			}
		}
		send()
		got := map[int]bool{}
		for !got[0] || !got[2] {
			plans, err := c.TakePlans(t.Context(), nil)
			if errors.Is(err, bus.ErrInterrupted) {
				send()
			} else if err != nil {
				t.Fatal(err)
			}
			for _, x := range plans {
				got[x.Client] = true
			}
		}
		if got[1] {
			t.Error("the plan of another coordinator's task counts")
		}
	})
}
