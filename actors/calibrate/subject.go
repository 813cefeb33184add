package calibrate

import (
	"cmp"
	"fmt"
	"math/rand/v2"

	"google.golang.org/protobuf/proto"

	"fedpace/actors"
	"fedpace/actors/external"
	"fedpace/actors/real"
	"fedpace/algorithm"
	"fedpace/bus"
	"fedpace/data/federated"
	"fedpace/internal/keyed"
	"fedpace/internal/tasks"
	"fedpace/learn"
)

// Subject is a learning problem whose steps can be measured: what a run would tell the
// device, and what the device brings itself.
type Subject struct {
	Name string     // for people
	Task tasks.Task // custom: of no task of the paper
	// Steps are those of a run's first tasks, K_0; 0: they are not known.
	Steps int

	Welcome *bus.Welcome
	own     real.Config
	random  *learn.Samples // samples like these are made; nil: own says where they are
}

// Own is what a device brings itself: Data, Map, Owner and Trainer count. Without data
// samples are made.
type Own = real.Config

// leastSamples is how many random samples a device has: as many as those of a client, and
// never fewer than a minibatch.
const leastSamples = 256

func (s *Subject) device(notice func(string)) real.Config {
	c := s.own
	c.Notice = notice
	if s.random != nil {
		c.Set = newRandomSet(*s.random, max(leastSamples, s.Batch()))
	}
	return c
}

func (s *Subject) Batch() int { return int(s.Welcome.Spec.Batch) }

// WithBatch is the subject with minibatches of so many samples.
func (s *Subject) WithBatch(batch int) *Subject {
	other := *s
	other.Welcome = proto.CloneOf(s.Welcome)
	other.Welcome.Spec.Batch = uint32(batch)
	return &other
}

// Alone is what a run of one client would tell a device. A nil model is that of the
// device's external trainer.
func Alone(task tasks.Task, m learn.ModelInfo, batch int) *bus.Welcome {
	algorithm, err := algorithm.Algorithms.Encode(algorithm.Default)
	if err != nil {
		panic("calibrate: " + err.Error()) // its options are numbers and words
	}
	w := &bus.Welcome{
		Clients:       1,
		Task:          string(task),
		DataSeed:      1,
		Heterogeneity: 1,
		Spec: &bus.Spec{
			Seed:      1,
			Batch:     uint32(batch),
			Augment:   actors.NoAugment,
			Algorithm: algorithm,
		},
	}
	if m != nil {
		w.Spec.Model, w.Params = m.String(), uint32(m.Params())
	}
	return w
}

// OfTask is one of the paper's tasks, with its own model or, where it has one, with that of
// the device's trainer.
func OfTask(task tasks.Task, own Own) (*Subject, error) {
	paper, ok := task.Paper()
	if !ok {
		return nil, fmt.Errorf("calibrate: %q is not a task of the paper's Table 2", task)
	}
	if own.Trainer != "" {
		own.Data = cmp.Or(own.Data, real.SyntheticData)
		return ofTrainer(Alone(task, nil, paper.Batch), own), nil
	}
	m, err := learn.Parse(paper.Architecture)
	if err != nil {
		return nil, err
	}
	return OfRun(Alone(task, m, paper.Batch), own)
}

// OfModel is a model in the words of messages and of the key model, such as mlp:4,16,3, on
// the device's own samples or on random ones.
func OfModel(spec string, batch int, own Own) (*Subject, error) {
	m, err := learn.Parse(spec)
	if err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	return OfRun(Alone(tasks.Custom, m, batch), own)
}

// OfTrainer is what an external trainer learns from its own data, or from the device's.
func OfTrainer(batch int, own Own) *Subject {
	own.Data = cmp.Or(own.Data, real.TrainerData)
	return ofTrainer(Alone(tasks.Custom, nil, batch), own)
}

func ofTrainer(w *bus.Welcome, own Own) *Subject {
	return &Subject{
		Name:    "trainer " + own.Trainer,
		Task:    tasks.Custom,
		Welcome: w,
		own:     own,
	}
}

// OfRun is what a coordinator told the device that its runs are; nil where it named no
// model. Without data of its own the device learns made ones: those of the paper's task, or
// random samples of the model's kind.
func OfRun(w *bus.Welcome, own Own) (*Subject, error) {
	name := w.GetSpec().GetModel()
	if name == "" {
		return nil, nil
	}
	s := &Subject{
		Name:    name,
		Task:    tasks.Task(w.Task),
		Welcome: w,
		own:     own,
	}
	paper, known := s.Task.Paper()
	switch {
	case !known:
		s.Task = tasks.Custom
	case name == paper.Architecture:
		s.Name = w.Task
	default:
		s.Name = w.Task + " with " + name
	}
	switch {
	case own.Data != "":
	case known:
		s.own.Data = real.SyntheticData
	case external.Is(name):
		s.own.Data = real.TrainerData
	default:
		m, err := learn.Parse(name)
		if err != nil {
			return nil, fmt.Errorf("calibrate: %w", err)
		}
		samples := m.Samples()
		s.random = &samples
	}
	return s, nil
}

// sparseWords is how many words a bag of words has.
const sparseWords = 12

// newRandomSet makes a set of one client with so many random samples: a step copies them
// as it would copy those of a data set.
func newRandomSet(of learn.Samples, n int) *federated.Grouped {
	r := keyed.New(1, keyed.Weights)
	s := &federated.Grouped{
		About: federated.Info{
			Name:      "random samples",
			Synthetic: true,
			Digest:    "random",
			Samples:   of,
		},
		Names:  []string{"0"},
		Starts: []int{0, n},
		Rows:   randomRows(of, n, r),
	}
	for i := range n {
		s.Train = append(s.Train, int32(i))
		for range of.Targets {
			s.Targets = append(s.Targets, r.Float32())
		}
		if of.Targets == 0 {
			s.Labels = append(s.Labels, int32(r.IntN(of.Classes)))
		}
	}
	return s
}

func randomRows(of learn.Samples, n int, r *rand.Rand) federated.Rows {
	switch of.Input {
	case learn.Sparse:
		features := min(of.Features, 1<<16) // the first ones
		words := min(sparseWords, features)
		rows := &federated.BagRows{Starts: []uint32{0}}
		for range n {
			for i := range words {
				rows.Word, rows.Count = append(rows.Word, uint16(i*features/words)), append(rows.Count, 1)
			}
			rows.Total = append(rows.Total, uint16(words))
			rows.Starts = append(rows.Starts, uint32(len(rows.Word)))
		}
		return rows
	case learn.Tokens:
		rows := &federated.ByteRows{Width: of.Features, Bytes: make([]byte, n*of.Features), Coding: federated.Tokens}
		for i := range rows.Bytes {
			rows.Bytes[i] = byte(r.IntN(of.Vocabulary))
		}
		return rows
	}
	rows := &federated.FloatRows{Width: of.Features, Values: make([]float32, n*of.Features)}
	for i := range rows.Values {
		rows.Values[i] = r.Float32()
	}
	return rows
}
