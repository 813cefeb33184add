package bus

import "fedpace/bus/wire"

func (j *Job) check() error {
	c := checker{message: "job"}
	c.name("job", j.Job)
	c.number("round", int64(j.Round), 0, MaxRound)
	c.number("params", int64(j.Params), 1, MaxParams)
	if j.Model.IsZero() {
		c.refuse("model_digest", "empty", "a model")
	}
	c.token("kernel", j.Kernel)
	c.text("spec.model", j.Spec.Model)
	c.text("spec.data_digest", j.Spec.Data)
	c.text("spec.augment", j.Spec.Augment)
	c.number("spec.batch", int64(j.Spec.Batch), 1, MaxBatch)
	clients, shards := int64(len(j.Clients)), int64(len(j.Shards))
	switch j.Kind {
	case Train:
		c.number("number of clients", clients, 1, MaxJobClients)
		c.number("number of shards", shards, 0, 0)
		c.float("method.proximal", j.Method.Proximal, 0, MaxProximal)
		c.float("method.variate_weight", j.Method.VariateWeight, 0, 1)
	case Evaluate:
		c.number("number of clients", clients, 0, 0)
		if j.Method != (Method{}) {
			c.refuse("method", "present", "none in an evaluation")
		}
		c.number("number of shards", shards, 1, MaxJobShards)
	default:
		c.refuse("kind", uint8(j.Kind), "train (1) or evaluate (2)")
	}
	for i := range j.Clients {
		w := &j.Clients[i]
		c.name("clients.task", w.Task)
		c.number("clients.client", int64(w.Client), 0, MaxClients)
		c.number("clients.local_steps", int64(w.LocalSteps), 1, MaxLocalSteps)
		c.number("clients.steps_done", w.StepsDone, 0, MaxSteps)
		c.float("clients.learning_rate", w.LearningRate, 0, MaxLearningRate)
		c.float("clients.weight", w.Weight, 0, 1)
	}
	for i := range j.Shards {
		s := &j.Shards[i]
		c.number("shards.index", int64(s.Index), 0, MaxSamples)
		c.number("shards.from", int64(s.From), 0, MaxSamples)
		c.number("shards.count", int64(s.Count), 1, MaxSamples)
	}
	return c.err
}

func appendJob(dst []byte, j *Job) ([]byte, error) {
	w := &wire.Job{
		Job: j.Job, Kind: wire.JobKind(j.Kind), Round: uint32(j.Round), ModelDigest: j.Model.field(),
		Params: uint32(j.Params), Kernel: j.Kernel,
		Spec: &wire.Spec{Model: j.Spec.Model, DataDigest: j.Spec.Data, Seed: j.Spec.Seed, Batch: uint32(j.Spec.Batch), Augment: j.Spec.Augment},
	}
	if m := &j.Method; *m != (Method{}) {
		w.Method = &wire.Method{Proximal: m.Proximal, Variates: m.Variates, VariateDigest: m.Variate.field(), VariateWeight: m.VariateWeight}
	}
	for i := range j.Clients {
		c := &j.Clients[i]
		w.Clients = append(w.Clients, &wire.ClientWork{
			Task: c.Task, Client: uint64(c.Client), LocalSteps: uint32(c.LocalSteps), StepsDone: uint64(c.StepsDone),
			LearningRate: c.LearningRate, Weight: c.Weight, VariateDigest: c.Variate.field(),
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
		Job: w.Job, Round: narrow(w.Round), Model: c.digest("model_digest", w.ModelDigest, false),
		Params: narrow(w.Params), Kernel: w.Kernel,
		Spec: Spec{Model: w.Spec.GetModel(), Data: w.Spec.GetDataDigest(), Seed: w.Spec.GetSeed(), Batch: narrow(w.Spec.GetBatch()), Augment: w.Spec.GetAugment()},
	}
	if k := w.Kind; k == wire.JobKind_JOB_KIND_TRAIN || k == wire.JobKind_JOB_KIND_EVALUATE {
		j.Kind = JobKind(k)
	}
	c.number("number of clients", int64(len(w.Clients)), 0, MaxJobClients)
	c.number("number of shards", int64(len(w.Shards)), 0, MaxJobShards)
	if m := w.Method; m != nil {
		j.Method = Method{Proximal: m.Proximal, Variates: m.Variates, VariateWeight: m.VariateWeight,
			Variate: c.digest("method.variate_digest", m.VariateDigest, true)}
	}
	for _, x := range w.Clients {
		if c.err != nil {
			break
		}
		j.Clients = append(j.Clients, JobClient{
			Task: x.Task, Client: narrow(x.Client), LocalSteps: narrow(x.LocalSteps), StepsDone: long(x.StepsDone),
			LearningRate: x.LearningRate, Weight: x.Weight, Variate: c.digest("clients.variate_digest", x.VariateDigest, true),
		})
	}
	if c.err != nil {
		return nil, c.err
	}
	for _, s := range w.Shards {
		j.Shards = append(j.Shards, Shard{Index: narrow(s.Index), From: narrow(s.From), Count: narrow(s.Count)})
	}
	if err := j.check(); err != nil {
		return nil, err
	}
	return j, nil
}
