package eventlog

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"google.golang.org/protobuf/proto"

	"fedpace/actors/measure"
	"fedpace/coordinator/round"
	"fedpace/metrics"
	"fedpace/metrics/eventlog/record"
)

// Reader reads a log from its beginning.
type Reader struct {
	in     *bufio.Reader
	offset int64 // of the record that comes next
	torn   bool
	run    *metrics.Run
	last   uint32 // number of the round before
	buffer bytes.Buffer
	record record.Record
	round  metrics.Round
}

// NewReader reads what stands before the rounds. A log that was torn before its
// first round is one without rounds, unless not even its run is whole.
func NewReader(in io.Reader) (*Reader, error) {
	r := &Reader{in: bufio.NewReaderSize(in, bufferSize)}
	var header [headerSize]byte
	n, err := io.ReadFull(r.in, header[:])
	switch {
	case err != nil && !short(err):
		return nil, fmt.Errorf("eventlog: %w", err)
	case n == 0:
		return nil, fmt.Errorf("eventlog: %w (it is empty)", ErrNotALog)
	case !bytes.HasPrefix(header[:n], []byte(magic)):
		return nil, fmt.Errorf("eventlog: %w (it does not begin with %s)", ErrNotALog, magic)
	case n < headerSize:
		return nil, fmt.Errorf("eventlog: %w (it ends before its version)", ErrNotALog)
	}
	if v := binary.LittleEndian.Uint32(header[len(magic):]); v == 0 || v > Version {
		return nil, fmt.Errorf("eventlog: %w: %d, this one reads 1 to %d", ErrVersion, v, Version)
	}
	r.offset = int64(headerSize)
	if err := r.next(); errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("eventlog: %w (it ends before its run is named)", ErrNotALog)
	} else if err != nil {
		return nil, err
	}
	m := r.record.GetRun()
	if m == nil {
		return nil, damaged(r.offset, "the first record is not the run")
	}
	r.run = &metrics.Run{
		Name: m.Name, Task: m.Task, Schedule: m.Schedule, Seed: m.Seed,
		Clients: int(m.Clients), Cohort: int(m.Cohort), Close: m.Close, Deadline: round.Time(m.DeadlineNs),
		Classes: m.Classes, Slowest: int(m.Slowest), Sample: int(m.Sample), Version: m.Version,
	}
	switch {
	case m.Metrics != nil:
		for _, name := range m.Metrics.Names {
			r.run.Metrics = append(r.run.Metrics, measure.Metric{Name: name})
		}
	case m.Task != quadratic:
		r.run.Metrics = []measure.Metric{{Name: measure.Accuracy}}
	}
	if err := check(r.run); err != nil {
		return nil, damaged(r.offset, err.Error())
	}
	return r, nil
}

// Run is the run that the log is of, as far as the log says.
func (r *Reader) Run() *metrics.Run { return r.run }

// Torn says, once Round has given io.EOF, whether the log ends within a record.
func (r *Reader) Torn() bool { return r.torn }

// Round is the next round, io.EOF behind the last. Its memory is reused by the
// next call. A value that was not measured is NaN.
func (r *Reader) Round() (*metrics.Round, error) {
	at := r.offset
	if err := r.next(); err != nil {
		return nil, err
	}
	m := r.record.GetRound()
	if m == nil {
		return nil, damaged(at, "a record that is not a round")
	}
	if m.Round <= r.last || m.Round > round.MaxRounds {
		return nil, damaged(at, fmt.Sprintf("round %d follows round %d", m.Round, r.last))
	}
	if err := r.take(m); err != nil {
		return nil, damaged(at, fmt.Sprintf("round %d: %v", m.Round, err))
	}
	r.last = m.Round
	return &r.round, nil
}

// next reads a record into r.record. io.EOF at the end, torn or not.
func (r *Reader) next() error {
	var frame [frameSize]byte
	if n, err := io.ReadFull(r.in, frame[:]); err != nil {
		return r.ends(err, n > 0)
	}
	size, sum := binary.LittleEndian.Uint32(frame[:]), binary.LittleEndian.Uint32(frame[4:])
	if frame == [frameSize]byte{} && r.zeros() { // a file system may leave them behind when the power fails
		r.torn = true
		return io.EOF
	}
	// A length that is damaged must not look like a tail that is torn.
	if got, want := crc32.Checksum(frame[:8], castagnoli), binary.LittleEndian.Uint32(frame[8:]); got != want {
		return damaged(r.offset, fmt.Sprintf("a record's length has the checksum %08x, its bytes give %08x", want, got))
	}
	if size == 0 || size > maxRecord {
		return damaged(r.offset, fmt.Sprintf("a record of %d bytes, want 1 to %d", size, maxRecord))
	}
	// Memory grows with what is there, not with what a length promises.
	r.buffer.Reset()
	if _, err := io.CopyN(&r.buffer, r.in, int64(size)); err != nil {
		return r.ends(err, true)
	}
	if got := crc32.Checksum(r.buffer.Bytes(), castagnoli); got != sum {
		return damaged(r.offset, fmt.Sprintf("a record's checksum is %08x, its bytes give %08x", sum, got))
	}
	if err := proto.Unmarshal(r.buffer.Bytes(), &r.record); err != nil {
		return damaged(r.offset, "a record that is not a message: "+err.Error())
	}
	r.offset += int64(frameSize) + int64(size)
	return nil
}

// ends tells a log that ends, within a record or not, from one that cannot be read.
func (r *Reader) ends(err error, within bool) error {
	if !short(err) {
		return fmt.Errorf("eventlog: %w", err)
	}
	r.torn = r.torn || within
	return io.EOF
}

func short(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// zeros says whether nothing but zeros follows.
func (r *Reader) zeros() bool {
	for {
		b, err := r.in.ReadByte()
		if err != nil {
			return short(err)
		}
		if b != 0 {
			return false
		}
	}
}

func damaged(at int64, what string) error {
	return fmt.Errorf("eventlog: %w at byte %d: %s", ErrDamaged, at, what)
}

// take turns a message into r.round.
func (r *Reader) take(m *record.Round) error {
	start, took := round.Time(m.StartNs), round.Time(m.TookNs)
	switch {
	case start < 0 || took < 0 || start > math.MaxInt64-took:
		return fmt.Errorf("it starts at %d ns and takes %d ns", start, took)
	case len(m.Outcomes) != round.Outcomes:
		return fmt.Errorf("%d outcomes, want %d", len(m.Outcomes), round.Outcomes)
	case m.SgdSteps > math.MaxInt64:
		return fmt.Errorf("%d steps of SGD", m.SgdSteps)
	}
	report := round.Report{
		Round: int(m.Round), Start: start, End: start + took, LocalSteps: int(m.LocalSteps), LearningRate: m.LearningRate,
		Cohort: int(m.Cohort), Candidates: int(m.Candidates), SGDSteps: int64(m.SgdSteps),
		TrainingLoss: metrics.Value(m.TrainingLoss), WindowLoss: metrics.Value(m.WindowLoss),
		Evaluated: m.ValidationLoss != nil, ValidationLoss: metrics.Value(m.ValidationLoss), Metrics: m.ValidationMetrics,
	}
	if m.ValidationAccuracy != nil {
		report.Metrics = []float64{*m.ValidationAccuracy}
	}
	if n := len(report.Metrics); n > len(r.run.Metrics) {
		return fmt.Errorf("%d metrics of %d", n, len(r.run.Metrics))
	}
	for i, n := range m.Outcomes {
		report.Outcomes[i] = int(n)
	}
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

func taskOf(m *record.Task, start round.Time) (t metrics.Task, err error) {
	for _, d := range [...]int64{m.TookNs, m.DownloadNs, m.ComputeNs, m.UploadNs, m.DropoutNs} {
		if d < 0 || d > 4*int64(round.MaxDuration) {
			return t, fmt.Errorf("a duration of %d ns", d)
		}
	}
	begins := int64(start) + m.StartNs
	if m.StartNs > 0 && begins < int64(start) || begins < 0 || begins > math.MaxInt64-m.TookNs {
		return t, fmt.Errorf("a start %d ns after the round's", m.StartNs)
	}
	if m.Client > round.MaxClients || m.Class > maxClasses {
		return t, fmt.Errorf("client %d of class %d", m.Client, m.Class)
	}
	if m.Outcome < 0 || int(m.Outcome) >= round.Outcomes {
		return t, fmt.Errorf("outcome %d", m.Outcome)
	}
	t.Task, t.Client, t.Class, t.LocalSteps = m.Task, int(m.Client), int(m.Class), int(m.LocalSteps)
	t.Outcome = round.Outcome(m.Outcome)
	t.Start, t.End = round.Time(begins), round.Time(begins+m.TookNs)
	t.Plan = round.Plan{
		Download: round.Time(m.DownloadNs), Compute: round.Time(m.ComputeNs), Upload: round.Time(m.UploadNs),
		Drops: m.Drops, Dropout: round.Time(m.DropoutNs),
	}
	t.Probe, t.Real, t.Slow = m.Probe, m.Real, m.Slow
	return t, nil
}
