package problem

import (
	"fmt"
	"slices"

	"fedpace/config"
	"fedpace/coordinator/schedule"
	"fedpace/learn/metric"
)

// chooseMetrics settles by which metrics models are measured, by which they are compared, and which
// end the run. It refuses a schedule that reads an accuracy which the model does not have. Where there
// is more or less than an accuracy, the configuration names the metric from then on, for readers of
// the results who do not have the model.
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
	// The metric is written to the configuration unless the accuracy is the only one.
	accurate := metric.Find(p.Metrics, metric.Accuracy) >= 0
	if len(p.Model.Metrics()) != 1 || !accurate || p.Quality.Index != 0 {
		c.Evaluate.Metric = config.Metric{Name: p.Quality.Name, Better: p.Quality.Direction()}
	}
	p.Targets, err = c.Stop.Targets(p.Quality, p.Metrics)
	if err != nil || accurate {
		return err
	}
	const needsAccuracy = "%s: it reads the validation accuracy, which %s does not have"
	// The model has no accuracy, so a schedule that reads it could never act.
	switch run := c.Schedule.Setup(); {
	case schedule.NeedsOf(c.Schedule.K, run).Accuracy:
		return fmt.Errorf(needsAccuracy, "schedule.k", p.Model)
	case schedule.NeedsOf(c.Schedule.Eta, run).Accuracy:
		return fmt.Errorf(needsAccuracy, "schedule.eta", p.Model)
	}
	return nil
}

// addMeasures adds those of evaluate.measures to the run's metrics, behind the model's own. Only models
// of this program give the outcomes of single samples, from which they follow. It also refuses a
// prepared file of targets that are scaled for a trainer, which measures in the unit of what it is given.
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
	samples := p.Model.Samples()
	switch {
	case len(wanted) == 0:
		return nil
	case samples.Classes == 0 && samples.Targets == 0 || len(p.Model.Metrics()) == 0:
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
