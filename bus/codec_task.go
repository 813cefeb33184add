package bus

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"fedpace/bus/wire"
)

// marshal appends m to dst. It fails only on text that is not UTF-8.
func marshal(dst []byte, m proto.Message) ([]byte, error) {
	dst, err := proto.MarshalOptions{}.MarshalAppend(dst, m)
	if err != nil {
		return nil, fmt.Errorf("bus: encode %s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	return dst, nil
}

// unmarshal decodes into m, which need not be empty. What m held before in
// slices is not written to.
func unmarshal(b []byte, m proto.Message) error {
	if err := proto.Unmarshal(b, m); err != nil {
		return fmt.Errorf("bus: decode %s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	return nil
}

// field is the digest as a message holds it: nothing for no model.
func (d *Digest) field() []byte {
	if d.IsZero() {
		return nil
	}
	return d[:]
}

func (t *Task) check() error {
	c := checker{message: "task"}
	c.name("task", t.Task)
	c.number("round", int64(t.Round), 1, MaxRound)
	c.number("local_steps", int64(t.LocalSteps), 1, MaxLocalSteps)
	c.float("learning_rate", t.LearningRate, 0, MaxLearningRate)
	c.number("steps_done", t.StepsDone, 0, MaxSteps)
	c.number("model_bits", t.ModelBits, 0, MaxModelBits)
	c.number("start_ns", t.StartNs, 0, MaxStartNs)
	c.float("proximal", t.Proximal, 0, MaxProximal)
	return c.err
}

func appendTask(dst []byte, t *Task, w *wire.Task) ([]byte, error) {
	w.Task, w.Round, w.LocalSteps = t.Task, uint32(t.Round), uint32(t.LocalSteps)
	w.LearningRate, w.StepsDone, w.ModelBits = t.LearningRate, uint64(t.StepsDone), uint64(t.ModelBits)
	w.ModelDigest, w.StartNs, w.Proximal = t.Model.field(), t.StartNs, t.Proximal
	w.Stamp = t.Stamp
	return marshal(dst, w)
}

func decodeTask(b []byte, t *Task, w *wire.Task) error {
	if err := unmarshal(b, w); err != nil {
		return err
	}
	c := checker{message: "task"}
	t.Task, t.Round, t.LocalSteps = w.Task, narrow(w.Round), narrow(w.LocalSteps)
	t.LearningRate, t.StepsDone, t.ModelBits = w.LearningRate, long(w.StepsDone), long(w.ModelBits)
	t.Model, t.StartNs, t.Proximal = c.digest("model_digest", w.ModelDigest, true), w.StartNs, w.Proximal
	t.Stamp = w.Stamp
	if c.err != nil {
		return c.err
	}
	return t.check()
}

func (p *Plan) check() error {
	c := checker{message: "plan"}
	c.name("task", p.Task)
	c.number("download_ns", p.DownloadNs, 0, MaxDurationNs)
	c.number("compute_ns", p.ComputeNs, 0, MaxDurationNs)
	c.number("upload_ns", p.UploadNs, 0, MaxDurationNs)
	c.number("dropout.phase", int64(p.Dropout), int64(NoPhase), int64(Upload))
	if p.Dropout == NoPhase {
		c.number("dropout.after_ns without a phase", p.DropoutNs, 0, 0)
	}
	c.number("dropout.after_ns", p.DropoutNs, 0, 3*MaxDurationNs)
	return c.err
}

func appendPlan(dst []byte, p *Plan, w *wire.Plan, d *wire.Dropout) ([]byte, error) {
	w.Task, w.DownloadNs, w.ComputeNs, w.UploadNs = p.Task, p.DownloadNs, p.ComputeNs, p.UploadNs
	w.Dropout = nil
	if p.Dropout != NoPhase {
		d.Phase, d.AfterNs = wire.Phase(p.Dropout), p.DropoutNs
		w.Dropout = d
	}
	return marshal(dst, w)
}

func decodePlan(b []byte, p *Plan, w *wire.Plan) error {
	if err := unmarshal(b, w); err != nil {
		return err
	}
	*p = Plan{Task: w.Task, DownloadNs: w.DownloadNs, ComputeNs: w.ComputeNs, UploadNs: w.UploadNs}
	if d := w.Dropout; d != nil {
		c := checker{message: "plan"}
		if c.number("dropout.phase", int64(d.Phase), int64(Download), int64(Upload)); c.err != nil {
			return c.err
		}
		p.Dropout, p.DropoutNs = Phase(d.Phase), d.AfterNs
	}
	return p.check()
}
