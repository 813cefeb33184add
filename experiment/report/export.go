package report

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"time"

	"fedpace/experiment/folder"
	"fedpace/metrics"
	"fedpace/metrics/eventlog"
	"fedpace/metrics/openmetrics"
	"fedpace/metrics/perfetto"
)

// ExportTrace writes the event log of the run in the folder dir as a trace for Perfetto: the rounds from first
// to last; a 0 in place of either sets no limit. torn says that the log ends within a record, as that of a run
// may that was killed or goes on.
func ExportTrace(dir string, w io.Writer, first, last int) (written perfetto.Written, torn bool, err error) {
	log, err := eventlog.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := folder.HoldsRun(dir); err != nil {
			return written, false, err
		}
		return written, false, fmt.Errorf(
			"%s holds no %s: the run kept none (set events.sample to a number)",
			dir,
			eventlog.File,
		)
	}
	if err != nil {
		return written, false, err
	}
	written, err = perfetto.Write(w, log, first, last)
	return written, log.Torn(), err
}

// Exported says what an export of a run holds.
type Exported struct {
	// Rounds is the number of rounds.
	Rounds int
	// Begin is the time at which the run's virtual time begins, and End the end of its last round.
	Begin, End time.Time
}

// ExportOpenMetrics writes the run in the folder dir as OpenMetrics text in which the run's virtual time
// begins at epoch. With the zero time the epoch is such that the run ends now, to the second.
func ExportOpenMetrics(dir string, w io.Writer, epoch time.Time) (e Exported, err error) {
	r, err := folder.Open(dir)
	if err != nil {
		return e, err
	}
	rounds, err := r.Rounds()
	if err != nil {
		return e, err
	}
	if len(rounds) == 0 {
		return e, fmt.Errorf("%s: no round is complete", dir)
	}
	end := rounds[len(rounds)-1].End
	if epoch.IsZero() {
		wholeTime := time.Duration(math.Ceil(end.Seconds())) * time.Second
		epoch = time.Now().Truncate(time.Second).Add(-wholeTime)
	}
	e = Exported{len(rounds), epoch, epoch.Add(time.Duration(end))}
	list, err := r.Metrics()
	if err != nil {
		return e, err
	}
	c := &r.Config
	return e, openmetrics.Write(w, &metrics.Run{
		Metrics:  list,
		Name:     c.Name,
		Task:     string(c.Task),
		Schedule: c.Schedule.Name(),
		Seed:     c.Seed,
	}, epoch, rounds)
}
