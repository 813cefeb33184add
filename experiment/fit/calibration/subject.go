package calibration

import (
	"cmp"
	"fmt"

	"fedpace/actors/calibrate"
	"fedpace/algorithm"
	"fedpace/config"
	"fedpace/learn"
)

// OfConfig returns what a device of a run with configuration c would compute: its local steps with
// the first round's K. device is what the device itself says of its data and trainer.
func OfConfig(c *config.Config, device calibrate.DeviceInput) (*calibrate.Subject, error) {
	s, err := subjectOf(c, device)
	if err == nil {
		s.Steps = FirstSteps(c)
	}
	return s, err
}

// subjectOf makes the subject that a device measures: the local steps of a configuration's model, with its
// algorithm, optimizer and augmentation, the mapping of its data and the heterogeneity of synthetic ones. It
// sets no number of steps, which [OfConfig] adds.
func subjectOf(c *config.Config, device calibrate.DeviceInput) (*calibrate.Subject, error) {
	s, err := stepSubject(c, device)
	if err != nil {
		return nil, err
	}
	// The run would send the device this welcome.
	w := s.Welcome
	w.Heterogeneity = c.Synthetic.Heterogeneity
	w.Spec.Augment = c.Augment
	w.Spec.Algorithm, err = algorithm.Algorithms.Encode(c.Aggregate.Algorithm)
	if err == nil && !learn.Plain(c.Local) {
		w.Spec.Local, err = learn.Optimizers.Encode(c.Local)
	}
	if err == nil {
		w.Mapping, err = c.Data.Mapping()
	}
	return s, err
}

// stepSubject returns what takes the local steps of a run with configuration c on a device: a trainer
// in a process of its own, or a model of this program with its minibatches.
func stepSubject(c *config.Config, device calibrate.DeviceInput) (*calibrate.Subject, error) {
	// A batch of 0 is chosen by the data, which are not on this machine: the usual size stands for it.
	batch := cmp.Or(c.Batch, 32)
	if !c.External() {
		m, err := c.NewModel(learn.Samples{})
		if err != nil {
			return nil, fmt.Errorf(
				"calibration: %w (a model whose sizes follow from the data is measured by --model)",
				err,
			)
		}
		return calibrate.SubjectOfRun(calibrate.SingleClientWelcome(c.Task, m, batch), device)
	}
	device.Trainer = c.Trainer.Command
	// The device has its data where the configuration expects them, unless it says otherwise.
	if device.Data == "" && !c.IsSynthetic() {
		device.Data = c.Data.Path
	}
	// The trainer learns from the device's data or, if there are none, from its own. For a task of the paper without
	// data the device makes samples like those of the task.
	if _, isOfPaper := c.Task.Paper(); device.Data != "" || !isOfPaper {
		return calibrate.SubjectOfTrainer(batch, device), nil
	}
	s, err := calibrate.SubjectOfTask(c.Task, device)
	if err != nil {
		return nil, err
	}
	return s.WithBatch(batch), nil
}

// FirstSteps is the number of local steps of a run's first tasks, K_0. It is 0 where K_0 counts epochs, so that
// the steps follow from the clients' samples.
func FirstSteps(c *config.Config) int {
	if c.Schedule.Unit == config.Epochs {
		return 0
	}
	return c.Schedule.K0
}
