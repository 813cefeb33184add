package gateway

import (
	"strings"
	"testing"
	"time"

	"fedpace/bus"
)

// An idle device whose echoes stay away by one path connects anew; one whose echoes come by both does not.
func TestDevice_EchoesMissing(t *testing.T) {
	for name, c := range map[string]struct {
		tasks, answers bool
		want           string
	}{
		"both come":      {true, true, ""},
		"no task echoes": {false, true, "nothing arrives on the subject"},
		"no answers":     {true, false, "no answers to this device's requests"},
	} {
		t.Run(name, func(t *testing.T) {
			line := newStubLine()
			requests := make(chan *bus.Request, 64)
			line.answer = func(r *bus.Request) error {
				requests <- r
				if c.answers {
					return r.Decode(nil)
				}
				return bus.ErrTooLarge
			}
			d, err := OpenDevice(t.Context(), line, DeviceConfig{ID: "pi", Run: "r", Join: &bus.Join{Name: "pi"}})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			d.mu.Lock()
			d.run = "r"
			d.welcome = &bus.Welcome{HeartbeatSeconds: 3600, Echoes: true, AnswersHeartbeats: true}
			d.mu.Unlock()
			var last uint64
			for range 2 {
				d.mu.Lock()
				for _, path := range []*echoPath{&d.heard.tasks, &d.heard.answers} {
					path.pendingSent = path.pendingSent.Add(-deafTime)
				}
				d.mu.Unlock()
				d.heartbeat()
				h := new(bus.Heartbeat)
				if err := bus.Unmarshal((<-requests).Data, h); err != nil || h.Echo <= last {
					t.Fatalf("the heartbeat is %v, %v; want one that asks for another echo", h, err)
				}
				if c.tasks && h.TaskEcho != last || c.answers && h.AnswerEcho != last {
					t.Errorf("the heartbeat %v does not report the echo %d", h, last)
				}
				last = h.Echo
				d.probing.Wait()
				if c.tasks {
					line.task(t, &bus.Task{Echo: last})
				}
			}
			got := ""
			if c.want != "" {
				got = <-line.moved
			}
			if len(line.moved) > 0 || !strings.Contains(got, c.want) {
				t.Errorf("it connects anew because %q, want %q", got, c.want)
			}
			if d.mailbox.Pending() != 0 {
				t.Error("an echo waits as if it were a task")
			}
		})
	}
}

// A run that has no listener for heartbeats is away, which another connection would not help.
func TestDevice_EchoesOfAbsentRun(t *testing.T) {
	line := newStubLine()
	line.answer = func(*bus.Request) error { return bus.ErrNoListener }
	d, err := OpenDevice(t.Context(), line, DeviceConfig{ID: "pi", Run: "r", Join: &bus.Join{Name: "pi"}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	d.mu.Lock()
	d.run = "r"
	d.welcome = &bus.Welcome{HeartbeatSeconds: 3600, Echoes: true, AnswersHeartbeats: true}
	d.mu.Unlock()
	for range 3 {
		d.heartbeat()
		d.probing.Wait()
		d.mu.Lock()
		if d.heard.tasks.pending != 0 || d.heard.answers.pending != 0 {
			t.Error("echoes of an absent run are waited for")
		}
		d.mu.Unlock()
	}
	if len(line.moved) > 0 {
		t.Errorf("it connects anew because %q", <-line.moved)
	}
}

// echo delivers a heartbeat that asks for an echo and reports these, after the time since the one before.
func (b *bench) echo(number, taskEcho, answerEcho uint64, after time.Duration) {
	b.Helper()
	b.gateway.withPeer(0, func(x *peer) {
		for _, path := range []*echoPath{&x.echoes.tasks, &x.echoes.answers} {
			path.pendingSent = path.pendingSent.Add(-after)
			path.lastMiss = path.lastMiss.Add(-after)
		}
	})
	h := &bus.Heartbeat{
		Process:    1,
		Echo:       number,
		TaskEcho:   taskEcho,
		AnswerEcho: answerEcho,
	}
	b.line.deliver("fedpace.r.client.pi.heartbeat", b.message("heartbeat", inbox, h))
}

// An idle device that gets no echoes by one path leaves after three heartbeats without them, which is eight seconds. It
// takes part again when echoes arrive by both.
func TestReach_EchoesLost(t *testing.T) {
	const every = 2 * time.Second
	for name, c := range map[string]struct {
		tasks, answers bool
		want           string
	}{
		"no answers": {true, false, "it gets no answers: its heartbeats arrive"},
		"no tasks":   {false, true, "it gets no tasks: its heartbeats arrive"},
		"neither":    {false, false, "it gets no answers"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, true)
			// The echoes that the device reports.
			taskEcho, answerEcho := uint64(0), uint64(0)
			beat := func(number uint64, tasks, answers bool) {
				b.echo(number, taskEcho, answerEcho, every)
				if tasks {
					taskEcho = number
				}
				if answers {
					answerEcho = number
				}
			}
			beat(1, true, true)
			for number := uint64(2); number < 5; number++ {
				beat(number, c.tasks, c.answers)
				b.departs("")
			}
			beat(5, c.tasks, c.answers)
			b.departs(c.want)
			beat(6, c.tasks, c.answers)
			b.gateway.call()
			for range 2 {
				b.join(true, "")
				if b.gateway.Stats().Present != 0 {
					t.Error("the device takes part although it does not report echoes")
				}
			}
			beat(7, true, true)
			beat(8, true, true)
			b.join(true, "")
			b.want(Joined)
		})
	}
}

// A device that is at work, or whose echoes take long as before, is not judged by those that are under way; nor is one
// whose heartbeats of a while arrive at once, as a coordinator finds them that stood still.
func TestReach_EchoesLate(t *testing.T) {
	const every = 2 * time.Second
	for name, beat := range map[string]func(b *bench, number uint64){
		"at work": func(b *bench, number uint64) {
			b.gateway.withPeer(0, func(x *peer) { x.echoes.answers.pendingSent = x.echoes.answers.pendingSent.Add(-every) })
			b.beat(&bus.Heartbeat{Task: 1 << 52, Echo: number})
		},
		"slow link": func(b *bench, number uint64) {
			b.gateway.withPeer(0, func(x *peer) { x.downloadChunkTime = 10 * time.Second })
			b.echo(number, 0, 0, every)
		},
		"slow echoes": func(b *bench, number uint64) {
			b.gateway.withPeer(0, func(x *peer) { x.echoes.answers.slowestTrip = 10 * time.Second })
			b.echo(number, number, 0, every)
		},
		"at once": func(b *bench, number uint64) {
			after := time.Duration(0)
			if number == 2 {
				after = time.Minute
			}
			b.echo(number, 0, 0, after)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, true)
			for number := uint64(1); number < 8; number++ {
				beat(b, number)
			}
			b.departs("")
		})
	}
}
