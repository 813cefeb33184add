package metrics

import (
	"math"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"fedpace/coordinator/round"
)

// Metrics is one run's state as its pages show it. Its methods are safe for
// concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	names    descriptions

	mu    sync.Mutex
	state state
}

// state is everything that a scrape reads, behind one lock.
type state struct {
	last     round.Report // its losses are those last measured
	duration histogram
	phases   [kinds][phases]histogram
	updates  [kinds][round.Outcomes]uint64
	actors   [kinds]int
	transfer [2]int64
	dropped  uint64
}

// New makes the metrics of one run, on a registry of their own. The arguments
// are the labels that every metric carries; schedule is written as on command
// lines, e.g. k-rounds.
func New(run, task, schedule string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		names:    describe(prometheus.Labels{"run": run, "task": task, "schedule": schedule}),
	}
	m.state.last.TrainingLoss = math.NaN()
	m.state.last.ValidationLoss, m.state.last.ValidationAccuracy = math.NaN(), math.NaN()
	m.registry.MustRegister(m)
	return m
}

// ObserveRound takes in a round that is complete, and empties the tally, which
// may be nil.
func (m *Metrics) ObserveRound(r *round.Report, t *Tally) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &m.state
	before := s.last
	s.last = *r
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
	if t == nil {
		return
	}
	for o, n := range t.outcomes {
		n = min(n, uint64(r.Outcomes[o])) // a counter never falls
		s.updates[Simulated][o] -= n
		s.updates[Real][o] += n
	}
	for k := range s.phases {
		if !t.dirty[k] {
			continue
		}
		for p := range s.phases[k] {
			s.phases[k][p].merge(&t.phases[k][p])
		}
	}
	for d, n := range t.transfer {
		s.transfer[d] += n
	}
	t.reset()
}

// SetActors says how many clients of a kind take part.
func (m *Metrics) SetActors(kind Kind, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.actors[kind] = n
}

// AddBusDropped counts messages that a slow consumer lost.
func (m *Metrics) AddBusDropped(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.dropped += uint64(max(n, 0))
}

// maxScrapes bounds the scrapes that are answered at a time.
const maxScrapes = 8

// Handler answers a scrape.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxScrapes,
		EnableOpenMetrics:   true,
	})
}
