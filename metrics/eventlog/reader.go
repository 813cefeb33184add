package eventlog

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/proto"

	"fedpace/coordinator/round"
	"fedpace/internal/framing"
	"fedpace/internal/regular"
	"fedpace/learn/metric"
	"fedpace/metrics"
	"fedpace/metrics/eventlog/record"
)

// Reader reads a log from its beginning.
type Reader struct {
	// file is the file that Open opened; nil if the Reader reads from another source.
	file *os.File
	// frames divides the file into records and checks their checksums.
	frames *framing.Reader
	// run is what the log says of its run.
	run *metrics.Run
	// last is the number of the last round; 0 before the first.
	last uint32
	// record is the last record, whose memory is reused.
	record record.Record
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

// Rounds are the rounds that come next, each valid until the following one. A file that [Open]
// opened is closed behind them; an error, which is the last, names it.
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
	buffered := bufio.NewReaderSize(in, bufferSize)
	r := &Reader{frames: framing.NewReader(buffered, int64(headerSize), maxRecord, ErrDamaged)}
	var header [headerSize]byte
	n, err := io.ReadFull(buffered, header[:])
	switch {
	// A file that ends within its header is told apart from one that cannot be read.
	case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fmt.Errorf("eventlog: %w", err)
	case n == 0:
		return nil, fmt.Errorf("eventlog: %w", ErrEmpty)
	case !bytes.HasPrefix(header[:n], []byte(magic)):
		return nil, fmt.Errorf("eventlog: %w (it does not begin with %s)", ErrNotALog, magic)
	case n < headerSize:
		return nil, fmt.Errorf("eventlog: %w (it ends before its version)", ErrNotALog)
	}
	// A later version may have a form that this reader does not know.
	if v := binary.LittleEndian.Uint32(header[len(magic):]); v == 0 || v > Version {
		return nil, fmt.Errorf("eventlog: %w: %d, this one reads 1 to %d", ErrVersion, v, Version)
	}
	if err := r.next(); errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("eventlog: %w (it ends before its run is named)", ErrNotALog)
	} else if err != nil {
		return nil, err
	}
	// The record after the header describes the run; all others are rounds.
	m := r.record.GetRun()
	if m == nil {
		return nil, r.damaged(int64(headerSize), "the first record is not the run")
	}
	r.run = &metrics.Run{
		Name:     m.Name,
		Task:     m.Task,
		Schedule: m.Schedule,
		Seed:     m.Seed,
		Clients:  int(m.Clients),
		Cohort:   int(m.Cohort),
		Close:    m.Close,
		Deadline: round.Time(m.DeadlineNs),
		Classes:  m.Classes,
		Slowest:  int(m.Slowest),
		Sample:   int(m.Sample),
		Version:  m.Version,
	}
	switch {
	// A log that does not name its metrics has accuracy alone, or none for the quadratic task.
	case m.Metrics != nil:
		for _, name := range m.Metrics.Names {
			r.run.Metrics = append(r.run.Metrics, metric.Metric{Name: name})
		}
	case m.Task != quadratic:
		r.run.Metrics = []metric.Metric{{Name: metric.Accuracy}}
	}
	if err := check(r.run); err != nil {
		return nil, r.damaged(int64(headerSize), err.Error())
	}
	return r, nil
}

// Run is the run that the log is of, as far as the log says.
func (r *Reader) Run() *metrics.Run { return r.run }

// Torn says, once Round has given io.EOF, whether the log ends within a record.
func (r *Reader) Torn() bool { return r.frames.Torn }

// Round returns the next round, or io.EOF behind the last, also if the log ends within a record.
// The memory of the round is reused by the next call. A value that was not measured is NaN.
func (r *Reader) Round() (*metrics.Round, error) {
	offset := r.frames.Offset
	if err := r.next(); err != nil {
		return nil, err
	}
	m := r.record.GetRound()
	if m == nil {
		return nil, r.damaged(offset, "a record that is not a round")
	}
	// Rounds have ascending numbers, but numbers may be missing, since a log may leave out rounds.
	if m.Round <= r.last || m.Round > round.MaxRounds {
		return nil, r.damaged(offset, fmt.Sprintf("round %d follows round %d", m.Round, r.last))
	}
	if err := r.readRound(m); err != nil {
		return nil, r.damaged(offset, fmt.Sprintf("round %d: %v", m.Round, err))
	}
	r.last = m.Round
	return &r.round, nil
}

// next reads the next record into r.record. It returns io.EOF at the end of the log, even if that lies
// within a record.
func (r *Reader) next() error {
	offset := r.frames.Offset
	payload, err := r.frames.Next()
	if err == nil {
		if bad := proto.Unmarshal(payload, &r.record); bad != nil {
			err = r.frames.Damaged(offset, "a record that is not a message: "+bad.Error())
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("eventlog: %w", err)
	}
	return err
}

// damaged returns the error of a log that is damaged at an offset, in bytes from the start of the
// log. problem says what is wrong there.
func (r *Reader) damaged(offset int64, problem string) error {
	return fmt.Errorf("eventlog: %w", r.frames.Damaged(offset, problem))
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
	for _, d := range [...]int64{m.TookNs, m.DownloadNs, m.ComputeNs, m.UploadNs, m.DropoutNs} {
		if d < 0 || d > 4*int64(round.MaxDuration) {
			return t, fmt.Errorf("a duration of %d ns", d)
		}
	}
	// A task may start before its round, so StartNs may be negative. The sum may overflow, which
	// the conditions below find.
	begins := int64(start) + m.StartNs
	if m.StartNs > 0 && begins < int64(start) ||
		begins < 0 ||
		begins > math.MaxInt64-m.TookNs {
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
