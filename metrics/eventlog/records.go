package eventlog

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"

	"fedpace/coordinator/round"
	"fedpace/internal/framing"
	"fedpace/learn/metric"
	"fedpace/metrics"
	"fedpace/metrics/eventlog/record"
)

// oldDevices begins a devices.log in the old format, which that file had before it had the format of this package.
// Its records are OldDevices of eventlog.proto, and no description of a run stands before them.
const oldDevices = "fedpace devices 3\n"

// Records reads the records of a log one after another: rounds of an events.log, what real devices did of a
// devices.log. It checks their frames and that they are messages. What they say is the caller's to check.
type Records struct {
	// frames divides the file into records and checks their checksums.
	frames *framing.Reader
	// run is what the log says of its run; nil in a devices.log in the old format.
	run *metrics.Run
	// old says that the log is a devices.log in the old format (see oldDevices).
	old bool
	// record is the last record, whose memory is reused.
	record record.Record
}

// NewRecords reads what stands before the records of a log: its header and the description of its run. A devices.log
// in the old format has no description, so [Records.Run] is nil there. maxRecord is the size of the largest record
// in bytes.
func NewRecords(in io.Reader, maxRecord int64) (*Records, error) {
	buffered := bufio.NewReaderSize(in, bufferSize)
	// Only a devices.log in the old format has this beginning, which is longer than the header.
	if start, _ := buffered.Peek(len(oldDevices)); string(start) == oldDevices {
		if _, err := buffered.Discard(len(oldDevices)); err != nil {
			return nil, fmt.Errorf("eventlog: %w", err)
		}
		frames := framing.NewReader(buffered, int64(len(oldDevices)), maxRecord, ErrDamaged)
		return &Records{frames: frames, old: true}, nil
	}
	r := &Records{frames: framing.NewReader(buffered, int64(headerSize), maxRecord, ErrDamaged)}
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
	return r, r.readRun()
}

// readRun reads the record after the header, which describes the run.
func (r *Records) readRun() error {
	first, err := r.Next()
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("eventlog: %w (it ends before its run is named)", ErrNotALog)
	}
	if err != nil {
		return err
	}
	m := first.GetRun()
	if m == nil {
		return r.Damaged(int64(headerSize), "the first record is not the run")
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
		return r.Damaged(int64(headerSize), err.Error())
	}
	return nil
}

// RecordAt reads the one record that begins at an offset of a log, in bytes. in must begin at that offset; the offset
// itself is used for messages alone. maxRecord is the size of the largest record in bytes. like are the [Records]
// that gave the offset, which say whether the log has the old format.
func RecordAt(in io.Reader, offset, maxRecord int64, like *Records) (*record.Record, error) {
	frames := framing.NewReader(bufio.NewReader(in), offset, maxRecord, ErrDamaged)
	r := &Records{frames: frames, old: like.old}
	found, err := r.Next()
	if errors.Is(err, io.EOF) {
		return nil, r.Damaged(offset, "the log ends there")
	}
	return found, err
}

// Run is the run that the log is of, as far as the log says; nil if it does not.
func (r *Records) Run() *metrics.Run { return r.run }

// Offset is where the record that comes next begins, in bytes from the start of the log.
func (r *Records) Offset() int64 { return r.frames.Offset }

// Torn says, once Next has given io.EOF, whether the log ends within a record.
func (r *Records) Torn() bool { return r.frames.Torn }

// Next returns the next record, whose memory the next call reuses. It returns io.EOF at the end of the log,
// even if that lies within a record.
func (r *Records) Next() (*record.Record, error) {
	offset := r.frames.Offset
	payload, err := r.frames.Next()
	if errors.Is(err, io.EOF) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("eventlog: %w", err)
	}
	if err := r.decode(payload); err != nil {
		return nil, r.Damaged(offset, "a record that is not a message: "+err.Error())
	}
	return &r.record, nil
}

// decode reads a payload, the encoded message of a record, into r.record. A record in the old format is turned into
// one of today.
func (r *Records) decode(payload []byte) error {
	if !r.old {
		return proto.Unmarshal(payload, &r.record)
	}
	var old record.OldDevices
	if err := proto.Unmarshal(payload, &old); err != nil {
		return err
	}
	r.record.Reset()
	switch kind := old.Kind.(type) {
	case *record.OldDevices_Answer:
		r.record.Kind = &record.Record_Answer{Answer: kind.Answer}
	case *record.OldDevices_Presence:
		r.record.Kind = &record.Record_Presence{Presence: kind.Presence}
	case *record.OldDevices_Ban:
		r.record.Kind = &record.Record_Ban{Ban: kind.Ban}
	}
	return nil
}

// Damaged returns the error of a log that is damaged at an offset, in bytes from the start of the
// log. problem says what is wrong there.
func (r *Records) Damaged(offset int64, problem string) error {
	return fmt.Errorf("eventlog: %w", r.frames.Damaged(offset, problem))
}
