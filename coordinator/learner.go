package coordinator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"fedpace/algorithm"
	"fedpace/algorithm/combine"
	"fedpace/bus"
	"fedpace/coordinator/realdevices"
	"fedpace/coordinator/round"
	"fedpace/learn"
	"fedpace/learn/metric"
)

// learner turns accepted tasks into the next model, through jobs on the work
// queue.
type learner struct {
	config    *Config
	bus       bus.Coordinator
	algorithm *algorithm.Instance
	devices   *realdevices.Devices // nil: all clients are simulated

	model  // the newest; its params are never changed, only replaced
	models models
	job    uint64  // number of the last job
	best   float64 // quality of the best model so far; NaN: none was measured

	guard
	clip  combine.Clipper // clips all updates
	bound combine.Clipper // clips those of devices

	// What train leaves to advance.
	refused  []uint64 // tasks whose updates are not valid
	sum      []int64
	scale    float64
	variates *variates
	lent     map[int]bus.Digest // by client, what devices keep and is on the bus
}

// newLearner makes a learner whose models are those that the run begins or goes on with.
func newLearner(ctx context.Context, channel bus.Coordinator, c *Config) (*learner, error) {
	instance := c.Learning.Algorithm
	if instance == nil {
		instance = c.fresh(algorithm.Default)
	}
	c.Learning.Combine = c.Learning.Combine.With(instance.Algorithm)
	l := &learner{
		config:    c,
		bus:       channel,
		algorithm: instance,
		models:    models{bus: channel, list: map[uint64]model{}},
		best:      math.NaN(),
		job:       bus.FirstNumber(),
		lent:      map[int]bus.Digest{},
		sum:       make([]int64, algorithm.SumLength(instance.Algorithm, c.Learning.Model.Params())),
		clip:      combine.Clipper{Of: c.Learning.Combine.Clip},
		bound:     combine.Clipper{Of: c.Learning.Combine.Devices},
	}
	list := []Version{{Params: c.Learning.Initial}}
	if c.Resume != nil {
		list = c.Resume.Models
		if err := l.restore(c.Resume); err != nil {
			return nil, err
		}
	}
	if n := learn.Travels(c.Learning.Model); c.Round.Devices.Count > 0 && n < c.Learning.Model.Params() {
		if err := l.models.split(ctx, list[0].Params, n); err != nil {
			return nil, err
		}
	}
	for _, v := range list {
		l.model = model{digest: bus.DigestOf(v.Params), params: v.Params, doubtful: v.Doubtful}
		if err := l.models.add(ctx, v.Number, l.model); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// fresh is an algorithm with the state that it begins with.
func (c *Config) fresh(a algorithm.Algorithm) *algorithm.Instance {
	return algorithm.NewPartly(a, nil, c.Learning.Model.Params(), c.Learning.Model.Trainable(), 0, c.Round.Clients)
}

// restore takes over what a learner of this configuration has added to a state.
func (l *learner) restore(s *State) error {
	if s.Measured {
		l.best = s.Best
	}
	l.Guard = s.Guard
	err := errors.Join(l.algorithm.Server.Restore(s.Server), l.clip.Restore(s.Norms), l.bound.Restore(s.DeviceNorms))
	if v := l.algorithm.Variates; v != nil {
		err = errors.Join(err, v.Restore(*s.Variates))
	}
	return err
}

// save adds what the learner knows to a state.
func (l *learner) save(s *State) {
	for _, version := range slices.Sorted(maps.Keys(l.models.list)) {
		x := l.models.list[version]
		s.Models = append(s.Models, Version{version, x.params, x.doubtful})
	}
	s.Measured = l.best == l.best
	if s.Measured {
		s.Best = l.best
	}
	s.Guard = l.Guard
	s.Server = l.algorithm.Server.State()
	s.Norms, s.DeviceNorms = l.clip.Memory(), l.bound.Memory()
	if v := l.algorithm.Variates; v != nil {
		state := v.State()
		s.Variates = &state
	}
}

// addUp adds up the updates of the tasks, and returns the clients' first-step losses
// and their mean, added in task order (the inner mean of Eq. 15).
func (l *learner) addUp(
	ctx context.Context,
	number int,
	tasks []round.Task,
) (loss float64, losses []float64, err error) {
	weights, singles, err := l.weigh(number, tasks)
	if err != nil {
		return 0, nil, err
	}
	variates, err := l.putVariates(ctx, tasks)
	if err != nil {
		return 0, nil, err
	}
	l.variates = variates
	simulated := l.devices.Split(tasks)
	clear(l.sum)
	jobs, losses, err := l.trainAll(ctx, number, tasks, singles.spans(tasks[:simulated], l.parts()), weights, variates, func(s span, values []int64) error {
		return singles.merge(l.sum, s, values)
	})
	if err != nil {
		return 0, nil, err
	}
	kept, err := l.refuse(number, tasks, jobs, losses, &weights, &singles)
	if err != nil {
		return 0, nil, err
	}
	n := len(l.refused) // all of simulated clients, which are the first
	if err := l.addDevices(&singles, kept, weights, losses[n:], simulated-n); err != nil {
		return 0, nil, err
	}
	for i, t := range tasks[simulated:] {
		variates.after[simulated+i] = l.devices.Keeps(t.Task)
	}
	if singles.join != nil {
		if err := singles.join(l.sum); err != nil {
			return 0, nil, err
		}
	}
	l.algorithm.Decide(l.sum)
	return meanTold(losses[:simulated], losses[simulated:]), losses, l.rebase(kept, weights)
}

// trainAll has the tasks of the spans trained, merges the sum of each span, and returns the
// clients' first-step losses.
func (l *learner) trainAll(
	ctx context.Context,
	number int,
	tasks []round.Task,
	spans []span,
	weights []float64,
	variates *variates,
	merge func(span, []int64) error,
) (jobs []assignment, losses []float64, err error) {
	losses = make([]float64, len(tasks))
	jobs = l.clientJobs(number, tasks, spans, func(i int, s *bus.Result, j int) {
		losses[i] = s.Clients[j].FirstStepLoss
		variates.take(i, s, j)
	})
	simulated := l.devices.Split(tasks)
	trained := l.config.Observer.Trained
	done := 0
	if trained == nil || simulated == 0 {
		trained = func(int, int) {}
	}
	trained(0, simulated)
	for i := range jobs {
		job := jobs[i].job
		take := jobs[i].take
		job.Method = variates.method()
		if job.Method != nil {
			job.Method.Rounds = l.newest()
		}
		for j, w := range job.Clients {
			t := &tasks[jobs[i].from+j]
			w.LocalSteps = uint32(t.LocalSteps)
			w.LearningRate = t.LearningRate
			w.Weight, w.VariateDigest = weights[jobs[i].from+j], variates.before[jobs[i].from+j].Bytes()
		}
		jobs[i].single = l.config.Learning.Combine.Single()
		jobs[i].take = func(s *bus.Result) error {
			if err := take(s); err != nil {
				return err
			}
			done += len(job.Clients)
			trained(done, simulated)
			return merge(jobs[i].span, s.Values)
		}
	}
	l.config.Learning.Attackers.collude(jobs, tasks)
	return jobs, losses, l.do(ctx, jobs)
}

// refuse leaves out the tasks whose updates are not valid, which have no loss: the others weigh as if
// these had not been.
func (l *learner) refuse(
	number int,
	tasks []round.Task,
	jobs []assignment,
	losses []float64,
	weights *[]float64,
	s *singles,
) (kept []round.Task, err error) {
	l.refused = nil
	for i := range jobs {
		if f := jobs[i].failed; f != nil {
			l.refused = append(l.refused, tasks[i].Task)
			err = failed{f}
			losses[i] = math.NaN()
		}
	}
	if len(l.refused) == 0 || len(l.refused) == len(tasks) {
		return tasks, err
	}
	kept = slices.DeleteFunc(slices.Clone(tasks), func(t round.Task) bool { return slices.Contains(l.refused, t.Task) })
	updates := slices.DeleteFunc(s.updates, func(u []int64) bool { return u == nil })
	if *weights, *s, err = l.weigh(number, kept); err == nil {
		copy(s.updates, updates) // those of devices follow
	}
	return kept, err
}

// meanTold is the mean of the clients' losses, in their order, without those of devices
// that do not tell theirs and of updates that were refused (NaN); NaN where none is told.
func meanTold(simulated, devices []float64) float64 {
	sum := 0.0
	told := 0
	for _, loss := range slices.Concat(simulated, devices) {
		if loss == loss {
			sum += loss
			told++
		}
	}
	return sum / float64(told)
}

// clientJobs makes a job of each span of the tasks, with one local step of the
// learning rate and weight 0 for each. take gets what the j-th client of a
// result did in task i.
func (l *learner) clientJobs(
	number int,
	tasks []round.Task,
	spans []span,
	take func(i int, s *bus.Result, j int),
) []assignment {
	jobs := make([]assignment, len(spans))
	for i, part := range spans {
		job := l.newJob(bus.Train, number)
		job.ModelDigest = l.models.list[tasks[part.from].Model].digest.Bytes()
		for _, t := range tasks[part.from:part.to] {
			w := &bus.ClientWork{
				Task:       t.Task,
				Client:     uint64(t.Client),
				LocalSteps: 1,
				StepsDone:  uint64(t.StepsDone),
			}
			if of := l.config.Learning.Batch; of != nil {
				w.Batch = uint32(of(t.Client))
			}
			w.Attacker = l.config.Learning.Attackers.number(t.Client)
			job.Clients = append(job.Clients, w)
		}
		jobs[i] = assignment{span: part, job: job, take: func(s *bus.Result) error {
			for j := range s.Clients {
				take(part.from+j, s, j)
			}
			return nil
		}}
	}
	return jobs
}

// advance makes the next model of the updates that were added up.
func (l *learner) advance(ctx context.Context, number int, tasks []round.Task) error {
	next := slices.Clone(l.params)
	if l.lost { // what follows begins anew, with the best one
		next = l.Good
		l.doubts = false
		l.devices.ModelLost(number, l.guard.loss, l.Best)
		fresh := l.config.fresh(l.algorithm.Algorithm).Server.State()
		if err := errors.Join(
			l.algorithm.Server.Restore(fresh),
			l.clip.Restore(nil),
			l.bound.Restore(nil),
		); err != nil {
			return err
		}
	} else {
		l.algorithm.After(l.newest())
		l.algorithm.Server.Apply(next, l.sum[:len(next)], l.scale)
	}
	if i := notFinite(next); i >= 0 {
		return fmt.Errorf("%w: parameter %d of the model after round %d is %g", ErrDiverged, i, number, next[i])
	}
	l.model = model{digest: bus.DigestOf(next), params: next, doubtful: l.doubts}
	if err := l.models.add(ctx, l.newest()+1, l.model); err != nil {
		return err
	}
	if err := l.variates.update(
		ctx,
		l.sum[len(next):],
		append(slices.Collect(maps.Values(l.lent)), l.digest)...,
	); err != nil {
		return err
	}
	l.devices.Used(tasks)
	l.clip.Advance()
	l.bound.Advance()
	if f := l.config.Observer.Model; f != nil {
		f(number, l.params)
	}
	return nil
}

// notFinite is the first parameter that is not finite; -1: all are.
func notFinite(params []float32) int {
	return slices.IndexFunc(params, func(x float32) bool { return x-x != 0 })
}

// newest is the number of the newest version.
func (l *learner) newest() uint64 { return slices.Max(slices.Collect(maps.Keys(l.models.list))) }

// losses returns the loss of each client's next minibatch on the newest model,
// in the order of the tasks.
func (l *learner) losses(ctx context.Context, number int, tasks []round.Task) ([]float64, error) {
	losses := make([]float64, len(tasks))
	return losses, l.do(ctx, l.clientJobs(number, tasks, split(len(tasks), l.parts()), func(i int, s *bus.Result, j int) {
		losses[i] = s.Clients[j].FirstStepLoss
	}))
}

// evaluate returns the mean loss and the metrics over the held-out samples.
func (l *learner) evaluate(ctx context.Context, number int) (loss float64, metrics []float64, err error) {
	all := shards(l.config.Learning.HeldOut, l.config.Learning.Measured, l.config.Round.Stop.PerSample > 0)
	found, err := l.measure(ctx, bus.Evaluate, number, l.digest, l.parts(), all)
	if err != nil {
		return 0, nil, err
	}
	measured := 0
	scores := make([]learn.Score, len(l.config.Round.Metrics))
	for i, s := range found {
		loss += s.LossSum
		for k, x := range s.Scores {
			scores[k].Sum += x.Sum
			scores[k].Weight += x.Weight
		}
		measured += int(all[i].Count)
	}
	loss /= float64(measured)
	for i, m := range l.config.Round.Metrics {
		if scores[i].Weight == 0 {
			return 0, nil, fmt.Errorf(
				"coordinator: %s is measured on none of the held-out samples: its weights are 0",
				m.Name,
			)
		}
		v, err := value(m, scores[i])
		if err != nil {
			return 0, nil, fmt.Errorf("on the held-out samples: %w", err)
		}
		metrics = append(metrics, v)
	}
	q := l.config.Round.Quality
	if now := q.Of(loss, metrics); q.Better(now, l.best) {
		l.best = now
		if f := l.config.Observer.Best; f != nil {
			f(now, l.params)
		}
	}
	return loss, metrics, nil
}

// evaluateClients measures the newest model, that of a round, on each simulated client's
// own samples, with what of it is the client's own.
func (l *learner) evaluateClients(ctx context.Context, number int) ([]metric.ClientScore, error) {
	all := make([]*bus.Shard, l.config.Round.Clients)
	for client := range all {
		all[client] = &bus.Shard{Index: uint32(client), Count: uint64(l.config.Learning.OwnSamples(client))}
	}
	found, err := l.measureClients(ctx, number, all)
	if err != nil {
		return nil, err
	}
	scores := make([]metric.ClientScore, len(found))
	for client, s := range found {
		n := float64(all[client].Count)
		scores[client] = metric.ClientScore{Client: client, Samples: int(n), Loss: s.LossSum / n}
		for i, x := range s.Scores {
			v, err := value(l.config.Round.Metrics[i], learn.Score{Sum: x.Sum, Weight: x.Weight})
			if err != nil {
				return nil, fmt.Errorf("on the own samples of client %d: %w", client, err)
			}
			scores[client].Metrics = append(scores[client].Metrics, v)
		}
	}
	return scores, nil
}

// keptAtOnce is of how many clients what they keep is on the bus for an evaluation.
const keptAtOnce = 256

// measureClients measures shards by client. Where a part of the model is a client's own, what the
// clients keep is on the bus meanwhile.
func (l *learner) measureClients(
	ctx context.Context,
	number int,
	all []*bus.Shard,
) (found []*bus.ShardScore, err error) {
	if _, ok := l.config.Learning.Model.(*learn.Personal); !ok {
		return l.measure(ctx, bus.EvaluateClients, number, l.digest, l.parts(), all)
	}
	for shards := range slices.Chunk(all, keptAtOnce) {
		tasks := make([]round.Task, len(shards))
		for i, s := range shards {
			tasks[i].Client = int(s.Index)
		}
		v, err := l.putVariates(ctx, tasks)
		if err != nil {
			return nil, err
		}
		for i, s := range shards {
			s.KeptDigest = v.before[i].Bytes()
		}
		scores, err := l.measure(ctx, bus.EvaluateClients, number, l.digest, l.parts(), shards)
		if err = errors.Join(err, v.takeBack(ctx, l.digest)); err != nil {
			return nil, err
		}
		found = append(found, scores...)
	}
	return found, nil
}

// value is the value of a metric, NaN if it was measured on nothing.
func value(m metric.Metric, s learn.Score) (float64, error) {
	v := s.Sum / s.Weight
	switch err := m.Check(v); {
	case s.Weight == 0:
		return math.NaN(), nil
	case err == nil:
		return v, nil
	case math.IsNaN(v) || math.IsInf(v, 0):
		return 0, fmt.Errorf("%w: %w", ErrDiverged, err)
	default:
		return 0, fmt.Errorf("coordinator: %w", err)
	}
}

// measure has shards of a model measured by whoever comes, in so many jobs at least, and returns
// their scores in their order.
func (l *learner) measure(
	ctx context.Context,
	kind bus.JobKind,
	number int,
	of bus.Digest,
	jobsAtLeast int,
	all []*bus.Shard,
) ([]*bus.ShardScore, error) {
	scores := make([]*bus.ShardScore, len(all))
	var jobs []assignment
	// A result, of about 18 bytes a shard and 20 a score, is a small message.
	most := min(8192, bus.ChunkBytes/(18+20*len(l.config.Round.Metrics)))
	for _, part := range split(len(all), max(jobsAtLeast, (len(all)+most-1)/most)) {
		job := l.newJob(kind, number)
		job.ModelDigest = of.Bytes()
		job.Shards = all[part.from:part.to]
		jobs = append(jobs, assignment{job: job, take: func(s *bus.Result) error {
			copy(scores[part.from:], s.Shards)
			return nil
		}})
	}
	return scores, l.do(ctx, jobs)
}
