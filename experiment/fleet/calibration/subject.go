package calibration

import (
	"cmp"
	"fmt"

	"fedpace/actors/algorithm"
	"fedpace/actors/calibrate"
	"fedpace/actors/data/federated"
	"fedpace/actors/learn"
	"fedpace/experiment/config"
)

// OfConfig is what the devices of a run with this configuration would do.
func OfConfig(c *config.Config, own calibrate.Own) (*calibrate.Subject, error) {
	s, err := ofConfig(c, own)
	if err == nil {
		s.Steps = FirstSteps(c)
	}
	return s, err
}

func ofConfig(c *config.Config, own calibrate.Own) (s *calibrate.Subject, err error) {
	batch := cmp.Or(c.Batch, 32) // 0: it fits the data, which are elsewhere
	if c.External() {
		if own.Trainer = c.Trainer.Command; own.Data == "" && !c.IsSynthetic() {
			own.Data = c.Data.Path
		}
		s = calibrate.OfTrainer(batch, own)
		if _, paper := c.Task.Paper(); own.Data == "" && paper {
			if s, err = calibrate.OfTask(c.Task, own); err == nil {
				s = s.WithBatch(batch)
			}
		}
	} else if m, of := c.NewModel(learn.Samples{}); of != nil {
		err = fmt.Errorf("calibration: %w (a model whose sizes follow from the data is measured by --model)", of)
	} else {
		s, err = calibrate.OfRun(calibrate.Alone(c.Task, m, batch), own)
	}
	if err != nil {
		return nil, err
	}
	w := s.Welcome
	w.Heterogeneity, w.Spec.Augment = c.Synthetic.Heterogeneity, c.Augment
	if w.Spec.Algorithm, err = algorithm.Algorithms.Encode(c.Aggregate.Algorithm); err == nil && !learn.Plain(c.Local) {
		w.Spec.Local, err = learn.Optimizers.Encode(c.Local)
	}
	if err == nil && c.Data.Reader != nil && federated.Readers.NameOf(c.Data.Reader) == "table" {
		w.Mapping, err = federated.Readers.Encode(c.Data.Reader)
	}
	return s, err
}

// FirstSteps are the local steps of a run's first tasks, K_0; 0 where they follow from the
// clients' samples.
func FirstSteps(c *config.Config) int {
	if c.Schedule.Unit == config.Epochs {
		return 0
	}
	return c.Schedule.K0
}
