package natsbus_test

import (
	"testing"
	"time"

	"fedpace/bus"
	"fedpace/bus/natsbus"
)

// Tasks leave in few messages. A host that is busy answers what has come meanwhile in few
// messages, and at once though the last of it is no task.
func TestHost_AnswersTogether(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		c, h := p.Coordinator(t, "r"), p.Host(t, "r")
		busy, free := make(chan bool), make(chan bool)
		err := h.ServeTasks(t.Context(), func(client int, task *bus.Task, plan *bus.Plan) error {
			if client == 0 {
				busy <- true
				<-free
			}
			return answerAtOnce(client, task, plan)
		})
		if err != nil {
			t.Fatal(err)
		}
		conn := p.bare(t)
		defer conn.Close()
		messages, err := conn.SubscribeSync("fedpace.r.client.*.plan")
		if err != nil {
			t.Fatal(err)
		}
		tasks, err := conn.SubscribeSync("fedpace.r.client.*.task")
		if err != nil {
			t.Fatal(err)
		}
		// The server has the subscriptions before the first task.
		if err := conn.Flush(); err != nil {
			t.Fatal(err)
		}
		const n = 2*(bus.MaxOthers+1) + 100
		for i := range n {
			if err := c.SendTask(i, someTask(uint64(i+1))); err != nil {
				t.Fatal(err)
			}
		}
		<-busy
		settled := func() {
			if err := natsbus.Settled(t.Context(), c, h); err != nil {
				t.Fatal(err)
			}
			if err := conn.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		settled()
		if err := conn.Publish("fedpace.r.client.7.task", []byte("no task")); err != nil {
			t.Fatal(err)
		}
		settled()
		close(free)
		got := map[int]int64{}
		for len(got) < n {
			plans, err := c.TakePlans(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range plans {
				if _, twice := got[x.Client]; twice || x.Plan.Task != uint64(x.Client+1) {
					t.Fatalf("client %d has a plan for task %d, or a second one", x.Client, x.Plan.Task)
				}
				got[x.Client] = x.Plan.ComputeNs
			}
		}
		for client, compute := range got {
			if compute != int64(client)*17_000_000 {
				t.Fatalf("client %d has the plan of another", client)
			}
		}
		for range 3 {
			if _, err := messages.NextMsg(patience); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 + 1 { // and the one that is no task
			if _, err := tasks.NextMsg(patience); err != nil {
				t.Fatal(err)
			}
		}
		if m, err := tasks.NextMsg(50 * time.Millisecond); err == nil {
			t.Errorf("%d tasks leave in more than 3 messages: %q", n, m.Subject)
		}
		if m, err := messages.NextMsg(50 * time.Millisecond); err == nil {
			t.Errorf("%d plans come in more than 3 messages: %q", n, m.Subject)
		}
	})
}
