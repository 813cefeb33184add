package ui

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"fedpace/experiment/folder"
	"fedpace/experiment/forecast"
	"fedpace/internal/regular"
	"fedpace/learn/metric"
	"fedpace/metrics"
	"fedpace/metrics/eventlog"
	"fedpace/metrics/live"
	"fedpace/metrics/outputs"
	"fedpace/metrics/tables"
)

// errNoRound is of a round that the run's log does not hold.
var errNoRound = errors.New("events.log does not hold the tasks of that round")

// snapshot returns the run as its own page shows it, as JSON. All its rounds are replayed to a hub;
// those that events.log holds come with their tasks. The log and rounds.csv are read side by side,
// in ascending rounds, so that memory does not grow with the run.
func (r *run) snapshot() ([]byte, error) {
	state, summary, err := r.State()
	if err != nil {
		return nil, err
	}
	about, err := r.about(summary)
	if err != nil {
		return nil, err
	}
	hub := live.New(about)
	next, stop := iter.Pull2(r.Follow())
	defer stop()
	shown := &shownRounds{hub: hub, next: next, state: state}
	// Rounds between those of the log are shown without tasks.
	for e, err := range r.events() {
		more := false
		if err == nil {
			more, err = shown.showUpTo(e.Round, e)
		}
		if err != nil {
			return nil, err
		}
		// The log may be ahead of rounds.csv, which is then read up to its end.
		if !more {
			break
		}
	}
	// The rounds behind the log are shown without tasks, too.
	const allThatAreLeft = 0
	if _, err := shown.showUpTo(allThatAreLeft, nil); err != nil {
		return nil, err
	}
	// The tables of a run that goes on are not complete.
	if state != folder.RunRunning {
		if err := r.showClients(hub, about.Metrics); err != nil {
			return nil, err
		}
	}
	if err := r.finish(hub, state, summary); err != nil {
		return nil, err
	}
	predicted, err := r.predicted()
	if err != nil || predicted == nil {
		return hub.Snapshot(), err
	}
	// The snapshot is a JSON object, to which one member is added before the brace at its end.
	snapshot := hub.Snapshot()
	members := snapshot[:len(snapshot)-1]
	return slices.Concat(members, []byte(`,"prediction":`), predicted, []byte("}")), nil
}

// shownRounds shows the rounds of a run to a hub, in their order.
type shownRounds struct {
	// hub has what the run's page shows.
	hub *live.Hub
	// next returns the next round of rounds.csv; false at the end.
	next func() (folder.Progress, error, bool)
	// state says where the run stands.
	state folder.RunState
}

// showUpTo shows the next rounds of rounds.csv, those that s.next gives, up to that of number last, and that one with
// its tasks in the event log, logged. A last of 0 stands for all rounds that are left, which are shown without tasks.
// more is false once there are no further rounds.
func (s *shownRounds) showUpTo(last int, logged *metrics.Round) (more bool, err error) {
	for {
		now, err, ok := s.next()
		// The last line of a run that goes on may be torn.
		isTorn := errors.Is(err, folder.ErrTorn) && s.state != folder.RunComplete
		hasNoRounds := errors.Is(err, fs.ErrNotExist) || errors.Is(err, io.EOF)
		if !ok || isTorn || hasNoRounds {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		e := metrics.Round{Report: now.Report, Usage: &metrics.Usage{}}
		isLast := now.Round == last
		if isLast {
			e.Tasks = logged.Tasks
			e.Ended = logged.Ended
		}
		if err := s.hub.Round(&e); err != nil || isLast {
			return true, err
		}
	}
}

// showClients gives the hub what the run's tables say of each client: how often it trained, and how well
// the model did on its samples. A table that is missing or empty is not shown, and one that cannot be
// read is a notice.
func (r *run) showClients(hub *live.Hub, list []metric.Metric) error {
	updates, err := tables.ReadUpdates(r.Path(tables.ClientsFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		hub.Notice("How often clients trained is not shown: " + err.Error())
	default:
		hub.Participation(updates)
	}
	evaluation, err := outputs.ReadEvaluation(r.Path(outputs.ClientsFile), list)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, io.EOF):
	case err != nil:
		hub.Notice("The metrics of clients are not shown: " + err.Error())
	case evaluation != nil:
		return hub.Clients(evaluation)
	}
	return nil
}

// predicted returns the columns of prediction.csv for whole rounds, as JSON: the measured durations
// beside quantiles of the predicted ones, in seconds. It returns nil if the run has no such file.
func (r *run) predicted() ([]byte, error) {
	rows, err := forecast.ReadRows(r.Dir)
	if err != nil || rows == nil {
		return nil, err
	}
	rows = forecast.RoundRows(rows)
	// Of very many rounds, evenly spread ones stand for all.
	every := max(1, len(rows)/maxPredicted)
	columns := map[string][]*float64{}
	for i := 0; i < len(rows); i += every {
		number := float64(rows[i].Round)
		t := &rows[i]
		for name, v := range map[string]*float64{
			"round":    &number,
			"measured": metrics.Measured(t.Measured),
			"p05":      &t.P05,
			"p50":      &t.P50,
			"p95":      &t.P95,
		} {
			columns[name] = append(columns[name], v)
		}
	}
	return json.Marshal(columns)
}

// maxPredicted is about how many rounds are shown beside their prediction.
const maxPredicted = 1000

// finish tells the hub how the run ended, so that the page shows it as complete or says why it
// stopped. state is the state of the folder. s is the run's summary; nil: it left none, because its
// process was killed or still runs.
func (r *run) finish(hub *live.Hub, state folder.RunState, s *folder.Summary) (err error) {
	var end metrics.End
	if s != nil {
		end.Completed = s.Completed
		end.Elapsed = time.Duration(s.WallSeconds * float64(time.Second))
		end.Summary, err = regular.ReadFile(r.Path(folder.SummaryFile))
		// The file is gone if the run was resumed meanwhile.
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	// The words say what to do next; the page puts "The run stopped" before them.
	switch {
	case state == folder.RunRunning:
		return nil
	case s == nil:
		end.Err = errors.New("its process was killed; fedpace resume goes on with it")
	case state == folder.RunDiverged:
		end.Err = errors.New(s.Diverged)
	case state == folder.RunStopped:
		end.Err = errors.New("it was stopped before its end; fedpace resume goes on with it")
	}
	return hub.Finish(&end)
}

// events yields the rounds of the run's events.log with their tasks, in ascending order. A run
// without a log, or killed before its first round, has none. An error ends it and is its last
// element.
func (r *run) events() iter.Seq2[*metrics.Round, error] {
	log, err := eventlog.Open(r.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, eventlog.ErrEmpty):
		return func(func(*metrics.Round, error) bool) {}
	case err != nil:
		// A log that cannot be opened is an error of the first element.
		return func(yield func(*metrics.Round, error) bool) { yield(nil, err) }
	}
	return log.Rounds()
}

// timeline returns the tasks of the round with this number as JSON, in the form in which the
// snapshot has those of the last round. It fails with errNoRound if the log does not hold the
// round.
func (r *run) timeline(number int) (text []byte, err error) {
	about, err := r.about(nil)
	if err != nil {
		return nil, err
	}
	for e, err := range r.events() {
		if err != nil {
			return nil, err
		}
		if e.Round == number {
			return live.RoundJSON(about, e)
		}
		// Rounds ascend in the log, so that a later one means that this one was left out.
		if e.Round > number {
			break
		}
	}
	return nil, errNoRound
}

// about returns the description of the run that a hub needs, from its configuration and what it
// measured. s is its summary, which adds version, kernel and data; nil: it has none, or they are
// not needed.
func (r *run) about(s *folder.Summary) (*metrics.Run, error) {
	if r.err != nil {
		return nil, r.err
	}
	// The configuration has most of what a hub needs to know.
	c := &r.Config
	description := folder.About(c)
	description.Name = filepath.Base(r.Dir)
	list, err := r.Metrics()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if c.Train {
		// The hub needs to see only that something is learned; the summary describes the data.
		description.Data = "data"
	}
	description.Metrics = list
	if c.Train && len(list) > 0 {
		description.Quality, err = c.Evaluate.Metric.QualityOf(list)
		if err != nil {
			return nil, err
		}
		description.Targets, err = c.Stop.Targets(description.Quality, list)
		if err != nil {
			return nil, err
		}
	}
	// No file holds when the run started, but config.yaml is the first that it writes.
	if info, err := os.Stat(r.Path(folder.ConfigFile)); err == nil {
		description.Started = info.ModTime()
	}
	if s != nil {
		description.Version = s.Version
		description.Kernel = s.Kernel
		if s.Data != nil {
			description.Data = *s.Data
		}
	}
	return description, nil
}
