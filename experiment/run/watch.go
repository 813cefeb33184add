package run

import (
	"math"

	"fedpace/coordinator"
	"fedpace/coordinator/round"
	"fedpace/metrics/prometheus"
)

// watch feeds a run's metrics from what the run tells. It belongs to the run's
// goroutine; scrapes read the metrics alone.
type watch struct {
	metrics  *prometheus.Metrics
	tally    *prometheus.Tally
	accounts *accounts
	device   func(client int) bool
	class    func(client int) int // nil: the fleet has no classes

	modelled map[int]prometheus.Phases // by local steps, what a simulated client of mean speed takes
	mean     func(steps int) (prometheus.Phases, error)

	slowest round.Ended // the open round's last accepted task
	any     bool        // whether there is one
}

func newWatch(t *tally) *watch {
	p, c := t.p, &t.p.config
	about := prometheus.Run{
		Name: c.Name, Task: string(c.Task), Schedule: c.Schedule.Name(), Train: c.Train,
		Version: t.o.Version, Kernel: p.kernel, Classes: p.fleet.Classes(),
		Rounds: t.progress.Rounds, VirtualSeconds: t.progress.VirtualTotal,
	}
	if one, constant, err := p.fixedRound(); err == nil && constant && one > 0 {
		about.FixedSteps = float64(c.Schedule.K0) / one.Seconds()
	}
	m := prometheus.New(about)
	m.SetActors(prometheus.Simulated, c.Clients)
	if n := len(c.Devices.Names); n > 0 {
		m.SetActors(prometheus.Real, n)
	}
	w := &watch{metrics: m, tally: m.NewTally(), accounts: t.accounts, device: c.IsDevice, modelled: map[int]prometheus.Phases{}}
	w.mean = func(steps int) (prometheus.Phases, error) {
		d, err := p.fleet.Mean(steps, p.modelBits)
		return prometheus.Phases{Download: round.Time(d.Download), Compute: round.Time(d.Compute), Upload: round.Time(d.Upload)}, err
	}
	if len(about.Classes) > 1 {
		w.class = p.fleet.Class
	}
	return w
}

// settled takes a task that has its outcome.
func (w *watch) settled(e *round.Ended) {
	if w.device(e.Client) {
		w.tally.RealOutcome(e.Outcome)
		if e.Outcome == round.Lost || e.Outcome == round.Refused { // what it took is not known
			return
		}
		w.compare(e.LocalSteps)
	}
	if e.Probe || e.Plan.Drops {
		return
	}
	kind, class := w.of(e.Client)
	w.tally.Task(kind, class, phasesOf(e))
	if e.Outcome == round.Accepted && (!w.any || e.End >= w.slowest.End) {
		w.slowest, w.any = *e, true
	}
}

// compare counts what the model of devices has for a task of so many steps.
func (w *watch) compare(steps int) {
	p, known := w.modelled[steps]
	if !known {
		var err error
		if p, err = w.mean(steps); err != nil {
			return // out of the model's bounds: there is nothing to compare with
		}
		w.modelled[steps] = p
	}
	w.tally.Modelled(p)
}

// of is a client's kind and class.
func (w *watch) of(client int) (kind prometheus.Kind, class int) {
	switch {
	case w.device(client):
		return prometheus.Real, 0
	case w.class != nil:
		class = w.class(client)
	}
	return prometheus.Simulated, class
}

func phasesOf(e *round.Ended) prometheus.Phases {
	return prometheus.Phases{Download: e.Plan.Download, Compute: e.Plan.Compute, Upload: e.Plan.Upload}
}

// report takes a round once the accounts have it.
func (w *watch) report(r *round.Report) {
	if w.any {
		kind, class := w.of(w.slowest.Client)
		w.tally.Slowest(kind, class, phasesOf(&w.slowest))
		w.any = false
	}
	w.tally.Spent(w.accounts.spent())
	w.metrics.ObserveRound(r, w.tally)
}

// spent is what counts so far, for the metrics.
func (a *accounts) spent() prometheus.Spent {
	s := prometheus.Spent{
		Seconds:     prometheus.Split{Useful: round.Time(a.total.time.Useful).Seconds(), Wasted: round.Time(a.total.time.Wasted).Seconds()},
		Steps:       prometheus.Split{Useful: float64(a.total.steps.Useful), Wasted: float64(a.total.steps.Wasted)},
		Joules:      prometheus.Split(a.total.joules),
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

// goOn shows where a run that goes on has come to.
func (w *watch) goOn(last round.Report, p *Progress) {
	last.TrainingLoss, last.ValidationLoss, last.ValidationAccuracy = p.TrainingLoss, p.ValidationLoss, p.ValidationAccuracy
	w.metrics.GoOn(last, w.accounts.spent())
}

// vitals has the metrics ask the run how it keeps up.
func (w *watch) vitals(v *coordinator.Stats) {
	w.metrics.Watch(func() prometheus.Vitals {
		now := prometheus.Vitals{
			PacingLag: v.PacingLag(), BusLag: v.BusLag(),
			Pending: v.Pending(), Dropped: v.Dropped(), Ignored: v.Ignored(),
		}
		if d, held, ok := v.Devices(); ok {
			now.Devices = prometheus.Devices{
				Present: d.Present, Silent: d.Silent, Heartbeats: d.Heartbeats, Oldest: d.Oldest, Refused: d.Refused, Held: held,
			}
		}
		return now
	})
}
