package run

import (
	"fedpace/experiment/folder"

	"fedpace/coordinator/schedule"
	"fedpace/experiment/config"
	"fedpace/metrics/live"
)

// goOn shows what an earlier life of the run has done, from its rounds.csv,
// which ends where the checkpoint does.
func (g *page) goOn(t *tally, before *life) error {
	if before == nil || before.checkpoint == nil {
		return nil
	}
	c := &t.p.config
	g.hub.GoOn(before.checkpoint.body.Tally.Elapsed)
	window, err := schedule.NewWindow(schedule.WindowConfig{Size: c.Schedule.Window, FirstRound: c.Schedule.F0 == config.FromFirst})
	if err != nil {
		return err
	}
	path := t.results.Path(folder.RoundsFile)
	spent, fraction := t.accounts.shown(), t.progress.Fraction()
	for r, err := range folder.Reports(path) {
		if err != nil {
			return err
		}
		window.Observe(r.TrainingLoss)
		if mean, ok := window.Mean(); ok {
			r.WindowLoss = mean
		}
		g.hub.Round(live.Round{Report: &r, Fraction: fraction, Spent: spent})
	}
	return nil
}
