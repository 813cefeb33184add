package prometheus

import (
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"fedpace/coordinator/round"
)

// Run is what does not change while a run goes.
type Run struct {
	Name, Task, Schedule string // the labels of every metric; the schedule as on command lines, e.g. k-rounds

	Train   bool   // whether losses are measured
	Version string // of this program
	Kernel  string // the class of kernels that trains; empty: none

	// Classes names the simulated devices' classes in their order; none, or a
	// single empty name, is a fleet without classes.
	Classes []string

	Rounds         int     // at which the run stops; 0: not known
	VirtualSeconds float64 // at which the run stops; 0: not known
	// FixedSteps is how many local steps a client of K-eta-fixed does in a virtual
	// second; 0: not known.
	FixedSteps float64
}

// maxClasses is how many classes have series of their own. The clients of all
// others are counted in one named "other".
const maxClasses = 32

// Names of classes that the fleet does not give.
const (
	noClass    = "all"    // of a fleet without classes
	manyOthers = "other"  // beyond maxClasses
	realClass  = "device" // real devices
)

// classNames are the label's values for a kind.
func (r *Run) classNames(k Kind) []string {
	switch n := len(r.Classes); {
	case k == Real:
		return []string{realClass}
	case n == 0 || n == 1 && r.Classes[0] == "":
		return []string{noClass}
	case n > maxClasses:
		return append(slices.Clone(r.Classes[:maxClasses]), manyOthers)
	}
	return r.Classes
}

// Metrics is one run's state as a scrape sees it. Its methods are safe for
// concurrent use.
type Metrics struct {
	registry *client.Registry
	names    descriptions
	run      Run
	classes  [kinds][]string
	started  time.Time

	mu    sync.Mutex
	state state
}

// state is everything that a scrape reads, behind one lock.
type state struct {
	last      round.Report // its losses are those last measured
	at        time.Time    // when it was reported
	duration  histogram
	phases    [kinds][][phases]histogram // by class
	slowest   [kinds][][phases]float64   // seconds, by class
	updates   [kinds][round.Outcomes]uint64
	actors    [kinds]int
	spent     *Spent
	notFinite uint64
	modelled  [phases]float64

	checkpoint time.Time     // zero: none yet
	vitals     func() Vitals // nil: not known
}

// New makes the metrics of one run, on a registry of their own.
func New(run Run) *Metrics {
	m := &Metrics{
		registry: client.NewRegistry(),
		names:    describe(client.Labels{"run": run.Name, "task": run.Task, "schedule": run.Schedule}),
		run:      run,
		started:  time.Now(),
	}
	s := &m.state
	s.at = m.started
	for k := range kinds {
		m.classes[k] = run.classNames(k)
		s.phases[k] = make([][phases]histogram, len(m.classes[k]))
		s.slowest[k] = make([][phases]float64, len(m.classes[k]))
	}
	s.last.TrainingLoss = math.NaN()
	s.last.ValidationLoss, s.last.ValidationAccuracy = math.NaN(), math.NaN()
	m.registry.MustRegister(m)
	return m
}

// NewTally makes a tally for this run's classes.
func (m *Metrics) NewTally() *Tally {
	t := &Tally{}
	for k := range kinds {
		t.phases[k] = make([][phases]histogram, len(m.classes[k]))
	}
	return t
}

// GoOn shows where a run stands that goes on after an interruption, before its
// next round. What is counted for each task or round (histograms, outcomes)
// starts again, as Prometheus expects of a process that was restarted. A loss
// that is not known is NaN.
func (m *Metrics) GoOn(last round.Report, spent Spent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.last, m.state.spent = last, &spent
}

// ObserveRound takes in a round that is complete, and empties the tally, which
// may be nil.
func (m *Metrics) ObserveRound(r *round.Report, t *Tally) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &m.state
	before := s.last
	s.last, s.at = *r, now
	measured := m.run.Train && r.Outcomes[round.Accepted] > 0
	if measured && !finite(r.TrainingLoss) || r.Evaluated && !finite(r.ValidationLoss) {
		s.notFinite++
	}
	if math.IsNaN(r.TrainingLoss) {
		s.last.TrainingLoss = before.TrainingLoss
	}
	if !r.Evaluated {
		s.last.ValidationLoss, s.last.ValidationAccuracy = before.ValidationLoss, before.ValidationAccuracy
	}
	s.duration.observe(r.End - r.Start)
	for o, n := range r.Outcomes {
		s.updates[Simulated][o] += uint64(n)
	}
	if t != nil {
		s.take(r, t)
	}
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// take moves a tally's counts here.
func (s *state) take(r *round.Report, t *Tally) {
	for o, n := range t.outcomes {
		n = min(n, uint64(r.Outcomes[o])) // a counter never falls
		s.updates[Simulated][o] -= n
		s.updates[Real][o] += n
		t.outcomes[o] = 0
	}
	for k := range s.phases {
		for c := range s.phases[k] {
			for p := range s.phases[k][c] {
				s.phases[k][c][p].take(&t.phases[k][c][p])
			}
		}
	}
	for p := range t.modelled {
		s.modelled[p] += t.modelled[p]
		t.modelled[p] = 0
	}
	if t.slow {
		of := s.slowest[t.slowestKind]
		for p, d := range t.slowest.list() {
			of[min(t.slowestClass, len(of)-1)][p] += d.Seconds()
		}
		t.slow = false
	}
	if t.spent != nil {
		s.spent, t.spent = t.spent, nil
	}
}

// picture is the state at one moment, with nothing shared.
func (m *Metrics) picture() *state {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.state
	for k := range s.phases {
		s.phases[k] = slices.Clone(s.phases[k])
		s.slowest[k] = slices.Clone(s.slowest[k])
	}
	return &s
}

// SetActors says how many clients of a kind take part.
func (m *Metrics) SetActors(kind Kind, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.actors[kind] = n
}

// Checkpointed says when a checkpoint was written that the run can be resumed
// from.
func (m *Metrics) Checkpointed(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.checkpoint = at
}

// maxScrapes bounds the scrapes that are answered at a time.
const maxScrapes = 8

// Handler answers a scrape: in text, in OpenMetrics, or in protobuf, which alone
// has the native histograms.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxScrapes,
		EnableOpenMetrics:   true,
	})
}
