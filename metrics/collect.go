package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"fedpace/coordinator/round"
)

// descriptions are the metrics' names, meanings and labels.
type descriptions struct {
	round, duration, virtualTime, steps, localSteps, learningRate *prometheus.Desc
	trainingLoss, validationLoss, validationAccuracy              *prometheus.Desc
	phase, updates, actors, transfer, dropped                     *prometheus.Desc
}

func describe(run prometheus.Labels) descriptions {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("fedpace_"+name, help, labels, run)
	}
	return descriptions{
		round:              desc("round", "Rounds completed."),
		duration:           desc("round_duration_seconds", "Virtual time from a round's first task to its close."),
		virtualTime:        desc("virtual_time_seconds", "Virtual time since the run's start."),
		steps:              desc("sgd_steps_total", "Local SGD steps of one client of each completed round: the sum of K_r."),
		localSteps:         desc("local_steps", "Local SGD steps a client in the last round, K_r."),
		learningRate:       desc("learning_rate", "Learning rate of the last round, eta_r."),
		trainingLoss:       desc("training_loss", "Mean first-step loss of the accepted clients, in the last round that has one."),
		validationLoss:     desc("validation_loss", "Mean cross-entropy on held-out samples at the last evaluation."),
		validationAccuracy: desc("validation_accuracy", "Top-1 accuracy on held-out samples at the last evaluation, 0 to 1."),
		phase:              desc("client_phase_seconds", "Virtual duration of a task's phases.", "phase", "kind"),
		updates:            desc("updates_total", "Tasks by how they ended.", "outcome", "kind"),
		actors:             desc("actors", "Clients that take part.", "kind"),
		transfer:           desc("transfer_bytes_total", "Bytes of models on the simulated links.", "direction"),
		dropped:            desc("bus_dropped_total", "Messages lost to a slow consumer; a run in which one is lost fails."),
	}
}

// Describe sends every description.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	n := &m.names
	for _, d := range []*prometheus.Desc{
		n.round, n.duration, n.virtualTime, n.steps, n.localSteps, n.learningRate,
		n.trainingLoss, n.validationLoss, n.validationAccuracy,
		n.phase, n.updates, n.actors, n.transfer, n.dropped,
	} {
		ch <- d
	}
}

// Collect sends a picture taken at one moment. What has not been measured yet
// is left out.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	s := m.state
	m.mu.Unlock()

	n := &m.names
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	gauge(n.round, float64(s.last.Round))
	gauge(n.virtualTime, s.last.End.Seconds())
	counter(n.steps, float64(s.last.SGDSteps))
	send(ch, n.duration, &s.duration)
	if s.last.Round > 0 {
		gauge(n.localSteps, float64(s.last.LocalSteps))
		gauge(n.learningRate, s.last.LearningRate)
	}
	for _, g := range []struct {
		desc  *prometheus.Desc
		value float64
	}{{n.trainingLoss, s.last.TrainingLoss}, {n.validationLoss, s.last.ValidationLoss}, {n.validationAccuracy, s.last.ValidationAccuracy}} {
		if !math.IsNaN(g.value) {
			gauge(g.desc, g.value)
		}
	}
	for k := range kinds {
		gauge(n.actors, float64(s.actors[k]), k.String())
		if k == Real && s.actors[k] == 0 && s.updates[k] == [round.Outcomes]uint64{} {
			continue // a run without devices has no series for them
		}
		for p, name := range phaseNames {
			send(ch, n.phase, &s.phases[k][p], name, k.String())
		}
		for o, count := range s.updates[k] {
			counter(n.updates, float64(count), round.Outcome(o).String(), k.String())
		}
	}
	counter(n.transfer, float64(s.transfer[0]), "download")
	counter(n.transfer, float64(s.transfer[1]), "upload")
	counter(n.dropped, float64(s.dropped))
}

// send sends a histogram in Prometheus' form: counts are cumulative.
func send(ch chan<- prometheus.Metric, d *prometheus.Desc, h *histogram, labels ...string) {
	cumulative := make(map[float64]uint64, buckets)
	count := uint64(0)
	for i, n := range h.counts {
		count += n
		if i < buckets {
			cumulative[bound(i)] = count
		}
	}
	ch <- prometheus.MustNewConstHistogram(d, count, h.sum.Seconds(), cumulative, labels...)
}
