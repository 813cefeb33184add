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

// The model of these tests has two trained values and two buffers.
const (
	trainedValues = 2
	modelValues   = 4
)

// bufferedModel is a model with buffers.
type bufferedModel struct{ learn.ModelInfo }

func (bufferedModel) Params() int    { return modelValues }
func (bufferedModel) Trainable() int { return trainedValues }

// trainers is a bus whose jobs are done at once: the client of a task sends the values that sent has.
type trainers struct {
	shelf
	sent map[uint64]clientValues // by task
	sums []*bus.ReceivedSum
}

// clientValues are what one client sends: the moves of its trained values, and its buffers.
type clientValues struct {
	moves   [trainedValues]float32
	buffers [modelValues - trainedValues]float32
}

func (b *trainers) Hosts() (hosts, workers int) { return 0, 0 }

func (b *trainers) SendJob(_ context.Context, j *bus.Job) error {
	base := b.models[bus.DigestFrom(j.ModelDigest)]
	result := &bus.Result{Sum: &bus.Sum{Job: j.Job}, Values: make([]int64, modelValues)}
	for _, work := range j.Clients {
		sent := b.sent[work.Task]
		local := slices.Clone(base)
		for i, move := range sent.moves {
			local[i] += move
		}
		copy(local[trainedValues:], sent.buffers[:])
		if err := algorithm.Add(result.Values, work.Weight, local, base); err != nil {
			return err
		}
		result.Clients = append(result.Clients, &bus.ClientLoss{FirstStepLoss: 1})
	}
	b.sums = append(b.sums, &bus.ReceivedSum{Result: result, Accept: func() {}, Reject: func(string) {}})
	return nil
}

func (b *trainers) TakeSum(context.Context) (*bus.ReceivedSum, error) {
	next := b.sums[0]
	b.sums = b.sums[1:]
	return next, nil
}

// newBuffered makes an aggregator of a model with buffers.
func newBuffered(t *rapid.T, c *config.Config) (*Aggregator, *trainers) {
	channel := &trainers{shelf: shelf{models: map[bus.Digest][]float32{}}, sent: map[uint64]clientValues{}}
	a, err := New(context.Background(), channel, Config{
		Learning: Learning{
			Model:     bufferedModel{},
			Initial:   []float32{0, 0, 0, 1},
			Jobs:      2,
			Combine:   combine.Setup{Rule: c.Aggregate.Combine, Clip: c.Aggregate.Clip},
			Algorithm: algorithm.NewPartly(c.Aggregate.Algorithm, nil, modelValues, trainedValues, 0, 100),
		},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return a, channel
}

// drawSetup draws how updates become a model; not every algorithm goes with every rule.
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
		for k := range sent[i].buffers {
			sent[i].buffers[k] = rapid.Float32Range(0, 50).Draw(t, "buffer")
		}
	}
	slices.SortStableFunc(tasks, func(x, y round.Task) int { return int(x.Model) - int(y.Model) })
	return tasks, sent
}

// playBuffered trains and takes a round.
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

// Whatever the algorithm, rule and clip, and from whichever models the updates of a round started, each
// buffer becomes a value between those that clients sent, and an algorithm that mixes models adds the
// one before.
func TestBuffers_LieBetweenTheValuesSent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawSetup(t)
		a, channel := newBuffered(t, c)
		for range rapid.IntRange(1, 4).Draw(t, "rounds") {
			before := slices.Clone(a.Params())
			tasks, sent := drawRound(t, a.models.newest, true)
			playBuffered(t, a, channel, tasks, sent)
			for k := range sent[0].buffers {
				least, most := math.Inf(1), math.Inf(-1)
				for i := range sent {
					least = min(least, float64(sent[i].buffers[k]))
					most = max(most, float64(sent[i].buffers[k]))
				}
				if registry.NeedsOf(c.Aggregate.Algorithm).NewestModel {
					least = min(least, float64(before[trainedValues+k]))
					most = max(most, float64(before[trainedValues+k]))
				}
				const rounding = 1e-5 // of float32 at 50
				got := float64(a.Params()[trainedValues+k])
				if got < least-rounding || got > most+rounding {
					t.Fatalf("buffer %d became %v, clients sent %v to %v", k, got, least, most)
				}
			}
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
				for k := range large[i].buffers {
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
