package experiment

import (
	"math"

	"fedpace/coordinator"
	"fedpace/coordinator/round"
	"fedpace/metrics"
)

// watch feeds a run's metrics from what the run tells. It belongs to the run's
// goroutine; scrapes read the metrics alone.
type watch struct {
	metrics  *metrics.Metrics
	tally    *metrics.Tally
	accounts *accounts
	class    func(client int) int // nil: the fleet has no classes

	slowest round.Ended // the open round's last accepted task
	any     bool        // whether there is one
}

func newWatch(t *tally) *watch {
	p, c := t.p, &t.p.config
	about := metrics.Run{
		Name: c.Name, Task: string(c.Task), Schedule: c.Schedule.Name(), Train: c.Train,
		Version: t.o.Version, Kernel: p.kernel, Classes: p.fleet.Classes(),
		Rounds: t.progress.Rounds, VirtualSeconds: t.progress.VirtualTotal,
	}
	if one, constant, err := p.fixedRound(); err == nil && constant && one > 0 {
		about.FixedSteps = float64(c.Schedule.K0) / one.Seconds()
	}
	m := metrics.New(about)
	m.SetActors(metrics.Simulated, c.Clients)
	w := &watch{metrics: m, tally: m.NewTally(), accounts: t.accounts}
	if len(about.Classes) > 1 {
		w.class = p.fleet.Class
	}
	return w
}

// settled takes a task that has its outcome.
func (w *watch) settled(e *round.Ended) {
	if e.Probe || e.Plan.Drops {
		return
	}
	class := 0
	if w.class != nil {
		class = w.class(e.Client)
	}
	w.tally.Task(metrics.Simulated, class, phasesOf(e))
	if e.Outcome == round.Accepted && (!w.any || e.End >= w.slowest.End) {
		w.slowest, w.any = *e, true
	}
}

func phasesOf(e *round.Ended) metrics.Phases {
	return metrics.Phases{Download: e.Plan.Download, Compute: e.Plan.Compute, Upload: e.Plan.Upload}
}

// report takes a round once the accounts have it.
func (w *watch) report(r *round.Report) {
	if w.any {
		class := 0
		if w.class != nil {
			class = w.class(w.slowest.Client)
		}
		w.tally.Slowest(metrics.Simulated, class, phasesOf(&w.slowest))
		w.any = false
	}
	w.tally.Spent(w.accounts.spent())
	w.metrics.ObserveRound(r, w.tally)
}

// spent is what counts so far, for the metrics.
func (a *accounts) spent() metrics.Spent {
	s := metrics.Spent{
		Seconds:     metrics.Split{Useful: round.Time(a.total.time.Useful).Seconds(), Wasted: round.Time(a.total.time.Wasted).Seconds()},
		Steps:       metrics.Split{Useful: float64(a.total.steps.Useful), Wasted: float64(a.total.steps.Wasted)},
		Joules:      metrics.Split(a.total.joules),
		Energy:      a.watts != nil,
		Transferred: [2]float64{float64(a.total.down), float64(a.total.bytes.Useful + a.total.bytes.Wasted - a.total.down)},
		Straggling:  a.waited,
	}
	if a.shares > 0 {
		s.MeanStraggle = a.share / float64(a.shares)
	} else {
		s.MeanStraggle = math.NaN()
	}
	return s
}

// vitals has the metrics ask the run how it keeps up.
func (w *watch) vitals(v *coordinator.Vitals) {
	w.metrics.Watch(func() metrics.Vitals {
		return metrics.Vitals{
			PacingLag: v.PacingLag(), BusLag: v.BusLag(),
			Pending: v.Pending(), Dropped: v.Dropped(), Ignored: v.Ignored(),
		}
	})
}
