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

// Evaluate measures the newest model on the held-out samples of the run, after the round with this
// number. It returns the mean loss and the values of the run's metrics, in their order. A metric that
// no sample has a weight for, or that has a value that it cannot have, is an error.
func (a *Aggregator) Evaluate(ctx context.Context, number int) (loss float64, metrics []float64, err error) {
	shards := heldOutShards(a.learning.HeldOut, a.learning.Measured)
	// Trainers score the first metrics themselves. Where the run has others, which follow from all
	// samples together, trainers send the model's outputs as well (Spec.Outcomes).
	scoredByTrainers := len(a.config.Round.Metrics)
	if a.learning.Spec.GetOutcomes() {
		scoredByTrainers = len(a.learning.Spec.GetMetrics())
	}
	scored, err := a.measure(ctx, bus.Evaluate, number, a.models.current().digest, a.queue.parts(), shards)
	if err != nil {
		return 0, nil, err
	}
	loss = meanOverShards(shards, scored)
	totals := make([]learn.Score, scoredByTrainers)
	// Scores are added in the order of the shards, so the result does not depend on which trainer
	// was first.
	for _, s := range scored {
		for k, score := range s.Scores {
			totals[k].Sum += score.Sum
			totals[k].Weight += score.Weight
		}
	}
	for i, m := range a.config.Round.Metrics[:scoredByTrainers] {
		if totals[i].Weight == 0 {
			return 0, nil, fmt.Errorf(
				"coordinator: %s is measured on none of the held-out samples: its weights are 0",
				m.Name,
			)
		}
		value, err := metricValue(m, totals[i])
		if err != nil {
			return 0, nil, fmt.Errorf("on the held-out samples: %w", err)
		}
		metrics = append(metrics, value)
	}
	if scoredByTrainers < len(a.config.Round.Metrics) {
		outcomes, err := outcomesOf(a.learning.Model.Samples(), shards, scored)
		if err != nil {
			return 0, nil, err
		}
		outcomes.Units = a.learning.Units
		for _, m := range a.config.Round.Metrics[scoredByTrainers:] {
			metrics = append(metrics, outcomes.Value(m.Name))
		}
	}
	a.reportBest(loss, metrics)
	return loss, metrics, nil
}

// reportBest reports the newest model to the observer if it is the best of the run so far, by the
// run's measure of quality. loss and metrics are its held-out values.
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

// meanOverShards returns the mean loss of a sample. scored has the sum of losses of each shard, and
// is added up in the order of the shards, so that the result is the same in each run.
func meanOverShards(shards []*bus.Shard, scored []*bus.ShardScore) float64 {
	sum := 0.0
	samples := 0
	for i, s := range scored {
		sum += s.LossSum
		samples += int(shards[i].Count)
	}
	return sum / float64(samples)
}

// EvaluateClients measures the newest model on each simulated client's own samples, with the client's
// own part of the model where the model is personal. It returns a score for each client, by client.
// number is the round that has made the model.
func (a *Aggregator) EvaluateClients(ctx context.Context, number int) ([]metric.ClientScore, error) {
	// Shard c holds the samples of client c.
	shards := make([]*bus.Shard, a.config.Round.Clients)
	for client := range shards {
		shards[client] = &bus.Shard{Index: uint32(client), Count: uint64(a.learning.OwnSamples(client))}
	}
	scored, err := a.measureClients(ctx, number, shards)
	if err != nil {
		return nil, err
	}
	scores := make([]metric.ClientScore, len(scored))
	for client, s := range scored {
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
		for range len(a.config.Round.Metrics) - len(s.Scores) {
			scores[client].Metrics = append(scores[client].Metrics, math.NaN())
		}
	}
	return scores, nil
}

// publishedClients is the number of clients with states that are on the bus at once for an evaluation.
const publishedClients = 256

// measureClients returns the scores of the newest model on shards that hold one client's samples each,
// in their order. Each client of a personal model is measured with its own part of the model: the
// clients' states hold these parts, and are on the bus for publishedClients of them at a time.
func (a *Aggregator) measureClients(
	ctx context.Context,
	number int,
	shards []*bus.Shard,
) (scored []*bus.ShardScore, err error) {
	if _, personal := a.learning.Model.(*learn.Personal); !personal {
		return a.measure(ctx, bus.EvaluateClients, number, a.models.current().digest, a.queue.parts(), shards)
	}
	for chunk := range slices.Chunk(shards, publishedClients) {
		scores, err := a.measurePersonal(ctx, number, chunk)
		if err != nil {
			return nil, err
		}
		scored = append(scored, scores...)
	}
	return scored, nil
}

// measurePersonal measures the newest model on the shards of some clients, each with the client's
// own part of the model, which its state holds. number is the round's. The result is in the order
// of the shards.
func (a *Aggregator) measurePersonal(
	ctx context.Context,
	number int,
	shards []*bus.Shard,
) (scored []*bus.ShardScore, err error) {
	tasks := make([]round.Task, len(shards))
	// Each shard names the client's state, in which its own part of the model is.
	for i, s := range shards {
		tasks[i].Client = int(s.Index)
	}
	clients := newUpdates(tasks)
	states, err := a.publishStates(ctx, clients)
	if err != nil {
		return nil, err
	}
	for i, s := range shards {
		s.KeptDigest = clients[i].stateBefore.Bytes()
	}
	scored, err = a.measure(ctx, bus.EvaluateClients, number, a.models.current().digest, a.queue.parts(), shards)
	return scored, errors.Join(err, states.close(ctx))
}

// metricValue returns the value of metric m from the total of its scores: their weighted mean, or
// NaN if it was measured on nothing. A value that the metric cannot have is an error, and wraps
// ErrDiverged if it is not finite.
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

// outcomeBytes returns the size in bytes of the model's outputs for count samples and of the right
// answers to them in a message. All are values of 4 bytes.
func outcomeBytes(samples learn.Samples, count int) int {
	// The answer of a classifier's sample is its class.
	answers := max(1, samples.Targets)
	return 4 * count * (metric.WidthOf(samples.Classes, samples.Targets) + answers)
}

// outcomesOf joins the model's outputs for the samples of all shards, and the right answers to them, in
// the order of the shards. A shard of the wrong length is an error, and so is a class, right or found,
// that samples do not have.
func outcomesOf(samples learn.Samples, shards []*bus.Shard, scored []*bus.ShardScore) (*metric.Outcomes, error) {
	all := &metric.Outcomes{Width: metric.WidthOf(samples.Classes, samples.Targets)}
	for i, s := range scored {
		count := int(shards[i].Count)
		if got := len(s.Outputs) + len(s.Answers); got != outcomeBytes(samples, count) ||
			len(s.Outputs) != 4*count*all.Width {
			return nil, fmt.Errorf("coordinator: %d bytes of outcomes of the %d samples of shard %d, want %d",
				got, count, s.Index, outcomeBytes(samples, count))
		}
		for b := range slices.Chunk(s.Outputs, 4) {
			all.Outputs = append(all.Outputs, math.Float32frombits(binary.LittleEndian.Uint32(b)))
		}
		for b := range slices.Chunk(s.Answers, 4) {
			bits := binary.LittleEndian.Uint32(b)
			if samples.Targets > 0 {
				all.Targets = append(all.Targets, math.Float32frombits(bits))
				continue
			}
			if bits >= uint32(samples.Classes) {
				return nil, fmt.Errorf("coordinator: a sample of shard %d has class %d of %d", s.Index, bits, samples.Classes)
			}
			all.Labels = append(all.Labels, int32(bits))
		}
	}
	// With so many classes the outputs are not scores but the class that the model found, which is
	// counted by its number.
	if samples.Classes > metric.MaxScored {
		for _, x := range all.Outputs {
			if !(x >= 0 && x < float32(samples.Classes)) {
				return nil, fmt.Errorf("coordinator: a sample is found to be of class %v of %d", x, samples.Classes)
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

// measure sends jobs of the given kind that measure the model with this digest on the shards, and
// returns the scores in the order of the shards once all have arrived. The shards are divided into at
// least minJobs jobs, and into more where a result would not fit one message. number is the round's.
func (a *Aggregator) measure(
	ctx context.Context,
	kind bus.JobKind,
	number int,
	digest bus.Digest,
	minJobs int,
	shards []*bus.Shard,
) ([]*bus.ShardScore, error) {
	scores := make([]*bus.ShardScore, len(shards))
	var jobs []job
	perShard := bytesPerShard + bytesPerScore*len(a.config.Round.Metrics)
	if kind == bus.Evaluate && a.learning.Spec.GetOutcomes() {
		perShard += outcomeBytes(a.learning.Model.Samples(), shardSamples)
	}
	perJob := max(1, min(maxShards, bus.ChunkBytes/perShard))
	// A job holds no more shards than fit a message with their scores.
	parts := max(minJobs, (len(shards)+perJob-1)/perJob)
	for _, part := range split(len(shards), parts) {
		message := a.queue.newJob(kind, number, digest)
		message.Shards = shards[part.start:part.end]
		take := func(r *bus.Result) error {
			copy(scores[part.start:], r.Shards)
			return nil
		}
		jobs = append(jobs, job{message: message, take: take})
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

// heldOutShards covers all held-out samples, or n of them (0 means all). Held-out samples lie client by
// client, and neighbours in a text share all but their ends. Of n samples, sample i is therefore the one
// at place i * heldOut / n: all clients have a part in them that is as large as their part in all
// samples, as far as n allows.
func heldOutShards(heldOut, n int) []*bus.Shard {
	size := sparseSamples
	spread := n
	// All samples are measured, so a shard is a run of neighbours without gaps.
	if n == 0 || n >= heldOut {
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
