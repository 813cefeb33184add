package bus

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"fedpace/internal/names"
)

// Validate refuses a task that no client could carry out, and tasks nested more than one level deep. It
// also refuses the messages without a task that only devices get: calls and the end of a run (see
// [Task.ValidateForDevice]).
func (t *Task) Validate() error {
	c := checker{message: "task"}
	c.identifier("task", t.Task)
	c.number("round", int64(t.Round), 1, MaxRound)
	c.number("local_steps", int64(t.LocalSteps), 1, MaxLocalSteps)
	c.float("learning_rate", t.LearningRate, 0, MaxLearningRate)
	c.number("steps_done", saturated(t.StepsDone), 0, MaxSteps)
	c.optionalDigest("model_digest", t.ModelDigest)
	c.optionalDigest("frozen_digest", t.FrozenDigest)
	c.optionalDigest("kept_digest", t.KeptDigest)
	c.number("model_bits", saturated(t.ModelBits), 0, MaxModelBits)
	c.optionalDigest("digest", t.Digest)
	c.number("update_bits", saturated(t.UpdateBits), 0, MaxModelBits)
	c.number("start_ns", t.StartNs, 0, MaxStartNs)
	c.float("joules", t.Joules, 0, MaxJoules)
	c.float("batch_part", t.BatchPart, 0, 1)
	c.number("device", int64(t.Device), 0, MaxClients)
	c.number("presence", int64(t.Presence), 0, MaxClients)
	c.number("client", saturated(t.Client), 0, MaxClients)
	c.number("number of others", int64(len(t.Others)), 0, MaxOthers)
	// A task within another may not have tasks of its own.
	for _, o := range t.Others {
		c.number("number of others.others", int64(len(o.Others)), 0, 0)
		if c.err == nil {
			c.err = o.Validate()
		}
	}
	return c.err
}

// Validate refuses durations that could overflow the virtual clock, and plans nested more than one
// level deep.
func (p *Plan) Validate() error {
	c := checker{message: "plan"}
	c.identifier("task", p.Task)
	c.durations(p.DownloadNs, p.ComputeNs, p.UploadNs)
	if d := p.Dropout; d != nil {
		c.number("dropout.phase", int64(d.Phase), int64(Download), int64(Recovery))
		c.number("dropout.after_ns", d.AfterNs, 0, 3*MaxDurationNs)
	}
	c.stages(p.StageNs)
	c.number("number of others", int64(len(p.Others)), 0, MaxOthers)
	// A plan within another may not have plans of its own.
	for _, o := range p.Others {
		c.number("others.client", saturated(o.Client), 0, MaxClients)
		c.number("number of others.others", int64(len(o.Others)), 0, 0)
		if c.err == nil {
			c.err = o.Validate()
		}
	}
	return c.err
}

// stages checks list, the durations of the stages of secure aggregation in nanoseconds: there is
// one for each stage, or none at all for a task without secure aggregation.
func (c *checker) stages(list []int64) {
	if len(list) == 0 {
		return
	}
	c.number("number of stage_ns", int64(len(list)), SecureStages, SecureStages)
	for _, ns := range list {
		c.number("stage_ns", ns, 0, MaxDurationNs)
	}
}

// SecureStages is the number of stages of secure aggregation, for each of which a plan has a duration.
const SecureStages = 4

// Validate refuses a job that no trainer could do: one of a wrong kind or size, or with numbers
// outside their ranges. A training job has clients, an evaluation has shards.
func (j *Job) Validate() error {
	c := checker{message: "job"}
	c.identifier("job", j.Job)
	c.digest("model_digest", j.ModelDigest)
	c.number("round", int64(j.Round), 0, MaxRound)
	c.number("params", int64(j.Params), 1, MaxParams)
	c.token("kernel", j.Kernel)
	c.spec(j.Spec)
	c.jobKind(j)
	c.method(j.Method)
	c.number("buffers", int64(j.Buffers), 0, int64(j.Params))
	// Colluders are tasks whose honest updates the attackers need; they have the same fields.
	for _, w := range slices.Concat(j.Clients, j.Colluders) {
		c.identifier("clients.task", w.Task)
		c.number("clients.client", saturated(w.Client), 0, MaxClients)
		c.number("clients.local_steps", int64(w.LocalSteps), 1, MaxLocalSteps)
		c.number("clients.steps_done", saturated(w.StepsDone), 0, MaxSteps)
		c.float("clients.learning_rate", w.LearningRate, 0, MaxLearningRate)
		c.float("clients.weight", w.Weight, 0, 1)
		c.number("clients.batch", int64(w.Batch), 0, MaxBatch)
		c.number("clients.first_sample", saturated(w.FirstSample), 0, MaxSamples)
		c.number("clients.samples", saturated(w.Samples), 0, MaxSamples)
		c.optionalDigest("clients.variate_digest", w.VariateDigest)
		// An attacker is named by its class in the fleet, counted from 1; 0 stands for an honest client.
		c.number("clients.attacker", int64(w.Attacker), 0, maxClasses)
	}
	// A shard is a range of the held-out samples, from From on or spread evenly over them (Spread), or, in an
	// evaluation by client, samples of one client.
	for _, s := range j.Shards {
		c.number("shards.index", int64(s.Index), 0, MaxSamples)
		c.number("shards.from", saturated(s.From), 0, MaxSamples)
		c.number("shards.count", saturated(s.Count), 1, MaxSamples)
		c.number("shards.spread", saturated(s.Spread), 0, MaxSamples)
		c.optionalDigest("shards.kept_digest", s.KeptDigest)
	}
	return c.err
}

// jobKind checks that job j has the lists of its kind and no others: a training job has clients,
// and may have colluders; an evaluation has shards alone.
func (c *checker) jobKind(j *Job) {
	clients := int64(len(j.Clients))
	shards := int64(len(j.Shards))
	colluders := int64(len(j.Colluders))
	switch j.Kind {
	case Train:
		c.number("number of clients", clients, 1, MaxJobClients)
		c.number("number of colluders", colluders, 0, MaxJobClients)
		c.number("number of shards", shards, 0, 0)
	case Evaluate, EvaluateClients:
		c.number("number of clients", clients, 0, 0)
		c.number("number of colluders", colluders, 0, 0)
		// A method says how clients train, which an evaluation does not.
		if j.Method != nil {
			c.refuse("method", "present", "none in an evaluation")
		}
		c.number("number of shards", shards, 1, MaxJobShards)
	default:
		c.refuse("kind", int32(j.Kind), "train (1) or evaluate (2; by client: 3)")
	}
}

// method checks the part of a training job about the state that clients keep between rounds. m is nil
// for a method whose clients keep none.
func (c *checker) method(m *Method) {
	if m == nil {
		return
	}
	// A client keeps one vector: a control variate or a residual.
	if m.Variates && m.Residuals {
		c.refuse("method.residuals", true, "false beside control variates")
	}
	c.optionalDigest("method.variate_digest", m.VariateDigest)
	c.float("method.variate_weight", m.VariateWeight, 0, 1)
	c.number("method.kept", int64(m.Kept), 0, MaxParams)
}

// Validate checks one message of a sum by itself: its numbers lie in their ranges, and its bytes
// are whole values. [Result.ValidateFor] compares the complete sum with its job.
func (s *Sum) Validate() error {
	c := checker{message: "sum"}
	c.identifier("job", s.Job)
	c.digest("model_digest", s.ModelDigest)
	c.text("trainer", s.Trainer)
	c.number("params", int64(s.Params), 0, MaxParams)
	c.number("chunks", int64(s.Chunks), 1, maxChunks)
	c.number("chunk", int64(s.Chunk), 0, int64(s.Chunks)-1)
	c.number("number of clients", int64(len(s.Clients)), 0, MaxJobClients)
	c.number("number of shards", int64(len(s.Shards)), 0, MaxJobShards)
	// A value of a sum has 8 bytes, and an element of a state or a buffer 4.
	if n := len(s.Values); n%8 != 0 || int64(n/8) > int64(s.Params) {
		c.refuse(
			"values",
			fmt.Sprint(n, " bytes"),
			fmt.Sprintf("a multiple of 8, at most 8 for each of %d params", s.Params),
		)
	}
	if n := len(s.Variates); n%4 != 0 {
		c.refuse("variates", fmt.Sprint(n, " bytes"), "a multiple of 4")
	}
	if n := len(s.Buffers); n%4 != 0 {
		c.refuse("buffers", fmt.Sprint(n, " bytes"), "a multiple of 4")
	}
	// Losses must be finite, as they enter the means of a round.
	for _, x := range s.Clients {
		c.identifier("clients.task", x.Task)
		c.finite("clients.first_step_loss", x.FirstStepLoss)
		c.optionalDigest("clients.variate_digest", x.VariateDigest)
		c.number("clients.buffer_first", int64(x.BufferFirst), 0, MaxParams)
		c.number("clients.buffer_count", int64(x.BufferCount), 0, MaxParams)
	}
	for _, x := range s.Shards {
		c.number("shards.index", int64(x.Index), 0, MaxSamples)
		c.finite("shards.loss_sum", x.LossSum)
		c.number("bytes of shards.outputs", int64(len(x.Outputs)), 0, MaxOutcomes)
		c.number("bytes of shards.answers", int64(len(x.Answers)), 0, MaxOutcomes)
		c.number("number of scores", int64(len(x.Scores)), 0, MaxMetrics)
		for _, s := range x.Scores {
			c.finite("shards.scores.sum", s.Sum)
			c.float("shards.scores.weight", s.Weight, 0, math.MaxFloat64)
		}
	}
	if f := s.Failure; f != nil {
		c.text("failure.kind", f.Kind)
		c.text("failure.text", f.Text)
		c.number("failure.client", saturated(f.Client), 0, MaxClients)
	}
	return c.err
}

// ValidateFor refuses a result that does not answer the job: another model, other clients or shards,
// or lists of other lengths. Of a failure only the model is compared, since it carries nothing else.
func (r *Result) ValidateFor(j *Job) error {
	c := checker{message: fmt.Sprintf("sum of job %d", j.Job)}
	if !bytes.Equal(r.ModelDigest, j.ModelDigest) {
		c.refuse("model_digest", DigestFrom(r.ModelDigest), "that of the job, "+DigestFrom(j.ModelDigest).String())
	}
	if r.Failure != nil {
		return c.err
	}
	// same refuses a field, by its name, whose number got is not want.
	same := func(field string, got, want int) { c.number(field, int64(got), int64(want), int64(want)) }
	same("number of values", len(r.Values), j.SumLength())
	same("number of clients", len(r.Clients), len(j.Clients))
	// Only a stateful method returns a vector for each client.
	states := 0
	if j.Method.Stateful() {
		states = len(j.Clients)
	}
	same("number of variates", len(r.ClientStates), states)
	buffers := 0
	if j.Buffers > 0 {
		buffers = len(j.Clients)
	}
	same("number of buffers", len(r.Buffers), buffers)
	same("number of shards", len(r.Shards), len(j.Shards))
	if c.err != nil {
		return c.err
	}
	for i, x := range r.Clients {
		if want := j.Clients[i].Task; x.Task != want {
			c.refuse(fmt.Sprintf("clients[%d].task", i), x.Task, fmt.Sprint(want))
		}
		if (len(x.VariateDigest) > 0) != j.Method.Stateful() {
			c.refuse(
				fmt.Sprintf("clients[%d].variate_digest", i),
				DigestFrom(x.VariateDigest),
				"one where the method has clients keep a vector, and only there",
			)
		}
	}
	for i, x := range r.Clients {
		_, values := r.BufferOf(i)
		same(fmt.Sprintf("length of buffers[%d]", i), len(values), int(x.BufferCount))
		end := int64(x.BufferFirst) + int64(x.BufferCount)
		c.number(fmt.Sprintf("end of buffers[%d]", i), end, 0, int64(j.Buffers))
	}
	// Each state has as many values as the method says.
	for i, v := range r.ClientStates {
		same(fmt.Sprintf("length of variates[%d]", i), len(v), j.StateLength())
	}
	for i, x := range r.Shards {
		same("shards.index", int(x.Index), int(j.Shards[i].Index))
		same("number of scores", len(x.Scores), len(j.Spec.GetMetrics()))
	}
	return c.err
}

// Validate accepts every reply: an unknown status counts as a refusal, and the reason is only shown.
func (r *SumReply) Validate() error { return nil }

// Validate checks one chunk of a model by itself: it has at least one value, and at most as many as the
// model.
func (m *ModelChunk) Validate() error {
	c := checker{message: "model chunk"}
	c.number("chunks", int64(m.Chunks), 1, maxChunks)
	c.number("chunk", int64(m.Chunk), 0, int64(m.Chunks)-1)
	c.number("params", int64(m.Params), 1, MaxParams)
	if n := len(m.Values); n == 0 || n%4 != 0 || int64(n/4) > int64(m.Params) {
		c.refuse(
			"values",
			fmt.Sprint(n, " bytes"),
			fmt.Sprintf("a multiple of 4, at most 4 for each of %d params", m.Params),
		)
	}
	return c.err
}

// Validate checks the message with which a coordinator describes its run to hosts: name and stamp, the
// configuration, and the files with their digests. A run that trains nothing has neither kernel nor
// spec.
func (r *RunInfo) Validate() error {
	c := checker{message: "run info"}
	c.token("run", r.Run)
	c.identifier("stamp", r.Stamp)
	c.text("version", r.Version)
	c.size("configuration", r.Configuration, maxConfiguration)
	if r.Kernel != "" {
		c.token("kernel", r.Kernel)
	}
	c.number("number of files", int64(len(r.Files)), 0, maxFiles)
	// A run that trains nothing has no learning problem.
	if r.Spec != nil {
		c.spec(r.Spec)
	}
	for _, f := range r.Files {
		c.text("files.path", f.Path)
		c.digest("files.digest", f.Digest)
	}
	c.number("number of libraries", int64(len(r.Libraries)), 0, maxLibraries)
	for _, l := range r.Libraries {
		c.text("libraries", l)
	}
	return c.err
}

// Validate refuses a call without a number, and one whose frame has no part or more than maxChunks.
func (w *Call) Validate() error {
	c := checker{message: "call"}
	c.identifier("call", w.Call)
	c.number("parts", int64(w.Parts), 1, maxChunks)
	return c.err
}

// Validate refuses a part that lacks the number of its call, and one beyond the call's last part. A message
// with 0 parts is valid: it says that the call is over.
func (p *CallPart) Validate() error {
	c := checker{message: "call part"}
	c.identifier("call", p.Call)
	c.number("parts", int64(p.Parts), 0, maxChunks)
	c.number("part", int64(p.Part), 0, max(0, int64(p.Parts)-1))
	c.number("bytes of data", int64(len(p.Data)), 0, ChunkBytes)
	c.token("host", p.Host)
	return c.err
}

// Validate bounds the number of jobs in a host's heartbeat. It accepts any name: a host whose name is no
// token gets an answer, but is not counted.
func (r *InfoRequest) Validate() error {
	c := checker{message: "info request"}
	c.number("number of jobs", int64(len(r.Jobs)), 0, maxHeldJobs)
	return c.err
}

// Validate checks the message by which a coordinator makes its run known.
func (a *Announcement) Validate() error {
	c := checker{message: "announcement"}
	c.token("run", a.Run)
	c.identifier("stamp", a.Stamp)
	return c.err
}

// firstDeviceTask is the smallest number that the round machine gives to a task of a real device.
const firstDeviceTask = 1 << 52

// ValidateForDevice is Validate for a device, which also gets messages without a task (number 0): a
// call to join, or the end of the run (Over).
func (t *Task) ValidateForDevice() error {
	if t.Task == 0 {
		c := checker{message: "call"}
		c.printable("version", t.Version, maxLine)
		return c.err
	}
	if t.Task < firstDeviceTask {
		return Fault("task", "task", t.Task, fmt.Sprintf("at least %d for a device", int64(firstDeviceTask)))
	}
	return t.Validate()
}

// Validate checks the message with which a device joins a run: texts that are shown to people, the
// number of its samples, and the speeds that it has measured.
func (j *Join) Validate() error {
	c := checker{message: "join"}
	c.printable("name", j.Name, maxLine)
	c.printable("kernel", j.Kernel, maxLine)
	c.number("samples", saturated(j.Samples), 0, MaxDeviceSamples)
	c.printable("version", j.Version, maxLine)
	c.number("number of measured", int64(len(j.Measured)), 0, MaxMeasured)
	for _, m := range j.Measured {
		c.text("measured.model", m.Model)
		computing := []float64{m.SecondsPerStep, m.ComputeSeconds}
		transfers := []float64{m.DownloadMbps, m.DownloadSeconds, m.UploadMbps, m.UploadSeconds}
		for _, v := range append(computing, transfers...) {
			c.float("a number of measured", v, 0, maxMeasured)
		}
	}
	return c.err
}

// Validate checks the answer of a run to a device that has joined: its client number, the learning
// problem, the model's size, the interval of heartbeats, and the terms of secure aggregation.
func (w *Welcome) Validate() error {
	c := checker{message: "welcome"}
	c.number("client", saturated(w.Client), 0, MaxClients)
	c.number("clients", saturated(w.Clients), saturated(w.Client)+1, MaxClients)
	c.spec(w.Spec)
	c.number("params", int64(w.Params), 1, MaxParams)
	c.number("kept", int64(w.Kept), 0, MaxParams)
	c.float("heartbeat_seconds", w.HeartbeatSeconds, minHeartbeat.Seconds(), maxHeartbeat.Seconds())
	c.text("task", w.Task)
	c.float("heterogeneity", w.Heterogeneity, 0, 1e6)
	c.size("mapping", w.Mapping, maxMapping)
	c.printable("version", w.Version, maxLine)
	c.schema(w.Schema)
	c.secure(w.Secure)
	return c.err
}

// secure checks the terms of secure aggregation, nil for a run without it. A threshold beyond the
// number of neighbours, for example, could never be reached.
func (c *checker) secure(s *SecureTerms) {
	if s == nil {
		return
	}
	c.number("secure.neighbours", int64(s.Neighbours), 2, MaxDevices)
	c.number("secure.threshold", int64(s.Threshold), 2, int64(s.Neighbours))
	c.number("secure.minimum", int64(s.Minimum), 3, MaxDevices)
	// Of a sum with one honest member the colluders would know that member's update.
	c.number("secure.colluders", int64(s.Colluders), 0, int64(s.Minimum)-2)
	c.number("secure.shift", int64(s.Shift), 0, maxShift)
	c.number("secure.max_weight", saturated(s.MaxWeight), 1, MaxDeviceSamples)
	c.number("secure.fresh_factor", saturated(s.FreshFactor), 0, maxFactor)
}

// maxShift bounds the exponent of weights in secure aggregation: 2^60 samples.
const maxShift = 60

// maxFactor bounds the factor of a weight in secure aggregation where rounds overlap.
const maxFactor = 1 << 20

// Validate checks a device's message in a stage of secure aggregation. The content of its payload is
// checked by package secagg.
func (m *SecureMessage) Validate() error {
	c := checker{message: "secure message"}
	c.identifier("task", m.Task)
	c.digest("task_digest", m.TaskDigest)
	c.number("stage", int64(m.Stage), int64(StageKeys), int64(StageTrained))
	c.number("payload", int64(len(m.Payload)), 0, ChunkBytes)
	if m.Stage == StageTrained {
		const notSentYet = 0
		c.reported(m.DownloadNs, m.ComputeNs, notSentYet, m.FirstStepLoss, m.Samples)
	}
	return c.err
}

// schema checks the description of samples, nil for a run without one: its size in all, and that each
// mean is finite and has a deviation above 0.
func (c *checker) schema(s *Schema) {
	total := 0
	for _, texts := range [][]string{s.GetLabels(), s.GetColumns(), s.GetAlphabet()} {
		for _, text := range texts {
			total += len(text) + 2
		}
	}
	numbers := len(s.GetMean()) + len(s.GetDeviation()) + len(s.GetTargetMean()) + len(s.GetTargetDeviation())
	c.number("schema", int64(total+4*numbers), 0, MaxSchema)
	// scale checks the means and deviations of features or targets.
	scale := func(name string, mean, deviation []float32) {
		// Each mean has one deviation.
		wanted := int64(len(mean))
		c.number(name+"deviation", int64(len(deviation)), wanted, wanted)
		for _, x := range mean {
			c.finite(name+"mean", float64(x))
		}
		for _, x := range deviation {
			c.float(name+"deviation", float64(x), math.SmallestNonzeroFloat32, math.MaxFloat32)
		}
	}
	scale("schema.", s.GetMean(), s.GetDeviation())
	scale("schema.target_", s.GetTargetMean(), s.GetTargetDeviation())
}

// Validate checks the welcome alone: an unknown status counts as a refusal, and a reason is only
// shown.
func (r *DeviceReply) Validate() error {
	if r.Welcome == nil {
		return nil
	}
	return r.Welcome.Validate()
}

// Validate checks a device's heartbeat: a phase of its task, and texts, which are shown to people and
// so must be short and printable.
func (h *Heartbeat) Validate() error {
	c := checker{message: "heartbeat"}
	c.number("phase", int64(h.Phase), int64(NoPhase), int64(Recovery))
	c.printable("leaves", h.Leaves, maxWhy)
	c.number("log", int64(len(h.Log)), 0, MaxLog)
	for _, line := range h.Log {
		c.printable("log", line, maxWhy)
	}
	return c.err
}

// Validate checks one message of an update. A chunk has values, plain or packed; the last message has
// none and carries what the device measured.
func (u *Update) Validate() error {
	c := checker{message: "update"}
	c.identifier("task", u.Task)
	c.number("chunks", int64(u.Chunks), 1, maxChunks)
	c.number("chunk", int64(u.Chunk), 0, int64(u.Chunks))
	c.optionalDigest("task_digest", u.TaskDigest)
	// Last needs a valid number of the chunk.
	if c.err != nil {
		return c.err
	}
	if !u.Last() {
		plain := len(u.Values)
		packed := len(u.Packed)
		tooLong := plain > MaxPayload || packed > MaxPayload
		hasOneForm := (plain == 0) != (packed == 0)
		if plain%4 != 0 || tooLong || !hasOneForm {
			c.refuse(
				"values",
				fmt.Sprint(plain, " bytes beside ", packed, " packed ones"),
				"a multiple of 4, or packed ones alone",
			)
		}
		return c.err
	}
	c.number("bytes of values in the last message", int64(len(u.Values)+len(u.Packed)), 0, 0)
	c.reported(u.DownloadNs, u.ComputeNs, u.UploadNs, u.FirstStepLoss, u.Samples)
	return c.err
}

// reported checks what a device reports of a task: the durations of its phases in nanoseconds, its first-step loss and
// its number of samples.
func (c *checker) reported(download, compute, upload int64, loss float64, samples uint64) {
	c.durations(download, compute, upload)
	if loss != UnreportedLoss {
		c.float("first_step_loss", loss, 0, MaxDeviceLoss)
	}
	c.number("samples", saturated(samples), 0, MaxDeviceSamples)
}

// Fault returns the error of a message that is invalid, or does not fit the messages before it. message
// names its kind, field the field, got is the field's value, and want says what would be valid.
func Fault(message, field string, got any, want string) error {
	return fmt.Errorf("bus: %s: %s is %v, want %s", message, field, got, want)
}

// checker validates the fields of one message.
type checker struct {
	// message is the kind of the message, for errors.
	message string
	// err is the first fault, nil while there is none.
	err error
}

// refuse records a fault unless an earlier one is recorded.
func (c *checker) refuse(field string, got any, want string) {
	if c.err == nil {
		c.err = Fault(c.message, field, got, want)
	}
}

// number refuses the value v of the named field unless it lies from low to high, both included. With
// equal bounds only that value is valid.
func (c *checker) number(field string, v, low, high int64) {
	if v >= low && v <= high {
		return
	}
	if low == high {
		c.refuse(field, v, fmt.Sprint(low))
	} else {
		c.refuse(field, v, fmt.Sprintf("%d to %d", low, high))
	}
}

// identifier refuses 0 as the number of a task, a job or a call, and as a stamp: 0 stands for none.
func (c *checker) identifier(field string, v uint64) {
	if v == 0 {
		c.refuse(field, v, "at least 1")
	}
}

// float refuses the value v of the named field unless it lies from low to high, both included. NaN is
// refused, too.
func (c *checker) float(field string, v, low, high float64) {
	// The negated form is true for NaN, too.
	if !(v >= low && v <= high) {
		c.refuse(field, v, fmt.Sprintf("%g to %g", low, high))
	}
}

// finite refuses the value v of the named field if it is NaN or infinite. It is for losses, which have no
// other bounds.
func (c *checker) finite(field string, v float64) {
	// The difference is NaN, and so not 0, for NaN and both infinities.
	if v-v != 0 {
		c.refuse(field, v, "a finite number")
	}
}

// text refuses a text longer than MaxText bytes.
func (c *checker) text(field, s string) { c.size(field, s, MaxText) }

// size refuses a text longer than limit bytes.
func (c *checker) size(field, s string, limit int) {
	if len(s) > limit {
		c.refuse(field, fmt.Sprint(len(s), " bytes"), fmt.Sprint("at most ", limit))
	}
}

// printable refuses the text s of the named field if it has characters that are not printable, which a
// terminal might interpret, or is longer than limit bytes: such texts come from devices and are shown to
// people.
func (c *checker) printable(field, s string, limit int) {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		c.refuse(field, strconv.QuoteToASCII(s[:min(len(s), 64)]), "text that can be printed")
	}
	c.size(field, s, limit)
}

// token refuses a name that cannot be one token of a subject.
func (c *checker) token(field, s string) {
	if err := names.CheckToken(field, s); err != nil && c.err == nil {
		c.err = fmt.Errorf("bus: %s: %w", c.message, err)
	}
}

// digest refuses a field that has not the length of a digest, or is zero.
func (c *checker) digest(field string, b []byte) {
	if len(b) != len(Digest{}) {
		c.refuse(field, fmt.Sprint(len(b), " bytes"), fmt.Sprint(len(Digest{})))
		return
	}
	if DigestFrom(b).IsZero() {
		c.refuse(field, "empty", "a digest")
	}
}

// optionalDigest refuses a field that is neither empty nor has the length of a digest.
func (c *checker) optionalDigest(field string, b []byte) {
	if n := len(b); n != 0 && n != len(Digest{}) {
		c.refuse(field, fmt.Sprint(n, " bytes"), fmt.Sprint(len(Digest{})))
	}
}

// durations checks the three phases of a task, in nanoseconds.
func (c *checker) durations(download, compute, upload int64) {
	c.number("download_ns", download, 0, MaxDurationNs)
	c.number("compute_ns", compute, 0, MaxDurationNs)
	c.number("upload_ns", upload, 0, MaxDurationNs)
}

// spec checks the learning problem; a nil spec fails, since its batch size is 0.
func (c *checker) spec(s *Spec) {
	c.text("spec.model", s.GetModel())
	c.text("spec.data_digest", s.GetDataDigest())
	c.text("spec.augment", s.GetAugment())
	c.text("spec.algorithm", s.GetAlgorithm())
	c.text("spec.compression", s.GetCompression())
	c.text("spec.local", s.GetLocal())
	c.float("spec.noise_clip", s.GetNoiseClip(), 0, maxNoise)
	c.float("spec.noise_multiplier", s.GetNoiseMultiplier(), 0, maxNoise)
	c.number("spec.batch", int64(s.GetBatch()), 1, MaxBatch)
	c.number("number of spec.metrics", int64(len(s.GetMetrics())), 0, MaxMetrics)
	// Names of metrics become labels and columns, so they are tokens.
	for _, name := range s.GetMetrics() {
		c.token("spec.metrics", name)
	}
}

// saturated converts v to int64 for a range check. Numbers beyond int64 become its maximum, which is above
// every bound, so they are refused.
func saturated(v uint64) int64 { return int64(min(v, math.MaxInt64)) }
