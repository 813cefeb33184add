package prometheus

import (
	"math"
	"runtime"
	"time"

	client "github.com/prometheus/client_golang/prometheus"

	"fedpace/coordinator/round"
)

// descriptions are the metrics' names, meanings and labels.
type descriptions struct {
	build *client.Desc

	round, progress, started, reported, checkpoint              *client.Desc
	duration, virtualTime                                       *client.Desc
	steps, fixedSteps, localSteps, learningRate                 *client.Desc
	trainingLoss, validationLoss, validationAccuracy, notFinite *client.Desc
	actors, phase, slowest, updates                             *client.Desc
	transfer, clientTime, clientSteps, energy                   *client.Desc
	stragglers, straggling                                      *client.Desc
	pacingLag, busLag, pending, dropped, ignored                *client.Desc
	devices, heartbeats, silence, held, deviceRefused           *client.Desc
	modelled                                                    *client.Desc
}

func describe(run client.Labels) descriptions {
	desc := func(name, help string, labels ...string) *client.Desc {
		return client.NewDesc("fedpace_"+name, help, labels, run)
	}
	return descriptions{
		build: desc("build_info", "What runs: always 1.", "version", "goversion", "kernel"),

		round:      desc("round", "Rounds completed."),
		progress:   desc("progress_ratio", "The part of the run that is done, 0 to 1, by the stop that is nearest; 0 where none is known."),
		started:    desc("start_time_seconds", "When the run started, in Unix time."),
		reported:   desc("last_round_time_seconds", "When the last round was completed (before the first: when the run started), in Unix time."),
		checkpoint: desc("last_checkpoint_time_seconds", "When the last checkpoint was written, in Unix time."),

		duration:    desc("round_duration_seconds", "Virtual time from a round's first task to its close."),
		virtualTime: desc("virtual_time_seconds", "Virtual time since the run's start."),

		steps:        desc("sgd_steps_total", "Local SGD steps of one client of each completed round: the sum of K_r."),
		fixedSteps:   desc("fixed_sgd_steps_total", "Local SGD steps that K-eta-fixed does in the same virtual time, where rounds are all alike."),
		localSteps:   desc("local_steps", "Local SGD steps a client in the last round, K_r."),
		learningRate: desc("learning_rate", "Learning rate of the last round, eta_r."),

		trainingLoss:       desc("training_loss", "Mean first-step loss of the accepted clients, in the last round that has one."),
		validationLoss:     desc("validation_loss", "Mean cross-entropy on held-out samples at the last evaluation."),
		validationAccuracy: desc("validation_accuracy", "Top-1 accuracy on held-out samples at the last evaluation, 0 to 1."),
		notFinite:          desc("losses_not_finite_total", "Rounds whose training or validation loss was measured and is infinite or not a number."),

		actors:  desc("actors", "Clients that take part.", "kind"),
		phase:   desc("client_phase_seconds", "Virtual duration of a task's phases, by class of device: drawn for simulated clients, measured by real devices.", "phase", "kind", "class"),
		slowest: desc("slowest_client_seconds_total", "Virtual duration of the phases of each round's last accepted update: what the other clients waited for.", "phase", "kind", "class"),
		updates: desc("updates_total", "Tasks by how they ended.", "outcome", "kind"),

		transfer:    desc("transfer_bytes_total", "Bytes of models on the simulated links.", "direction"),
		clientTime:  desc("client_time_seconds_total", "Virtual time that clients have spent: useful on updates that are in a model, wasted on all else.", "use"),
		clientSteps: desc("client_sgd_steps_total", "Local SGD steps of all clients: useful or wasted.", "use"),
		energy:      desc("client_energy_joules_total", "Energy of the clients whose classes give their watts: useful or wasted.", "use"),

		stragglers: desc("straggler_share", "Mean over rounds of the part of a round between its median client and its slowest, 0 to 1."),
		straggling: desc("straggling_seconds_total", "Virtual time of rounds between their median client and their slowest."),

		pacingLag: desc("pacing_lag_seconds", "Wall time that the run is behind the pace that was asked for; 0 where it runs free."),
		busLag:    desc("bus_lag_seconds", "Wall time from the last cohort's tasks going out until its last plan was back."),
		pending:   desc("bus_pending_messages", "Messages that wait for the coordinator."),
		dropped:   desc("bus_dropped_total", "Messages lost to a slow consumer; a run in which one is lost fails."),
		ignored:   desc("bus_ignored_total", "Messages that did not count: repeated, stale or refused."),

		devices:       desc("devices", "Real devices: present, or silent for too long.", "state"),
		heartbeats:    desc("device_heartbeats_total", "Heartbeats of real devices."),
		silence:       desc("device_silence_seconds", "Wall time since the most silent device that is present was last heard of."),
		held:          desc("hold_seconds_total", "Wall time that the clock has stood for real devices."),
		deviceRefused: desc("device_refused_total", "Messages of real devices that were not valid."),
		modelled:      desc("device_modelled_seconds_total", "Virtual time that a simulated device of mean speed takes for the tasks that real devices have answered.", "phase"),
	}
}

// Describe sends every description.
func (m *Metrics) Describe(ch chan<- *client.Desc) {
	n := &m.names
	for _, d := range []*client.Desc{
		n.build, n.round, n.progress, n.started, n.reported, n.checkpoint, n.duration, n.virtualTime,
		n.steps, n.fixedSteps, n.localSteps, n.learningRate,
		n.trainingLoss, n.validationLoss, n.validationAccuracy, n.notFinite,
		n.actors, n.phase, n.slowest, n.updates, n.transfer, n.clientTime, n.clientSteps, n.energy,
		n.stragglers, n.straggling, n.pacingLag, n.busLag, n.pending, n.dropped, n.ignored,
		n.devices, n.heartbeats, n.silence, n.held, n.deviceRefused, n.modelled,
	} {
		ch <- d
	}
}

// sink sends metrics of the simple types.
type sink chan<- client.Metric

func (ch sink) gauge(d *client.Desc, v float64, labels ...string) {
	ch <- client.MustNewConstMetric(d, client.GaugeValue, v, labels...)
}

func (ch sink) counter(d *client.Desc, v float64, labels ...string) {
	ch <- client.MustNewConstMetric(d, client.CounterValue, v, labels...)
}

// at sends a time as Prometheus writes it; nothing for the zero time.
func (ch sink) at(d *client.Desc, t time.Time) {
	if !t.IsZero() {
		ch.gauge(d, float64(t.UnixNano())/1e9)
	}
}

func (ch sink) split(d *client.Desc, s Split) {
	ch.counter(d, s.Useful, "useful")
	ch.counter(d, s.Wasted, "wasted")
}

// Collect sends a picture taken at one moment. What has not been measured yet
// is left out.
func (m *Metrics) Collect(to chan<- client.Metric) {
	ch, s := sink(to), m.picture()
	ch.gauge(m.names.build, 1, m.run.Version, runtime.Version(), m.run.Kernel)
	m.collectRun(ch, s)
	m.collectClients(ch, s)
	m.collectVitals(ch, s)
}

// takesPart tells whether clients of a kind have series: a run without real
// devices has none for them.
func (s *state) takesPart(k Kind) bool {
	return k == Simulated || s.actors[k] > 0 || s.updates[k] != [round.Outcomes]uint64{}
}

func (m *Metrics) collectRun(ch sink, s *state) {
	n, virtual := &m.names, s.last.End.Seconds()
	ch.gauge(n.round, float64(s.last.Round))
	ch.gauge(n.progress, m.run.progress(s.last.Round, virtual))
	ch.at(n.started, m.started)
	ch.at(n.reported, s.at)
	ch.at(n.checkpoint, s.checkpoint)
	ch <- s.duration.metric(n.duration)
	ch.gauge(n.virtualTime, virtual)
	ch.counter(n.steps, float64(s.last.SGDSteps))
	if m.run.FixedSteps > 0 {
		ch.counter(n.fixedSteps, m.run.FixedSteps*virtual)
	}
	if s.last.Round > 0 {
		ch.gauge(n.localSteps, float64(s.last.LocalSteps))
		ch.gauge(n.learningRate, s.last.LearningRate)
	}
	for _, g := range []struct {
		desc  *client.Desc
		value float64
	}{{n.trainingLoss, s.last.TrainingLoss}, {n.validationLoss, s.last.ValidationLoss}, {n.validationAccuracy, s.last.ValidationAccuracy}} {
		if !math.IsNaN(g.value) {
			ch.gauge(g.desc, g.value)
		}
	}
	ch.counter(n.notFinite, float64(s.notFinite))
}

// progress is the part of a run that is done.
func (r *Run) progress(rounds int, virtual float64) float64 {
	done := 0.0
	if r.Rounds > 0 {
		done = float64(rounds) / float64(r.Rounds)
	}
	if r.VirtualSeconds > 0 {
		done = max(done, virtual/r.VirtualSeconds)
	}
	return min(done, 1)
}

func (m *Metrics) collectClients(ch sink, s *state) {
	n := &m.names
	for k := range kinds {
		ch.gauge(n.actors, float64(s.actors[k]), k.String())
		if !s.takesPart(k) {
			continue
		}
		for c, class := range m.classes[k] {
			for p, name := range phaseNames {
				ch <- s.phases[k][c][p].metric(n.phase, name, k.String(), class)
				ch.counter(n.slowest, s.slowest[k][c][p], name, k.String(), class)
			}
		}
		for o, count := range s.updates[k] {
			ch.counter(n.updates, float64(count), round.Outcome(o).String(), k.String())
		}
	}
	if s.spent == nil {
		return
	}
	ch.counter(n.transfer, s.spent.Transferred[0], "download")
	ch.counter(n.transfer, s.spent.Transferred[1], "upload")
	ch.split(n.clientTime, s.spent.Seconds)
	ch.split(n.clientSteps, s.spent.Steps)
	if s.spent.Energy {
		ch.split(n.energy, s.spent.Joules)
	}
	if !math.IsNaN(s.spent.MeanStraggle) {
		ch.gauge(n.stragglers, s.spent.MeanStraggle)
	}
	ch.counter(n.straggling, s.spent.Straggling)
}

func (m *Metrics) collectVitals(ch sink, s *state) {
	if s.vitals == nil {
		return
	}
	n, v := &m.names, s.vitals()
	ch.gauge(n.pacingLag, v.PacingLag.Seconds())
	ch.gauge(n.busLag, v.BusLag.Seconds())
	ch.gauge(n.pending, float64(v.Pending))
	ch.counter(n.dropped, float64(v.Dropped))
	ch.counter(n.ignored, float64(v.Ignored))
	if s.takesPart(Real) {
		m.collectDevices(ch, s, &v.Devices)
	}
}

func (m *Metrics) collectDevices(ch sink, s *state, d *Devices) {
	n := &m.names
	ch.gauge(n.devices, float64(d.Present), "present")
	ch.gauge(n.devices, float64(d.Silent), "silent")
	ch.counter(n.heartbeats, float64(d.Heartbeats))
	if !d.Oldest.IsZero() {
		ch.gauge(n.silence, time.Since(d.Oldest).Seconds())
	}
	ch.counter(n.held, d.Held.Seconds())
	ch.counter(n.deviceRefused, float64(d.Refused))
	for p, name := range phaseNames {
		ch.counter(n.modelled, s.modelled[p], name)
	}
}
