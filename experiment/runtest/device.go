package runtest

import (
	"context"
	"errors"

	"fedpace/bus"
	"fedpace/bus/gateway"
	"fedpace/bus/natsconn"
)

// Device is a made device: it answers every task at once, and what it answers is told to it.
type Device struct {
	ID, URL string
	Creds   string // of a server that asks for them
	Process uint64 // that it joins as
	Samples uint64 // that it says it has

	// Answer changes the values of a task's model, and fills an update that names the task.
	Answer func(task *bus.Task, values []float32, u *bus.Update)

	Forgives bool // it goes on where an update is refused, or not answered
	Waits    bool // once the run is over, it waits for it to go on
}

// TakePart has the device answer tasks until ctx ends, or the run if it does not wait.
func (d Device) TakePart(ctx context.Context) error {
	conn, err := natsconn.Connect(ctx, natsconn.Config{URL: d.URL, Name: d.ID, Creds: d.Creds, Await: true, Slow: true})
	if err != nil {
		return err
	}
	defer conn.Close()
	join := &bus.Join{
		Name:     d.ID,
		Kernel:   "go",
		Samples:  d.Samples,
		Protocol: bus.DeviceProtocol,
		Process:  d.Process,
	}
	to, err := gateway.OpenDevice(ctx, conn, gateway.DeviceConfig{ID: d.ID, Join: join})
	if err != nil {
		return err
	}
	defer to.Close()
	for {
		task, err := to.Next(ctx)
		switch {
		case errors.Is(err, gateway.ErrOver) && d.Waits:
			continue
		case errors.Is(err, gateway.ErrOver):
			return nil
		case err != nil:
			return err
		}
		err = d.answer(to, task)
		forgiven := d.Forgives && (errors.Is(err, gateway.ErrUpdateRefused) || errors.Is(err, gateway.ErrUnanswered))
		if err != nil && !forgiven && task.Context.Err() == nil { // else the next task is here, or will be
			return err
		}
	}
}

// answer fetches the model of a task, lets d.Answer fill the update, and sends it.
func (d *Device) answer(to *gateway.Device, task *gateway.DeviceTask) error {
	values, err := to.Model(task.Context, task.Run, bus.DigestFrom(task.Task.ModelDigest))
	if err != nil {
		return err
	}
	u := &bus.Update{Task: task.Task.Task, TaskDigest: task.Task.Digest}
	d.Answer(task.Task, values, u)
	return to.Send(task.Context, task.Run, &bus.DeviceUpdate{Values: values, Update: u})
}
