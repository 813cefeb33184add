package calibrate

import (
	"cmp"
	"fmt"

	"google.golang.org/protobuf/proto"

	"fedpace/actors"
	"fedpace/actors/algorithm"
	"fedpace/actors/external"
	"fedpace/actors/learn"
	"fedpace/actors/real"
	"fedpace/bus"
	"fedpace/experiment/config"
	"fedpace/internal/tasks"
)

// Subject is a learning problem whose steps can be measured: what a run would tell the
// device, and what the device brings itself.
type Subject struct {
	Name string     // for people
	Task tasks.Task // custom: of no task of the paper
	// Steps are those of a run's first tasks, K_0; 0: they are not known.
	Steps int

	welcome *bus.Welcome
	own     real.Config
	random  *learn.Samples // samples like these are made; nil: own says where they are
}

// Own is what a device brings itself: Data, Map, Owner and Trainer count. Without data
// samples are made.
type Own = real.Config

// leastSamples is how many random samples a device has: as many as those of a client, and
// never fewer than a minibatch.
const leastSamples = 256

// device is the device that does the subject's tasks.
func (s *Subject) device(notice func(string)) real.Config {
	c := s.own
	c.Notice = notice
	if s.random != nil {
		c.Set = newRandomSet(*s.random, max(leastSamples, s.Batch()))
	}
	return c
}

// Batch is the number of samples of a minibatch.
func (s *Subject) Batch() int { return int(s.welcome.Spec.Batch) }

// WithBatch is the subject with minibatches of so many samples.
func (s *Subject) WithBatch(batch int) *Subject {
	other := *s
	other.welcome = proto.CloneOf(s.welcome)
	other.welcome.Spec.Batch = uint32(batch)
	return &other
}

// alone is what a run of one client would tell a device. A nil model is that of the
// device's external trainer.
func alone(task tasks.Task, m learn.ModelInfo, batch int) *bus.Welcome {
	algorithm, err := algorithm.Algorithms.Encode(algorithm.Default)
	if err != nil {
		panic("calibrate: " + err.Error()) // its options are numbers and words
	}
	w := &bus.Welcome{
		Clients: 1, Task: string(task), DataSeed: 1, Heterogeneity: 1,
		Spec: &bus.Spec{Seed: 1, Batch: uint32(batch), Augment: actors.NoAugment, Algorithm: algorithm},
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
	if own.Data == "" {
		own.Data = real.SyntheticData
	}
	if own.Trainer != "" {
		return &Subject{Name: "trainer " + own.Trainer, Task: tasks.Custom, welcome: alone(task, nil, paper.Batch), own: own}, nil
	}
	m, err := learn.Parse(paper.Architecture)
	if err != nil {
		return nil, err
	}
	return &Subject{Name: string(task), Task: task, welcome: alone(task, m, paper.Batch), own: own}, nil
}

// OfModel is a model in the words of messages and of the key model, such as mlp:4,16,3, on
// the device's own samples or on random ones.
func OfModel(spec string, batch int, own Own) (*Subject, error) {
	m, err := learn.Parse(spec)
	if err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	return ofModel(m, alone(tasks.Custom, m, batch), own), nil
}

func ofModel(m learn.ModelInfo, w *bus.Welcome, own Own) *Subject {
	s := &Subject{Name: m.String(), Task: tasks.Custom, welcome: w, own: own}
	if own.Data == "" {
		samples := m.Samples()
		s.random = &samples
	}
	return s
}

// OfTrainer is what an external trainer learns from its own data, or from the device's.
func OfTrainer(batch int, own Own) *Subject {
	if own.Data == "" {
		own.Data = real.TrainerData
	}
	return &Subject{Name: "trainer " + own.Trainer, Task: tasks.Custom, welcome: alone(tasks.Custom, nil, batch), own: own}
}

// OfConfig is what the devices of a run with this configuration would do.
func OfConfig(c *config.Config, own Own) (*Subject, error) {
	s, err := ofConfig(c, own)
	if err == nil {
		s.Steps = FirstSteps(c)
	}
	return s, err
}

func ofConfig(c *config.Config, own Own) (*Subject, error) {
	if c.External() && own.Trainer == "" {
		own.Trainer = c.Trainer.Command
	}
	if own.Data == "" && c.IsTrainers() {
		own.Data = real.TrainerData
	}
	batch := cmp.Or(c.Batch, 32) // 0: it fits the data, which are elsewhere
	if c.External() {
		if _, paper := c.Task.Paper(); own.Data == "" && c.IsSynthetic() && paper {
			s, err := OfTask(c.Task, own)
			if err != nil {
				return nil, err
			}
			return s.WithBatch(batch), nil
		}
		return OfTrainer(batch, own), nil
	}
	m, err := c.NewModel(learn.Samples{})
	if err != nil {
		return nil, fmt.Errorf("calibrate: %w (a model whose sizes follow from the data is measured by --model)", err)
	}
	w := alone(c.Task, m, batch)
	w.Heterogeneity, w.Spec.Augment = c.Synthetic.Heterogeneity, c.Augment
	if w.Spec.Algorithm, err = algorithm.Algorithms.Encode(c.Aggregate.Algorithm); err != nil {
		return nil, err
	}
	if !learn.Plain(c.Local) {
		if w.Spec.Local, err = learn.Optimizers.Encode(c.Local); err != nil {
			return nil, err
		}
	}
	s := ofModel(m, w, own)
	if _, paper := c.Task.Paper(); paper {
		s.Name, s.Task = string(c.Task), c.Task
		if !c.UsesTaskModel() {
			s.Name += " with " + m.String()
		}
		if own.Data == "" {
			s.own.Data, s.random = real.SyntheticData, nil
		}
	}
	return s, nil
}

// FirstSteps are the local steps of a run's first tasks, K_0; 0 where they follow from the
// clients' samples.
func FirstSteps(c *config.Config) int {
	if c.Schedule.Unit == config.Epochs {
		return 0
	}
	return c.Schedule.K0
}

// OfRun is what a coordinator told the device that its runs are; nil where it named no
// model.
func OfRun(w *bus.Welcome, own Own) (*Subject, error) {
	name := w.GetSpec().GetModel()
	if name == "" {
		return nil, nil
	}
	task := tasks.Task(w.Task)
	_, paper := task.Paper()
	if !paper {
		task = tasks.Custom
	}
	s := &Subject{Name: name, Task: task, welcome: w, own: own}
	if own.Data != "" {
		return s, nil
	}
	if external.Is(name) {
		if s.own.Data = real.TrainerData; paper {
			s.own.Data = real.SyntheticData
		}
		return s, nil
	}
	m, err := learn.Parse(name)
	if err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	if s.own.Data = real.SyntheticData; !paper {
		samples := m.Samples()
		s.own.Data, s.random = "", &samples
	}
	return s, nil
}
