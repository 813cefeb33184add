package experiment

import (
	"fmt"
	"os"

	"fedpace/coordinator/round"
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
	path := t.results.Path(RoundsFile)
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() // read only
	spent, fraction := t.accounts.shown(), t.progress.Fraction()
	err = eachReport(f, func(r *round.Report) error {
		window.Observe(r.TrainingLoss)
		if mean, ok := window.Mean(); ok {
			r.WindowLoss = mean
		}
		g.hub.Round(live.Round{Report: r, Fraction: fraction, Spent: spent})
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s:%w", path, err)
	}
	return nil
}
