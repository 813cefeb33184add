package realdevices

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"fedpace/algorithm"
	"fedpace/bus"
	"fedpace/coordinator/round"
	"fedpace/internal/portable"
)

// describeJoin describes a device for people by its message j: its number of samples, if it gives
// that, whether it withholds its losses, and its kernel.
func describeJoin(j *bus.Join) string {
	facts := ""
	if j.Samples > 0 {
		facts = fmt.Sprintf("%d samples, ", j.Samples)
	}
	if j.WithholdsLoss {
		facts += "losses withheld, "
	}
	return facts + "kernel " + j.Kernel
}

// admitDevice returns nil if the device with this message may take part, or an error that says why not: a
// run whose configuration decides by losses needs devices that report theirs. The gateway calls it from its
// own goroutines when a device joins.
func (d *Devices) admitDevice(j *bus.Join) error {
	if d.Losses == "" || !j.WithholdsLoss {
		return nil
	}
	return fmt.Errorf("it withholds its losses (--withhold), by which %s decides", d.Losses)
}

// checkUpdate returns why a device's update cannot count, or nil if it can. It cannot if its task is not
// open, if it lacks a loss that the run needs, if its durations exceed the limit of a task, or if its
// values are wrong: not finite, too far from the base model, a buffer that no model can have, or votes that
// are none of -1, 0 and 1. The gateway calls it from its own goroutines, so it locks what it reads.
//
// An update's values are those of the model first, in its order: UpdateLength of them, of which the first
// Trainable are trained, then buffers up to Params. What the device keeps for its next task comes behind.
func (d *Devices) checkUpdate(update *bus.DeviceUpdate) error {
	d.mu.Lock()
	task := d.open[update.Task]
	d.mu.Unlock()
	if task == nil {
		return fmt.Errorf("task %d is not open", update.Task)
	}
	if err := d.checkLoss(update); err != nil {
		return err
	}
	if d.Secure != nil {
		// The values are masked, so nothing but the durations can be checked.
		return d.checkDurations(update)
	}
	base := d.differenceBase(task.base)
	// Values beyond Params are the device's kept state, which is not checked here.
	values := update.Values[:d.run.Params]
	if err := algorithm.Check(values[:d.run.UpdateLength], base[:d.run.UpdateLength]); err != nil {
		return err
	}
	// The record of a replayed run has only updates that passed the checks that follow.
	if d.Replay {
		return nil
	}
	if check := d.run.CheckBuffers; check != nil {
		if err := check(slices.Concat(values[:d.run.UpdateLength], d.sentBuffers(values, task.base))); err != nil {
			return err
		}
	}
	if err := d.checkDurations(update); err != nil {
		return err
	}
	isNoVote := func(x float32) bool { return x != 0 && x != 1 && x != -1 }
	if d.run.Votes && slices.ContainsFunc(values[:d.run.Trainable], isNoVote) {
		return errors.New("its votes are not all -1, 0 or 1")
	}
	// A limit of 0 means that there is none.
	if d.NormLimit == 0 {
		return nil
	}
	if n := math.Sqrt(portable.SquaredDistance(values[:d.run.Trainable], base[:d.run.Trainable])); n > d.NormLimit {
		return fmt.Errorf("the update's norm is %.3g, the limit is %g", n, d.NormLimit)
	}
	return nil
}

// checkLoss returns an error if a device's report lacks a loss that the run needs.
func (d *Devices) checkLoss(u *bus.DeviceUpdate) error {
	if u.FirstStepLoss == bus.UnreportedLoss && d.Losses != "" {
		return fmt.Errorf("it does not tell its loss, by which %s decides", d.Losses)
	}
	return nil
}

// checkDurations returns an error if the durations that a device reports total more than the limit of a
// task. The coordinator ends a task that takes so long, so the report cannot be true.
func (d *Devices) checkDurations(u *bus.DeviceUpdate) error {
	took := u.DownloadNs + u.ComputeNs + u.UploadNs
	if took <= d.TaskLimit.Nanoseconds() {
		return nil
	}
	return fmt.Errorf(
		"it says that it took %v, the limit is %v (devices.task_seconds)",
		time.Duration(took),
		d.TaskLimit,
	)
}

// differenceBase returns the vector that is subtracted from a device's values to get its update: base, the
// model that its task started from, or zeros if updates are compressed and so are differences already.
func (d *Devices) differenceBase(base []float32) []float32 {
	if d.run.Spec.Compression == "" {
		return base
	}
	return make([]float32, len(base))
}

// Split returns where a list of tasks splits into those of simulated clients, which come first, and those of
// devices: the index of the first task of a device, or len(tasks) if there is none.
func (d *Devices) Split(tasks []round.Task) int {
	n := len(tasks)
	for n > 0 && d.IsDevice(tasks[n-1].Client) {
		n--
	}
	return n
}

// AddUpdates adds each device's update times its weight to sum, without buffers that are sent beside the
// sums, and stores the losses that the devices reported in losses. weights[i] and losses[i] belong to
// tasks[i]. base returns a version of the model, from which a task started. After an error sum is as it
// was. The sum is one of integers, so the order of the updates does not matter.
func (d *Devices) AddUpdates(
	sum []int64,
	tasks []round.Task,
	weights []float64,
	losses []float64,
	base func(version uint64) []float32,
) error {
	if len(tasks) == 0 {
		return nil
	}
	// The updates are added up on their own, so that an error leaves sum as it was.
	partial := make([]int64, len(sum))
	for i, task := range tasks {
		answer := d.updates[task.Task]
		if answer == nil {
			return fmt.Errorf("realdevices: the update of task %d is accepted and not kept", task.Task)
		}
		// The first n values of an answer are those that sums hold. Buffers may follow, which are sent beside
		// the sums.
		n := d.run.UpdateLength
		subtrahend := d.differenceBase(base(task.Model)[:n])
		if err := algorithm.Add(partial[:n], weights[i], answer.Values[:n], subtrahend); err != nil {
			return fmt.Errorf("realdevices: update of task %d: %w", task.Task, err)
		}
		losses[i] = answer.Loss
	}
	return algorithm.Merge(sum, partial)
}

// Buffers returns the buffers that a device has sent with its update of this task, nil if there is no
// update. base is the model that the task started from.
func (d *Devices) Buffers(task uint64, base []float32) []float32 {
	a := d.updates[task]
	if a == nil {
		return nil
	}
	return d.sentBuffers(a.Values, base)
}

// sentBuffers returns the buffers among the values of a device's update. Where updates are compressed the
// device has sent differences, so the buffers of base, the model that its task started from, are added.
func (d *Devices) sentBuffers(values, base []float32) []float32 {
	buffers := values[d.run.UpdateLength:d.run.Params]
	if d.run.Spec.Compression == "" {
		return buffers
	}
	buffers = slices.Clone(buffers)
	for i := range buffers {
		buffers[i] += base[d.run.UpdateLength+i]
	}
	return buffers
}

// ForgetUpdates forgets the updates of the devices' tasks of a round, because they are in the model or
// cannot count any more.
func (d *Devices) ForgetUpdates(tasks []round.Task) {
	for _, t := range tasks[d.Split(tasks):] {
		delete(d.updates, t.Task)
	}
}

// ForgetUnaccepted forgets the update of a device's task that has ended without being accepted. Accepted
// updates are kept until they are part of a model.
func (d *Devices) ForgetUnaccepted(e *round.TaskReport) {
	if d.IsDevice(e.Client) && e.Outcome != round.Accepted {
		delete(d.updates, e.Task)
		d.endTrained(e.Task)
	}
}

// Samples returns the number of samples that a device says it holds, by its accepted task. 0 means
// that the device does not tell.
func (d *Devices) Samples(task uint64) int {
	if a := d.updates[task]; a != nil {
		return a.Samples
	}
	return 0
}

// Norms returns the Euclidean norm of each task's update over the trained values. All tasks are of devices.
// base returns a version of the model, from which a task started.
func (d *Devices) Norms(tasks []round.Task, base func(version uint64) []float32) ([]float64, error) {
	norms := make([]float64, len(tasks))
	for i, t := range tasks {
		a := d.updates[t.Task]
		if a == nil {
			return nil, fmt.Errorf("realdevices: the update of task %d is accepted and not kept", t.Task)
		}
		// The device sent a model or, where updates are compressed, a difference.
		start := d.differenceBase(base(t.Model))
		n := d.run.Trainable
		norms[i] = math.Sqrt(portable.SquaredDistance(a.Values[:n], start[:n]))
	}
	return norms, nil
}

// NoteClipped informs the user of devices whose updates are clipped: those with a norm above bound.
// norms[i] belongs to tasks[i]. Each device is named once in a run.
func (d *Devices) NoteClipped(tasks []round.Task, norms []float64, bound float64) {
	for i, t := range tasks {
		device := d.deviceOf(t.Client)
		if norms[i] > bound && !d.clipped[device] {
			d.clipped[device] = true
			d.notice(
				"An update of device %s is clipped: its norm is %.3g, the bound is %.3g (devices.clip).",
				d.Names[device],
				norms[i],
				bound,
			)
		}
	}
}
