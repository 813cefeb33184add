package prometheus

import (
	"math"
	"runtime"
	"time"

	client "github.com/prometheus/client_golang/prometheus"

	"fedpace/coordinator/round"
	"fedpace/learn/metric"
	"fedpace/metrics"
)

// Describe implements [client.Collector]. It sends nothing: Prometheus then checks
// what Collect sends, and the names stand in one place.
func (m *Metrics) Describe(chan<- *client.Desc) {}

// Collect sends all metrics of the run to sink, as they are now, for [Metrics.Gather], which holds
// the lock m.mu. What has not been measured yet is left out, so that Prometheus shows a gap and not
// a zero.
func (m *Metrics) Collect(sink chan<- client.Metric) {
	c := &scrape{sink, m.labels}
	s := &m.state
	c.add("build_info", "What runs: always 1.", "version", "goversion", "kernel").gauge(
		1,
		m.run.Version,
		runtime.Version(),
		m.run.Kernel,
	)
	m.collectRun(c, s)
	m.collectClients(c, s)
	m.collectUsage(c, s)
	// The action is empty where the server answers, and then there is no series.
	if m.run.Waiting != nil {
		if action, since := m.run.Waiting(); action != "" {
			c.add(
				"bus_waiting_seconds",
				"Wall time for which the server has been waited for to do something; absent where it answers.",
				"what",
			).
				gauge(time.Since(since).Seconds(), action)
		}
	}
	// Stats reports false before the run has started.
	if m.run.Stats != nil {
		if now, ok := m.run.Stats(); ok {
			m.collectStats(c, s, &now)
		}
	}
}

// scrape sends the metrics of one scrape. Every series has the labels of the run.
type scrape struct {
	// sink takes the metrics; Prometheus reads it.
	sink chan<- client.Metric
	// labels are the labels of the run, which all of its series carry.
	labels client.Labels
}

// family is one metric of a scrape, with series for its labels' values.
type family struct {
	// sink takes the series of the metric.
	sink chan<- client.Metric
	// desc holds the name, the help text and the names of the labels.
	desc *client.Desc
}

// add declares a metric with its help text and the names of its labels, and returns it to send
// values.
func (c *scrape) add(name, help string, labels ...string) family {
	return family{c.sink, client.NewDesc("fedpace_"+name, help, labels, c.labels)}
}

// gauge sends a value that may fall, for these values of the labels.
func (f family) gauge(v float64, labels ...string) {
	f.sink <- client.MustNewConstMetric(f.desc, client.GaugeValue, v, labels...)
}

// counter sends a value that only grows.
func (f family) counter(v float64, labels ...string) {
	f.sink <- client.MustNewConstMetric(f.desc, client.CounterValue, v, labels...)
}

// time sends a time in seconds since 1970 as Prometheus writes it. The zero time is left out.
func (f family) time(t time.Time, labels ...string) {
	if !t.IsZero() {
		f.gauge(float64(t.UnixNano())/1e9, labels...)
	}
}

// measured sends a value unless it was not measured (NaN).
func (f family) measured(v float64, labels ...string) {
	if !math.IsNaN(v) {
		f.gauge(v, labels...)
	}
}

// split sends both parts of an amount as two series of f: useful, which went into updates that are
// in a model, and wasted, which did not. The label of f is the use.
func split[T int64 | float64](f family, s metrics.Split[T]) {
	f.counter(float64(s.Useful), "useful")
	f.counter(float64(s.Wasted), "wasted")
}

// duration is a histogram of this package, not the value of the last round.
const duration = "round_duration_seconds"

// collectRun sends the values of the run as a whole: progress, state, virtual time, the columns of
// rounds.csv and the metrics of the model. Losses and metrics are those measured last.
func (m *Metrics) collectRun(c *scrape, s *state) {
	virtual := s.last.End.Seconds()
	c.add(
		"progress_ratio",
		"The part of the run that is done, 0 to 1, by the stop that is nearest; 0 where none is known.",
	).
		gauge(m.run.Fraction(s.last.Round, virtual))
	c.add("start_timestamp_seconds", "When the run, or this attempt of it, started, in Unix time.").time(m.run.Started)
	c.add(
		"resumed_round",
		"The round after which this attempt of the run went on; 0: it began.",
	).gauge(float64(s.resumed))
	// Every state has a series, so that a query can tell the end of a run from a missing scrape.
	states := c.add("run_state", "1 for the state that the run is in, 0 for the others. The end is shown until it is "+
		"scraped, for a minute at most.", "state")
	for _, name := range []string{running, finished, stopped, failed, diverged} {
		active := 0.
		if name == s.name {
			active = 1
		}
		states.gauge(active, name)
	}
	c.add(
		"last_round_timestamp_seconds",
		"When the last round was completed (before the first: when the run started), in Unix time.",
	).time(s.received)

	if e := m.run.Epsilon; e != nil {
		c.add(
			"privacy_epsilon",
			"Epsilon of differential privacy that the models so far have cost, for the run's delta.",
		).gauge(e(s.last.Round))
	}
	c.add("virtual_time_seconds", "Virtual time since the run's start.").gauge(virtual)

	if m.run.FixedSteps > 0 {
		c.add(
			"fixed_sgd_steps_total",
			"Local SGD steps that fixed K does in the same virtual time, where rounds are all alike.",
		).
			counter(m.run.FixedSteps * virtual)
	}
	for i := range m.columns {
		column := &m.columns[i]
		switch {
		// These columns have no metric, or the histogram stands for them.
		case column.Metric == "-" || column.Metric == duration:
		case column.Kind == metrics.Total:
			c.add(column.Metric, column.Sentence()).counter(column.Of(&s.last))
		// Before the first round there is nothing to show but its number, which is the first
		// column.
		case s.last.Round > 0 || i == 0:
			c.add(column.Metric, column.Sentence()).measured(column.Of(&s.last))
		}
	}
	// A round may come and go between two scrapes, so such rounds are counted, too.
	if m.run.Secure {
		c.add(
			"secure_unrecovered_rounds_total",
			"Rounds that secure aggregation refused or whose sum it could not recover.",
		).counter(float64(s.unrecovered))
	}
	accuracy := c.add("validation_accuracy", "Top-1 accuracy on held-out samples at the last evaluation, 0 to 1.")
	values := c.add(
		"validation_metric",
		"A metric of the model, by its name, on held-out samples at the last evaluation.",
		"metric",
	)
	for i, measure := range m.run.Metrics {
		v := metric.ValueAt(s.last.Metrics, i)
		// Accuracy has a metric of its own, too, whose name does not depend on the run.
		values.measured(v, measure.Name)
		if measure.Name == metric.Accuracy {
			accuracy.measured(v)
		}
	}
	m.collectFairness(c, s.clients)
}

// collectFairness sends the last evaluation e of the model on the samples of each client: its
// summary over all clients, under the empty class, and over each class that has series of its own.
// It sends nothing if e is nil, because no such evaluation was made.
func (m *Metrics) collectFairness(c *scrape, e *metrics.ClientEvaluation) {
	if e == nil {
		return
	}
	c.add(
		"client_evaluation_round",
		"Round after which a model was last measured on the clients' own samples.",
	).gauge(float64(e.Round))
	accuracy := c.add("client_accuracy", "Top-1 accuracy on a client's own samples at that evaluation, 0 to 1: "+
		"mean over the clients, or over the tenth with the lowest.", "over", "class")
	jain := c.add(
		"client_accuracy_jain",
		"Jain's fairness index of the clients' accuracies at that evaluation, 0 to 1.",
		"class",
	)
	values := c.add("client_metric", "A metric of the model, by its name, on a client's own samples at that "+
		"evaluation: mean over the clients, or over the tenth with the worst.", "metric", "over", "class")
	metricJain := c.add(
		"client_metric_jain",
		"Jain's fairness index of the clients' values of a metric at that evaluation, 0 to 1.",
		"metric",
		"class",
	)
	loss := c.add("client_loss", "Mean loss on a client's own samples at that evaluation: mean over the clients, "+
		"or over the tenth with the highest.", "over", "class")
	// send sends the fairness among the clients of one class; the empty class stands for all
	// clients.
	send := func(class string, f *metrics.Fairness) {
		for i, v := range f.Metrics {
			name := m.run.Metrics[i].Name
			values.measured(v.Mean, name, "all", class)
			values.measured(v.Worst, name, "worst_decile", class)
			metricJain.measured(v.Jain, name, class)
			if name == metric.Accuracy {
				accuracy.measured(v.Mean, "all", class)
				accuracy.measured(v.Worst, "worst_decile", class)
				jain.measured(v.Jain, class)
			}
		}
		loss.measured(f.Loss, "all", class)
		loss.measured(f.WorstLoss, "worst_decile", class)
	}
	send("", &e.All)
	// The number of series is bounded: classes beyond maxClasses are left out.
	for i := range e.Classes[:min(len(e.Classes), maxClasses)] {
		send(e.Classes[i].Class, &e.Classes[i].Fairness)
	}
}

// collectClients sends how many clients of each kind there are, how many tasks ended with which
// outcome, and for which phases of which class the other clients waited.
func (m *Metrics) collectClients(c *scrape, s *state) {
	actors := c.add("actors", "Clients that take part.", "kind")
	slowest := c.add(
		"slowest_client_seconds_total",
		"Virtual duration of the phases of each round's last accepted update: what the other clients waited for.",
		"phase",
		"kind",
		"class",
	)
	updates := c.add("updates_total", "Tasks by how they ended.", "outcome", "kind")
	clients := m.run.Clients
	devices := len(m.run.Devices)
	actors.gauge(float64(clients), kindNames[simulatedKind])
	actors.gauge(float64(devices), kindNames[realKind])
	for i, class := range m.classes {
		kind := m.kindOf(i)
		// A run without clients of that kind has no series of it.
		if !m.hasClients(kind) {
			continue
		}
		for p := range phases {
			slowest.counter(s.slowest[i][p], metrics.Phase(p).String(), kindNames[kind], class)
		}
	}
	for kind, outcomes := range s.updates {
		for o, count := range outcomes {
			if m.hasClients(kind) {
				updates.counter(float64(count), round.Outcome(o).String(), kindNames[kind])
			}
		}
	}
}

// hasClients reports whether the run has clients of this kind, simulated or real. A kind without
// clients has no series, as they would all be 0.
func (m *Metrics) hasClients(kind int) bool {
	if kind == realKind {
		return len(m.run.Devices) > 0
	}
	return m.run.Clients > 0
}

// collectUsage sends what the clients of the run have used so far, from s: bytes, virtual time,
// local steps, energy, and how much of the rounds went by waiting for stragglers.
func (m *Metrics) collectUsage(c *scrape, s *state) {
	// Nothing was used before the first round closed.
	if s.last.Round == 0 {
		return
	}
	u := &s.usage
	// Simulated clients transfer nothing: these are the bytes that their links would carry.
	transfer := c.add("transfer_bytes_total", "Bytes of models on the simulated links.", "direction")
	transfer.counter(float64(u.Downloaded), "download")
	transfer.counter(float64(u.Uploaded()), "upload")
	split(
		c.add(
			"client_time_seconds_total",
			"Virtual time that clients have spent: useful on updates that are in a model, wasted on all else.",
			"use",
		),
		metrics.Seconds(u.Time),
	)
	split(c.add("client_sgd_steps_total", "Local SGD steps of all clients: useful or wasted.", "use"), u.Steps)
	// Energy is known only where the configuration gives the power of the classes.
	if m.run.Power.Watts != nil {
		split(
			c.add(
				"client_energy_joules_total",
				"Energy of the clients whose classes give their watts: useful or wasted.",
				"use",
			),
			u.Joules,
		)
	}
	c.add(
		"clients_left_out_total",
		"Clients that the selection left out when it was their turn, such as those too slow for the deadline.",
	).counter(float64(u.LeftOut))
	c.add(
		"straggler_ratio",
		"Mean over rounds of the part of a round between its median client and its slowest, 0 to 1.",
	).measured(u.StragglerShare())
	c.add(
		"straggling_seconds_total",
		"Virtual time of rounds between their median client and their slowest.",
	).counter(u.Straggling)
}

// collectStats sends the state of the coordinator's process, now: its checkpoints, workers, lags,
// messages and servers and, if the run has real devices, what is known of these.
func (m *Metrics) collectStats(c *scrape, s *state, now *metrics.Stats) {
	c.add(
		"last_checkpoint_timestamp_seconds",
		"When the last checkpoint was written, in Unix time.",
	).time(now.Checkpoint)
	c.add("checkpoint_due_timestamp_seconds", "When the next checkpoint is due, in Unix time: it is written at the "+
		"next step of the run. One that could not be written stays due.").time(now.Due)
	c.add(
		"checkpoint_failures_total",
		"Checkpoints that could not be written: the one before stays, and the run goes on.",
	).counter(float64(now.CheckpointFailures))
	c.add(
		"workers",
		"Workers that train for the run: of its own process, and of the hosts that are there.",
	).gauge(float64(now.Workers))
	c.add(
		"pacing_lag_seconds",
		"Wall time that the run is behind the pace that was asked for; 0 where it runs free.",
	).gauge(now.PacingLag.Seconds())
	c.add(
		"bus_lag_seconds",
		"Wall time from the last cohort's tasks going out until its last plan was back.",
	).gauge(now.BusLag.Seconds())
	c.add("bus_pending_messages", "Messages that wait for the coordinator.").gauge(float64(now.Pending))
	c.add("bus_ignored_total", "Messages that did not count: repeated, stale or refused.").counter(float64(now.Ignored))
	// Server is nil for a run that does not listen for devices itself.
	if s := now.Server; s != nil {
		open := c.add(
			"server_connections",
			"Connections over TCP to the run's own server: admitted, or waiting for their credentials to be accepted.",
			"state",
		)
		open.gauge(float64(s.Admitted), "admitted")
		open.gauge(float64(s.Waiting), "waiting")
		c.add("server_pending_bytes", "Bytes that wait for devices which read slowly.").gauge(float64(s.Pending))
		closed := c.add(
			"server_closed_total",
			"Connections to the run's own server that were not carried on, by reason.",
			"reason",
		)
		for reason, n := range s.Closed {
			closed.counter(float64(n), reason)
		}
	}
	// NATS is nil for a run without a NATS server of its own.
	if n := now.NATS; n != nil {
		c.add(
			"nats_connections",
			"Connections to the run's own NATS server, those from within its process included.",
		).gauge(n.Connections)
		c.add("nats_subscriptions", "Subscriptions on the run's own NATS server.").gauge(n.Subscriptions)
		c.add(
			"nats_slow_consumers_total",
			"Connections that the run's own NATS server gave up because they read too slowly.",
		).counter(n.SlowConsumers)
		c.add("nats_stored_bytes", "Bytes that JetStream of the run's own NATS server holds.").gauge(n.Stored)
		traffic(c.add("nats_messages_total", "Messages that the run's own NATS server took and gave.", "direction"),
			c.add("nats_bytes_total", "Bytes of these messages.", "direction"), n.Traffic)
	}
	// All that follows is about real devices.
	if len(m.run.Devices) == 0 {
		return
	}
	d := &now.Devices
	devices := c.add("devices", "Real devices: present, silent for too long, or banned.", "state")
	devices.gauge(float64(d.Present), "present")
	devices.gauge(float64(d.Silent), "silent")
	devices.gauge(float64(d.Banned), "banned")
	c.add(
		"model_returns_total",
		"Rounds whose model was lost, and after which the run went back to its best one.",
	).counter(float64(d.Returns))
	c.add("device_heartbeats_total", "Heartbeats of real devices.").counter(float64(d.Heartbeats))
	if !d.Oldest.IsZero() {
		c.add(
			"device_silence_seconds",
			"Wall time since the most silent device that is present was last heard of.",
		).gauge(time.Since(d.Oldest).Seconds())
	}
	c.add("hold_seconds_total", "Wall time that the clock has stood for real devices.").counter(d.Held.Seconds())
	c.add("device_refused_total", "Messages of real devices that were not valid.").counter(float64(d.Refused))
	m.collectComparison(c, s)
	m.collectDevices(c, s)
}

// collectDevices sends what each real device did: its tasks, their virtual time and when it was
// last heard of. The first MostDevices devices have series of their own; the tasks of all others
// are added up under one name.
func (m *Metrics) collectDevices(c *scrape, s *state) {
	tasks := c.add(
		"device_tasks_total",
		"Tasks that a real device has answered; those beyond the first hundred devices are one, (other).",
		"device",
	)
	took := c.add("device_task_seconds_total", "Virtual time of these tasks.", "phase", "device")
	heard := c.add(
		"device_heard_timestamp_seconds",
		"When a real device, of the first hundred, was last heard of, in Unix time.",
		"device",
	)
	for i := range s.devices {
		name := otherDevices
		if i < MostDevices {
			name = m.run.Devices[i]
		}
		tasks.counter(s.devices[i].tasks, name)
		for p, v := range s.devices[i].took {
			took.counter(v, metrics.Phase(p).String(), name)
		}
	}
	// Seen reads what the run knows of its devices at this moment.
	if m.run.Seen != nil {
		seen := m.run.Seen()
		for _, d := range seen[:min(len(seen), MostDevices)] {
			heard.time(d.Heard, d.Name)
		}
	}
}

// traffic sends the messages and bytes of t as counters, each in both directions: in is what the
// server or host took, and out what it gave. Both families have the direction as their label.
func traffic(messages, bytes family, t metrics.Traffic) {
	messages.counter(t.InMessages, "in")
	messages.counter(t.OutMessages, "out")
	bytes.counter(t.InBytes, "in")
	bytes.counter(t.OutBytes, "out")
}

// collectComparison sends, by class, how long real devices took for their tasks and how long
// simulated clients of the class would take for the same ones. Devices without a known class are
// under the class "device". Classes that no device belongs to have no series.
func (m *Metrics) collectComparison(c *scrape, s *state) {
	measured := c.add(
		"device_measured_seconds_total",
		"Virtual time that real devices took for the tasks that they have answered, by the device's class.",
		"phase",
		"class",
	)
	modelled := c.add("device_modelled_seconds_total", "Virtual time that a simulated client takes for the tasks "+
		"that real devices have answered: of mean speed among those of the device's class, or among all where it "+
		"has none.", "phase", "class")
	// present says of each class in m.classes whether a real device belongs to it.
	present := make([]bool, len(m.classes))
	for i := range m.run.Devices {
		present[m.deviceClass(m.run.Clients+i)] = true
	}
	for i, class := range m.classes {
		for p := range phases {
			if present[i] {
				phase := metrics.Phase(p).String()
				measured.counter(s.compared[i].measured[p], phase, class)
				modelled.counter(s.compared[i].modelled[p], phase, class)
			}
		}
	}
}
