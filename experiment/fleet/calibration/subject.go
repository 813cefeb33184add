package calibration

import (
	"cmp"
	"fmt"

	"fedpace/actors/algorithm"
	"fedpace/actors/calibrate"
	"fedpace/actors/learn"
	"fedpace/actors/real"
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

func ofConfig(c *config.Config, own calibrate.Own) (*calibrate.Subject, error) {
	if c.External() && own.Trainer == "" {
		own.Trainer = c.Trainer.Command
	}
	if own.Data == "" && c.IsTrainers() {
		own.Data = real.TrainerData
	}
	batch := cmp.Or(c.Batch, 32) // 0: it fits the data, which are elsewhere
	if c.External() {
		if _, paper := c.Task.Paper(); own.Data == "" && c.IsSynthetic() && paper {
			s, err := calibrate.OfTask(c.Task, own)
			if err != nil {
				return nil, err
			}
			return s.WithBatch(batch), nil
		}
		return calibrate.OfTrainer(batch, own), nil
	}
	m, err := c.NewModel(learn.Samples{})
	if err != nil {
		return nil, fmt.Errorf("calibration: %w (a model whose sizes follow from the data is measured by --model)", err)
	}
	w := calibrate.Alone(c.Task, m, batch)
	w.Heterogeneity, w.Spec.Augment = c.Synthetic.Heterogeneity, c.Augment
	if w.Spec.Algorithm, err = algorithm.Algorithms.Encode(c.Aggregate.Algorithm); err != nil {
		return nil, err
	}
	if !learn.Plain(c.Local) {
		if w.Spec.Local, err = learn.Optimizers.Encode(c.Local); err != nil {
			return nil, err
		}
	}
	return calibrate.OfRun(w, own)
}

// FirstSteps are the local steps of a run's first tasks, K_0; 0 where they follow from the
// clients' samples.
func FirstSteps(c *config.Config) int {
	if c.Schedule.Unit == config.Epochs {
		return 0
	}
	return c.Schedule.K0
}
