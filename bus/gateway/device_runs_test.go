package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"fedpace/bus"
	"fedpace/bus/auth"
	"fedpace/bus/gateway"
)

// next waits for the device's next task. An error fails the test, and the result is then nil.
func (o *office) next() *gateway.DeviceTask {
	o.Helper()
	t, err := o.device.Next(o.Context())
	if err != nil {
		o.Error(err)
	}
	return t
}

// deviceTask returns the device's task number n, as a gateway sends it.
func deviceTask(n uint64) *bus.Task {
	return &bus.Task{Task: 1<<52 + n, Round: 1, LocalSteps: 2, LearningRate: 0.1, ModelDigest: bus.DigestOf(model).Bytes()}
}

// A device may name any subject for the answers to its requests, another device's
// task subject among them. Neither the server's answers (chunks of models, which
// read as tasks) nor the gateway's move the other device.
func TestDevice_MisdirectedAnswers(t *testing.T) {
	o := openOffice(t, "r", nil)
	large := make([]float32, 1<<18+7) // three chunks
	for _, m := range [][]float32{model, large} {
		if err := o.run.PutModel(t.Context(), bus.DigestOf(m), m); err != nil {
			t.Fatal(err)
		}
	}
	task := o.working()
	get := "$JS.API.DIRECT.GET.fedpace_r_models.fedpace.r.model." + bus.DigestOf(large).String() + "."
	for i, request := range []string{get + "0", get + "1", get + "2", get + "9", "join", "update.0"} {
		id := fmt.Sprint("other", i) // one that names a subject twice is sent away
		evil, _ := o.Raw(o.Creds(auth.Grant{Role: auth.RoleDevice, ID: id}), nats.CustomInboxPrefix("_INBOX_"+id))
		if !strings.HasPrefix(request, "$JS") {
			request = "fedpace.r.client." + id + "." + request
		}
		if err := evil.PublishRequest(request, "fedpace.r.client.pi.task", nil); err != nil {
			t.Fatal(err)
		}
		if err := evil.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-task.Context.Done():
		t.Error("another device ends its work")
	case <-time.After(300 * time.Millisecond):
	}
	ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	if forged, err := o.device.Next(ctx); forged != nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("another device gives it the task %+v, %v", forged, err)
	}
}

// serve has the device answer each task with the model that the task names, until the test ends. The channel receives
// its errors.
func (o *office) serve() <-chan error {
	o.Helper()
	failures := make(chan error, 64)
	ctx, stop := context.WithCancel(context.Background())
	var device sync.WaitGroup
	device.Go(func() {
		for ctx.Err() == nil {
			task, err := o.device.Next(ctx)
			if err == nil {
				var params []float32
				params, err = o.device.Model(task.Context, "r", bus.DigestFrom(task.Task.ModelDigest))
				if err == nil {
					err = o.device.Send(task.Context, task.Run, &bus.DeviceUpdate{Values: params, Update: &bus.Update{Task: task.Task.Task, Samples: 1}})
				}
			}
			if err != nil && ctx.Err() == nil {
				failures <- err
			}
		}
	})
	o.Cleanup(func() {
		stop()
		device.Wait()
	})
	return failures
}

// put publishes a model of the run's size whose first value is first, and returns its digest.
func (o *office) put(first float32) bus.Digest {
	o.Helper()
	m := append([]float32{first}, model[1:]...)
	if err := o.run.PutModel(o.Context(), bus.DigestOf(m), m); err != nil {
		o.Fatal(err)
	}
	return bus.DigestOf(m)
}

// die ends the run's gateway as a crash does: no device gets a message.
func (o *office) die() { o.line.Close() }

// A run that has the name of one that died starts to number its tasks anew: what
// the device did for the other is no answer to it.
func TestDevice_TaskOfAnotherRun(t *testing.T) {
	o := openOffice(t, "", nil)
	o.serve()
	for _, first := range []float32{40, 41} {
		o.await(gateway.Joined)
		task := deviceTask(0)
		task.ModelDigest = o.put(first).Bytes()
		if err := o.gateway.SendTask(0, task); err != nil {
			t.Fatal(err)
		}
		if n := o.await(gateway.Updated); n.Update.Values[0] != first {
			t.Fatalf("the update starts with %g, want %g", n.Update.Values[0], first)
		}
		o.die()
		o.gateway, o.line = o.openGateway("r", nil)
	}
}

// A coordinator may give a number of the one before to another task. An update for
// that one does not count, and the task stays open for the device's next.
func TestGateway_OtherTaskOfNumber(t *testing.T) {
	o := openOffice(t, "r", nil)
	before := o.working().Task.Digest
	for name, now := range map[string]*bus.Task{
		"base model":    {Task: 1 << 52, Round: 1, LocalSteps: 2, LearningRate: 0.1, ModelDigest: o.put(41).Bytes()},
		"steps":         {Task: 1 << 52, Round: 1, LocalSteps: 3, LearningRate: 0.1, ModelDigest: bus.DigestOf(model).Bytes()},
		"learning rate": {Task: 1 << 52, Round: 1, LocalSteps: 2, LearningRate: 0.2, ModelDigest: bus.DigestOf(model).Bytes()},
		"steps before":  {Task: 1 << 52, Round: 1, LocalSteps: 2, LearningRate: 0.1, ModelDigest: bus.DigestOf(model).Bytes(), StepsDone: 2},
	} {
		send := func(task []byte) error {
			return o.device.Send(t.Context(), "r", &bus.DeviceUpdate{Values: model, Update: &bus.Update{Task: now.Task, TaskDigest: task, Samples: 1}})
		}
		for _, says := range []bool{true, false} { // a device of before does not say
			o.die()
			o.gateway, o.line = o.openGateway("r", nil)
			if err := o.gateway.SendTask(0, now); err != nil {
				t.Fatal(err)
			}
			if err := send(before); !errors.Is(err, gateway.ErrUpdateRefused) || !strings.Contains(err.Error(), "has another digest") {
				t.Errorf("another %s: an update of the task before: %v", name, err)
			}
			task := now.Digest
			if !says {
				task = nil
			}
			if err := send(task); err != nil {
				t.Errorf("another %s: %v", name, err)
			}
			if n := o.await(gateway.Updated); !bytes.Equal(n.Update.TaskDigest, task) {
				t.Errorf("another %s: the update is of the task %x, want %x", name, n.Update.TaskDigest, task)
			}
			if err := send(before); !errors.Is(err, gateway.ErrUpdateRefused) {
				t.Errorf("another %s: an update of the task before, when the task is done: %v", name, err)
			}
		}
	}
}

// A device that two runs name takes part in one at a time: the second has it when
// the first is over, or does not answer any more.
func TestDevice_ConsecutiveRuns(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"over", "dead"} {
		t.Run(end, func(t *testing.T) {
			o := openOffice(t, "", nil)
			o.serve()
			o.await(gateway.Joined)
			calls, err := o.Admin().SubscribeSync("fedpace.s.client.pi.task")
			if err != nil {
				t.Fatal(err)
			}
			second, _ := o.openGateway("s", nil)
			for n := range uint64(3) {
				task := deviceTask(n)
				task.ModelDigest = o.put(float32(n)).Bytes()
				if err := o.gateway.SendTask(0, task); err != nil {
					t.Fatal(err)
				}
				o.await(gateway.Updated)
				for range 2 { // the second run calls, and calls again
					if _, err := calls.NextMsg(time.Minute); err != nil {
						t.Fatal("the second run does not call: ", err)
					}
				}
			}
			if !second.LastHeard(0).IsZero() {
				t.Error("the device is in the second run while the first goes on")
			}
			if end == "dead" {
				o.die()
			} else if err := o.gateway.Close(); err != nil {
				t.Fatal(err)
			}
			o.gateway = second
			o.await(gateway.Joined)
		})
	}
}

// An update that nobody answers does not hold the device for ever: another run
// may have it, and the run that died gets the update when it asks again.
func TestDevice_UpdateUnanswered(t *testing.T) {
	t.Parallel()
	o := openOffice(t, "", nil)
	failures := o.serve()
	o.await(gateway.Joined)
	task := deviceTask(0)
	task.ModelDigest = o.put(40).Bytes()
	if err := o.gateway.SendTask(0, task); err != nil {
		t.Fatal(err)
	}
	o.die()
	if err := <-failures; !errors.Is(err, gateway.ErrUnanswered) {
		t.Fatalf("the device says %v", err)
	}
	o.gateway, o.line = o.openGateway("r", nil)
	o.await(gateway.Joined)
	if err := o.gateway.SendTask(0, task); err != nil {
		t.Fatal(err)
	}
	if n := o.await(gateway.Updated); n.Update.Values[0] != 40 {
		t.Errorf("the update starts with %g", n.Update.Values[0])
	}
}

// A device that is long at work hears every call of a run that does not know it,
// and keeps one.
func TestDevice_ManyCalls(t *testing.T) {
	t.Parallel()
	o := openOffice(t, "", nil)
	task := o.working()
	inside := o.Admin()
	for range 2000 {
		if err := inside.Publish("fedpace.r.client.pi.task", nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := inside.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := o.gateway.SendTask(0, deviceTask(1)); err != nil {
		t.Fatal(err)
	}
	<-task.Context.Done()
	if next := o.next(); next == nil || next.Task.Task != 1<<52+1 {
		t.Errorf("the next task is %+v", next)
	}
}

// The next task, or the run's end, may come before the answer to the last message of an update: that counts
// all the same.
func TestDevice_NextTaskBeforeAnswer(t *testing.T) {
	t.Parallel()
	for _, next := range []*bus.Task{deviceTask(1), {Over: true}} {
		o := openOffice(t, "r", nil)
		task := o.working()
		o.die()
		admin := o.Admin()
		answer := func(v bus.Status, m *nats.Msg) {
			b, err := proto.Marshal(&bus.DeviceReply{Status: v})
			if err == nil {
				err = m.Respond(b)
			}
			if err != nil {
				t.Error(err)
			}
		}
		_, err := admin.Subscribe("fedpace.r.client.pi.update.*", func(m *nats.Msg) {
			if strings.HasSuffix(m.Subject, ".0") {
				answer(bus.Continue, m)
				return
			}
			b, err := proto.Marshal(next)
			if err == nil {
				err = admin.Publish("fedpace.r.client.pi.task", b)
			}
			if err != nil {
				t.Error(err)
			}
			time.Sleep(50 * time.Millisecond) // so that it is there first
			answer(bus.Accepted, m)
		})
		if err == nil {
			err = admin.Flush()
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := o.device.Send(task.Context, "r", &bus.DeviceUpdate{Values: model, Update: &bus.Update{Task: 1 << 52, Samples: 1}}); err != nil {
			t.Errorf("an update that the run took before %v: %v", next, err)
		}
		if got, err := o.device.Next(t.Context()); next.Over != errors.Is(err, gateway.ErrOver) || !next.Over && (got == nil || got.Task.Task != next.Task) {
			t.Errorf("next is %+v, %v", got, err)
		}
	}
}

// Messages about a task that is open count as a device's own noise unless they are
// the ones that it is asked for: they use up its place.
func TestChunks_WrongCount(t *testing.T) {
	t.Parallel()
	o := openOffice(t, "r", nil)
	evil, _ := o.Raw(o.Creds(auth.Grant{Role: auth.RoleDevice, ID: "other"}), nats.CustomInboxPrefix("_INBOX_other"))
	send := func(u *bus.Update, subject string) {
		t.Helper()
		b, err := proto.Marshal(u)
		if err != nil {
			t.Fatal(err)
		}
		if err := evil.Publish("fedpace.r.client.other."+subject, b); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.gateway.SendTask(1, deviceTask(0)); err != nil {
		t.Fatal(err)
	}
	send(&bus.Update{Task: 1 << 52, Chunks: 3, Values: make([]byte, 4)}, "update.0")
	for i := range uint32(700) {
		send(&bus.Update{Task: 1 << 52, Chunk: 1, Chunks: 2 + 5*(i%2), Values: make([]byte, 4)}, "update.1")
		send(&bus.Update{Task: 1 << 52, Chunk: 1, Chunks: 1, FirstStepLoss: 1, Samples: 1}, "update.1")
	}
	if n := o.await(gateway.Flooded); n.Device != 1 {
		t.Errorf("%+v", n)
	}
}

// working waits until the office's device has joined, sends it a task, and returns the task as the device got it.
func (o *office) working() *gateway.DeviceTask {
	o.Helper()
	arrived := make(chan *gateway.DeviceTask, 1)
	go func() { arrived <- o.next() }()
	o.await(gateway.Joined)
	if err := o.gateway.SendTask(0, deviceTask(0)); err != nil {
		o.Fatal(err)
	}
	return <-arrived
}

// A device that waits for any run ignores the calls of a calibration, and joins the run
// that calls next.
func TestDevice_IgnoresCalibration(t *testing.T) {
	o := openOffice(t, "", nil)
	if err := o.gateway.Close(); err != nil {
		t.Fatal(err)
	}
	admin := o.Admin()
	calls, err := admin.SubscribeSync("fedpace." + bus.Calibration + ".client.pi.task")
	if err == nil {
		err = admin.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- o.work() }()
	calibration, _ := o.openGateway(bus.Calibration, nil)
	for range 2 { // the device has got one when the other comes
		if _, err := calls.NextMsg(time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	o.gateway, _ = o.openGateway("next", nil)
	o.await(gateway.Joined)
	if !calibration.LastHeard(0).IsZero() {
		t.Error("it joined the calibration")
	}
	if err := o.gateway.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, gateway.ErrOver) {
		t.Errorf("%v", err)
	}
}
