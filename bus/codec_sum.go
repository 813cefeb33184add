package bus

import (
	"fmt"

	"fedpace/bus/wire"
)

// encodeSum makes all of a message but the values.
func encodeSum(s *Sum, trainer string) *wire.Sum {
	w := &wire.Sum{Job: s.Job, Trainer: trainer, ModelDigest: s.Model.field(), Chunks: 1}
	if f := s.Failure; f != nil {
		w.Failure = &wire.Failure{Kind: cut(f.Kind), Task: f.Task, Client: uint64(f.Client), Text: cut(f.Text)}
		return w
	}
	w.Params = uint32(len(s.Values))
	for i := range s.Clients {
		c := &s.Clients[i]
		w.Clients = append(w.Clients, &wire.ClientLoss{Task: c.Task, FirstStepLoss: c.FirstStepLoss, VariateDigest: c.Variate.field()})
	}
	for _, x := range s.Shards {
		w.Shards = append(w.Shards, &wire.ShardScore{Index: uint32(x.Index), LossSum: x.LossSum, Correct: uint64(x.Correct)})
	}
	return w
}

// cut shortens a text to what a message may hold, as valid UTF-8.
func cut(s string) string { return validText(s[:min(len(s), maxText/4)]) }

// decodeSum checks a message and reads all of it but the values; whether they
// are those of its job is for Job.answers to say.
func decodeSum(b []byte) (*wire.Sum, *Sum, error) {
	w := new(wire.Sum)
	if err := unmarshal(b, w); err != nil {
		return nil, nil, err
	}
	c := checker{message: "sum"}
	c.name("job", w.Job)
	s := &Sum{Job: w.Job, Model: c.digest("model_digest", w.ModelDigest, false)}
	c.text("trainer", w.Trainer)
	c.number("params", int64(w.Params), 0, MaxParams)
	c.number("chunks", int64(w.Chunks), 1, maxChunks)
	c.number("chunk", int64(w.Chunk), 0, int64(w.Chunks)-1)
	c.number("number of clients", int64(len(w.Clients)), 0, MaxJobClients)
	c.number("number of shards", int64(len(w.Shards)), 0, MaxJobShards)
	if n := len(w.Values); n%8 != 0 || n/8 > narrow(w.Params) {
		c.refuse("values", fmt.Sprint(n, " bytes"), fmt.Sprintf("a multiple of 8, at most 8 for each of %d params", w.Params))
	}
	if n := len(w.Variates); n%4 != 0 {
		c.refuse("variates", fmt.Sprint(n, " bytes"), "a multiple of 4")
	}
	for _, x := range w.Clients {
		c.name("clients.task", x.Task)
		c.finite("clients.first_step_loss", x.FirstStepLoss)
		c.digest("clients.variate_digest", x.VariateDigest, true)
	}
	for _, x := range w.Shards {
		c.number("shards.index", int64(x.Index), 0, MaxSamples)
		c.number("shards.correct", long(x.Correct), 0, MaxSamples)
		c.finite("shards.loss_sum", x.LossSum)
	}
	if f := w.Failure; f != nil {
		c.text("failure.kind", f.Kind)
		c.text("failure.text", f.Text)
		c.number("failure.client", long(f.Client), 0, MaxClients)
	}
	if c.err != nil {
		return nil, nil, c.err
	}
	if f := w.Failure; f != nil {
		s.Failure = &Failure{Kind: f.Kind, Task: f.Task, Client: narrow(f.Client), Text: f.Text}
		return w, s, nil
	}
	for _, x := range w.Clients {
		s.Clients = append(s.Clients, ClientLoss{Task: x.Task, FirstStepLoss: x.FirstStepLoss, Variate: c.digest("", x.VariateDigest, true)})
	}
	for _, x := range w.Shards {
		s.Shards = append(s.Shards, ShardScore{Index: narrow(x.Index), LossSum: x.LossSum, Correct: narrow(x.Correct)})
	}
	return w, s, nil
}

// answers checks that a sum is one of this job.
func (j *Job) answers(s *Sum) error {
	c := checker{message: fmt.Sprintf("sum of job %d", j.Job)}
	if s.Model != j.Model {
		c.refuse("model_digest", s.Model, "that of the job, "+j.Model.String())
	}
	if s.Failure != nil {
		return c.err
	}
	same := func(field string, got, want int) { c.number(field, int64(got), int64(want), int64(want)) }
	same("number of values", len(s.Values), j.values())
	same("number of clients", len(s.Clients), len(j.Clients))
	variates := 0
	if j.Method.Variates {
		variates = len(j.Clients)
	}
	same("number of variates", len(s.Variates), variates)
	same("number of shards", len(s.Shards), len(j.Shards))
	if c.err != nil {
		return c.err
	}
	for i, x := range s.Clients {
		if want := j.Clients[i].Task; x.Task != want {
			c.refuse(fmt.Sprintf("clients[%d].task", i), x.Task, fmt.Sprint(want))
		}
		if x.Variate.IsZero() == j.Method.Variates {
			c.refuse(fmt.Sprintf("clients[%d].variate_digest", i), x.Variate, "one where the method has control variates, and only there")
		}
	}
	for i, v := range s.Variates {
		same(fmt.Sprintf("length of variates[%d]", i), len(v), j.Params)
	}
	for i, x := range s.Shards {
		same("shards.index", x.Index, j.Shards[i].Index)
		c.number("shards.correct", int64(x.Correct), 0, int64(j.Shards[i].Count))
	}
	return c.err
}
