package problem

import (
	"fmt"
	"slices"

	"fedpace/config"
	"fedpace/coordinator/schedule"
	"fedpace/learn/metric"
)

// chooseMetrics settles by which metrics models are measured, by which one they are compared (the run's
// quality), and which values of them end the run. It refuses a schedule that reads an accuracy which the
// model does not have. Unless the accuracy is the only metric, it writes the metric of the comparison into
// the configuration, for readers of the results who do not have the model.
func (p *Problem) chooseMetrics() (err error) {
	c := &p.Config
	// Nothing is measured without training, but tables still have the columns of a classifier.
	if !c.Train {
		p.Metrics = []metric.Metric{{Name: metric.Accuracy}}
		p.Quality, err = metric.QualityOf(p.Metrics, metric.Accuracy)
		return err
	}
	p.Metrics = slices.Clone(p.Model.Metrics())
	if err := metric.CheckNames(p.Metrics); err != nil {
		return fmt.Errorf("model: %s: %w", p.Model, err)
	}
	if err := p.addMeasures(); err != nil {
		return err
	}
	p.Quality, err = c.Evaluate.Metric.QualityOf(p.Metrics)
	if err != nil {
		return err
	}
	// A negative index means that models are compared by their loss.
	if p.Quality.Index >= 0 {
		// The configuration may say in which direction the metric is better.
		p.Metrics[p.Quality.Index] = p.Quality.Metric
	}
	hasAccuracy := metric.Find(p.Metrics, metric.Accuracy) >= 0
	accuracyIsAll := len(p.Model.Metrics()) == 1 && hasAccuracy && p.Quality.Index == 0
	if !accuracyIsAll {
		c.Evaluate.Metric = config.Metric{Name: p.Quality.Name, Better: p.Quality.Direction()}
	}
	p.Targets, err = c.Stop.Targets(p.Quality, p.Metrics)
	if err != nil || hasAccuracy {
		return err
	}
	return p.checkNoAccuracyRead()
}

// checkNoAccuracyRead refuses a schedule of K or of the learning rate that follows the validation accuracy.
// It is called for a model without an accuracy, with which such a schedule could never act.
func (p *Problem) checkNoAccuracyRead() error {
	s := &p.Config.Schedule
	const needsAccuracy = "%s: it reads the validation accuracy, which %s does not have"
	setup := s.Setup()
	switch {
	case schedule.NeedsOf(s.K, setup).Accuracy:
		return fmt.Errorf(needsAccuracy, "schedule.k", p.Model)
	case schedule.NeedsOf(s.Eta, setup).Accuracy:
		return fmt.Errorf(needsAccuracy, "schedule.eta", p.Model)
	}
	return nil
}

// addMeasures adds the metrics that evaluate.measures lists, such as F1, to the run's metrics, behind the
// model's own. They are calculated from what a model predicts for single samples, so it refuses them for
// models that give no predictions, such as those of trainers in other processes. It also refuses data with
// scaled targets for such a trainer, which would report its errors in the scaled unit.
func (p *Problem) addMeasures() error {
	if p.Trainer != nil && p.Set.Info().TargetMean != nil {
		return &config.KeyError{
			Key: "data",
			Problem: fmt.Sprintf(
				"%s has scaled targets, and the trainer measures its model itself, in the unit of what it is "+
					"given (want a file prepared without target_scale)",
				p.Config.Data,
			),
		}
	}
	wanted := p.Config.Evaluate.Measures
	refuse := func(format string, args ...any) error {
		return &config.KeyError{Key: "evaluate.measures", Problem: fmt.Sprintf(format, args...)}
	}
	if len(wanted) == 0 {
		return nil
	}
	samples := p.Model.Samples()
	predictsSamples := samples.Classes > 0 || samples.Targets > 0
	if !predictsSamples || len(p.Model.Metrics()) == 0 {
		return refuse("%s tells neither classes nor numbers (want null)", p.Model)
	}
	for i, name := range wanted {
		m, err := metric.Measure(name, samples.Classes, samples.Targets)
		if err != nil {
			return refuse("%v", err)
		}
		if slices.Contains(wanted[:i], name) {
			return refuse("%s is there twice", name)
		}
		p.Metrics = append(p.Metrics, m)
	}
	return nil
}

// Target returns the value of the run's quality whose time is reported: the one of evaluate.target
// or, without it, the one that stops the run. ok is false if there is neither.
func (p *Problem) Target() (value float64, ok bool) {
	if t := p.Config.Evaluate.Target; t != nil {
		return *t, true
	}
	// Without a target of its own, the quality is followed to the one that stops the run.
	for _, t := range p.Targets {
		if t.Index == p.Quality.Index {
			return t.Value, true
		}
	}
	return 0, false
}
