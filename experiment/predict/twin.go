package predict

import (
	"context"
	"fmt"
	"slices"

	"fedpace/actors/clientmodel"
	"fedpace/actors/measure"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
	"fedpace/experiment/config"
	"fedpace/experiment/problem"
	"fedpace/internal/keyed"
)

// twin is a run with its real devices replaced by simulated clients of their classes.
type twin struct {
	problem  *problem.Problem
	rounds   round.Config
	first    int                                            // client number of the first device
	devices  int                                            // how many there are
	bits     clientmodel.Bits                               // of a device's transfers
	link     func(client int) (download, upload round.Time) // in place of what its class says; nil: nothing
	presence presence
}

// newTwin makes the twin of a problem that trains, for the rounds of a record.
func newTwin(p *problem.Problem, r *record) (t *twin, err error) {
	c := &p.Config
	t = &twin{problem: p, first: c.Clients, devices: len(c.Devices.Names), bits: p.DeviceBits()}
	if t.rounds, err = Rounds(p, 0); err != nil {
		return nil, err
	}
	t.rounds.Stop = round.Limits{Rounds: len(r.rounds)}
	if !r.ahead && c.Schedule.Unit != config.Epochs { // else K_r counts parts of epochs, which a run does not report
		t.rounds.K = given{r.rounds}
	}
	if t.link, err = p.ModelledLink(); err != nil {
		return nil, err
	}
	t.presence = presenceOf(r, t.devices, t.rounds.Devices.Include == round.EveryRound && !closing.Overlaps(c.Close) && !closing.UsesLate(c.Late))
	return t, nil
}

// Rounds is what the round machine needs of a problem whose time is played alone, up to
// a virtual time; 0: without such a limit.
func Rounds(p *problem.Problem, limit round.Time) (round.Config, error) {
	r, err := p.Rounds(limit)
	r.Train, r.Metrics, r.Evaluate, r.EvaluateClients, r.Stop.Targets = true, nil, measure.Timetable{}, measure.Timetable{}, nil
	return r, err
}

// given is a schedule of K that is known: what a run had.
type given struct{ rounds []measured }

// LocalSteps implements [schedule.K].
func (g given) LocalSteps(p schedule.Progress) int {
	return g.rounds[min(p.Round, len(g.rounds))-1].steps
}

// With implements [schedule.K].
func (g given) With(schedule.Setup) (schedule.K, error) { return g, nil }

// draw plays the twin once, with the n-th seed of the devices' fleet.
func (t *twin) draw(ctx context.Context, n int, task func(e *round.TaskReport), report func(*round.Report)) error {
	seed := keyed.Hash(t.problem.Config.Seed, keyed.Twin, uint64(n))
	devices := t.problem.Fleet.Reseeded(seed)
	there, paces := make([]bool, t.devices), t.paces(seed)
	timing := Timing{
		Rounds: t.rounds,
		Answer: func(x *round.Task) (round.Event, error) {
			switch i := x.Client - t.first; {
			case i < 0:
				return planned(t.problem.Fleet, x, t.problem.Bits)
			case t.presence.silent(x.Round, i):
				there[i] = false
				return round.Event{Kind: round.Silent, Task: x.Task, Client: x.Client}, nil
			}
			e, err := planned(devices, x, t.bits)
			paces[x.Client-t.first].apply(&e.Plan)
			if t.link != nil {
				e.Plan.Download, e.Plan.Upload = t.link(x.Client)
			}
			return e, err
		},
		Before: func(number int) []round.Event { return t.presence.events(number, t.first, there) },
		Task: func(e *round.TaskReport) {
			if e.Client >= t.first {
				task(e)
			}
		},
		Report: func(r *round.Report) error { report(r); return nil },
	}
	stop, _, err := timing.Play(ctx)
	if err == nil && stop.Rounds < t.rounds.Stop.Rounds {
		err = fmt.Errorf("predict: the run's simulation ends after %d of its rounds: %s", stop.Rounds, stop.Reason)
	}
	return err
}

// Answer answers the tasks of a problem's simulated clients as its hosts do.
func Answer(p *problem.Problem) func(*round.Task) (round.Event, error) {
	return func(t *round.Task) (round.Event, error) { return planned(p.Fleet, t, p.Bits) }
}

// Drawn is [Answer] with clients that are as far from their classes as these are uncertain: each
// keeps a pace of its own, by the seed, in all of the run.
func Drawn(p *problem.Problem, seed uint64) func(*round.Task) (round.Event, error) {
	classes := p.Config.Fleet
	if !slices.ContainsFunc(classes, func(k clientmodel.Class) bool { return k.Uncertainty != clientmodel.Uncertainty{} }) {
		return Answer(p)
	}
	return func(t *round.Task) (round.Event, error) {
		e, err := planned(p.Fleet, t, p.Bits)
		if k := &classes[p.Fleet.Class(t.Client)]; k.Uncertainty != (clientmodel.Uncertainty{}) {
			d := paceOf(k, seed, t.Client)
			d.first = [len(phases)]round.Time{} // a simulation has no first tasks
			d.apply(&e.Plan)
		}
		return e, err
	}
}

// planned is the plan of a simulated client for a task.
func planned(f *clientmodel.Fleet, t *round.Task, bits clientmodel.Bits) (round.Event, error) {
	c := f.Client(t.Client)
	c.Joules = t.Joules
	d, err := f.PlanFor(c, t.Task, t.LocalSteps, bits, int64(t.Start))
	return round.Event{Kind: round.Planned, Task: t.Task, Client: t.Client, Plan: round.Plan{
		Download: round.Time(d.Download), Compute: round.Time(d.Compute), Upload: round.Time(d.Upload),
		Drops: d.Dropout != clientmodel.NoPhase, Dropout: round.Time(d.After),
	}}, err
}
