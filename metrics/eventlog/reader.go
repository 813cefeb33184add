package eventlog

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"

	"fedpace/coordinator/round"
	"fedpace/internal/regular"
	"fedpace/metrics"
	"fedpace/metrics/eventlog/record"
)

// Reader reads the rounds of an events.log from its beginning.
type Reader struct {
	*Records
	// file is the file that Open opened; nil if the Reader reads from another source.
	file *os.File
	// last is the number of the last round; 0 before the first.
	last uint32
	// round is the last round, whose memory is reused.
	round metrics.Round
}

// Open reads the log in a folder. Where there is none the error wraps [fs.ErrNotExist], and
// [ErrEmpty] where it was killed before its first byte.
func Open(dir string) (*Reader, error) {
	f, _, err := regular.Open(filepath.Join(dir, File))
	if err != nil {
		return nil, err
	}
	r, err := NewReader(f)
	if err != nil {
		// Nothing was written to the file, so an error of Close does not matter.
		f.Close()
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	r.file = f
	return r, nil
}

// Rounds yields the rounds that come next, each valid until the following one. It ends after the first error, which
// it yields. If [Open] opened the file, errors name it, and it is closed when the rounds end or the caller stops.
func (r *Reader) Rounds() iter.Seq2[*metrics.Round, error] {
	return func(yield func(*metrics.Round, error) bool) {
		if r.file != nil {
			// Nothing was written to the file, so an error of Close does not matter.
			defer r.file.Close()
		}
		for {
			next, err := r.Round()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil && r.file != nil {
				err = fmt.Errorf("%s: %w", r.file.Name(), err)
			}
			if !yield(next, err) || err != nil {
				return
			}
		}
	}
}

// NewReader reads from in what stands before the rounds: header and description of the run. A log
// that was torn before its first round is one without rounds, unless not even its run is whole.
func NewReader(in io.Reader) (*Reader, error) {
	records, err := NewRecords(in, maxRecord)
	if err != nil {
		return nil, err
	}
	if records.Run() == nil {
		return nil, fmt.Errorf("eventlog: %w (it holds what devices did, and no rounds)", ErrNotALog)
	}
	return &Reader{Records: records}, nil
}

// Round returns the next round, or io.EOF behind the last, also if the log ends within a record.
// The memory of the round is reused by the next call. A value that was not measured is NaN.
func (r *Reader) Round() (*metrics.Round, error) {
	offset := r.Offset()
	next, err := r.Next()
	if err != nil {
		return nil, err
	}
	m := next.GetRound()
	if m == nil {
		return nil, r.Damaged(offset, "a record that is not a round")
	}
	// Rounds have ascending numbers, but numbers may be missing, since a log may leave out rounds.
	if m.Round <= r.last || m.Round > round.MaxRounds {
		return nil, r.Damaged(offset, fmt.Sprintf("round %d follows round %d", m.Round, r.last))
	}
	if err := r.readRound(m); err != nil {
		return nil, r.Damaged(offset, fmt.Sprintf("round %d: %v", m.Round, err))
	}
	r.last = m.Round
	return &r.round, nil
}

// readRound checks message m, a round of the log, and turns it into r.round. The log may be damaged
// or made by somebody else, so no number is trusted. It reuses the memory of the round before.
func (r *Reader) readRound(m *record.Round) error {
	start := round.Time(m.StartNs)
	took := round.Time(m.TookNs)
	switch {
	// The end of the round must not overflow.
	case start < 0 || took < 0 || start > math.MaxInt64-took:
		return fmt.Errorf("it starts at %d ns and takes %d ns", start, took)
	case len(m.Outcomes) != round.Outcomes:
		return fmt.Errorf("%d outcomes, want %d", len(m.Outcomes), round.Outcomes)
	case m.SgdSteps > math.MaxInt64:
		return fmt.Errorf("%d steps of SGD", m.SgdSteps)
	}
	report := round.Report{
		Round:          int(m.Round),
		Start:          start,
		End:            start + took,
		LocalSteps:     int(m.LocalSteps),
		LearningRate:   m.LearningRate,
		Cohort:         int(m.Cohort),
		Candidates:     int(m.Candidates),
		SGDSteps:       int64(m.SgdSteps),
		TrainingLoss:   metrics.Value(m.TrainingLoss),
		WindowLoss:     metrics.Value(m.WindowLoss),
		Evaluated:      m.ValidationLoss != nil,
		ValidationLoss: metrics.Value(m.ValidationLoss),
		Metrics:        m.ValidationMetrics,
	}
	// A log without names of metrics holds the accuracy in a field of its own.
	if m.ValidationAccuracy != nil {
		report.Metrics = []float64{*m.ValidationAccuracy}
	}
	if n := len(report.Metrics); n > len(r.run.Metrics) {
		return fmt.Errorf("%d metrics of %d", n, len(r.run.Metrics))
	}
	for i, n := range m.Outcomes {
		report.Outcomes[i] = int(n)
	}
	// The memory of the tasks of the last round is reused.
	tasks := r.round.Tasks[:0]
	for i, t := range m.Tasks {
		task, err := taskOf(t, start)
		if err != nil {
			return fmt.Errorf("task %d of %d: %w", i+1, len(m.Tasks), err)
		}
		tasks = append(tasks, task)
	}
	r.round = metrics.Round{Report: report, Ended: int(m.Ended), Tasks: tasks}
	return nil
}

// taskOf checks the message of a task and turns it into a task. start is when its round started, to which
// the message's times are relative.
func taskOf(m *record.Task, start round.Time) (t metrics.Task, err error) {
	// A phase takes MaxDuration at most, and a task consists of three phases and of waiting.
	for _, d := range [...]int64{m.TookNs, m.DownloadNs, m.ComputeNs, m.UploadNs, m.DropoutNs} {
		if d < 0 || d > 4*int64(round.MaxDuration) {
			return t, fmt.Errorf("a duration of %d ns", d)
		}
	}
	// A task may start before its round, so StartNs may be negative. The sum may overflow, which
	// the conditions below find.
	begins := int64(start) + m.StartNs
	overflows := m.StartNs > 0 && begins < int64(start)
	endOverflows := begins > math.MaxInt64-m.TookNs
	if begins < 0 || overflows || endOverflows {
		return t, fmt.Errorf("a start %d ns after the round's", m.StartNs)
	}
	// These limits keep the conversions to int below exact.
	if m.Client > round.MaxClients || m.Class > maxClasses {
		return t, fmt.Errorf("client %d of class %d", m.Client, m.Class)
	}
	if len(m.Name) > maxText {
		return t, fmt.Errorf("a name of %d bytes", len(m.Name))
	}
	if m.Outcome < 0 || int(m.Outcome) >= round.Outcomes {
		return t, fmt.Errorf("outcome %d", m.Outcome)
	}
	t.Task = m.Task
	t.Client = int(m.Client)
	t.Class = int(m.Class)
	t.LocalSteps = int(m.LocalSteps)
	t.Outcome = round.Outcome(m.Outcome)
	t.Start = round.Time(begins)
	t.End = round.Time(begins + m.TookNs)
	t.Plan = round.Plan{
		Download: round.Time(m.DownloadNs),
		Compute:  round.Time(m.ComputeNs),
		Upload:   round.Time(m.UploadNs),
		Drops:    m.Drops,
		Dropout:  round.Time(m.DropoutNs),
	}
	t.Probe = m.Probe
	t.Real = m.Real
	t.Slow = m.Slow
	t.Name = m.Name
	return t, nil
}
