package aggregate

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"fedpace/bus"
	"fedpace/coordinator/round"
	"fedpace/learn"
	"fedpace/learn/metric"
)

// Evaluate measures the newest model on the run's held-out samples, those that are there at the virtual time
// at. roundNumber is the round that has made the model. It returns the mean loss and the values of the run's metrics,
// in the order of the configuration. A metric with a total weight of 0, or with a value that it cannot have, is an
// error.
func (a *Aggregator) Evaluate(
	ctx context.Context,
	roundNumber int,
	at round.Time,
) (loss float64, metrics []float64, err error) {
	shards := a.heldOutShardsAt(at)
	shardScores, err := a.measure(ctx, bus.Evaluate, roundNumber, a.models.current().digest, a.queue.jobCount(), shards)
	if err != nil {
		return 0, nil, err
	}
	loss = meanOverShards(shards, shardScores)
	// Trainers score the first metrics themselves. Where the run has others, which follow from all
	// samples together, trainers send the model's outputs as well (Spec.Outcomes).
	scored := a.config.Round.Metrics
	var fromOutputs []metric.Metric
	if a.learning.Spec.GetOutcomes() {
		n := len(a.learning.Spec.GetMetrics())
		fromOutputs = scored[n:]
		scored = scored[:n]
	}
	metrics, err = heldOutMetrics(scored, shardScores)
	if err != nil {
		return 0, nil, err
	}
	if len(fromOutputs) > 0 {
		outcomes, err := outcomesOf(a.learning.Model.Samples(), shards, shardScores)
		if err != nil {
			return 0, nil, err
		}
		outcomes.Units = a.learning.Units
		for _, m := range fromOutputs {
			metrics = append(metrics, outcomes.Value(m.Name))
		}
	}
	a.reportBest(loss, metrics)
	return loss, metrics, nil
}

// heldOutMetrics returns the values of metrics that trainers have scored, each as the weighted mean over all
// shards. Each shard has a score for each metric, in the same order. Scores are added in the order of the
// shards, so the result does not depend on which trainer was first.
func heldOutMetrics(scored []metric.Metric, shardScores []*bus.ShardScore) (values []float64, err error) {
	totals := make([]learn.Score, len(scored))
	for _, shard := range shardScores {
		for i, score := range shard.Scores {
			totals[i].Sum += score.Sum
			totals[i].Weight += score.Weight
		}
	}
	for i, m := range scored {
		if totals[i].Weight == 0 {
			return nil, fmt.Errorf(
				"coordinator: %s is measured on none of the held-out samples: its weights are 0",
				m.Name,
			)
		}
		value, err := metricValue(m, totals[i])
		if err != nil {
			return nil, fmt.Errorf("on the held-out samples: %w", err)
		}
		values = append(values, value)
	}
	return values, nil
}

// reportBest reports the newest model to the observer if it is the best of the run so far, by the
// configured measure of quality. loss and metrics are the model's values on held-out samples.
func (a *Aggregator) reportBest(loss float64, metrics []float64) {
	measure := a.config.Round.Quality
	quality := measure.ValueIn(loss, metrics)
	if !measure.Better(quality, a.bestQuality) {
		return
	}
	a.bestQuality = quality
	if report := a.config.Observer.Best; report != nil {
		report(quality, a.Params())
	}
}

// meanOverShards returns the mean loss over all samples of the shards. scored[i] has the sum of the losses
// of shards[i]. The sums are added in the order of the shards, so that the result does not depend on which
// was first.
func meanOverShards(shards []*bus.Shard, scored []*bus.ShardScore) float64 {
	lossSum := 0.0
	samples := 0
	for i, s := range scored {
		lossSum += s.LossSum
		samples += int(shards[i].Count)
	}
	return lossSum / float64(samples)
}

// EvaluateClients measures the newest model on the samples of each simulated client, with the client's own
// part of the model if the model is personal. It returns one score for each client, by its number.
// roundNumber is the round that has made the model. A metric that only all held-out samples together have
// is NaN.
func (a *Aggregator) EvaluateClients(ctx context.Context, roundNumber int) ([]metric.ClientScore, error) {
	// Shard c holds the samples of client c.
	shards := make([]*bus.Shard, a.config.Round.Clients)
	for client := range shards {
		shards[client] = &bus.Shard{Index: uint32(client), Count: uint64(a.learning.EvaluationSamples(client))}
	}
	shardScores, err := a.measureClients(ctx, roundNumber, shards)
	if err != nil {
		return nil, err
	}
	scores := make([]metric.ClientScore, len(shardScores))
	for client, s := range shardScores {
		samples := float64(shards[client].Count)
		scores[client] = metric.ClientScore{Client: client, Samples: int(samples), Loss: s.LossSum / samples}
		for i, score := range s.Scores {
			total := learn.Score{Sum: score.Sum, Weight: score.Weight}
			value, err := metricValue(a.config.Round.Metrics[i], total)
			if err != nil {
				return nil, fmt.Errorf("on the own samples of client %d: %w", client, err)
			}
			scores[client].Metrics = append(scores[client].Metrics, value)
		}
		// The other metrics follow from all held-out samples together, and no client has a value of them.
		missing := len(a.config.Round.Metrics) - len(s.Scores)
		for range missing {
			scores[client].Metrics = append(scores[client].Metrics, math.NaN())
		}
	}
	return scores, nil
}

// clientsPerChunk is the number of clients whose states are on the bus at the same time for an evaluation.
const clientsPerChunk = 256

// measureClients returns the newest model's scores on shards that hold the samples of one client each, in
// their order. A personal model is measured with each client's own part of the model, which the client's
// state holds; these states are published for clientsPerChunk clients at a time. roundNumber is the
// round's.
func (a *Aggregator) measureClients(
	ctx context.Context,
	roundNumber int,
	shards []*bus.Shard,
) (scored []*bus.ShardScore, err error) {
	_, isPersonal := a.learning.Model.(*learn.Personal)
	if !isPersonal {
		return a.measure(ctx, bus.EvaluateClients, roundNumber, a.models.current().digest, a.queue.jobCount(), shards)
	}
	for chunk := range slices.Chunk(shards, clientsPerChunk) {
		scores, err := a.measurePersonal(ctx, roundNumber, chunk)
		if err != nil {
			return nil, err
		}
		scored = append(scored, scores...)
	}
	return scored, nil
}

// measurePersonal measures the newest model on the shards of some clients, each with the client's own part
// of the model, which the client's state holds and is published for that time. roundNumber is the round's.
// The result is in the order of the shards.
func (a *Aggregator) measurePersonal(
	ctx context.Context,
	roundNumber int,
	shards []*bus.Shard,
) (scored []*bus.ShardScore, err error) {
	clientTasks := make([]round.Task, len(shards))
	// Each shard names the client's state, in which its own part of the model is.
	for i, s := range shards {
		clientTasks[i].Client = int(s.Index)
	}
	updates := newUpdates(clientTasks)
	states, err := a.publishStates(ctx, updates)
	if err != nil {
		return nil, err
	}
	for i, s := range shards {
		s.KeptDigest = updates[i].stateBefore.Bytes()
	}
	scored, err = a.measure(
		ctx,
		bus.EvaluateClients,
		roundNumber,
		a.models.current().digest,
		a.queue.jobCount(),
		shards,
	)
	return scored, errors.Join(err, states.close(ctx))
}

// metricValue returns the value of metric m: the mean of its scores, total.Sum / total.Weight. It is NaN if
// the total weight is 0, so that nothing was measured. A value that the metric cannot have is an error,
// which wraps [round.ErrDiverged] if the value is not finite.
func metricValue(m metric.Metric, total learn.Score) (float64, error) {
	value := total.Sum / total.Weight
	err := m.Check(value)
	switch {
	case total.Weight == 0:
		return math.NaN(), nil
	case err == nil:
		return value, nil
	case math.IsNaN(value) || math.IsInf(value, 0):
		return 0, fmt.Errorf("%w: %w", round.ErrDiverged, err)
	default:
		return 0, fmt.Errorf("coordinator: %w", err)
	}
}

// outcomeBytes returns the size in bytes, within a message, of the model's outputs for count samples and of
// the right answers. All are values of 4 bytes.
func outcomeBytes(samples learn.Samples, count int) int {
	// The answer of a classifier's sample is its class.
	answers := max(1, samples.Targets)
	return 4 * count * (metric.WidthOf(samples.Classes, samples.Targets) + answers)
}

// outcomesOf joins the model's outputs for the samples of all shards, and the right answers, in the order
// of the shards. scored[i] has those of shards[i]. It is an error if a shard has another number of values
// than its samples need, or if a class, true or predicted, is not one of the model's.
func outcomesOf(samples learn.Samples, shards []*bus.Shard, scored []*bus.ShardScore) (*metric.Outcomes, error) {
	all := &metric.Outcomes{Width: metric.WidthOf(samples.Classes, samples.Targets)}
	for i, score := range scored {
		count := int(shards[i].Count)
		got := len(score.Outputs) + len(score.Answers)
		want := outcomeBytes(samples, count)
		if got != want || len(score.Outputs) != 4*count*all.Width {
			return nil, fmt.Errorf("coordinator: %d bytes of outcomes of the %d samples of shard %d, want %d",
				got, count, score.Index, want)
		}
		for b := range slices.Chunk(score.Outputs, 4) {
			all.Outputs = append(all.Outputs, math.Float32frombits(binary.LittleEndian.Uint32(b)))
		}
		for b := range slices.Chunk(score.Answers, 4) {
			answer := binary.LittleEndian.Uint32(b)
			// The answer of a regression is a float32, that of a classification the number of a class.
			if samples.Targets > 0 {
				all.Targets = append(all.Targets, math.Float32frombits(answer))
				continue
			}
			if answer >= uint32(samples.Classes) {
				return nil, fmt.Errorf(
					"coordinator: a sample of shard %d has class %d of %d",
					score.Index,
					answer,
					samples.Classes,
				)
			}
			all.Labels = append(all.Labels, int32(answer))
		}
	}
	// Beyond MaxScored classes a sample has one output: the number of the class that the model predicts.
	if samples.Classes > metric.MaxScored {
		for _, class := range all.Outputs {
			if !(class >= 0 && class < float32(samples.Classes)) {
				return nil, fmt.Errorf("coordinator: a sample is found to be of class %v of %d", class, samples.Classes)
			}
		}
	}
	return all, nil
}

// A result takes about 18 bytes a shard and 20 a score, and is to be a small message.
const (
	maxShards     = 8192
	bytesPerShard = 18
	bytesPerScore = 20
)

// measure has trainers measure the model with this digest on the shards, by jobs of the given kind, and
// returns the scores in the order of the shards once all have arrived. The shards are divided into at least
// minJobs jobs, and into more if the result of a job would not fit one message. roundNumber is the round's.
func (a *Aggregator) measure(
	ctx context.Context,
	kind bus.JobKind,
	roundNumber int,
	digest bus.Digest,
	minJobs int,
	shards []*bus.Shard,
) ([]*bus.ShardScore, error) {
	scores := make([]*bus.ShardScore, len(shards))
	var jobs []job
	// A job holds no more shards than fit a message with their scores and, if asked for, the model's outputs.
	shardBytes := bytesPerShard + bytesPerScore*len(a.config.Round.Metrics)
	if kind == bus.Evaluate && a.learning.Spec.GetOutcomes() {
		shardBytes += outcomeBytes(a.learning.Model.Samples(), shardSamples)
	}
	shardsPerJob := max(1, min(maxShards, bus.ChunkBytes/shardBytes))
	// The division rounds up.
	jobsThatFit := (len(shards) + shardsPerJob - 1) / shardsPerJob
	jobCount := max(minJobs, jobsThatFit)
	for _, jobShards := range split(len(shards), jobCount) {
		message := a.queue.newJob(kind, roundNumber, digest)
		message.Shards = shards[jobShards.start:jobShards.end]
		take := func(r *bus.Result) error {
			copy(scores[jobShards.start:], r.Shards)
			return nil
		}
		jobs = append(jobs, job{message: message, handle: take})
	}
	return scores, a.queue.run(ctx, jobs)
}

// Held-out samples are measured in shards of fixed places and sizes, so that losses are added in one
// order, whoever measures them.
const (
	// shardSamples is the size of a shard where all samples are measured.
	shardSamples = 1024
	// sparseSamples is the size of a shard where some samples are measured.
	sparseSamples = 64
)

// heldOutShardsAt divides into shards the held-out samples that an evaluation at a virtual time takes: a part of them
// where samples arrive over time, otherwise EvaluatedSamples of them or all.
func (a *Aggregator) heldOutShardsAt(at round.Time) []*bus.Shard {
	if a.learning.MeasuredAt == nil {
		return heldOutShards(a.learning.HeldOut, a.learning.EvaluatedSamples)
	}
	const all = 0
	// Held-out samples arrive over time: those from first on, so many, are measured now.
	first, count := a.learning.MeasuredAt(at)
	shards := heldOutShards(count, all)
	for _, shard := range shards {
		shard.From += uint64(first)
	}
	return shards
}

// heldOutShards divides held-out samples into shards for an evaluation: all of them, or n that are spread
// evenly over them. heldOut is how many there are; an n of 0, or of heldOut and more, means all. Held-out
// samples are sorted by client, and neighbours in a text are almost equal. Of n samples, sample i is
// therefore the one at place i·heldOut/n, so that each client has the same part of them as of all samples,
// as far as n allows.
func heldOutShards(heldOut, n int) []*bus.Shard {
	size := sparseSamples
	spread := n
	measuresAll := n == 0 || n >= heldOut
	// With a spread of 0 a shard is a range of neighbours without gaps.
	if measuresAll {
		size = shardSamples
		spread = 0
		n = heldOut
	}
	shards := make([]*bus.Shard, (n+size-1)/size)
	for i := range shards {
		first := i * size
		shards[i] = &bus.Shard{
			Index:  uint32(i),
			From:   uint64(first),
			Count:  uint64(min(size, n-first)),
			Spread: uint64(spread),
		}
	}
	return shards
}
