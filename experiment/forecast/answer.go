package forecast

import (
	"math"
	"slices"

	"fedpace/actors/clientmodel"
	"fedpace/coordinator/round"
	"fedpace/experiment/problem"
)

// answers answers the tasks of a problem's simulated clients as its hosts do.
func answers(p *problem.Timing) func(*round.Task) (round.Event, error) {
	return func(t *round.Task) (round.Event, error) { return planned(p.Fleet, t, p.Bits) }
}

// drawn is [answers] with clients that are as far from their classes as these are uncertain: each
// keeps a pace of its own, by the seed, in all of the run.
func drawn(p *problem.Timing, seed uint64) func(*round.Task) (round.Event, error) {
	classes := p.Config.Fleet
	if !slices.ContainsFunc(classes, uncertain) {
		return answers(p)
	}
	return func(t *round.Task) (round.Event, error) {
		e, err := planned(p.Fleet, t, p.Bits)
		if k := classes[p.Fleet.Class(t.Client)]; uncertain(k) {
			d := paceOf(&k, seed, t.Client)
			d.first = [len(phases)]round.Time{} // a simulation has no first tasks
			d.apply(&e.Plan)
		}
		return e, err
	}
}

func uncertain(k clientmodel.Class) bool { return k.Uncertainty != clientmodel.Uncertainty{} }

// planned is the plan of a simulated client for a task.
func planned(f *clientmodel.Fleet, t *round.Task, bits clientmodel.Bits) (round.Event, error) {
	c := f.Client(t.Client)
	c.Joules = t.Joules
	d, err := f.Plan(c, t.Task, t.LocalSteps, bits, int64(t.Start))
	return round.Event{Kind: round.Planned, Task: t.Task, Client: t.Client, Plan: round.Plan{
		Download: round.Time(d.Download), Compute: round.Time(d.Compute), Upload: round.Time(d.Upload),
		Drops: d.Dropout != clientmodel.NoPhase, Dropout: round.Time(d.After),
	}}, err
}

// pace is what is one client's own in a draw, besides its class.
type pace struct {
	factors  [len(phases)]float64 // on what its phases take, less their overhead
	overhead [len(phases)]round.Time
	first    [len(phases)]round.Time // extra time of its next task
}

// paceOf draws how far a client is from its class.
func paceOf(k *clientmodel.Class, seed uint64, client int) (d pace) {
	d.factors = k.Uncertainty.Pace(seed, client)
	for p := range d.factors {
		d.overhead[p] = round.Time(math.RoundToEven(*k.Overhead.Phases()[p] * 1e9))
		d.first[p] = round.Time(math.RoundToEven(*k.FirstTask.Phases()[p] * 1e9))
	}
	return d
}

// apply makes a plan of the class one of the client. A task that ends early does so at the
// same part of its time.
func (d *pace) apply(plan *round.Plan) {
	before := plan.Total()
	for p, took := range [...]*round.Time{&plan.Download, &plan.Compute, &plan.Upload} {
		over := min(d.overhead[p], *took)
		*took = over + d.first[p] + round.Time(math.RoundToEven(d.factors[p]*float64(*took-over)))
	}
	if plan.Drops && before > 0 {
		plan.Dropout = round.Time(float64(plan.Dropout) / float64(before) * float64(plan.Total()))
	}
	d.first = [len(phases)]round.Time{}
}
