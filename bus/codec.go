package bus

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"

	"fedpace/bus/wire"
)

// fault says what is wrong with a message. Every decoder here returns one
// rather than a value that is out of range.
type fault struct {
	message, field string
	got            any
	want           string
}

func (f *fault) Error() string {
	return fmt.Sprintf("bus: %s: %s is %v, want %s", f.message, f.field, f.got, f.want)
}

// checker collects the first fault of one message.
type checker struct {
	message string
	err     error
}

func (c *checker) refuse(field string, got any, want string) {
	if c.err == nil {
		c.err = &fault{c.message, field, got, want}
	}
}

func (c *checker) number(field string, v, least, most uint64) {
	if v < least || v > most {
		c.refuse(field, v, fmt.Sprintf("%d to %d", least, most))
	}
}

func (c *checker) duration(field string, ns int64, most int64) {
	if ns < 0 || ns > most {
		c.refuse(field, fmt.Sprint(ns, " ns"), fmt.Sprintf("0 to %d ns", most))
	}
}

func (c *checker) float(field string, v, least, most float64) {
	if !(v >= least && v <= most) { // false for NaN, too
		c.refuse(field, v, fmt.Sprintf("%g to %g", least, most))
	}
}

func (c *checker) text(field, s string) {
	if len(s) > maxText {
		c.refuse(field, fmt.Sprintf("%d bytes", len(s)), fmt.Sprintf("at most %d", maxText))
	}
}

func (c *checker) digest(field string, b []byte, optional bool) (d Digest) {
	switch {
	case len(b) == len(d):
		copy(d[:], b)
	case len(b) == 0 && optional:
	default:
		c.refuse(field, fmt.Sprintf("%d bytes", len(b)), fmt.Sprint(len(d)))
	}
	return d
}

func digestField(d *Digest) []byte {
	if d.IsZero() {
		return nil
	}
	return d[:]
}

func (t *Task) check() error {
	c := checker{message: "task"}
	c.number("task", t.Task, 1, math.MaxUint64)
	c.number("round", uint64(t.Round), 1, MaxRound)
	c.number("local_steps", uint64(t.LocalSteps), 1, MaxLocalSteps)
	c.float("learning_rate", t.LearningRate, 0, MaxLearningRate)
	c.number("steps_done", uint64(t.StepsDone), 0, MaxSteps)
	c.number("model_bits", uint64(t.ModelBits), 0, MaxModelBits)
	return c.err
}

func (p *Plan) check() error {
	c := checker{message: "plan"}
	c.number("task", p.Task, 1, math.MaxUint64)
	c.duration("download_ns", p.DownloadNs, MaxDurationNs)
	c.duration("compute_ns", p.ComputeNs, MaxDurationNs)
	c.duration("upload_ns", p.UploadNs, MaxDurationNs)
	if p.Dropout > Upload {
		c.refuse("dropout.phase", p.Dropout, "1 to 3")
	}
	if p.Dropout == NoPhase && p.DropoutNs != 0 {
		c.refuse("dropout.after_ns", p.DropoutNs, "none without a phase")
	}
	c.duration("dropout.after_ns", p.DropoutNs, 3*MaxDurationNs)
	return c.err
}

// marshal appends m to dst. It fails only on text that is not UTF-8.
func marshal(dst []byte, m proto.Message) ([]byte, error) {
	dst, err := proto.MarshalOptions{}.MarshalAppend(dst, m)
	if err != nil {
		return nil, fmt.Errorf("bus: encode %s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	return dst, nil
}

// unmarshal decodes into m, which need not be empty.
func unmarshal(b []byte, m proto.Message) error {
	if err := proto.Unmarshal(b, m); err != nil {
		return fmt.Errorf("bus: decode %s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	return nil
}

func appendTask(dst []byte, t *Task, w *wire.Task) ([]byte, error) {
	w.Task, w.Round, w.LocalSteps = t.Task, uint32(t.Round), uint32(t.LocalSteps)
	w.LearningRate, w.StepsDone, w.ModelBits = t.LearningRate, uint64(t.StepsDone), uint64(t.ModelBits)
	w.ModelDigest = digestField(&t.Model)
	return marshal(dst, w)
}

func decodeTask(b []byte, t *Task, w *wire.Task) error {
	if err := unmarshal(b, w); err != nil {
		return err
	}
	c := checker{message: "task"}
	t.Task, t.Round, t.LocalSteps = w.Task, int(w.Round), int(w.LocalSteps)
	t.LearningRate, t.StepsDone, t.ModelBits = w.LearningRate, int64(w.StepsDone), int64(w.ModelBits)
	t.Model = c.digest("model_digest", w.ModelDigest, true)
	if c.err != nil {
		return c.err
	}
	return t.check()
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
		if d.Phase < wire.Phase_PHASE_DOWNLOAD || d.Phase > wire.Phase_PHASE_UPLOAD {
			return &fault{"plan", "dropout.phase", int32(d.Phase), "1 to 3"}
		}
		p.Dropout, p.DropoutNs = Phase(d.Phase), d.AfterNs
	}
	return p.check()
}

func (j *Job) check() error {
	c := checker{message: "job"}
	c.number("job", j.Job, 1, math.MaxUint64)
	c.number("round", uint64(j.Round), 0, MaxRound)
	c.number("params", uint64(j.Params), 1, MaxParams)
	if j.Model.IsZero() {
		c.refuse("model_digest", "empty", "the model to start from")
	}
	if err := CheckToken("kernel", j.Kernel); err != nil && c.err == nil {
		c.err = err
	}
	c.text("spec.model", j.Spec.Model)
	c.text("spec.data_digest", j.Spec.Data)
	c.number("spec.batch", uint64(j.Spec.Batch), 1, MaxBatch)
	switch j.Kind {
	case Train:
		c.number("number of clients", uint64(len(j.Clients)), 1, MaxJobClients)
		c.number("number of shards", uint64(len(j.Shards)), 0, 0)
	case Evaluate:
		c.number("number of clients", uint64(len(j.Clients)), 0, 0)
		c.number("number of shards", uint64(len(j.Shards)), 1, MaxJobShards)
	default:
		c.refuse("kind", uint8(j.Kind), "train or evaluate")
	}
	for i := range j.Clients {
		w := &j.Clients[i]
		c.number("clients.task", w.Task, 1, math.MaxUint64)
		c.number("clients.client", uint64(w.Client), 0, MaxClients)
		c.number("clients.local_steps", uint64(w.LocalSteps), 1, MaxLocalSteps)
		c.number("clients.steps_done", uint64(w.StepsDone), 0, MaxSteps)
		c.float("clients.learning_rate", w.LearningRate, 0, MaxLearningRate)
		c.float("clients.weight", w.Weight, 0, 1)
	}
	for i := range j.Shards {
		s := &j.Shards[i]
		c.number("shards.index", uint64(s.Index), 0, MaxSamples)
		c.number("shards.from", uint64(s.From), 0, MaxSamples)
		c.number("shards.count", uint64(s.Count), 1, MaxSamples)
	}
	return c.err
}

func appendJob(dst []byte, j *Job) ([]byte, error) {
	w := &wire.Job{
		Job: j.Job, Kind: wire.JobKind(j.Kind), Round: uint32(j.Round), ModelDigest: digestField(&j.Model),
		Params: uint32(j.Params), Kernel: j.Kernel,
		Spec: &wire.Spec{Model: j.Spec.Model, DataDigest: j.Spec.Data, Seed: j.Spec.Seed, Batch: uint32(j.Spec.Batch)},
	}
	for _, c := range j.Clients {
		w.Clients = append(w.Clients, &wire.ClientWork{
			Task: c.Task, Client: uint64(c.Client), LocalSteps: uint32(c.LocalSteps), StepsDone: uint64(c.StepsDone),
			LearningRate: c.LearningRate, Weight: c.Weight,
		})
	}
	for _, s := range j.Shards {
		w.Shards = append(w.Shards, &wire.Shard{Index: uint32(s.Index), From: uint64(s.From), Count: uint64(s.Count)})
	}
	return marshal(dst, w)
}

func decodeJob(b []byte) (*Job, error) {
	var w wire.Job
	if err := unmarshal(b, &w); err != nil {
		return nil, err
	}
	c := checker{message: "job"}
	j := &Job{
		Job: w.Job, Round: int(w.Round), Model: c.digest("model_digest", w.ModelDigest, false),
		Params: int(w.Params), Kernel: w.Kernel,
		Spec: Spec{Model: w.Spec.GetModel(), Data: w.Spec.GetDataDigest(), Seed: w.Spec.GetSeed(), Batch: int(w.Spec.GetBatch())},
	}
	if w.Kind == wire.JobKind_JOB_KIND_TRAIN || w.Kind == wire.JobKind_JOB_KIND_EVALUATE {
		j.Kind = JobKind(w.Kind)
	}
	c.number("number of clients", uint64(len(w.Clients)), 0, MaxJobClients)
	c.number("number of shards", uint64(len(w.Shards)), 0, MaxJobShards)
	if c.err != nil {
		return nil, c.err
	}
	for _, x := range w.Clients {
		j.Clients = append(j.Clients, JobClient{
			Task: x.Task, Client: int(x.Client), LocalSteps: int(x.LocalSteps), StepsDone: int64(x.StepsDone),
			LearningRate: x.LearningRate, Weight: x.Weight,
		})
	}
	for _, s := range w.Shards {
		j.Shards = append(j.Shards, Shard{Index: int(s.Index), From: int(s.From), Count: int(s.Count)})
	}
	return j, j.check()
}

// answers checks that a sum is one of this job.
func (j *Job) answers(s *Sum) error {
	c := checker{message: "sum"}
	if s.Model != j.Model {
		c.refuse("model_digest", s.Model, "that of its job, "+j.Model.String())
	}
	if s.Failure != nil {
		return c.err
	}
	values := 0
	if j.Kind == Train {
		values = j.Params
	}
	c.number("number of values", uint64(len(s.Values)), uint64(values), uint64(values))
	c.number("number of clients", uint64(len(s.Clients)), uint64(len(j.Clients)), uint64(len(j.Clients)))
	c.number("number of shards", uint64(len(s.Shards)), uint64(len(j.Shards)), uint64(len(j.Shards)))
	if c.err != nil {
		return c.err
	}
	for i, x := range s.Clients {
		c.number("clients.task", x.Task, j.Clients[i].Task, j.Clients[i].Task)
		c.float("clients.first_step_loss", x.FirstStepLoss, -math.MaxFloat64, math.MaxFloat64)
	}
	for i, x := range s.Shards {
		c.number("shards.index", uint64(x.Index), uint64(j.Shards[i].Index), uint64(j.Shards[i].Index))
		c.float("shards.loss_sum", x.LossSum, -math.MaxFloat64, math.MaxFloat64)
		c.number("shards.correct", uint64(x.Correct), 0, uint64(j.Shards[i].Count))
	}
	return c.err
}

// appendSum encodes all of a sum but its values.
func wireSum(s *Sum, trainer string) *wire.Sum {
	w := &wire.Sum{Job: s.Job, Trainer: trainer, ModelDigest: digestField(&s.Model), Chunks: 1, Params: uint32(len(s.Values))}
	for _, c := range s.Clients {
		w.Clients = append(w.Clients, &wire.ClientLoss{Task: c.Task, FirstStepLoss: c.FirstStepLoss})
	}
	for _, x := range s.Shards {
		w.Shards = append(w.Shards, &wire.ShardScore{Index: uint32(x.Index), LossSum: x.LossSum, Correct: uint64(x.Correct)})
	}
	if f := s.Failure; f != nil {
		w.Failure = &wire.Failure{Kind: cut(f.Kind), Task: f.Task, Client: uint64(f.Client), Text: cut(f.Text)}
	}
	return w
}

// cut shortens a text to what a message may hold, as valid UTF-8.
func cut(s string) string {
	return validText(s[:min(len(s), maxText-8)])
}

// sumHead reads all of a sum but its values.
func sumHead(w *wire.Sum) (*Sum, error) {
	c := checker{message: "sum"}
	s := &Sum{Job: w.Job, Model: c.digest("model_digest", w.ModelDigest, false)}
	c.number("job", w.Job, 1, math.MaxUint64)
	c.text("trainer", w.Trainer)
	c.number("params", uint64(w.Params), 0, MaxParams)
	c.number("chunks", uint64(w.Chunks), 1, maxChunks)
	if w.Chunk >= w.Chunks {
		c.refuse("chunk", w.Chunk, fmt.Sprintf("below chunks, %d", w.Chunks))
	}
	c.number("number of clients", uint64(len(w.Clients)), 0, MaxJobClients)
	c.number("number of shards", uint64(len(w.Shards)), 0, MaxJobShards)
	if len(w.Values)%8 != 0 || len(w.Values)/8 > int(w.Params) {
		c.refuse("values", fmt.Sprintf("%d bytes", len(w.Values)), "a multiple of 8, at most 8 for each of params")
	}
	if f := w.Failure; f != nil {
		c.text("failure.kind", f.Kind)
		c.text("failure.text", f.Text)
		c.number("failure.client", f.Client, 0, MaxClients)
		s.Failure = &Failure{Kind: f.Kind, Task: f.Task, Client: int(f.Client), Text: f.Text}
	}
	if c.err != nil {
		return nil, c.err
	}
	for _, x := range w.Clients {
		s.Clients = append(s.Clients, ClientLoss{Task: x.Task, FirstStepLoss: x.FirstStepLoss})
	}
	for _, x := range w.Shards {
		if x.Correct > MaxSamples {
			return nil, &fault{"sum", "shards.correct", x.Correct, fmt.Sprintf("at most %d", uint64(MaxSamples))}
		}
		s.Shards = append(s.Shards, ShardScore{Index: int(x.Index), LossSum: x.LossSum, Correct: int(x.Correct)})
	}
	return s, nil
}
