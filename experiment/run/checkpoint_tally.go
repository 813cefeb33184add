package run

import (
	"fedpace/experiment/folder"
	"slices"
	"time"

	"fedpace/coordinator"
	"fedpace/coordinator/round"
)

// savedTally is what of a run's [tally] a checkpoint keeps: all that a result
// of the run depends on.
type savedTally struct {
	Elapsed time.Duration // wall time of the run, over all its lives

	Spent, Open savedSpending
	Times       []round.Time
	Share       float64
	Shares      int
	Waited      float64

	Reached      float64
	Last         round.Report
	BestLoss     float64
	BestAccuracy float64

	ValidationLoss     float64 // of the progress
	ValidationAccuracy float64

	Events savedEvents
}

type savedSpending struct {
	Time   folder.Split[int64]
	Steps  folder.Split[int64]
	Bytes  folder.Split[int64]
	Down   int64
	Joules folder.Split[float64]
}

func (s *spending) save() savedSpending {
	return savedSpending{s.time, s.steps, s.bytes, s.down, s.joules}
}
func (s savedSpending) spending() spending {
	return spending{s.Time, s.Steps, s.Bytes, s.Down, s.Joules}
}

// save is the tally as it stands.
func (t *tally) save() savedTally {
	a := t.accounts
	return savedTally{
		Elapsed: time.Since(t.started),
		Spent:   a.total.save(), Open: a.open.save(), Times: a.times, Share: a.share, Shares: a.shares, Waited: a.waited,
		Reached: t.reached, Last: t.last, BestLoss: t.bestLoss, BestAccuracy: t.bestAccuracy,
		ValidationLoss: t.progress.ValidationLoss, ValidationAccuracy: t.progress.ValidationAccuracy,
		Events: t.kept.save(),
	}
}

// goOn takes over from an earlier life and returns the state that the
// coordinator goes on from; nil: from the start.
func (t *tally) goOn(before *life) (*coordinator.State, error) {
	if before == nil || before.checkpoint == nil {
		return nil, nil
	}
	c := before.checkpoint
	t.restore(c.body.Tally, c.best)
	return &c.state, t.kept.restore(c.body.Tally.Events)
}

// restore puts a new tally where one was saved.
func (t *tally) restore(s savedTally, best []float32) {
	t.started = t.started.Add(-s.Elapsed)
	a := t.accounts
	a.total, a.open, a.times, a.share, a.shares, a.waited = s.Spent.spending(), s.Open.spending(), slices.Clone(s.Times), s.Share, s.Shares, s.Waited
	t.reached, t.last, t.bestLoss, t.bestAccuracy, t.best = s.Reached, s.Last, s.BestLoss, s.BestAccuracy, best
	p := &t.progress
	p.Round, p.VirtualSeconds, p.LocalSteps, p.LearningRate = s.Last.Round, s.Last.End.Seconds(), s.Last.LocalSteps, s.Last.LearningRate
	if s.Last.Round > 0 {
		p.TrainingLoss = s.Last.TrainingLoss
	}
	p.ValidationLoss, p.ValidationAccuracy = s.ValidationLoss, s.ValidationAccuracy
	if t.watch != nil {
		t.watch.goOn(t.last, p)
	}
}
