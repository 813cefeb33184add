package conformance

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"fedpace/bus"
)

// waitsEndWithContext checks that every call that waits ends with its context, and returns its error.
func waitsEndWithContext(t *testing.T, p *Bus) {
	c, h := p.Coordinator(t, "r"), p.Host(t, "r")
	for _, x := range []struct {
		name string
		wait func(context.Context) error
	}{
		{"TakePlans", func(ctx context.Context) error { _, err := c.TakePlans(ctx, nil); return err }},
		{"TakeSum", func(ctx context.Context) error { _, err := c.TakeSum(ctx); return err }},
		{"NextJob", func(ctx context.Context) error { _, err := h.NextJob(ctx, "nobody"); return err }},
		{"SendSum", func(ctx context.Context) error { // nobody takes it
			if err := c.SendJob(ctx, Job(1, bus.DigestOf(Model), 3)); err != nil {
				return err
			}
			return h.SendSum(ctx, Result(1, bus.DigestOf(Model), make([]int64, 3), &bus.ClientLoss{Task: 9}))
		}},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		if err := x.wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %v", x.name, err)
		}
		cancel()
	}
}

// invalidMessagesRefused sends invalid tasks and jobs and opens runs with invalid names. Each is refused with an
// error that names the field.
func invalidMessagesRefused(t *testing.T, p *Bus) {
	c := p.Coordinator(t, "r")
	task := func(f func(*bus.Task)) error { x := Task(1); f(x); return c.SendTask(1, x) }
	job := func(f func(*bus.Job)) error {
		j := Job(1, bus.DigestOf(Model), 3)
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
		"task: update_bits is 9223372036854775807":   task(func(x *bus.Task) { x.UpdateBits = math.MaxUint64 }),
		"task: joules is -1, want 0 to":              task(func(x *bus.Task) { x.Joules = -1 }),
		"task: joules is NaN":                        task(func(x *bus.Task) { x.Joules = nan }),
		"task: device is 4294967295, want 0 to":      task(func(x *bus.Task) { x.Device = math.MaxUint32 }),
		"task: presence is 4294967295, want 0 to":    task(func(x *bus.Task) { x.Presence = math.MaxUint32 }),
		"client -1, want 0 to":                       c.SendTask(-1, Task(1)),
		"job: job is 0":                              job(func(j *bus.Job) { j.Job = 0 }),
		"job: kind is 0, want train (1) or evaluate": job(func(j *bus.Job) { j.Kind = 0 }),
		"job: model_digest is empty":                 job(func(j *bus.Job) { j.ModelDigest = make([]byte, 32) }),
		"job: number of clients is 0":                job(func(j *bus.Job) { j.Clients = nil }),
		"job: clients.weight is 1.5, want 0 to 1":    job(func(j *bus.Job) { j.Clients[0].Weight = 1.5 }),
		"job: clients.weight is NaN":                 job(func(j *bus.Job) { j.Clients[0].Weight = nan }),
		"job: clients.batch is 1048577, want 0 to":   job(func(j *bus.Job) { j.Clients[0].Batch = bus.MaxBatch + 1 }),
		"job: spec.batch is 0":                       job(func(j *bus.Job) { j.Spec.Batch = 0 }),
		"kernel \"a.b\" holds '.'":                   job(func(j *bus.Job) { j.Kernel = "a.b" }),
		`job: kernel is avx2, want the run's, "go"`:  job(func(j *bus.Job) { j.Kernel = "avx2" }),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	for _, name := range []string{"", "a.b", "a b", "*", ">", "ü", strings.Repeat("x", 65)} {
		if _, err := p.Connect(t).OpenCoordinator(t.Context(), name, bus.CoordinatorConfig{}); err == nil {
			t.Errorf("run %q is taken", name)
		}
		if _, err := p.Connect(t).OpenHost(t.Context(), name, bus.HostConfig{}); err == nil {
			t.Errorf("a host joins run %q", name)
		}
	}
}
