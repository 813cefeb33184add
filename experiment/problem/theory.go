package problem

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
	"fedpace/coordinator/theory"
	"fedpace/experiment/convex"
	"fedpace/learn"
)

// ErrNotConvex says that constants cannot be calculated for a task.
var ErrNotConvex = errors.New("the task's objective is not strongly convex")

// Open opens what a configuration trains: its data, and its model with the initial parameters, but
// nothing that only a run needs. A trainer's model is refused. Close the problem after use.
func Open(c config.Config) (*Problem, error) {
	c.Train = true
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.External() {
		return nil, &config.KeyError{
			Key:     "trainer",
			Problem: "is for runs: here the objective itself is calculated (remove it)",
		}
	}
	// The context is never cancelled, because no process is waited for.
	ctx := context.Background()
	p := newProblem(c, nil)
	err := p.openData(ctx, nil)
	if err == nil {
		err = p.makeModel(ctx)
	}
	if err == nil {
		err = p.initialize(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// Convex returns the run's objective in float64, with its optimum and the constants of Theorem 1.
// It returns an error that wraps ErrNotConvex if the task is not convex.
func (p *Problem) Convex() (*convex.Problem, error) {
	if !p.Config.Task.IsConvex() {
		return nil, fmt.Errorf("%s: %w", p.Config.Task, ErrNotConvex)
	}
	var weights []float64
	// The weights are each client's part of all samples; nil weights count all clients alike.
	if p.Config.Aggregate.Weights == config.SampleWeights {
		all := 0.0
		for c := range p.Set.Clients() {
			weights = append(weights, float64(p.Set.Samples(c)))
			all += weights[c]
		}
		for c := range weights {
			weights[c] /= all
		}
	}
	return convex.New(p.Set, p.Model.(learn.Model), p.Config.Batch, weights)
}

// settleTheory calculates the constants that the schedule of Eq. 9 needs and
// the configuration does not give. They are written with the configuration:
// a run that is resumed, on whatever machine, goes on with them.
func (p *Problem) settleTheory() error {
	t := &p.Config.Theory
	if !p.Config.Task.IsConvex() {
		// The least loss of a task that is not convex is not known; 0 is a lower bound of it.
		if t.FStar == nil {
			t.FStar = new(float64)
		}
		return nil
	}
	// Nothing is left to calculate where the configuration gives all four constants.
	if !slices.Contains([]*float64{t.L, t.Mu, t.G, t.FStar}, nil) {
		return nil
	}
	// Constants that are missing are calculated from the objective, which costs time.
	objective, err := p.Convex()
	if err != nil {
		return fmt.Errorf("schedule.k: theory: %w (set theory.l, mu, g and f_star)", err)
	}
	// Constants of the configuration take precedence over those that are calculated.
	calculated := objective.Constants(convex.Widen(p.Initial), p.Config.Cohort)
	t.FillFrom(config.Theory{
		L:     &calculated.L,
		Mu:    &calculated.Mu,
		G:     &calculated.G,
		FStar: &calculated.FStar,
	})
	return nil
}

// theory returns the constants of Eq. 9 in the form that the schedule takes, for a run that ends at
// the virtual time limit, 0 for none. The configuration must have L, mu, G and F*, none of them nil: those that it
// lacks are calculated before.
func (p *Timing) theory(limit round.Time) (s schedule.Theory, err error) {
	t := p.Config.Theory
	constants := theory.Constants{
		L:     *t.L,
		Mu:    *t.Mu,
		G:     *t.G,
		FStar: *t.FStar,
		N:     p.Config.Cohort,
	}
	if err := constants.Validate(); err != nil {
		return s, err
	}
	// A round of no local steps lasts as long as its communication alone.
	communication, err := p.MeanRound(0)
	if err != nil {
		return s, err
	}
	s.Factor, s.Offset = constants.CubedSteps(communication.Seconds(), p.Config.Schedule.Eta0)
	// The schedule may follow the time that is left instead of the time that has passed.
	if t.Time == config.AheadTime {
		s.Until = limit.Seconds()
	}
	return s, nil
}

// Runtime returns the runtime model of Eq. 5 for a model with this many parameters. If devices
// differ, it has the values that the configuration gives for all of them.
func Runtime(c config.Config, parameters int) theory.Runtime {
	model, update := c.Bits(parameters, parameters)
	// A smaller update is as fast as a whole one over a faster link.
	return theory.Runtime{
		Megabits:     model / 1e6,
		DownloadMbps: c.Network.DownloadMbps,
		UploadMbps:   float64(c.Network.UploadMbps * (model / update)),
		Step:         c.Compute.SecondsPerStep,
	}
}

// Resolve returns the configuration as a run of it would write it: with the numbers of clients,
// cohort and batch, the constants of the theory that follow from its data, and the kernel of this
// machine. A kernel that the machine does not have stays.
func Resolve(c config.Config) (config.Config, error) {
	// Preparing as for remote hosts accepts a kernel that this machine does not have.
	const remote = true
	p, err := Prepare(context.Background(), c, remote, nil, nil)
	if err != nil {
		return c, err
	}
	return p.Config, p.Close()
}
