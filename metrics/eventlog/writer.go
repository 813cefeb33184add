package eventlog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"google.golang.org/protobuf/proto"

	"fedpace/metrics"
	"fedpace/metrics/eventlog/record"
	"fedpace/metrics/timeline"
)

// Writer appends to a log through a buffer. It belongs to the run's goroutine.
// After an error every method returns it.
type Writer struct {
	out    io.Writer
	buffer []byte
	offset int64 // of the file's end, with what is buffered
	err    error

	round, body, task []byte // reused from round to round
}

// bufferSize is how much is kept before it is written.
const bufferSize = 64 << 10

// NewWriter begins a log: it goes to an empty file.
func NewWriter(out io.Writer, run *metrics.Run) (*Writer, error) {
	if err := check(run); err != nil {
		return nil, fmt.Errorf("eventlog: %w", err)
	}
	w := Append(out, 0)
	w.buffer = append(w.buffer, magic...)
	w.buffer = binary.LittleEndian.AppendUint32(w.buffer, Version)
	w.offset = int64(len(w.buffer))
	message, err := proto.Marshal(&record.Record{Kind: &record.Record_Run{Run: &record.Run{
		Name: run.Name, Task: run.Task, Schedule: run.Schedule, Seed: run.Seed,
		Clients: uint32(run.Clients), Cohort: uint32(run.Cohort), Close: run.Close, DeadlineNs: int64(run.Deadline),
		Classes: run.Classes, Slowest: uint32(run.Slowest), Sample: uint32(run.Sample), Version: run.Version,
	}}})
	if err != nil {
		return nil, fmt.Errorf("eventlog: %w", err)
	}
	w.frame(message)
	return w, w.Flush() // a run that is killed leaves at least this
}

// Append goes on with a log that has so many bytes: a place that Offset gave,
// at which the file has been cut.
func Append(out io.Writer, offset int64) *Writer {
	return &Writer{out: out, offset: offset}
}

// Offset is the length of the log, with what is still buffered.
func (w *Writer) Offset() int64 { return w.offset }

// Flush hands what is buffered to the operating system.
func (w *Writer) Flush() error {
	if w.err != nil || len(w.buffer) == 0 {
		return w.err
	}
	if _, err := w.out.Write(w.buffer); err != nil {
		w.err = fmt.Errorf("eventlog: %w", err)
	}
	w.buffer = w.buffer[:0]
	return w.err
}

// Round adds a round. Where its number is not [Detailed], only its slowest task
// and those of real devices are written.
func (w *Writer) Round(r *timeline.Record) error {
	if w.err != nil {
		return w.err
	}
	w.round = w.appendRound(w.round[:0], r)
	w.frame(w.round)
	return w.err
}

// slowestOf is the place of the task that took longest; -1 without tasks.
func slowestOf(tasks []timeline.Task) int {
	slowest := -1
	for i := range tasks {
		if tasks[i].Slow && (slowest < 0 || tasks[i].End-tasks[i].Start > tasks[slowest].End-tasks[slowest].Start) {
			slowest = i
		}
	}
	return slowest
}

// frame appends a record to the buffer, which is written once it is full.
func (w *Writer) frame(message []byte) {
	if len(message) > maxRecord {
		w.err = fmt.Errorf("eventlog: a record of %d bytes, want at most %d", len(message), maxRecord)
		return
	}
	b := w.buffer
	from := len(b)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(message)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(message, castagnoli))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[from:], castagnoli))
	w.buffer = append(b, message...)
	w.offset += int64(len(w.buffer) - from)
	if len(w.buffer) >= bufferSize {
		_ = w.Flush() // kept in w.err
	}
}
