package experiment

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
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
	window, err := schedule.NewWindow(schedule.WindowConfig{Size: c.Schedule.Window, FirstRound: c.Schedule.F0 == FromFirst})
	if err != nil {
		return err
	}
	path := t.results.path(RoundsFile)
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() // read only
	spent, fraction := t.accounts.shown(), t.progress.Fraction()
	err = eachReport(f, func(r *round.Report) {
		window.Observe(r.TrainingLoss)
		if mean, ok := window.Mean(); ok {
			r.WindowLoss = mean
		}
		g.hub.Round(live.Round{Report: r, Fraction: fraction, Spent: spent})
	})
	if err != nil {
		return fmt.Errorf("%s:%w", path, err)
	}
	return nil
}

// eachReport reads a rounds.csv round by round. A report lacks what the file
// does not hold; it is reused.
func eachReport(f io.Reader, each func(*round.Report)) error {
	rows := csv.NewReader(f)
	rows.ReuseRecord = true
	header, err := rows.Read()
	if err != nil {
		return fmt.Errorf("1: no header: %w", err)
	}
	if got := strings.Join(header, ","); got != RoundsHeader {
		return fmt.Errorf("1: the header is %q, want %q", got, RoundsHeader)
	}
	cell := cells{column: map[string]int{}}
	for i, name := range strings.Split(RoundsHeader, ",") {
		cell.column[name] = i
	}
	at := func(seconds float64) round.Time { return round.Time(math.RoundToEven(seconds * 1e9)) }
	for line := 2; ; line++ {
		cell.record, err = rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%d: %w", line, err)
		}
		r := round.Report{
			Round: int(cell.whole("round")), End: at(cell.real("virtual_seconds")),
			LocalSteps: int(cell.whole("local_steps")), LearningRate: cell.real("learning_rate"), Cohort: int(cell.whole("cohort")),
			TrainingLoss: cell.real("training_loss"), WindowLoss: math.NaN(), SGDSteps: cell.whole("sgd_steps"),
			ValidationLoss: cell.real("validation_loss"), ValidationAccuracy: cell.real("validation_accuracy"),
		}
		r.Start = r.End - at(cell.real("round_seconds"))
		r.Evaluated = !math.IsNaN(r.ValidationLoss)
		for o := range r.Outcomes {
			r.Outcomes[o] = int(cell.whole(round.Outcome(o).String()))
		}
		if cell.err != nil {
			return fmt.Errorf("%d: %w", line, cell.err)
		}
		each(&r)
	}
}
