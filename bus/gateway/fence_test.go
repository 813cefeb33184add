package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"fedpace/bus"
)

func TestFences_Admits(t *testing.T) {
	start := time.Unix(1e9, 0)
	f := fences{}
	for i, x := range []struct {
		run    string
		token  uint64
		second int
		want   bool
	}{
		{"a", 7, 0, true},
		{"a", 6, 1, false},
		{"b", 1, 1, true},
		{"a", noFence, 2, true},
		{"a", 7, 3, true},
		// A single message of a coordinator that stood still is refused, however late it comes.
		{"a", 6, 600, false},
		{"a", 8, 601, true},
		{"a", 7, 602, false},
		// Lower tokens alone, a message each second, are of a server that counts from the beginning.
		{"a", 3, 610, false},
		{"a", 3, 614, false},
		{"a", 3, 618, false},
		{"a", 3, 622, false},
		{"a", 3, 626, false},
		{"a", 3, 630, false},
		{"a", 3, 634, false},
		{"a", 3, 638, false},
		{"a", 3, 641, true},
		{"a", 4, 642, true},
	} {
		if got := f.admits(x.run, x.token, start.Add(time.Duration(x.second)*time.Second)); got != x.want {
			t.Errorf("message %d, token %d of run %s: %v, want %v", i, x.token, x.run, got, x.want)
		}
	}
	for i := range 2 * maxFences {
		f.admits(fmt.Sprint("run", i), 1, start.Add(time.Hour+time.Duration(i)*time.Second))
	}
	if len(f) != maxFences {
		t.Errorf("the tokens of %d runs are kept, want %d", len(f), maxFences)
	}
}

// A device heeds the end of the run only from the coordinator that has it, and says whose messages it has heard.
func TestDevice_RefusesEarlierCoordinator(t *testing.T) {
	line := newStubLine()
	fence := make(chan uint64, 8)
	line.answer = func(r *bus.Request) error {
		join := new(bus.Join)
		if err := bus.Unmarshal(r.Data, join); err != nil {
			return err
		}
		fence <- join.Fence
		welcome := &bus.Welcome{Clients: 1, Params: 1, HeartbeatSeconds: 3600, Spec: &bus.Spec{Model: "linear:2,2", Batch: 1}}
		b, err := bus.Marshal(nil, &bus.DeviceReply{Status: bus.Accepted, Welcome: welcome})
		if err != nil {
			return err
		}
		return r.Decode(b)
	}
	d, err := OpenDevice(t.Context(), line, DeviceConfig{ID: "pi", Join: &bus.Join{Name: "pi"}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	task := func(task *bus.Task) {
		b, err := bus.Marshal(nil, task)
		if err != nil {
			t.Fatal(err)
		}
		line.deliver("fedpace.*.client.pi.task", &bus.RawMessage{Subject: "fedpace.r.client.pi.task", Data: b})
	}
	const first = 1 << 52
	work := &bus.Task{Task: first, Round: 1, LocalSteps: 1, LearningRate: 0.1}
	if err := work.Seal(); err != nil {
		t.Fatal(err)
	}
	work.Fence = 7
	task(&bus.Task{Fence: 7})
	task(work)
	got, err := d.Next(t.Context())
	if err != nil || got.Task.Task != first {
		t.Fatalf("%v, %v", got, err)
	}
	if token := <-fence; token != 7 {
		t.Errorf("its join has the token %d, want 7", token)
	}
	// The run was resumed: its task comes again with a higher token, and is the same.
	work.Fence = 8
	task(work)
	if got.Context.Err() != nil {
		t.Error("a task with another token ends the work on it")
	}
	task(&bus.Task{Over: true, Fence: 7})
	task(&bus.Task{Task: first + 1, Round: 1, LocalSteps: 1, LearningRate: 0.1, Fence: 7})
	if got.Context.Err() != nil || d.mailbox.Pending() != 0 {
		t.Error("a coordinator that was taken over is heeded")
	}
	task(&bus.Task{Over: true, Fence: 8})
	if _, err := d.Next(t.Context()); !errors.Is(err, ErrOver) {
		t.Errorf("the end of the run: %v", err)
	}
}

// A coordinator that was taken over answers no device that has heard of the other one. A device that does
// not heed tokens gets none with its task, which it compares with the one before.
func TestGateway_Outranked(t *testing.T) {
	for _, heedsFences := range []bool{false, true} {
		b := newBench(t, heedsFences)
		b.token = 9
		task := b.sent(1)
		digest := bytes.Clone(task.Digest)
		got := new(bus.Task)
		if err := decodeDeviceTask(b.line.next(t, "fedpace.r.client.pi.task"), got); err != nil {
			t.Fatal(err)
		}
		want := uint64(noFence)
		if heedsFences {
			want = 9
		}
		if got.Fence != want {
			t.Errorf("the task has the token %d, want %d; heeds fences: %v", got.Fence, want, heedsFences)
		}
		b.token = 10
		if b.sent(1); !bytes.Equal(task.Digest, digest) {
			t.Error("a task has another digest with another token")
		}
		b.chunk(task, 10)
		b.line.next(t, inbox)
		b.chunk(task, 11)
		if len(b.line.published) > 0 {
			t.Errorf("a message of a device that has heard of another coordinator is answered: %v", <-b.line.published)
		}
		if e := b.want(Ignored); e.Text != "fenced: it has heard of another coordinator, which has taken the run over" {
			t.Errorf("the run hears %q", e.Text)
		}
	}
}
