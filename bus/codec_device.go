package bus

import (
	"fmt"
	"math"
	"time"

	"fedpace/bus/wire"
)

func (j *Join) check() error {
	c := checker{message: "join"}
	c.printable("name", j.Name)
	c.printable("kernel", j.Kernel)
	c.number("samples", int64(j.Samples), 0, MaxDeviceSamples)
	return c.err
}

func encodeJoin(j *Join) ([]byte, error) {
	if err := j.check(); err != nil {
		return nil, err
	}
	return marshal(nil, &wire.Join{Name: validText(j.Name), Kernel: validText(j.Kernel), Samples: uint64(j.Samples)})
}

func decodeJoin(b []byte) (j Join, err error) {
	var w wire.Join
	if err := unmarshal(b, &w); err != nil {
		return j, err
	}
	j = Join{Name: w.Name, Kernel: w.Kernel, Samples: narrow(w.Samples)}
	return j, j.check()
}

func encodeHeartbeat(h *Heartbeat) ([]byte, error) {
	return marshal(nil, &wire.Heartbeat{Task: h.Task, Phase: wire.Phase(h.Phase)})
}

func decodeHeartbeat(b []byte) (h Heartbeat, err error) {
	var w wire.Heartbeat
	if err := unmarshal(b, &w); err != nil {
		return h, err
	}
	c := checker{message: "heartbeat"}
	c.number("phase", int64(w.Phase), int64(NoPhase), int64(Upload))
	if c.err != nil {
		return h, c.err
	}
	return Heartbeat{Task: w.Task, Phase: Phase(w.Phase)}, nil
}

// updatePart is one message of an update: a chunk, or with chunk equal to chunks
// the last message, which has the rest.
type updatePart struct {
	DeviceUpdate
	chunk, chunks int
	values        []byte // of the message: a multiple of 4
}

func (p *updatePart) last() bool { return p.chunk == p.chunks }

func encodeUpdatePart(p *updatePart) ([]byte, error) {
	w := wire.Update{Task: p.Task, Chunk: uint32(p.chunk), Chunks: uint32(p.chunks), Values: p.values}
	if p.last() {
		w.DownloadNs, w.ComputeNs, w.UploadNs = p.DownloadNs, p.ComputeNs, p.UploadNs
		w.FirstStepLoss, w.Samples = p.FirstStepLoss, uint64(p.Samples)
	}
	return marshal(nil, &w)
}

// decodeUpdatePart also returns what can be read of a message that is refused:
// its task.
func decodeUpdatePart(b []byte) (p updatePart, err error) {
	var w wire.Update
	if err := unmarshal(b, &w); err != nil {
		return p, err
	}
	p.Task, p.chunk, p.chunks, p.values = w.Task, narrow(w.Chunk), narrow(w.Chunks), w.Values
	c := checker{message: "update"}
	c.name("task", w.Task)
	c.number("chunks", int64(w.Chunks), 1, maxChunks)
	c.number("chunk", int64(w.Chunk), 0, int64(w.Chunks))
	if c.err != nil {
		return p, c.err
	}
	if !p.last() {
		if n := len(w.Values); n == 0 || n%4 != 0 || n > MaxPayload {
			c.refuse("values", fmt.Sprint(n, " bytes"), "a multiple of 4, some")
		}
		return p, c.err
	}
	c.number("bytes of values in the last message", int64(len(w.Values)), 0, 0)
	c.number("download_ns", w.DownloadNs, 0, MaxDurationNs)
	c.number("compute_ns", w.ComputeNs, 0, MaxDurationNs)
	c.number("upload_ns", w.UploadNs, 0, MaxDurationNs)
	c.float("first_step_loss", w.FirstStepLoss, 0, MaxDeviceLoss)
	c.number("samples", long(w.Samples), 1, MaxDeviceSamples)
	if c.err != nil {
		return p, c.err
	}
	p.DownloadNs, p.ComputeNs, p.UploadNs = w.DownloadNs, w.ComputeNs, w.UploadNs
	p.FirstStepLoss, p.Samples = w.FirstStepLoss, narrow(w.Samples)
	return p, nil
}

func (w *Welcome) check() error {
	c := checker{message: "welcome"}
	c.number("client", int64(w.Client), 0, MaxClients)
	c.number("clients", int64(w.Clients), int64(w.Client)+1, MaxClients)
	c.text("spec.model", w.Spec.Model)
	c.text("spec.data_digest", w.Spec.Data)
	c.text("spec.augment", w.Spec.Augment)
	c.number("spec.batch", int64(w.Spec.Batch), 1, MaxBatch)
	c.number("params", int64(w.Params), 1, MaxParams)
	c.float("heartbeat_seconds", w.Heartbeat.Seconds(), minHeartbeat.Seconds(), maxHeartbeat.Seconds())
	c.text("task", w.Task)
	c.float("heterogeneity", w.Heterogeneity, 0, 1e6)
	return c.err
}

// reply answers a device. reason and welcome are for some verdicts alone.
func encodeReply(v wire.Verdict, reason string, w *Welcome) ([]byte, error) {
	r := wire.DeviceReply{Verdict: v, Reason: validText(reason[:min(len(reason), maxText)])}
	if w != nil {
		r.Welcome = &wire.Welcome{
			Client: uint64(w.Client), Clients: uint64(w.Clients), Params: uint32(w.Params), Task: w.Task,
			HeartbeatSeconds: w.Heartbeat.Seconds(), Heterogeneity: w.Heterogeneity, DataSeed: w.DataSeed,
			Spec: &wire.Spec{Model: w.Spec.Model, DataDigest: w.Spec.Data, Seed: w.Spec.Seed, Batch: uint32(w.Spec.Batch), Augment: w.Spec.Augment},
		}
	}
	return marshal(nil, &r)
}

// deviceReply is a DeviceReply.
type deviceReply struct {
	verdict wire.Verdict
	reason  string
	welcome *Welcome
}

func decodeReply(b []byte) (r deviceReply, err error) {
	var w wire.DeviceReply
	if err := unmarshal(b, &w); err != nil {
		return r, err
	}
	r.verdict, r.reason = w.Verdict, w.Reason
	if w.Welcome == nil {
		return r, nil
	}
	x := w.Welcome
	seconds := x.HeartbeatSeconds
	if !(seconds >= 0 && seconds <= maxHeartbeat.Seconds()) || math.IsNaN(seconds) {
		seconds = 0 // refused by check
	}
	r.welcome = &Welcome{
		Client: narrow(x.Client), Clients: narrow(x.Clients), Params: narrow(x.Params), Task: x.Task,
		Heartbeat: time.Duration(seconds * float64(time.Second)), Heterogeneity: x.Heterogeneity, DataSeed: x.DataSeed,
		Spec: Spec{Model: x.Spec.GetModel(), Data: x.Spec.GetDataDigest(), Seed: x.Spec.GetSeed(), Batch: narrow(x.Spec.GetBatch()), Augment: x.Spec.GetAugment()},
	}
	return r, r.welcome.check()
}

// deviceMessageKind is what a message on a device's task subject is.
type deviceMessageKind uint8

const (
	taskMessage deviceMessageKind = iota
	callMessage                   // the run has a place for the device
	overMessage                   // the run is over
)

func encodeCall(over bool) ([]byte, error) { return marshal(nil, &wire.Task{Over: over}) }

// decodeDeviceTask is decodeTask for a device, whom runs also call.
func decodeDeviceTask(b []byte, t *Task, w *wire.Task) (deviceMessageKind, error) {
	if err := unmarshal(b, w); err != nil {
		return 0, err
	}
	switch {
	case w.Task != 0 && w.Task < firstDeviceTask:
		return 0, &fault{"task", "task", w.Task, fmt.Sprintf("at least %d for a device", int64(firstDeviceTask))}
	case w.Task != 0:
		return taskMessage, decodeTask(b, t, w)
	case w.Over:
		return overMessage, nil
	}
	return callMessage, nil
}
