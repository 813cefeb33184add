package devicelog

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/proto"

	"fedpace/bus"
	"fedpace/coordinator/realdevices"
	"fedpace/coordinator/round"
	"fedpace/experiment/devicelog/record"
	"fedpace/experiment/folder"
	"fedpace/internal/framing"
	"fedpace/internal/regular"
	"fedpace/metrics"
)

// File is where a run with real devices keeps what they answered. If that is with their
// updates, the run can be played again without them.
//
// It begins with the line "fedpace devices 3". Then come records as package framing has them, of
// which devicelog.proto is the form.
const File = folder.DevicesFile

const magic = "fedpace devices 3\n"

// What a record takes: at most, and an update's besides its values.
const (
	maxRecord  = 1<<16 + 4*bus.MaxParams
	recordSize = 50
)

// kinds are what became of tasks, by the kind of their answers.
var kinds = [...]round.EventKind{
	record.Answer_UPDATE:    round.Planned,
	record.Answer_SILENT:    round.Silent,
	record.Answer_REFUSED:   round.Invalid,
	record.Answer_OVERTAKEN: round.TimedOut,
}

// Bytes is by how much the log grows with a number of updates of a model of so many parameters. keep
// says that it holds the updates' values.
func Bytes(updates, params float64, keep bool) float64 {
	if !keep {
		params = 0
	}
	return updates * (framing.Size + recordSize + 4*params)
}

// Log is the record of one run's devices: one that is written, or one of another run that is replayed. A
// log that is written keeps nothing of what it holds in memory, however long the run is. It belongs to
// the run's goroutine.
type Log struct {
	// Keep says that the log holds the updates' values, too.
	Keep bool
	// Replay says that the log is one of another run, which is read and not written.
	Replay bool
	// path is the path of the log that is replayed; it is empty for a log that is written.
	path string
	// file is the file that is written; it is nil in a replay.
	file metrics.File
	// buffer holds the record that is being written; its memory is used again for the next.
	buffer []byte
	// answers maps a task to the offset in bytes of its last answer in the file; it is used in a
	// replay only.
	answers map[uint64]int64
	// presence lists, in a replay, when devices joined and left, without those already played.
	presence []realdevices.Presence
	// bans lists the bans of devices that a replay repeats.
	bans []realdevices.Ban
	// Reported holds, in a replay, the numbers of samples that each client reported last.
	Reported map[int]Samples
}

// Samples are the numbers of samples that a client reported last, when it joined and with an update; 0
// means that it reported none.
type Samples struct{ Joined, Answered int }

func init() {
	metrics.Sinks.Register("devices", "what real devices answered, in "+File, Sink{})
}

// Sink is the output that writes devices.log; it has no options.
type Sink struct{}

func (Sink) Files() []string { return []string{File} }

func (Sink) Open(*metrics.Run) (metrics.Output, error) {
	return &Log{}, nil
}

// Round implements [metrics.Output].
func (l *Log) Round(*metrics.Round) error { return nil }

// Start implements [metrics.Starter].
func (l *Log) Start(s *metrics.Start) (err error) {
	if l.file, err = s.Append(File); err != nil {
		return err
	}
	// A new file begins with the magic line; one that is continued must already have it.
	if l.file.Size() == 0 {
		_, err = io.WriteString(l.file, magic)
		return err
	}
	f, _, err := regular.Open(s.Path(File))
	if err != nil {
		return err
	}
	defer f.Close() // read only
	if err := readMagic(f); err != nil {
		return fmt.Errorf("%s: %w", s.Path(File), err)
	}
	return nil
}

// readMagic reads the line with which a log begins, and refuses one of another version.
func readMagic(in io.Reader) error {
	start := make([]byte, len(magic))
	if _, err := io.ReadFull(in, start); err != nil || string(start) != magic {
		return errors.New("it is not a log of devices of this version")
	}
	return nil
}

// ErrBare is wrapped by the error for a log without the updates that a replay needs.
var ErrBare = errors.New("it holds how long tasks took and no updates")

// ErrNone is wrapped by the error for a folder without a log.
var ErrNone = errors.New("no run with real devices is there")

// Open opens the log of the run in a folder, to be played again. With [ErrBare] it has all but the
// updates.
func Open(dir string) (*Log, error) {
	l := &Log{
		path:     filepath.Join(dir, File),
		Replay:   true,
		answers:  map[uint64]int64{},
		Reported: map[int]Samples{},
	}
	f, _, err := regular.Open(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w (it holds no %s)", dir, ErrNone, File)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only
	if err := l.scan(bufio.NewReaderSize(f, 1<<16)); err != nil {
		return l, fmt.Errorf("%s: %w", l.path, err)
	}
	return l, nil
}

// errDamaged is wrapped by the errors for records that are not as they were written.
var errDamaged = errors.New("it is damaged")

// scan reads all records of a log, and notes where each answer stands. A record that a crash tore off at
// the end counts as if it were not there.
func (l *Log) scan(in *bufio.Reader) error {
	if err := readMagic(in); err != nil {
		return err
	}
	records := framing.NewReader(in, int64(len(magic)), maxRecord, errDamaged)
	// bare says that some update has been read without its values, so that no replay is possible.
	bare := false
	for {
		offset := records.Offset
		r, err := next(records)
		switch {
		case errors.Is(err, io.EOF) && bare:
			return fmt.Errorf("%w: the run cannot be played again (a run with devices.keep_updates: true can)", ErrBare)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		// A record is of one kind, so only one of the three branches that follow applies.
		if b := r.GetBan(); b != nil {
			l.bans = append(l.bans, realdevices.Ban{Client: int(b.Client), Reason: b.Reason, For: b.ForNs})
		}
		if p := r.GetPresence(); p != nil {
			l.presence = append(l.presence, realdevices.Presence{
				Clock:   p.Clock,
				Client:  int(p.Client),
				Joined:  p.Joined,
				Samples: int(p.Samples),
			})
			if p.Joined {
				l.Reported[int(p.Client)] = Samples{Joined: int(p.Samples), Answered: l.Reported[int(p.Client)].Answered}
			}
		}
		if a := r.GetAnswer(); a != nil {
			bare = bare || a.Kind == record.Answer_UPDATE && a.Values == nil
			// Later answers to the same task replace earlier ones.
			l.answers[a.Task] = offset
			if a.Kind == record.Answer_UPDATE {
				l.Reported[int(a.Client)] = Samples{Joined: l.Reported[int(a.Client)].Joined, Answered: int(a.Samples)}
			}
		}
	}
}

// next reads one record and checks its values; io.EOF at the end, torn or not.
func next(records *framing.Reader) (*record.Record, error) {
	offset := records.Offset
	payload, err := records.Next()
	if err != nil {
		return nil, err
	}
	r := &record.Record{}
	if err := proto.Unmarshal(payload, r); err != nil {
		return nil, records.Damaged(offset, err.Error())
	}
	a := r.GetAnswer()
	// The getters return zero for a record of another kind, so the checks fit all kinds.
	samples := max(a.GetSamples(), r.GetPresence().GetSamples())
	loss := a.GetFirstLoss()
	switch d := []round.Time{
		round.Time(a.GetDownloadNs()),
		round.Time(a.GetComputeNs()),
		round.Time(a.GetUploadNs()),
	}; {
	case r.Kind == nil || int(a.GetKind()) >= len(kinds) || a.GetKind() < 0:
		return nil, records.Damaged(offset, "it is of an unknown kind")
	case slices.Min(d) < 0 || slices.Max(d) > round.MaxDuration:
		return nil, records.Damaged(offset, fmt.Sprintf("it has durations of %d ns", d))
	case samples > bus.MaxDeviceSamples || loss < 0 || loss > bus.MaxDeviceLoss:
		return nil, records.Damaged(offset, fmt.Sprintf("it has a loss of %g and %d samples", loss, samples))
	}
	return r, nil
}

// write appends a record with its frame.
func (l *Log) write(r *record.Record) (err error) {
	if l.buffer, err = (proto.MarshalOptions{}).MarshalAppend(framing.Begin(l.buffer[:0]), r); err == nil {
		_, err = l.file.Write(framing.Seal(l.buffer))
	}
	if err != nil {
		return fmt.Errorf("results: %s: %w", File, err)
	}
	return nil
}

// AddAnswer implements [realdevices.Record].
func (l *Log) AddAnswer(a *realdevices.Answer) error {
	r := &record.Answer{
		Kind:       record.Answer_Kind(slices.Index(kinds[:], a.Kind)),
		Task:       a.Task,
		Client:     uint32(a.Client),
		DownloadNs: int64(a.Plan.Download),
		ComputeNs:  int64(a.Plan.Compute),
		UploadNs:   int64(a.Plan.Upload),
	}
	if a.Kind == round.Planned {
		r.FirstLoss = a.Loss
		r.Samples = uint32(a.Samples)
	}
	if a.Kind == round.Planned && l.Keep {
		r.Values = a.Values
	}
	return l.write(&record.Record{Kind: &record.Record_Answer{Answer: r}})
}

// AddPresence implements [realdevices.Record].
func (l *Log) AddPresence(p realdevices.Presence) error {
	r := &record.Presence{
		Clock:   p.Clock,
		Client:  uint32(p.Client),
		Joined:  p.Joined,
		Samples: uint32(p.Samples),
	}
	return l.write(&record.Record{Kind: &record.Record_Presence{Presence: r}})
}

// AddBan implements [realdevices.Record].
func (l *Log) AddBan(ban realdevices.Ban) error {
	r := &record.Ban{Client: uint32(ban.Client), Reason: bus.ValidText(ban.Reason), ForNs: ban.For}
	return l.write(&record.Record{Kind: &record.Record_Ban{Ban: r}})
}

// Bans implements [realdevices.Record].
func (l *Log) Bans() []realdevices.Ban { return l.bans }

// Presence implements [realdevices.Record].
func (l *Log) Presence() (p realdevices.Presence, ok bool, err error) {
	if len(l.presence) == 0 {
		return p, false, nil
	}
	p = l.presence[0]
	l.presence = l.presence[1:]
	return p, true, nil
}

// Answer implements [realdevices.Record].
func (l *Log) Answer(task uint64) (*realdevices.Answer, error) {
	offset, ok := l.answers[task]
	if !ok {
		return nil, nil
	}
	f, _, err := regular.Open(l.path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only
	tail := bufio.NewReader(io.NewSectionReader(f, offset, framing.Size+maxRecord))
	records := framing.NewReader(tail, offset, maxRecord, errDamaged)
	r, err := next(records)
	if err == nil && r.GetAnswer() == nil {
		err = records.Damaged(offset, "it is no answer")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.path, err)
	}
	a := r.GetAnswer()
	return &realdevices.Answer{
		Kind:   kinds[a.Kind],
		Task:   a.Task,
		Client: int(a.Client),
		Plan: round.Plan{
			Download: round.Time(a.DownloadNs),
			Compute:  round.Time(a.ComputeNs),
			Upload:   round.Time(a.UploadNs),
		},
		Loss:    a.FirstLoss,
		Samples: int(a.Samples),
		Values:  a.Values,
	}, nil
}
