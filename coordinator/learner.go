package coordinator

import (
	"context"
	"errors"
	"fmt"
	"math"

	"fedpace/bus"
	"fedpace/coordinator/aggregate"
	"fedpace/coordinator/round"
)

// learner turns accepted tasks into the next model, through jobs on the work
// queue.
type learner struct {
	config    *Config
	bus       bus.Coordinator
	algorithm *aggregate.Instance

	params []float32 // the newest model; never changed, only replaced
	digest bus.Digest
	models models // all that tasks may start from
	sum    []int64
	job    uint64  // number of the last job
	best   float64 // validation accuracy

	devices *deviceDesk // nil: all clients are simulated
	moved   bool        // the algorithm's state is a round ahead of the machine's
}

func newLearner(ctx context.Context, channel bus.Coordinator, c *Config) (*learner, error) {
	l := makeLearner(channel, c)
	l.params = c.Learning.Initial
	l.digest = bus.DigestOf(l.params)
	return l, l.models.add(ctx, l.digest, l.params)
}

// makeLearner makes one that has no model yet.
func makeLearner(channel bus.Coordinator, c *Config) *learner {
	return &learner{
		config: c, bus: channel, algorithm: c.algorithm(), models: newModels(channel), best: -1, job: firstJob(),
		sum: make([]int64, aggregate.SumLength(c.algorithm().Algorithm, c.Learning.Model.Params())),
	}
}

// learn trains the round's accepted tasks and makes the next model of them.
func (d *driver) learn(ctx context.Context) error {
	loss, err := d.learner.round(ctx, d.machine.Round(), d.train)
	d.torn = d.learner.moved // until the machine knows of it
	if err != nil {
		return err
	}
	d.learner.moved = false
	if d.devices != nil {
		defer d.devices.used(d.train[d.devices.split(d.train):])
	}
	if f := d.config.Observer.Model; f != nil {
		f(d.machine.Round(), d.learner.params)
	}
	return d.step(round.Event{Kind: round.Trained, Loss: loss})
}

// evaluate measures the newest model.
func (d *driver) evaluate(ctx context.Context) error {
	l := d.learner
	loss, accuracy, err := l.evaluate(ctx, d.machine.Round())
	if err != nil {
		return err
	}
	if accuracy > l.best {
		l.best = accuracy
		if f := d.config.Observer.Best; f != nil {
			f(accuracy, l.params)
		}
	}
	return d.step(round.Event{Kind: round.Evaluated, Loss: loss, Accuracy: accuracy})
}

// round returns the mean over the tasks of the clients' first-step losses,
// added in task order (the inner mean of Eq. 15).
func (l *learner) round(ctx context.Context, number int, tasks []round.Task) (loss float64, err error) {
	weights, scale, err := l.weigh(tasks)
	if err != nil {
		return 0, err
	}
	variates, err := l.putVariates(ctx, tasks)
	if err != nil {
		return 0, err
	}
	losses := make([]float64, len(tasks))
	simulated := l.devices.split(tasks)
	var jobs []assignment
	for _, part := range splitByModel(tasks[:simulated], l.parts()) {
		job := l.newJob(bus.Train, number)
		job.ModelDigest = l.models.digest(tasks[part.from].Model).Bytes()
		job.Method = l.method(variates)
		for i := part.from; i < part.to; i++ {
			t := tasks[i]
			job.Clients = append(job.Clients, &bus.ClientWork{
				Task: t.Task, Client: uint64(t.Client), LocalSteps: uint32(t.LocalSteps), StepsDone: uint64(t.StepsDone),
				LearningRate: t.LearningRate, Weight: weights[i], VariateDigest: variates.variate(i).Bytes(),
			})
		}
		jobs = append(jobs, assignment{job: job, take: func(s *bus.Result) error {
			if len(s.Clients) != len(job.Clients) {
				return fmt.Errorf("coordinator: job %d has %d clients, its sum %d", job.Job, len(job.Clients), len(s.Clients))
			}
			for i, c := range s.Clients {
				if c.Task != job.Clients[i].Task {
					return fmt.Errorf("coordinator: job %d, client %d: the sum is of task %d, not %d", job.Job, i, c.Task, job.Clients[i].Task)
				}
				losses[part.from+i] = c.FirstStepLoss
				variates.take(part.from+i, s, i)
			}
			return aggregate.Merge(l.sum, s.Values)
		}})
	}
	clear(l.sum)
	if len(jobs) > 0 {
		if err := l.do(ctx, jobs); err != nil {
			return 0, err
		}
	}
	if err := l.devices.add(l.sum, tasks[simulated:], weights[simulated:], losses[simulated:]); err != nil {
		return 0, err
	}
	next := make([]float32, len(l.params))
	copy(next, l.params)
	l.moved = true
	l.algorithm.Server.Apply(next, l.sum[:len(next)], scale)
	for i, x := range next {
		if math.IsInf(float64(x), 0) || x != x {
			return 0, fmt.Errorf("%w: parameter %d of the model after round %d is %g", ErrDiverged, i, number, x)
		}
	}
	if err := l.replace(ctx, next); err != nil {
		return 0, err
	}
	if err := variates.update(ctx, l.sum[len(next):], tasks, l.digest); err != nil {
		return 0, err
	}
	total := 0.0
	for _, x := range losses {
		total += x
	}
	return total / float64(len(losses)), nil
}

// weights are those of the accepted updates; they sum to 1.
func (l *learner) weights(tasks []round.Task) ([]float64, error) {
	if l.config.Learning.Samples == nil {
		return aggregate.Equal(len(tasks)), nil
	}
	samples := make([]int, len(tasks))
	for i, t := range tasks {
		if l.devices.is(t.Client) {
			samples[i] = l.devices.samples(t)
			continue
		}
		samples[i] = l.config.Learning.Samples(t.Client)
	}
	return aggregate.BySamples(samples)
}

// replace makes next the newest model. The machine says when an older one can
// go.
func (l *learner) replace(ctx context.Context, next []float32) error {
	digest := bus.DigestOf(next)
	if err := l.models.add(ctx, digest, next); err != nil {
		return err
	}
	l.params, l.digest = next, digest
	return nil
}

// evaluate returns the mean cross-entropy and the accuracy over the held-out
// samples: shards measured by whoever comes, added in their order.
func (l *learner) evaluate(ctx context.Context, number int) (loss, accuracy float64, err error) {
	all := shards(l.config.Learning.HeldOut, l.config.Learning.Measured)
	losses, correct, measured := make([]float64, len(all)), 0, 0
	for _, s := range all {
		measured += int(s.Count)
	}
	var jobs []assignment
	for _, part := range split(len(all), l.parts()) {
		job := l.newJob(bus.Evaluate, number)
		job.Shards = all[part.from:part.to]
		jobs = append(jobs, assignment{job: job, take: func(s *bus.Result) error {
			if len(s.Shards) != len(job.Shards) {
				return fmt.Errorf("coordinator: job %d has %d shards, its result %d", job.Job, len(job.Shards), len(s.Shards))
			}
			for i, score := range s.Shards {
				if want := job.Shards[i]; score.Index != want.Index || score.Correct > want.Count {
					return fmt.Errorf("coordinator: job %d: shard %d with %d correct, want shard %d with at most %d",
						job.Job, score.Index, score.Correct, want.Index, want.Count)
				}
				losses[part.from+i] = score.LossSum
				correct += int(score.Correct)
			}
			return nil
		}})
	}
	if err := l.do(ctx, jobs); err != nil {
		return 0, 0, err
	}
	total := 0.0
	for _, x := range losses {
		total += x
	}
	return total / float64(measured), float64(correct) / float64(measured), nil
}

// assignment is a job with what is to be done with its sum.
type assignment struct {
	job  *bus.Job
	take func(*bus.Result) error
	done bool
}

// newJob numbers a job. Numbers ascend within a run, so that a late sum is
// never taken for another's.
func (l *learner) newJob(kind bus.JobKind, number int) *bus.Job {
	l.job++
	return &bus.Job{
		Job: l.job, Kind: kind, Round: uint32(number), ModelDigest: l.digest.Bytes(), Params: uint32(len(l.params)), Spec: l.config.Learning.Spec,
	}
}

// do sends the jobs and takes each one's sum once, in whatever order they come.
// Jobs that may have been lost with a server are sent again.
func (l *learner) do(ctx context.Context, jobs []assignment) error {
	first := jobs[0].job.Job
	send := func() error {
		for i := range jobs {
			a := &jobs[i]
			if a.done {
				continue
			}
			if err := l.bus.SendJob(ctx, l.config.Learning.Kernel, a.job); err != nil {
				return err
			}
		}
		return nil
	}
	if err := send(); err != nil {
		return err
	}
	for open := len(jobs); open > 0; {
		s, err := l.bus.TakeSum(ctx)
		if errors.Is(err, bus.ErrInterrupted) {
			if err := send(); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		i := s.Job - first
		if i >= uint64(len(jobs)) || jobs[i].done {
			return fmt.Errorf("coordinator: a sum for job %d, which is not open", s.Job)
		}
		if f := s.Failure; f != nil && f.Kind == bus.NoModel {
			if err := l.bus.PutModelsAgain(ctx); err != nil {
				return err
			}
			s.Reject("the model has been put again")
			continue
		} else if f != nil {
			s.Accept()
			return failed{f}
		}
		err = jobs[i].take(s.Result)
		s.Accept()
		if err != nil {
			return err
		}
		jobs[i].done = true
		open--
	}
	return nil
}

// parts is how many jobs to make of a round's work: about two a worker, of those
// that are there now. No result depends on it.
func (l *learner) parts() int {
	_, workers := l.bus.Hosts()
	return l.config.Learning.Jobs + 2*workers
}

type span struct{ from, to int }

// split cuts 0..n-1 into at most parts contiguous spans of nearly equal length.
func split(n, parts int) []span {
	parts = min(parts, n)
	spans := make([]span, parts)
	for i := range spans {
		spans[i] = span{i * n / parts, (i + 1) * n / parts}
	}
	return spans
}
