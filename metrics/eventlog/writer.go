package eventlog

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sort"
	"time"

	"google.golang.org/protobuf/proto"

	"fedpace/coordinator/round"
	"fedpace/internal/framing"
	"fedpace/learn/metric"
	"fedpace/metrics"
	"fedpace/metrics/eventlog/record"
)

func init() {
	metrics.Sinks.Register("events", "rounds and some of their tasks in "+File, Sink{})
}

// Sink is the output's entry. A configuration has its options under the key events.
type Sink struct {
	// Sample is the number of clients in each round whose tasks the log keeps, beside the slowest
	// tasks and those of real devices.
	Sample int
	// Megabytes is the size of the log from which on it keeps only 512 rounds of each doubling of
	// the number of rounds.
	Megabytes float64
}

// Files implements [metrics.Sink].
func (Sink) Files() []string { return []string{File} }

// Open implements [metrics.Sink]. It raises the run's sample to what the log needs, and logs no
// more than that even if another output asks for a larger one.
func (s Sink) Open(run *metrics.Run) (metrics.Output, error) {
	run.Sample = max(run.Sample, s.Sample)
	logged := *run
	logged.Sample = s.Sample
	// All devices are alike, so the log names no class.
	if len(logged.Classes) < 2 {
		logged.Classes = nil
	}
	return &output{run: &logged, sizeLimit: int64(s.Megabytes * 1e6)}, check(&logged)
}

// flushEvery is how long, in wall time, rounds may stay in memory.
const flushEvery = time.Second

// output is a run's log. The Writer is nil before Start.
type output struct {
	*Writer
	// run describes the run as the log names it.
	run *metrics.Run
	// sizeLimit is the size in bytes from which on only detailed rounds are kept.
	sizeLimit int64
	// flushed is the wall-clock time of the last flush.
	flushed time.Time
}

// Start implements [metrics.Starter]: it begins the log in the run's folder with a description of
// the run. If the run is resumed, it continues the log that is there.
func (o *output) Start(s *metrics.Start) error {
	file, err := s.Append(File)
	if err != nil {
		return err
	}
	// The file has content, so this run continues the log of an earlier attempt.
	if file.Size() > 0 {
		o.Writer = Append(file, o.run)
		o.size = file.Size()
		return nil
	}
	o.Writer, err = NewWriter(file, o.run)
	return err
}

// Round implements [metrics.Output]: it writes round r to the log, and flushes the log from time to
// time. A log that has reached its size limit takes only detailed rounds.
func (o *output) Round(r *metrics.Round) error {
	if o.size >= o.sizeLimit && !Detailed(r.Round) {
		return nil
	}
	err := o.Writer.Round(r)
	if now := time.Now(); err == nil && now.Sub(o.flushed) >= flushEvery {
		o.flushed = now
		err = o.Flush()
	}
	return err
}

// Writer appends to a log through a buffer. It belongs to the run's goroutine.
// After an error every method returns it.
type Writer struct {
	// buffer holds whole records that are not yet in the file.
	buffer *bufio.Writer
	// size is the number of bytes of all that was written, the buffer included.
	size int64
	// maxRecord is the size of the largest record in bytes: a reader refuses longer ones.
	maxRecord int
	// record is the encoding of the last record. Its memory is reused, as is that of tasks.
	record []byte
	// tasks are the messages of the last round's tasks, for use in the next one.
	tasks []*record.Task

	// metrics describes the run's metrics; nil: accuracy is the only one.
	metrics *record.Metrics
}

// bufferSize is how many bytes of records are kept in memory before they are written.
const bufferSize = 64 << 10

// NewWriter begins a log of run on out, which must be empty: it writes the header and the
// description of the run. It fails if the run exceeds the limits of the format.
func NewWriter(out io.Writer, run *metrics.Run) (*Writer, error) {
	if err := check(run); err != nil {
		return nil, fmt.Errorf("eventlog: %w", err)
	}
	w := Append(out, run)
	_, err := w.buffer.Write(binary.LittleEndian.AppendUint32([]byte(magic), Version))
	w.size = int64(headerSize)
	err = errors.Join(err, w.Add(&record.Record{Kind: &record.Record_Run{Run: &record.Run{
		Name:       run.Name,
		Task:       run.Task,
		Schedule:   run.Schedule,
		Seed:       run.Seed,
		Clients:    uint32(run.Clients),
		Cohort:     uint32(run.Cohort),
		Close:      run.Close,
		DeadlineNs: int64(run.Deadline),
		Classes:    run.Classes,
		Slowest:    uint32(run.Slowest),
		Sample:     uint32(run.Sample),
		Version:    run.Version,
		Metrics:    metricsOf(run),
	}}}))
	// The flush ensures that even a run that is killed early leaves its description.
	return w, errors.Join(err, w.Flush())
}

// Append returns a writer that continues the log of run on w, which must end with a whole record.
// It writes nothing yet.
func Append(w io.Writer, run *metrics.Run) *Writer {
	return &Writer{
		buffer:    bufio.NewWriterSize(w, bufferSize),
		metrics:   metricsOf(run),
		maxRecord: maxRecord,
	}
}

// AllowRecords makes a number of bytes the size of the largest record, for a log that holds more than rounds.
func (w *Writer) AllowRecords(maxRecord int) { w.maxRecord = maxRecord }

// metricsOf returns the names of a run's metrics for the log. It returns nil where the log needs no
// names: for a run that does not train, for quadratics, which have no metrics, and where accuracy is
// the only metric, for which a round's record has a field.
func metricsOf(run *metrics.Run) *record.Metrics {
	hasMetrics := run.Train && run.Task != quadratic
	hasAccuracyAlone := len(run.Metrics) == 1 && run.Metrics[0].Name == metric.Accuracy
	if !hasMetrics || hasAccuracyAlone {
		return nil
	}
	return &record.Metrics{Names: metric.Names(run.Metrics)}
}

// Flush hands what is buffered to the operating system. It does not wait for the disk.
func (w *Writer) Flush() error { return w.buffer.Flush() }

// Round adds a round. Where its number is not [Detailed], only its slowest task
// and those of real devices are written.
func (w *Writer) Round(r *metrics.Round) error {
	return w.Add(&record.Record{Kind: &record.Record_Round{Round: w.message(r)}})
}

// message returns round r in the form in which the log holds it. If its number is not [Detailed],
// only the slowest task and those of real devices are in it. Its tasks are valid until the next
// call.
func (w *Writer) message(r *metrics.Round) *record.Round {
	m := &record.Round{
		Round:        uint32(r.Round),
		StartNs:      int64(r.Start),
		TookNs:       int64(r.End - r.Start),
		LocalSteps:   uint32(r.LocalSteps),
		LearningRate: r.LearningRate,
		Cohort:       uint32(r.Cohort),
		Candidates:   uint32(r.Candidates),
		TrainingLoss: metrics.Measured(r.TrainingLoss),
		WindowLoss:   metrics.Measured(r.WindowLoss),
		SgdSteps:     uint64(r.SGDSteps),
		Ended:        uint32(r.Ended),
		Thinned:      !Detailed(r.Round),
	}
	// A log that does not name its metrics has the accuracy as its only one.
	if r.Evaluated {
		m.ValidationLoss = metrics.Measured(r.ValidationLoss)
		if w.metrics != nil {
			m.ValidationMetrics = r.Metrics
		} else if len(r.Metrics) > 0 {
			m.ValidationAccuracy = metrics.Measured(r.Metrics[0])
		}
	}
	for _, n := range r.Outcomes {
		m.Outcomes = append(m.Outcomes, uint32(n))
	}
	slowest := slowestOf(r.Tasks)
	// The messages of tasks are reused from round to round, so their number only grows.
	for len(w.tasks) < len(r.Tasks) {
		w.tasks = append(w.tasks, new(record.Task))
	}
	for i := range r.Tasks {
		t := &r.Tasks[i]
		// A round that is not detailed keeps its slowest task and those of real devices.
		if m.Thinned && !t.Real && i != slowest {
			continue
		}
		written := w.tasks[len(m.Tasks)]
		written.Task = t.TaskReport.Task
		written.Client = uint32(t.Client)
		written.Class = uint32(t.Class)
		written.LocalSteps = uint32(t.LocalSteps)
		written.Outcome = record.Outcome(t.Outcome)
		// Times are relative to the start of the round, which keeps the encoded numbers short.
		written.StartNs = int64(t.Start - r.Start)
		written.TookNs = int64(t.End - t.Start)
		written.DownloadNs = int64(t.Plan.Download)
		written.ComputeNs = int64(t.Plan.Compute)
		written.UploadNs = int64(t.Plan.Upload)
		written.Drops = t.Plan.Drops
		written.DropoutNs = int64(t.Plan.Dropout)
		written.Probe = t.Probe
		written.Real = t.Real
		written.Slow = t.Slow
		written.Name = t.Name
		m.Tasks = append(m.Tasks, written)
	}
	return m
}

// slowestOf returns the index of the task that took longest, -1 if there is none. Only tasks marked as Slow count:
// those that were kept because they are among the slowest of their round.
func slowestOf(tasks []metrics.Task) int {
	slowest := -1
	longest := round.Time(-1)
	for i := range tasks {
		took := tasks[i].End - tasks[i].Start
		if tasks[i].Slow && took > longest {
			slowest = i
			longest = took
		}
	}
	return slowest
}

// Add appends a record. If the record does not fit into the buffer, the buffer is written first, so
// that the file always ends with a whole record.
func (w *Writer) Add(message *record.Record) error {
	bytes, err := proto.MarshalOptions{}.MarshalAppend(framing.Begin(w.record[:0]), message)
	// A reader refuses longer records, so none may be written.
	if size := len(bytes) - framing.Size; err == nil && size > w.maxRecord {
		err = fmt.Errorf("a record of %d bytes, want at most %d", size, w.maxRecord)
	}
	if err != nil {
		return fmt.Errorf("eventlog: %w", err)
	}
	w.record = framing.Seal(bytes)
	if w.buffer.Available() < len(bytes) {
		// A failed flush leaves its error in the buffer, and the next Write returns it.
		_ = w.buffer.Flush()
	}
	w.size += int64(len(bytes))
	_, err = w.buffer.Write(bytes)
	return err
}

// Sizes of records in bytes, about, where times are of seconds to hours: roundBytes for a round without
// tasks, and taskBytes for each of its tasks besides.
const (
	roundBytes = 70
	taskBytes  = 39
)

// Bytes estimates the size of a run's log, in bytes, after a number of rounds. devices is the number
// of tasks of real devices in each round, and simulated the number of other tasks in each detailed
// round. The estimate respects the limit s.Megabytes, beyond which only detailed rounds are logged.
func (s Sink) Bytes(devices, simulated int, rounds float64) float64 {
	// A record is large if its round is detailed (see Detailed); else it has at most one simulated task, the slowest.
	large := roundBytes + taskBytes*float64(devices+simulated)
	small := roundBytes + taskBytes*float64(devices+min(simulated, 1))
	// All of the first rounds are detailed, and then, each time the number of rounds doubles, half of first more.
	// detailed and logSize are about the first n rounds: how many of them are detailed, and the bytes of all.
	first := float64(1 << 10)
	detailed := func(n float64) float64 { return min(n, first) + first/2*math.Log2(max(1, n/first)) }
	logSize := func(n float64) float64 { return detailed(n)*large + (n-detailed(n))*small }
	// full is the number of rounds after which the log reaches its size, or all rounds.
	full := rounds
	if logSize(rounds) > s.Megabytes*1e6 {
		n := sort.Search(int(rounds), func(n int) bool { return logSize(float64(n)) >= s.Megabytes*1e6 })
		full = min(max(first, float64(n)), rounds)
	}
	return logSize(full) + (detailed(rounds)-detailed(full))*large
}
