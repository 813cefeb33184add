package ui

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"time"

	"fedpace/actors/measure"
	"fedpace/coordinator/closing"
	"fedpace/experiment/folder"
	"fedpace/experiment/forecast"
	"fedpace/metrics"
	"fedpace/metrics/eventlog"
	"fedpace/metrics/live"
)

// errNoRound is of a round that the run's log does not hold.
var errNoRound = errors.New("events.log does not hold the tasks of that round")

// snapshot is the run as its own page shows it: its rounds played once more to a hub.
func (r *run) snapshot() ([]byte, error) {
	about, err := r.about()
	if err != nil {
		return nil, err
	}
	hub := live.New(about)
	summary, err := folder.ReadSummary(filepath.Join(r.dir, folder.SummaryFile))
	complete := err == nil && summary.Completed // else it goes on or was killed, and its last row may be torn
	next, stop := iter.Pull2(folder.Follow(r.dir, &r.config))
	defer stop()
	// show shows the rounds up to one, and that with what the log has of it.
	show := func(upTo int, logged *metrics.Round) (more bool, err error) {
		for {
			now, err, ok := next()
			if !ok || errors.Is(err, fs.ErrNotExist) || errors.Is(err, io.EOF) || errors.Is(err, folder.ErrTorn) && !complete {
				return false, nil
			}
			if err != nil {
				return false, err
			}
			e := metrics.Round{Report: now.Report, Usage: &metrics.Usage{}}
			if now.Round == upTo {
				e.Tasks, e.Ended = logged.Tasks, logged.Ended
			}
			if err := hub.Round(&e); err != nil || now.Round == upTo {
				return true, err
			}
		}
	}
	if err := r.events(func(e *metrics.Round) (bool, error) { return show(e.Round, e) }); err != nil {
		return nil, err
	}
	if _, err := show(0, nil); err != nil {
		return nil, err
	}
	if err := r.finish(hub); err != nil {
		return nil, err
	}
	predicted, err := r.predicted()
	if err != nil || predicted == nil {
		return hub.Snapshot(), err
	}
	text := hub.Snapshot() // an object
	return append(append(append(text[:len(text)-1], `,"prediction":`...), predicted...), '}'), nil
}

// predicted is the columns of prediction.csv for whole rounds, as JSON; nil: there is none.
func (r *run) predicted() ([]byte, error) {
	rows, err := forecast.ReadRows(r.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	every := max(1, len(rows)/maxPredicted)
	columns := map[string][]*float64{}
	for i := 0; i < len(rows); i += every {
		number, t := float64(rows[i].Round), &rows[i].Seconds
		for name, v := range map[string]*float64{"round": &number, "measured": t.Measured, "p05": &t.P05, "p50": &t.P50, "p95": &t.P95} {
			columns[name] = append(columns[name], v)
		}
	}
	return json.Marshal(columns)
}

// maxPredicted is about how many rounds are shown beside their prediction.
const maxPredicted = 1000

// finish tells the hub how the run ended, if it did.
func (r *run) finish(hub *live.Hub) error {
	text, err := folder.ReadFile(filepath.Join(r.dir, folder.SummaryFile))
	if errors.Is(err, fs.ErrNotExist) {
		if folder.Running(r.dir) {
			return nil
		}
		return hub.Finish(&metrics.End{Why: errors.New("its process was killed; fedpace resume goes on with it")})
	}
	if err != nil {
		return err
	}
	s, err := folder.ReadSummary(filepath.Join(r.dir, folder.SummaryFile))
	if err != nil {
		return err
	}
	end := metrics.End{Completed: s.Completed, Summary: text, Elapsed: time.Duration(s.WallSeconds * float64(time.Second))}
	if !s.Completed {
		end.Why = errors.New("it was stopped before its end; fedpace resume goes on with it")
	}
	return hub.Finish(&end)
}

// events plays the run's log; a run without one, or killed before its first, has no events. more says whether to go on.
func (r *run) events(take func(*metrics.Round) (more bool, err error)) error {
	f, err := os.Open(filepath.Join(r.dir, eventlog.File))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close() // read only
	if info, err := f.Stat(); err != nil || info.Size() == 0 {
		return err
	}
	log, err := eventlog.NewReader(f)
	for more := true; err == nil && more; {
		var e *metrics.Round
		if e, err = log.Round(); err == nil {
			more, err = take(e)
		}
	}
	if err == nil || errors.Is(err, io.EOF) {
		return nil
	}
	return fmt.Errorf("%s: %w", f.Name(), err)
}

// timeline is a round's tasks, as the snapshot has those of the last.
func (r *run) timeline(number int) (text []byte, err error) {
	about, err := r.about()
	if err != nil {
		return nil, err
	}
	err = r.events(func(e *metrics.Round) (bool, error) {
		if e.Round < number {
			return true, nil
		}
		if e.Round == number {
			var err error
			text, err = live.RoundJSON(about, e)
			return false, err
		}
		return false, nil
	})
	if err == nil && text == nil {
		err = errNoRound
	}
	return text, err
}

// about is the run as a hub knows it.
func (r *run) about() (*metrics.Run, error) {
	if r.bad != nil {
		return nil, r.bad
	}
	c := &r.config
	names, err := folder.ReadMetrics(r.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var list []measure.Metric
	for _, name := range names {
		list = append(list, measure.Metric{Name: name})
	}
	if q, err := folder.QualityOf(r.dir, c); err == nil && q.At >= 0 {
		list[q.At] = q.Metric
	}
	run := &metrics.Run{
		Name: filepath.Base(r.dir), Task: string(c.Task), Schedule: c.Schedule.Name(), Closing: closing.Rules.Text(c.Close), Seed: c.Seed,
		Train: c.Train, Metrics: list, Clients: c.Clients, Cohort: c.Cohort, Window: c.Schedule.Window, Devices: c.Devices.IDs(),
		Deadline: c.Close.Deadline(), Rounds: c.Stop.Rounds, Power: metrics.Power{Overlap: closing.Overlaps(c.Close)},
	}
	if c.Train {
		run.Data = "data"
	}
	for i := range c.Fleet {
		run.Classes = append(run.Classes, c.Fleet[i].Name)
	}
	if info, err := os.Stat(filepath.Join(r.dir, folder.ConfigFile)); err == nil {
		run.Started = info.ModTime()
	}
	s, err := folder.ReadSummary(filepath.Join(r.dir, folder.SummaryFile))
	if err == nil {
		run.Version, run.Kernel = s.Version, s.Kernel
		if s.Data != nil {
			run.Data = *s.Data
		}
	}
	return run, nil
}
