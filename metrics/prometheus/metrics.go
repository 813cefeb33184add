package prometheus

import (
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"fedpace/coordinator/round"
	"fedpace/metrics"
)

func init() {
	metrics.Sinks.Register("prometheus", "metrics for Prometheus on /metrics at http", Sink{})
}

// Sink is the output that serves a run's metrics to Prometheus. It has no options and no file.
type Sink struct{}

// Files lists no file: metrics are only served.
func (Sink) Files() []string { return nil }

// Open makes the metrics of a run.
func (Sink) Open(run *metrics.Run) (metrics.Output, error) { return New(run), nil }

// The kinds of clients, as labels have them.
const (
	simulatedKind = iota
	realKind
	kinds
)

// kindNames are the values of the label kind, by kind of client.
var kindNames = [kinds]string{"simulated", "real"}

// phases is the number of a task's phases that are measured: those of a plan.
const phases = int(metrics.Waiting)

// phasesOf returns the lengths of a plan's phases in their order.
func phasesOf(p *round.Plan) [phases]round.Time {
	return [phases]round.Time{p.Download, p.Compute, p.Upload}
}

// maxClasses is how many classes have series of their own. The clients of all
// others are counted in one named "other".
const maxClasses = 32

// MostDevices is how many real devices have series of their own. The tasks of all others are those
// of one.
const MostDevices = 100

// Names of classes that the fleet does not give.
const (
	// noClass names the one class of a fleet without classes.
	noClass = "all"
	// manyOthers names the class that counts the clients of all classes beyond maxClasses.
	manyOthers = "other"
	// realClass names the class of all real devices.
	realClass = "device"

	// otherDevices names the real devices beyond MostDevices. No device can have that name.
	otherDevices = "(other)"
)

// seriesClasses returns the names of the classes of run r that have series of their own: those of
// simulated clients, one named "all" if there are no classes, and last that of the real devices. If
// there are more than maxClasses, the one before the last counts all others.
func seriesClasses(r *metrics.Run) []string {
	classes := slices.Clone(r.Classes)
	hasOneUnnamed := len(classes) == 1 && classes[0] == ""
	switch {
	case len(classes) == 0 || hasOneUnnamed:
		classes = []string{noClass}
	case len(classes) > maxClasses:
		classes = append(classes[:maxClasses], manyOthers)
	}
	return append(classes, realClass)
}

// Metrics is one run's state as a scrape sees it. Scrapes may come at any time;
// the methods of [metrics.Output] belong to the run's goroutine.
type Metrics struct {
	// registry holds the collectors and histograms that a scrape gathers.
	registry *client.Registry
	// run describes the run. It does not change.
	run *metrics.Run
	// labels name the run on all of its series.
	labels client.Labels
	// columns are the values that the run reports for each round.
	columns []metrics.Column
	// classes are the names of the classes that have series of their own, as seriesClasses returns them: those of
	// simulated clients, the last of which stands for all further ones, and then that of the real devices.
	classes []string
	// batch is what was reported since the last round, which no scrape sees yet.
	batch batch
	// modelled caches how long a simulated client of mean speed takes for each phase, in virtual
	// time.
	modelled map[answered][phases]round.Time
	// duration is the histogram of the rounds' durations, in virtual seconds.
	duration client.Histogram
	// phases holds the histograms of the phases' durations, by class. They are nil for a class
	// without clients.
	phases [][phases]client.Observer

	// mu guards state and the histograms. A scrape holds it throughout.
	mu sync.Mutex
	// state is what the last round left; the run's goroutine changes it once a round.
	state state
	scrapes
}

// Gather implements [client.Gatherer]. It holds the lock throughout, so that a scrape sees a round
// wholly or not at all.
func (m *Metrics) Gather() ([]*dto.MetricFamily, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.registry.Gather()
}

// answered is a real device's answered task, as far as its modelled times depend on it.
type answered struct{ class, steps int }

// comparison sums the virtual seconds of each phase that real devices of a class took, and those
// that simulated clients of the class take for the same tasks.
type comparison struct{ measured, modelled [phases]float64 }

// batch is what has happened since the last round. It is moved to the state when the round is
// complete, so that a scrape never sees half a round.
type batch struct {
	// compared is indexed by the class of real devices; its last element stands for devices whose
	// class is not known.
	compared []comparison
	// outcomes counts the tasks of real devices by outcome.
	outcomes [round.Outcomes]uint64
	// slowest is the accepted task whose update came last.
	slowest round.TaskReport
	// waited says whether a task was accepted since the last round, so that slowest is set.
	waited bool
	// phases are the durations of tasks of simulated clients and of real devices.
	phases []observed
}

// observed holds how long the phases of one task took.
type observed struct {
	// class is the place of the client's class in Metrics.classes.
	class int
	// device is the index in state.devices of the sums to which the task of a real device is added. It
	// is below 0 for a simulated client.
	device int
	// took holds the duration of each phase, in virtual time.
	took [phases]round.Time
}

// deviceTasks sums the tasks that a real device has answered.
type deviceTasks struct {
	// tasks is the number of the answered tasks, a float as Prometheus counts.
	tasks float64
	// took sums the durations of each phase, in seconds.
	took [phases]float64
}

// state is everything that a scrape reads besides the histograms. It is guarded by a mutex.
type state struct {
	// compared is indexed as batch.compared is, and sums the closed rounds.
	compared []comparison
	// last is the last round, with the losses that were measured last.
	last round.Report
	// received is the wall-clock time at which the last round was reported.
	received time.Time
	// slowest sums, by class, the phases of each round's last accepted task, in seconds.
	slowest [][phases]float64
	// updates counts the tasks that ended, for simulated clients and real devices apart.
	updates [kinds][round.Outcomes]uint64
	// unrecovered counts the rounds that secure aggregation refused or whose sum it could not recover.
	unrecovered int
	// usage is what all clients have used up to the last round.
	usage metrics.Usage
	// devices holds the tasks of each device with series; its last element sums all other devices.
	devices []deviceTasks
	// clients is the last evaluation on the clients' own samples, without scores; nil: none yet.
	clients *metrics.ClientEvaluation
	// name is the state of the run: running, or how it ended.
	name string
	// resumed is the last round of the earlier attempts; 0 for a new run.
	resumed int
}

// New makes the metrics of one run with a registry of their own, so that several runs of one
// process do not mix. The metrics refer to run until the end, and nothing is measured before the
// first round.
func New(run *metrics.Run) *Metrics {
	m := &Metrics{
		registry: client.NewRegistry(),
		run:      run,
		columns:  run.Columns(),
		classes:  seriesClasses(run),
		// What a simulated client would take for each phase of a task is computed once for each kind of task.
		modelled: map[answered][phases]round.Time{},
		scrapes:  scrapes{endScraped: make(chan struct{})},
		labels: client.Labels{
			"run":      run.Name,
			"task":     run.Task,
			"schedule": run.Schedule,
			"seed":     strconv.FormatUint(run.Seed, 10),
		},
	}
	s := &m.state
	// Before the first round, the time of the last one is that of the start.
	s.received = run.Started
	s.name = running
	n := len(m.classes)
	s.slowest = make([][phases]float64, n)
	// Devices beyond MostDevices share one more entry at the end.
	s.devices = make([]deviceTasks, min(len(run.Devices), MostDevices+1))
	// The batch collects what the state takes over when a round closes.
	s.compared = make([]comparison, n)
	m.batch.compared = make([]comparison, n)
	// NaN means not yet measured, and such values are not sent.
	s.last.TrainingLoss = math.NaN()
	s.last.WindowLoss = math.NaN()
	s.last.ValidationLoss = math.NaN()
	m.addHistograms()
	return m
}

// classicBuckets is the number of classic buckets, each twice as long as the one before: from 1 ms
// to 2^20 s, twelve days, so that rounds that wait for a week are still told apart.
const classicBuckets = 31

// addHistograms registers m and its histograms: that of the lengths of rounds, and one of the durations of each
// phase of tasks for each class of clients. They are native histograms with eight buckets per doubling, and
// classic ones for a Prometheus that does not scrape native histograms.
func (m *Metrics) addHistograms() {
	options := func(name, help string) client.HistogramOpts {
		return client.HistogramOpts{
			Name:                        "fedpace_" + name,
			Help:                        help,
			ConstLabels:                 m.labels,
			Buckets:                     client.ExponentialBuckets(1.0/(1<<10), 2, classicBuckets),
			NativeHistogramBucketFactor: 1.1,
		}
	}
	m.duration = client.NewHistogram(options(duration, "Virtual time from a round's first task to its close."))
	all := client.NewHistogramVec(
		options("client_phase_seconds", "Virtual duration of a task's phases, by class of device: drawn for "+
			"simulated clients, measured by real devices."),
		[]string{"phase", "kind", "class"},
	)
	m.phases = make([][phases]client.Observer, len(m.classes))
	for i, class := range m.classes {
		// Series for a class that has no clients would stay empty.
		if kind := m.kindOf(i); m.hasClients(kind) {
			for p := range phases {
				m.phases[i][p] = all.WithLabelValues(metrics.Phase(p).String(), kindNames[kind], class)
			}
		}
	}
	m.registry.MustRegister(m, m.duration, all)
}

// kindOf returns the kind of the clients of a class, which is given by its place in m.classes. The
// last place is that of real devices; all others are of simulated clients.
func (m *Metrics) kindOf(class int) int {
	if class == len(m.classes)-1 {
		return realKind
	}
	return simulatedKind
}

// Start implements [metrics.Starter]: for a resumed run it shows where the run stands before the
// next round closes. What is counted by task starts again at 0. A new run, whose s.Last is nil,
// needs nothing.
func (m *Metrics) Start(s *metrics.Start) error {
	if s.Last == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.last = s.Last.Report
	m.state.usage = *s.Last.Usage
	m.state.clients = s.Clients
	m.state.resumed = s.Last.Report.Round
	return nil
}

// Clients implements [metrics.ClientsObserver]: it keeps e, the last evaluation of the model on the
// samples of each client, without the single clients' scores. It replaces the evaluation before.
func (m *Metrics) Clients(e *metrics.ClientEvaluation) error {
	last := *e
	// The scores are not shown, and there may be very many of them.
	last.Scores = nil
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.clients = &last
	return nil
}

// class returns the index of a client's class in m.classes. Real devices have the last index.
// Classes of simulated clients that have no series of their own share the index before it.
func (m *Metrics) class(client int) int {
	realDevices := len(m.classes) - 1
	lastSimulated := realDevices - 1
	switch {
	case m.run.Real(client):
		return realDevices
	case len(m.run.Classes) > 1:
		return min(m.run.Class(client), lastSimulated)
	}
	// All simulated clients are of one class, the first.
	return 0
}

// Task implements [metrics.TaskObserver]: it adds a task that has ended to the batch, which no
// scrape sees before the round closes. Phases are not counted of candidates that were only asked for
// their loss, of clients that dropped out, and of devices that were lost or refused. A report that
// revises an earlier one of the same task adds no phases, because that one has added them.
func (m *Metrics) Task(e *round.TaskReport) {
	b := &m.batch
	if m.run.Real(e.Client) {
		b.outcomes[e.Outcome]++
		// No durations are known of such a task.
		if e.Outcome == round.Lost || e.Outcome == round.Refused {
			return
		}
		m.compare(e)
	}
	if e.Probe || e.Plan.Drops || e.Revises {
		return
	}
	// The histograms exist only if the run has clients of that class.
	if class := m.class(e.Client); m.phases[class][0] != nil {
		b.phases = append(b.phases, observed{
			class: class,
			// The number of a real device is counted from the last simulated client on; it is negative for
			// simulated ones. Devices beyond MostDevices share one entry.
			device: min(e.Client-m.run.Clients, MostDevices),
			took:   phasesOf(&e.Plan),
		})
	}
	// The round waited for the last accepted task.
	if e.Outcome == round.Accepted && (!b.waited || e.End >= b.slowest.End) {
		b.slowest = *e
		b.waited = true
	}
}

// compare adds to the batch how long a real device took for the answered task e, phase by phase, and how
// long a simulated client of mean speed in the device's class takes for the same task.
func (m *Metrics) compare(e *round.TaskReport) {
	// A client that dropped out did only a part of the task, so its times compare with nothing.
	if e.Outcome == round.Dropped {
		return
	}
	// Tasks of the same class and number of steps have the same modelled times, which are computed
	// once.
	key := answered{class: m.run.DeviceClass(e.Client), steps: e.LocalSteps}
	modelled, ok := m.modelled[key]
	if !ok {
		plan, err := m.run.MeanPlan(key.class, key.steps)
		if err != nil {
			// Virtual time cannot hold the modelled times, so there is nothing to compare with.
			return
		}
		modelled = phasesOf(&plan)
		m.modelled[key] = modelled
	}
	sums := &m.batch.compared[m.deviceClass(e.Client)]
	for phase, took := range phasesOf(&e.Plan) {
		sums.measured[phase] += took.Seconds()
		sums.modelled[phase] += modelled[phase].Seconds()
	}
}

// deviceClass returns the index in m.classes of the class that the configuration names for a real device, or the last
// index, that of the class "device", if it names none. Classes beyond maxClasses have no series of their own:
// they share the index before the last (see seriesClasses).
func (m *Metrics) deviceClass(client int) int {
	unnamed := len(m.classes) - 1
	lastNamed := unnamed - 1
	if class := m.run.DeviceClass(client); class >= 0 {
		return min(class, lastNamed)
	}
	return unnamed
}

// Round implements [metrics.Output]: it publishes round r with all that was reported since the
// round before, which is in m.batch. Scrapes see the old state or the new one, nothing in between.
func (m *Metrics) Round(r *metrics.Round) error {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &m.state
	s.last = metrics.Latest(&s.last, &r.Report)
	s.received = now
	m.duration.Observe((r.End - r.Start).Seconds())
	// All tasks count as simulated at first; takeBatch moves those of real devices.
	for o, n := range r.Outcomes {
		s.updates[simulatedKind][o] += uint64(n)
	}
	s.unrecovered += r.Secure.Unrecovered
	s.usage = *r.Usage
	m.takeBatch(&r.Report)
	return nil
}

// takeBatch moves the counts of the batch to the state and the histograms, and empties it. r is the
// round that has closed. The caller holds the lock. The outcomes in r must already be counted as
// those of simulated clients: takeBatch moves the share of real devices.
func (m *Metrics) takeBatch(r *round.Report) {
	s := &m.state
	b := &m.batch
	for o, n := range b.outcomes {
		// The batch counts a task that was accepted and then refused under both outcomes, as it has two reports.
		// That happens to all tasks of a round together, so the round's own numbers are the right limit. A
		// difference below 0 would make a counter fall.
		n = min(n, uint64(r.Outcomes[o]))
		s.updates[simulatedKind][o] -= n
		s.updates[realKind][o] += n
		b.outcomes[o] = 0
	}
	// The sums of the batch are added to those of the closed rounds and start again from 0.
	for c := range b.compared {
		for p := range phases {
			s.compared[c].measured[p] += b.compared[c].measured[p]
			s.compared[c].modelled[p] += b.compared[c].modelled[p]
		}
		b.compared[c] = comparison{}
	}
	// Simulated clients only appear in the histograms; devices have sums of their own, too.
	for _, o := range b.phases {
		for p, took := range o.took {
			m.phases[o.class][p].Observe(took.Seconds())
			if o.device >= 0 {
				s.devices[o.device].took[p] += took.Seconds()
			}
		}
		if o.device >= 0 {
			s.devices[o.device].tasks++
		}
	}
	b.phases = b.phases[:0]
	// A round without an accepted task waited for no client.
	if b.waited {
		slowest := &s.slowest[m.class(b.slowest.Client)]
		for p, d := range phasesOf(&b.slowest.Plan) {
			slowest[p] += d.Seconds()
		}
		b.waited = false
	}
}
