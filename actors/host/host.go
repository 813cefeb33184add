package host

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"fedpace/actors"
	"fedpace/actors/fleet"
	"fedpace/bus"
	"fedpace/internal/vector"
	"fedpace/learn/metric"
)

// Config is what a host of simulated clients needs.
type Config struct {
	// Run is the name of the run.
	Run   string
	Fleet *fleet.Fleet
	// Workers is the number of trainers, one goroutine each. 0 means that the host only answers tasks
	// with plans.
	Workers int

	// Name is the name, for people, of a host that is not in the coordinator's process.
	Name string
	// Local says that the host is in the coordinator's process.
	Local bool
	// Stamp identifies the configuration of the host (see bus.RunInfo). 0 means that the run has no
	// other hosts.
	Stamp uint64
	// Notice takes a line about each thing that goes wrong without ending the host. It may be nil.
	Notice func(string)

	// Problem is what the trainers learn.
	Problem actors.Problem
	// Counts receive the numbers of tasks and jobs done. Nil means that they are not wanted.
	Counts *Counts
}

// Counts are the numbers of what hosts have done.
type Counts struct {
	Tasks, Jobs, Fails atomic.Int64
	// Busy is the wall time in nanoseconds that trainers spent on jobs.
	Busy atomic.Int64
}

// Host answers for all simulated actors of a run and trains for them. Several
// hosts share a run's tasks and jobs between them.
type Host struct {
	config Config
	bus    bus.Host
}

// Start subscribes to the run's tasks; they are answered from now on until
// Close. Jobs are taken while Train runs.
func Start(ctx context.Context, transport bus.Transport, c Config) (*Host, error) {
	if c.Notice == nil {
		c.Notice = func(string) {}
	}
	if c.Counts == nil {
		c.Counts = &Counts{}
	}
	channel, err := transport.OpenHost(ctx, c.Run, bus.HostConfig{
		Name:    c.Name,
		Stamp:   c.Stamp,
		Local:   c.Local,
		Workers: c.Workers,
	})
	if err != nil {
		return nil, err
	}
	h := &Host{config: c, bus: channel}
	if err := channel.ServeTasks(ctx, h.plan); err != nil {
		return nil, errors.Join(err, channel.Close())
	}
	return h, nil
}

// plan answers task t of a client: it writes to p how long each phase takes and, if the client drops out,
// in which phase and when. It runs on the subscription's goroutine.
func (h *Host) plan(client int, t *bus.Task, p *bus.Plan) error {
	bits := fleet.SameBits(int64(t.ModelBits))
	if t.UpdateBits > 0 {
		bits.Up = int64(t.UpdateBits)
	}
	h.config.Counts.Tasks.Add(1)
	planned, err := h.config.Fleet.Plan(clientOf(client, t), t.Task, int(t.LocalSteps), bits, t.StartNs)
	if err != nil {
		return err
	}
	p.Task = t.Task
	p.DownloadNs = planned.Download
	p.ComputeNs = planned.Compute
	p.UploadNs = planned.Upload
	// Without secure aggregation there are no stages.
	if planned.Stages[0] > 0 {
		p.StageNs = append(p.StageNs[:0], planned.Stages[:]...)
	}
	// The phases of fleet have the same numbers as those of the bus.
	if planned.Dropout != fleet.NoPhase {
		p.Dropout = &bus.Dropout{Phase: bus.Phase(planned.Dropout), AfterNs: planned.After}
	}
	return nil
}

// clientOf returns the client with this number as its task t describes it. The device and the
// availability that it is assigned, and its battery's charge, are known to the coordinator alone. Their
// numbers in the task begin with 1, and 0 stands for the client's own.
func clientOf(number int, t *bus.Task) fleet.Client {
	c := fleet.Client{
		Number:    number,
		Device:    number,
		Presence:  number,
		Joules:    t.Joules,
		BatchPart: t.BatchPart,
	}
	if t.Device > 0 {
		c.Device = int(t.Device) - 1
	}
	if t.Presence > 0 {
		c.Presence = int(t.Presence) - 1
	}
	return c
}

// Train takes jobs from the work queue until ctx is cancelled, the bus fails, or this host cannot take
// part any more. All workers have ended and are closed when it returns, nil if ctx was cancelled.
func (h *Host) Train(ctx context.Context) error {
	group, inner := errgroup.WithContext(ctx)
	for range h.config.Workers {
		trainer, err := actors.NewTrainer(h.config.Problem)
		if err != nil {
			// The group cancels the workers that have begun, and waits for them.
			group.Go(func() error { return err })
			break
		}
		group.Go(func() error { return h.work(inner, &worker{Trainer: trainer}) })
	}
	if err := group.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// work lets worker w do one job of the run's queue after the other until ctx ends or one fails, and closes the
// worker's trainer. It always returns an error, that of ctx if nothing has failed.
func (h *Host) work(ctx context.Context, w *worker) (err error) {
	defer func() { err = errors.Join(err, w.Close()) }()
	for {
		delivery, err := h.bus.NextJob(ctx, h.config.Problem.Class())
		if err == nil {
			err = h.doJob(ctx, delivery, w)
		}
		if err != nil {
			return err
		}
	}
}

// worker is a trainer with the memory for its sums, which is reused. The coordinator reads a sum
// until SendSum returns; the worker ends if that fails.
type worker struct {
	*actors.Trainer
	sum []int64
}

// doJob does one job and sends its result, or its failure, to the coordinator. The job is acknowledged
// only after the coordinator has the result, so that a job whose host dies is given to another. An
// error means that this host cannot take part in the run any more.
func (h *Host) doJob(ctx context.Context, delivery bus.Delivery, w *worker) error {
	// A job that is given back goes to another worker, at once or a little later.
	const (
		atOnce = false
		later  = true
	)
	// Another coordinator has taken the run's name over.
	if !delivery.Job().Spec.Equal(h.config.Problem.Spec()) {
		return errors.Join(
			fmt.Errorf("host: a job of run %s: %w", h.config.Run, bus.ErrStale),
			delivery.Release(atOnce),
		)
	}
	begin := time.Now()
	sum, err := h.result(ctx, delivery.Job(), w)
	h.config.Counts.Busy.Add(int64(time.Since(begin)))
	// This host stops, so another worker does the job again.
	if ctx.Err() != nil {
		return errors.Join(ctx.Err(), delivery.Release(atOnce))
	}
	h.config.Counts.Jobs.Add(1)
	if err != nil {
		h.config.Counts.Fails.Add(1)
		sum = resultOf(delivery.Job())
		sum.Failure = failureOf(err)
	}
	err = h.bus.SendSum(ctx, sum)
	if !h.config.Local && errors.Is(err, bus.ErrRefused) {
		// The coordinator is another process and did not take the result: the job may be of an earlier life of it, or
		// its model may still be on its way. If it is neither, the run ends when the job has been given out too often.
		h.config.Notice(err.Error())
		return delivery.Release(later)
	}
	if err != nil {
		return errors.Join(err, delivery.Release(atOnce))
	}
	return delivery.Done(ctx)
}

// resultOf returns a result of the job that has no values yet.
func resultOf(job *bus.Job) *bus.Result {
	return &bus.Result{Sum: &bus.Sum{Job: job.Job, ModelDigest: job.ModelDigest}}
}

// result computes a job's sum: of training tasks, or of the shards of an evaluation.
func (h *Host) result(ctx context.Context, job *bus.Job, w *worker) (*bus.Result, error) {
	if err := h.check(job); err != nil {
		return nil, err
	}
	params, err := h.bus.Model(ctx, bus.DigestFrom(job.ModelDigest))
	if err != nil {
		return nil, err
	}
	switch job.Kind {
	case bus.Train:
		return h.train(ctx, job, params, w)
	case bus.Evaluate, bus.EvaluateClients:
		return h.evaluate(ctx, job, params, w)
	}
	return nil, fmt.Errorf("host: job %d is of an unknown kind (%v)", job.Job, job.Kind)
}

// train does a training job: it takes the local steps of the job's tasks from the model params, and returns the exact
// sum of their weighted updates, with the first-step loss of each client and what else it sends or keeps: its next
// state, if clients have one, and the buffers of the model that its steps have changed, if the job wants them
// (job.Buffers is their number in the model).
func (h *Host) train(ctx context.Context, job *bus.Job, params []float32, w *worker) (*bus.Result, error) {
	tasks, err := h.assignments(ctx, job)
	if err != nil {
		return nil, err
	}
	shared, err := h.shared(ctx, job)
	if err != nil {
		return nil, err
	}
	// The worker's memory is used again: fresh memory for every job would cost more than its sums, as the
	// system hands it out page by page.
	n := w.SumLength(shared)
	w.sum = slices.Grow(w.sum[:0], n)[:n]
	clear(w.sum)
	sum := resultOf(job)
	sum.Values = w.sum
	outcomes, err := w.Train(ctx, params, shared, tasks, sum.Values)
	if err != nil {
		return nil, err
	}
	for i, o := range outcomes {
		loss := &bus.ClientLoss{Task: tasks[i].Task, FirstStepLoss: o.FirstStepLoss}
		if o.State != nil {
			loss.VariateDigest = bus.DigestOf(o.State).Bytes()
			sum.ClientStates = append(sum.ClientStates, o.State)
		}
		// The client sends its buffers from number FirstBuffer on.
		if job.Buffers > 0 {
			loss.BufferFirst = uint32(o.FirstBuffer)
			loss.BufferCount = uint32(len(o.Buffers))
			sum.Buffers = append(sum.Buffers, o.Buffers)
		}
		sum.Clients = append(sum.Clients, loss)
	}
	return sum, nil
}

// shared returns what the tasks of a job have in common besides the model, nil if clients have no
// state. The server's control variate is fetched by its digest.
func (h *Host) shared(ctx context.Context, job *bus.Job) (*actors.Shared, error) {
	m := job.Method
	if m == nil {
		return nil, nil
	}
	mean, err := h.clientState(ctx, m.VariateDigest)
	if err != nil {
		return nil, err
	}
	return &actors.Shared{
		Mean:      mean,
		Weight:    m.VariateWeight,
		Residuals: m.Residuals,
		Rounds:    m.Rounds,
	}, nil
}

// evaluate does an evaluation job: it measures the model params on each shard. A shard is s.Count samples. In a
// job of the kind EvaluateClients they are samples of client s.Index; in others they are held-out samples: an
// evaluation measures all of them, or s.Spread at even distances if that is not 0, and the shard's are those from
// number s.From on among these. s.KeptDigest names the client's own part of the model; it is empty if it has none.
// If the job wants outcomes, the result also has the model's output and the true answer for each sample.
func (h *Host) evaluate(ctx context.Context, job *bus.Job, params []float32, w *worker) (*bus.Result, error) {
	result := resultOf(job)
	for _, s := range job.Shards {
		measured := actors.Measured{
			Client:      actors.HeldOut,
			FirstSample: int(s.From),
			Count:       int(s.Count),
			Spread:      int(s.Spread),
		}
		if job.Kind == bus.EvaluateClients {
			measured = actors.Measured{Client: int(s.Index), Count: int(s.Count)}
		}
		if job.Kind == bus.Evaluate && job.Spec.GetOutcomes() {
			measured.Outcomes = new(metric.Outcomes)
		}
		var err error
		measured.State, err = h.clientState(ctx, s.KeptDigest)
		if err != nil {
			return nil, err
		}
		loss, scores, err := w.Evaluate(ctx, params, measured)
		if err != nil {
			return nil, err
		}
		shard := &bus.ShardScore{Index: s.Index, LossSum: loss}
		for _, x := range scores {
			shard.Scores = append(shard.Scores, &bus.Score{Sum: x.Sum, Weight: x.Weight})
		}
		if o := measured.Outcomes; o != nil {
			shard.Outputs = vector.Bytes(o.Outputs)
			shard.Answers = vector.Bytes(o.Targets)
			for _, y := range o.Labels {
				shard.Answers = binary.LittleEndian.AppendUint32(shard.Answers, uint32(y))
			}
		}
		result.Shards = append(result.Shards, shard)
	}
	return result, nil
}

// assignments returns a job's tasks in the form that trainers take, with the clients' states. An attacker's
// task also has the tasks of the colluders of its class, from which its update follows. The job lists
// these apart from its tasks.
func (h *Host) assignments(ctx context.Context, job *bus.Job) ([]actors.Assignment, error) {
	list := make([]actors.Assignment, len(job.Clients)+len(job.Colluders))
	for i, c := range slices.Concat(job.Clients, job.Colluders) {
		v, err := h.clientState(ctx, c.VariateDigest)
		if err != nil {
			return nil, err
		}
		list[i] = actors.Assignment{
			Task:        c.Task,
			Client:      int(c.Client),
			LocalSteps:  int(c.LocalSteps),
			StepsDone:   int64(c.StepsDone),
			Rate:        c.LearningRate,
			Batch:       int(c.Batch),
			FirstSample: int(c.FirstSample),
			Samples:     int(c.Samples),
			Weight:      c.Weight,
			State:       v,
			Attacker:    int(c.Attacker),
		}
	}
	tasks := list[:len(job.Clients)]
	// The colluders are listed by the number of their class. No colluder has that of an honest client.
	colluders := map[int][]actors.Assignment{}
	for _, colluder := range list[len(tasks):] {
		colluders[colluder.Attacker] = append(colluders[colluder.Attacker], colluder)
	}
	for i := range tasks {
		tasks[i].Colluders = colluders[tasks[i].Attacker]
	}
	return tasks, nil
}

// clientState fetches a client's state or the server's control variate by its digest. Without a
// digest it is nil, which means zeros.
func (h *Host) clientState(ctx context.Context, digest []byte) ([]float32, error) {
	d := bus.DigestFrom(digest)
	if d.IsZero() {
		return nil, nil
	}
	return h.bus.Model(ctx, d)
}

// check returns an error if a job does not fit this host's model or data set: another number of
// parameters or buffers, or clients or samples that the set does not have.
func (h *Host) check(job *bus.Job) error {
	p := &h.config.Problem
	if int(job.Params) != p.Model.Params() {
		return fmt.Errorf(
			"host: job %d is for a model of %d parameters, %s has %d",
			job.Job,
			job.Params,
			p.Model,
			p.Model.Params(),
		)
	}
	if sent := actors.SentBuffers(p); job.Kind == bus.Train && int(job.Buffers) != sent {
		return fmt.Errorf(
			"host: job %d is for a model of which clients send %d buffers, those of %s send %d",
			job.Job,
			job.Buffers,
			p.Model,
			sent,
		)
	}
	for _, c := range slices.Concat(job.Clients, job.Colluders) {
		if c.Client >= uint64(p.Set.Clients()) {
			return fmt.Errorf("host: job %d: client %d of %d", job.Job, c.Client, p.Set.Clients())
		}
	}
	for _, s := range job.Shards {
		if job.Kind == bus.EvaluateClients {
			// A shard of a client's samples begins at its first sample.
			c := int(s.Index)
			isClient := c < p.Set.Clients()
			hasSamples := isClient && s.Count >= 1 && s.Count <= uint64(p.Set.Samples(c))
			if !hasSamples || s.From != 0 {
				return fmt.Errorf(
					"host: job %d: %d samples of client %d from %d on, which this host does not have",
					job.Job,
					s.Count,
					c,
					s.From,
				)
			}
			continue
		}
		if n := uint64(p.Set.HeldOut()); s.Count < 1 || s.Count > n || s.From > n-s.Count {
			return fmt.Errorf(
				"host: job %d: shard %d of held-out samples %d to %d of %d",
				job.Job,
				s.Index,
				s.From,
				s.From+s.Count-1,
				n,
			)
		}
	}
	return nil
}

// failureOf returns an error in the form that is sent to the coordinator. Its kind says whether training
// diverged, at which task if that is known, or whether the model could not be found.
func failureOf(err error) *bus.Failure {
	f := &bus.Failure{Kind: "error", Text: err.Error()}
	var d *actors.Diverged
	switch {
	case errors.As(err, &d):
		f.Kind = bus.Diverged
		f.Task = d.Task
		f.Client = uint64(d.Client)
	case errors.Is(err, actors.ErrModelDiverged):
		f.Kind = bus.Diverged
	case errors.Is(err, bus.ErrNoModel):
		f.Kind = bus.NoModel
	}
	return f
}

// Wait blocks until the bus, by which the host answers the coordinator's tasks, has failed or is closed, and returns
// the reason, or nil if ctx is cancelled first.
func (h *Host) Wait(ctx context.Context) error {
	select {
	case <-h.bus.Done():
		return h.bus.Err()
	case <-ctx.Done():
		return nil
	}
}

// Close ends the subscriptions.
func (h *Host) Close() error { return h.bus.Close() }
