package bus

import "fmt"

// firstDeviceTask is where the numbers of devices' tasks start, as the round
// machine gives them.
const firstDeviceTask = 1 << 52

// ValidateForDevice is Validate for a device, which also gets messages without a
// task: a call to join, or the end of the run (Over).
func (t *Task) ValidateForDevice() error {
	if t.Task == 0 {
		return nil
	}
	if t.Task < firstDeviceTask {
		return &fault{"task", "task", t.Task, fmt.Sprintf("at least %d for a device", int64(firstDeviceTask))}
	}
	return t.Validate()
}

func (j *Join) Validate() error {
	c := checker{message: "join"}
	c.printable("name", j.Name)
	c.printable("kernel", j.Kernel)
	c.number("samples", long(j.Samples), 0, MaxDeviceSamples)
	return c.err
}

func (w *Welcome) Validate() error {
	c := checker{message: "welcome"}
	c.number("client", long(w.Client), 0, MaxClients)
	c.number("clients", long(w.Clients), long(w.Client)+1, MaxClients)
	c.spec(w.Spec)
	c.number("params", int64(w.Params), 1, MaxParams)
	c.float("heartbeat_seconds", w.HeartbeatSeconds, minHeartbeat.Seconds(), maxHeartbeat.Seconds())
	c.text("task", w.Task)
	c.float("heterogeneity", w.Heterogeneity, 0, 1e6)
	return c.err
}

// Validate checks the welcome alone: an unknown verdict is a refusal, a reason
// is only shown.
func (r *DeviceReply) Validate() error {
	if r.Welcome == nil {
		return nil
	}
	return r.Welcome.Validate()
}

func (h *Heartbeat) Validate() error {
	c := checker{message: "heartbeat"}
	c.number("phase", int64(h.Phase), int64(NoPhase), int64(Upload))
	return c.err
}

// Validate checks one message of an update: a chunk has some values, the last
// message none and what the device measured.
func (u *Update) Validate() error {
	c := checker{message: "update"}
	c.name("task", u.Task)
	c.number("chunks", int64(u.Chunks), 1, maxChunks)
	c.number("chunk", int64(u.Chunk), 0, int64(u.Chunks))
	if c.err != nil {
		return c.err
	}
	if !u.Last() {
		if n := len(u.Values); n == 0 || n%4 != 0 || n > MaxPayload {
			c.refuse("values", fmt.Sprint(n, " bytes"), "a multiple of 4, some")
		}
		return c.err
	}
	c.number("bytes of values in the last message", int64(len(u.Values)), 0, 0)
	c.durations(u.DownloadNs, u.ComputeNs, u.UploadNs)
	c.float("first_step_loss", u.FirstStepLoss, 0, MaxDeviceLoss)
	c.number("samples", long(u.Samples), 1, MaxDeviceSamples)
	return c.err
}
