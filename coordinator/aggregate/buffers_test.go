package aggregate

import (
	"context"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "fedpace/internal/testkit/testseed"

	"fedpace/algorithm"
	"fedpace/algorithm/combine"
	"fedpace/bus"
	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/learn"
	"fedpace/registry"
)

// The model of these tests has two trained values, two buffers of floats and four of integers or booleans.
const (
	trainedValues = 2
	floatBuffers  = 2
	bufferValues  = 6
	modelValues   = trainedValues + bufferValues
)

// The places of integers and booleans among the buffers, by their rule.
const (
	countBuffer = 2 // largest
	levelBuffer = 3 // mean
	classBuffer = 4 // majority, of integers
	maskBuffer  = 5 // majority, of booleans
)

// bufferedModel is a model with buffers.
type bufferedModel struct{ learn.ModelInfo }

// Params returns the number of all values.
func (bufferedModel) Params() int { return modelValues }

// Trainable returns the number of trained values, which come first.
func (bufferedModel) Trainable() int { return trainedValues }

// Tensors returns two trained values, a buffer of two floats, and buffers of integers and of booleans, one by each
// rule.
func (bufferedModel) Tensors() []learn.Tensor {
	return []learn.Tensor{
		{Name: "w", Shape: []int{trainedValues}},
		{Name: "mean", Shape: []int{2}, Offset: trainedValues},
		{Name: "count", Shape: []int{1}, Offset: 4, Type: "int64", Rule: learn.Largest},
		{Name: "level", Shape: []int{1}, Offset: 5, Type: "int32", Rule: learn.Mean},
		{Name: "class", Shape: []int{1}, Offset: 6, Type: "uint8", Rule: learn.Majority},
		{Name: "mask", Shape: []int{1}, Offset: 7, Type: "bool", Rule: learn.Majority},
	}
}

// trainers is a bus whose jobs are done at once: the client of a task sends the values that sent has.
type trainers struct {
	shelf
	sent map[uint64]clientValues // by task
	sums []*bus.ReceivedSum
}

// clientValues are what one client sends: the moves of its trained values, and its buffers.
type clientValues struct {
	moves   [trainedValues]float32
	buffers [bufferValues]float32
}

// Hosts returns that there are no hosts in other processes.
func (b *trainers) Hosts() (hosts, workers int) { return 0, 0 }

// SendJob does a job at once: it measures a loss that the trained values alone decide, or adds up what the clients of
// the job are said to send.
func (b *trainers) SendJob(_ context.Context, j *bus.Job) error {
	base := b.models[bus.DigestFrom(j.ModelDigest)]
	if j.Kind == bus.Evaluate {
		scored := &bus.Result{Sum: &bus.Sum{Job: j.Job}}
		for _, shard := range j.Shards {
			// A loss that what is trained decides.
			loss := float64(base[0])*float64(base[0]) + float64(base[1])*float64(base[1])
			scored.Shards = append(scored.Shards, &bus.ShardScore{Index: shard.Index, LossSum: loss * float64(shard.Count)})
		}
		b.sums = append(b.sums, &bus.ReceivedSum{Result: scored, Accept: func() {}, Reject: func(string) {}})
		return nil
	}
	result := &bus.Result{Sum: &bus.Sum{Job: j.Job}, Values: make([]int64, modelValues)}
	for _, work := range j.Clients {
		sent := b.sent[work.Task]
		local := slices.Clone(base)
		for i, move := range sent.moves {
			local[i] += move
		}
		first, end := 0, bufferValues // those between are sent, all others are as in base
		for first < end && sent.buffers[first] == base[trainedValues+first] {
			first++
		}
		for end > first && sent.buffers[end-1] == base[trainedValues+end-1] {
			end--
		}
		result.Buffers = append(result.Buffers, sent.buffers[first:end])
		if err := algorithm.Add(result.Values, work.Weight, local, base); err != nil {
			return err
		}
		result.Clients = append(result.Clients, &bus.ClientLoss{FirstStepLoss: 1, BufferFirst: uint32(first)})
	}
	b.sums = append(b.sums, &bus.ReceivedSum{Result: result, Accept: func() {}, Reject: func(string) {}})
	return nil
}

// TakeSum returns the result of the oldest job.
func (b *trainers) TakeSum(context.Context) (*bus.ReceivedSum, error) {
	next := b.sums[0]
	b.sums = b.sums[1:]
	return next, nil
}

// newBuffered returns an aggregator of a model with buffers, with the rules of configuration c, and its trainers.
func newBuffered(t *rapid.T, c *config.Config) (*Aggregator, *trainers) {
	channel := &trainers{shelf: shelf{models: map[bus.Digest][]float32{}}, sent: map[uint64]clientValues{}}
	a, err := New(context.Background(), channel, Config{
		Learning: Learning{
			Model:     bufferedModel{},
			Initial:   []float32{0, 0, 0, 1, 0, 0, 0, 0},
			Jobs:      2,
			HeldOut:   10,
			Combine:   combine.Setup{Rule: c.Aggregate.Combine, Clip: c.Aggregate.Clip},
			Algorithm: algorithm.NewInstance(c.Aggregate.Algorithm, nil, modelValues, trainedValues, 0, 100),
		},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return a, channel
}

// drawSetup draws how updates become a model. Not every algorithm can be combined with every rule.
func drawSetup(t *rapid.T) *config.Config {
	algorithms := []string{"fedavg", "fedavgm", "fedadagrad", "fedadam", "fedyogi", "fedprox", "fednova", "fedexp", "fedbuff", "fedasync", "refl"}
	rules := []string{"null", "median", "trimmed_mean", "krum", "multi_krum", "geometric_median", "nnm"}
	clips := []string{"null", "{bound: fixed, norm: 1}", "median", "quantile"}
	c, err := config.Load("", []string{
		"aggregate.algorithm=" + rapid.SampledFrom(algorithms).Draw(t, "algorithm"),
		"aggregate.combine=" + rapid.SampledFrom(rules).Draw(t, "rule"),
		"aggregate.clip=" + rapid.SampledFrom(clips).Draw(t, "clip"),
	})
	if err != nil {
		t.Skip(err) // the reader refuses what does not go together
	}
	return &c
}

// drawRound draws the tasks of a round, some from earlier versions of the model, and what their clients
// send. The newest version is number newest.
func drawRound(t *rapid.T, newest uint64, late bool) ([]round.Task, []clientValues) {
	n := rapid.IntRange(3, 7).Draw(t, "updates")
	tasks := make([]round.Task, n)
	sent := make([]clientValues, n)
	for i := range tasks {
		staleness := uint64(0)
		if late {
			staleness = rapid.Uint64Range(0, newest).Draw(t, "staleness")
		}
		tasks[i] = round.Task{
			Task:       100*newest + uint64(i),
			Client:     i,
			Model:      newest - staleness,
			Staleness:  int(staleness),
			LocalSteps: rapid.IntRange(1, 5).Draw(t, "steps"),
		}
		for k := range sent[i].moves {
			sent[i].moves[k] = rapid.Float32Range(-2, 2).Draw(t, "move")
		}
		for k := range floatBuffers {
			sent[i].buffers[k] = rapid.Float32Range(0, 50).Draw(t, "buffer")
		}
		sent[i].buffers[countBuffer] = float32(rapid.IntRange(0, 1<<24).Draw(t, "count"))
		sent[i].buffers[levelBuffer] = float32(rapid.IntRange(-9, 9).Draw(t, "level"))
		sent[i].buffers[classBuffer] = float32(rapid.IntRange(0, 3).Draw(t, "class"))
		sent[i].buffers[maskBuffer] = float32(rapid.IntRange(0, 1).Draw(t, "mask"))
	}
	slices.SortStableFunc(tasks, func(x, y round.Task) int { return int(x.Model) - int(y.Model) })
	return tasks, sent
}

// playBuffered trains a round and makes the next model of it.
func playBuffered(t *rapid.T, a *Aggregator, channel *trainers, tasks []round.Task, sent []clientValues) {
	for i, task := range tasks {
		channel.sent[task.Task] = sent[i]
	}
	outcome, err := a.Train(context.Background(), Round{Number: int(a.models.newest) + 1, Tasks: tasks})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Advance(context.Background(), outcome); err != nil {
		t.Fatal(err)
	}
}

// sentRange returns the smallest and the largest value that clients sent of buffer k. If the algorithm mixes models,
// the value in the model before counts, too.
func sentRange(c *config.Config, before []float32, sent []clientValues, k int) (lowest, highest float64) {
	lowest, highest = math.Inf(1), math.Inf(-1)
	for i := range sent {
		lowest = min(lowest, float64(sent[i].buffers[k]))
		highest = max(highest, float64(sent[i].buffers[k]))
	}
	if registry.NeedsOf(c.Aggregate.Algorithm).NewestModel {
		lowest = min(lowest, float64(before[trainedValues+k]))
		highest = max(highest, float64(before[trainedValues+k]))
	}
	return lowest, highest
}

// Whatever the algorithm, rule and clip, and from whichever models the updates of a round started, each
// buffer becomes a value between those that clients sent. A count never goes back, an integer stays one,
// and a class is one that a client sent.
func TestBuffers_LieBetweenValuesSent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawSetup(t)
		a, channel := newBuffered(t, c)
		for range rapid.IntRange(1, 4).Draw(t, "rounds") {
			before := slices.Clone(a.Params())
			tasks, sent := drawRound(t, a.models.newest, true)
			playBuffered(t, a, channel, tasks, sent)
			after := a.Params()[trainedValues:]
			for k := range after {
				lowest, highest := sentRange(c, before, sent, k)
				if k == countBuffer {
					lowest = max(lowest, float64(before[trainedValues+k]))
					highest = max(highest, float64(before[trainedValues+k]))
				}
				got := float64(after[k])
				if got < lowest || got > highest {
					t.Fatalf("buffer %d became %v, clients sent %v to %v", k, got, lowest, highest)
				}
				if k >= floatBuffers && got != math.Trunc(got) {
					t.Fatalf("buffer %d of integers became %v", k, got)
				}
			}
			isSent := func(v clientValues) bool { return v.buffers[classBuffer] == after[classBuffer] }
			if after[classBuffer] != before[trainedValues+classBuffer] && !slices.ContainsFunc(sent, isSent) {
				t.Fatalf("class %v, which no client sent: %v", after[classBuffer], sent)
			}
		}
	})
}

// FedAvg of clients that weigh the same makes the means, largest values and majorities that one computes
// by hand.
func TestBuffers_FedAvgByHand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, err := config.Load("", nil)
		if err != nil {
			t.Fatal(err)
		}
		a, channel := newBuffered(t, &c)
		for range 3 {
			before := slices.Clone(a.Params()[trainedValues:])
			tasks, sent := drawRound(t, a.models.newest, false)
			playBuffered(t, a, channel, tasks, sent)
			sums := [bufferValues]float64{}
			ones := 0
			count := before[countBuffer]
			for i := range sent {
				for k, x := range sent[i].buffers {
					sums[k] += float64(x) / float64(len(sent))
				}
				ones += int(sent[i].buffers[maskBuffer])
				count = max(count, sent[i].buffers[countBuffer])
			}
			mask := before[maskBuffer]
			if 2*ones != len(sent) {
				mask = float32(2 * ones / (len(sent) + 1))
			}
			after := a.Params()[trainedValues:]
			for k := range floatBuffers {
				if math.Abs(float64(after[k])-sums[k]) > 1e-5 {
					t.Fatalf("buffer %d is %v, the mean %v", k, after[k], sums[k])
				}
			}
			distance := math.Abs(float64(after[levelBuffer]) - sums[levelBuffer])
			if after[countBuffer] != count || after[maskBuffer] != mask || distance > 0.5+1e-9 {
				t.Fatalf("%v of %v and before %v", after, sent, before)
			}
		}
	})
}

// A running variance of raw features has any finite size: here 1e12 and 3e38, beyond what sums of updates
// hold.
func TestBuffers_OfAnySize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, channel := newBuffered(t, drawSetup(t))
		tasks, sent := drawRound(t, a.models.newest, false)
		for i := range sent {
			sent[i].buffers[0] = 1e12
			sent[i].buffers[1] = 3e38
		}
		playBuffered(t, a, channel, tasks, sent)
		mixed := a.mixesModels()
		if got := a.Params()[trainedValues:]; !mixed && (got[0] != 1e12 || got[1] != 3e38) || got[0] > 1e12 || got[1] > 3e38 {
			t.Fatalf("buffers are %v", got)
		}
	})
}

// The scale of buffers changes nothing of what is trained or chosen: a batch norm's running variance
// is 900 times as large for features that are 30 times as large.
func TestBuffers_ScaleChangesNothingTrained(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawSetup(t)
		plain, plainBus := newBuffered(t, c)
		scaled, scaledBus := newBuffered(t, c)
		for range rapid.IntRange(1, 4).Draw(t, "rounds") {
			tasks, sent := drawRound(t, plain.models.newest, true)
			large := slices.Clone(sent)
			for i := range large {
				for k := range floatBuffers {
					large[i].buffers[k] *= 900
				}
			}
			playBuffered(t, plain, plainBus, tasks, sent)
			playBuffered(t, scaled, scaledBus, tasks, large)
			if !slices.Equal(plain.Params()[:trainedValues], scaled.Params()[:trainedValues]) {
				t.Fatalf("%v with larger buffers, %v without", scaled.Params(), plain.Params())
			}
		}
	})
}

// tryWithout tries a round without the updates that excluded marks, as the guard does, makes the next model of it, and
// returns the loss that the guard saw.
func tryWithout(t *rapid.T, a *Aggregator, channel *trainers, tasks []round.Task, sent []clientValues, excluded []bool) float64 {
	for i, task := range tasks {
		channel.sent[task.Task] = sent[i]
	}
	r := Round{Number: int(a.models.newest) + 1, Tasks: tasks}
	tried, err := a.try(context.Background(), r, 1, excluded)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Advance(context.Background(), a.outcome(r, tried.sum)); err != nil {
		t.Fatal(err)
	}
	return tried.loss
}

// The guard tries rounds without some updates. The buffers of the model that follows lie between the values
// of the clients that it let count, its loss and what is trained do not depend on their scale, and a round
// of which nothing counts leaves all as it is.
func TestBuffers_GuardLeavesUpdatesOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawSetup(t)
		plain, plainBus := newBuffered(t, c)
		scaled, scaledBus := newBuffered(t, c)
		for range rapid.IntRange(1, 3).Draw(t, "rounds") {
			before := slices.Clone(plain.Params())
			tasks, sent := drawRound(t, plain.models.newest, true)
			large := slices.Clone(sent)
			for i := range large {
				for k := range floatBuffers {
					large[i].buffers[k] *= 900
				}
			}
			excluded := make([]bool, len(tasks))
			var counted []clientValues
			for i := range excluded {
				excluded[i] = rapid.Bool().Draw(t, "excluded")
				if !excluded[i] {
					counted = append(counted, sent[i])
				}
			}
			loss := tryWithout(t, plain, plainBus, tasks, sent, excluded)
			lossOfLarge := tryWithout(t, scaled, scaledBus, tasks, large, excluded)
			after := plain.Params()
			if loss != lossOfLarge && len(counted) > 0 || !slices.Equal(after[:trainedValues], scaled.Params()[:trainedValues]) {
				t.Fatalf("loss %v and %v with larger buffers %v, loss %v and %v without", lossOfLarge, scaled.Params(), large, loss, after)
			}
			if len(counted) == 0 && !slices.Equal(after[trainedValues:], before[trainedValues:]) {
				t.Fatalf("without updates buffers %v became %v", before, after)
			}
			for k := range bufferValues {
				lowest, highest := sentRange(c, before, counted, k)
				if len(counted) == 0 {
					continue
				}
				if k == countBuffer {
					lowest = max(lowest, float64(before[trainedValues+k]))
					highest = max(highest, float64(before[trainedValues+k]))
				}
				if got := float64(after[trainedValues+k]); got < lowest || got > highest {
					t.Fatalf("buffer %d became %v, clients that count sent %v to %v", k, got, lowest, highest)
				}
			}
		}
	})
}
