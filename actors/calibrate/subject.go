package calibrate

import (
	"cmp"
	"context"
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

// Subject is a learning problem whose steps can be measured: what a run would tell the device, and
// what the device brings itself.
type Subject struct {
	// Name is for people.
	Name string
	// Task is custom for a subject that is no task of the paper.
	Task tasks.Task
	// Steps is K_0, the steps of a run's first tasks. 0 means not known.
	Steps int

	// Measure measures the subject in a way of its own. Nil means that a device takes its local steps.
	Measure func(ctx context.Context, notice func(string)) (Compute, error)

	// Welcome is what a run would send the device before its first task.
	Welcome *bus.Welcome
	// input is what the device brings itself.
	input real.Config
	// random is the format of random samples that are made. Nil means that input says where the samples
	// are.
	random *learn.Samples
}

// DeviceInput is what a device brings itself: Data, Map, Owner and Trainer count. Without data,
// samples are made.
type DeviceInput = real.Config

// minRandomSamples is the number of random samples of a device, unless a minibatch is larger.
const minRandomSamples = 256

// deviceConfig returns the configuration of the device that is measured, with random samples if it has none
// of its own.
func (s *Subject) deviceConfig(notice func(string)) real.Config {
	c := s.input
	c.Notice = notice
	if s.random != nil {
		c.Set = newRandomSet(*s.random, max(minRandomSamples, s.Batch()))
	}
	return c
}

// Batch returns the number of samples of a minibatch, 0 if the subject decides it itself.
func (s *Subject) Batch() int { return int(s.Welcome.GetSpec().GetBatch()) }

// WithBatch returns the subject with another size of minibatches.
func (s *Subject) WithBatch(batch int) *Subject {
	changed := *s
	changed.Welcome = proto.CloneOf(s.Welcome)
	changed.Welcome.Spec.Batch = uint32(batch)
	return &changed
}

// SingleClientWelcome returns the welcome of a run with this device as its only client, for the
// given task, model and size of minibatches. If m is nil, the device's external trainer has the
// model.
func SingleClientWelcome(task tasks.Task, m learn.ModelInfo, batch int) *bus.Welcome {
	algorithm, err := algorithm.Algorithms.Encode(algorithm.Default)
	if err != nil {
		// The options of an algorithm are numbers and words, so their encoding cannot fail.
		panic("calibrate: " + err.Error())
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
		w.Spec.Model = m.String()
		w.Params = uint32(m.Params())
	}
	return w
}

// SubjectOfTask returns as a subject a task of the paper, with the task's model or that of the device's
// trainer if there is one. A task that is not of the paper is an error.
func SubjectOfTask(task tasks.Task, device DeviceInput) (*Subject, error) {
	paper, ok := task.Paper()
	if !ok {
		return nil, fmt.Errorf("calibrate: %q is not a task of the paper's Table 2", task)
	}
	if device.Trainer != "" {
		device.Data = cmp.Or(device.Data, real.SyntheticData)
		return subjectOfTrainer(SingleClientWelcome(task, nil, paper.Batch), device), nil
	}
	m, err := learn.Parse(paper.Architecture)
	if err != nil {
		return nil, err
	}
	return SubjectOfRun(SingleClientWelcome(task, m, paper.Batch), device)
}

// SubjectOfModel returns as a subject a model that is given as in the configuration (such as
// mlp:4,16,3), on the device's own samples or on random ones.
func SubjectOfModel(spec string, batch int, device DeviceInput) (*Subject, error) {
	m, err := learn.Parse(spec)
	if err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	return SubjectOfRun(SingleClientWelcome(tasks.Custom, m, batch), device)
}

// SubjectOfTrainer returns as a subject the model of the device's external trainer, on the device's
// data or, if it has none, on the trainer's own.
func SubjectOfTrainer(batch int, device DeviceInput) *Subject {
	device.Data = cmp.Or(device.Data, real.TrainerData)
	return subjectOfTrainer(SingleClientWelcome(tasks.Custom, nil, batch), device)
}

// subjectOfTrainer returns what is measured if the device's external trainer takes the local steps,
// with the welcome w and the device's own input.
func subjectOfTrainer(w *bus.Welcome, device DeviceInput) *Subject {
	return &Subject{
		Name:    "trainer " + device.Trainer,
		Task:    tasks.Custom,
		Welcome: w,
		input:   device,
	}
}

// SubjectOfRun returns what to measure for a welcome that a coordinator sent; nil if the welcome
// names no model. A device without data of its own learns synthetic data of the paper's task, or
// random samples in the format of the model.
func SubjectOfRun(w *bus.Welcome, device DeviceInput) (*Subject, error) {
	name := w.GetSpec().GetModel()
	if name == "" {
		return nil, nil
	}
	s := &Subject{
		Name:    name,
		Task:    tasks.Task(w.Task),
		Welcome: w,
		input:   device,
	}
	paper, isPaperTask := s.Task.Paper()
	// The name shows people the task, and the model where it is not that of the paper.
	switch {
	case !isPaperTask:
		s.Task = tasks.Custom
	case name == paper.Architecture:
		s.Name = w.Task
	default:
		s.Name = w.Task + " with " + name
	}
	switch {
	// The device's own data comes first, then that of the task, then that of the trainer.
	case device.Data != "":
	case isPaperTask:
		s.input.Data = real.SyntheticData
	case external.IsExternal(name):
		s.input.Data = real.TrainerData
	default:
		// A model of ours says itself which samples it reads.
		m, err := learn.Parse(name)
		if err != nil {
			return nil, fmt.Errorf("calibrate: %w", err)
		}
		samples := m.Samples()
		s.random = &samples
	}
	return s, nil
}

// sparseWords is the number of different words in a random bag of words.
const sparseWords = 12

// newRandomSet returns a set of one client with n random samples of a format, the same in each
// call. A step copies them as it would copy those of a real set, so its time is the same.
func newRandomSet(format learn.Samples, n int) *federated.Grouped {
	r := keyed.New(1, keyed.Weights)
	s := &federated.Grouped{
		About: federated.Info{
			Name:      "random samples",
			Synthetic: true,
			Digest:    "random",
			Samples:   format,
		},
		Names:  []string{"0"},
		Starts: []int{0, n},
		Rows:   randomRows(format, n, r),
	}
	for i := range n {
		s.Train = append(s.Train, int32(i))
		// A sample has targets or a label, never both.
		for range format.Targets {
			s.Targets = append(s.Targets, r.Float32())
		}
		if format.Targets == 0 {
			s.Labels = append(s.Labels, int32(r.IntN(format.Classes)))
		}
	}
	return s
}

// randomRows returns n random samples drawn from r, in the storage that a set has for samples of
// this format: bags of words, bytes of tokens, or floats.
func randomRows(format learn.Samples, n int, r *rand.Rand) federated.Rows {
	switch format.Input {
	// The words of a bag are spread evenly over the vocabulary.
	case learn.Sparse:
		// A bag stores words in 16 bits, so only the first features are used.
		features := min(format.Features, 1<<16)
		words := min(sparseWords, features)
		rows := &federated.BagRows{Starts: []uint32{0}}
		for range n {
			for i := range words {
				rows.Tokens = append(rows.Tokens, uint16(i*features/words))
				rows.Counts = append(rows.Counts, 1)
			}
			rows.Totals = append(rows.Totals, uint16(words))
			rows.Starts = append(rows.Starts, uint32(len(rows.Tokens)))
		}
		return rows
	case learn.Tokens:
		rows := &federated.ByteRows{
			Width:  format.Features,
			Bytes:  make([]byte, n*format.Features),
			Coding: federated.Tokens,
		}
		for i := range rows.Bytes {
			rows.Bytes[i] = byte(r.IntN(format.Vocabulary))
		}
		return rows
	}
	rows := &federated.FloatRows{Width: format.Features, Values: make([]float32, n*format.Features)}
	for i := range rows.Values {
		rows.Values[i] = r.Float32()
	}
	return rows
}
