package devicelog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"fedpace/bus"
	"fedpace/coordinator/realdevices"
	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/internal/framing"
	"fedpace/internal/regular"
	"fedpace/metrics"
	"fedpace/metrics/eventlog"
	"fedpace/metrics/eventlog/record"
)

// File is where a run with real devices keeps what they answered. If that is with their
// updates, the run can be played again without them. It has the format of package eventlog. Behind the
// run come the answers, presences and bans of eventlog.proto, as they happen.
const File = folder.DevicesFile

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

// GrowthBytes is the number of bytes by which the log grows with these updates of a model with params
// parameters. keep says that the log holds the updates' values.
func GrowthBytes(updates, params float64, keep bool) float64 {
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
	// run describes the run as a log that is written names it.
	run *metrics.Run
	// writer writes the log; it is nil in a replay.
	writer *eventlog.Writer
	// records read the log from its beginning; they are nil where it is written.
	records *eventlog.Records
	// answerOffsets maps a task to the offset in bytes of its last answer in the file; it is used in a
	// replay only.
	answerOffsets map[uint64]int64
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

// Files names the file that the output writes.
func (Sink) Files() []string { return []string{File} }

// Open makes the log of a run.
func (Sink) Open(run *metrics.Run) (metrics.Output, error) {
	return &Log{run: run}, nil
}

// Round implements [metrics.Output].
func (l *Log) Round(*metrics.Round) error { return nil }

// Start implements [metrics.Starter]: it begins the log in the run's folder. If the run is resumed, it
// continues the log that is there.
func (l *Log) Start(s *metrics.Start) (err error) {
	file, err := s.Append(File)
	if err != nil {
		return err
	}
	if file.Size() > 0 {
		if err := checkFormat(s.Path(File)); err != nil {
			return fmt.Errorf("%s: %w", s.Path(File), err)
		}
		l.writer = eventlog.Append(file, l.run)
	} else {
		l.writer, err = eventlog.NewWriter(file, l.run)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Path(File), err)
		}
	}
	l.writer.AllowRecords(maxRecord)
	return nil
}

// checkFormat returns an error if the log at path is none that this version continues.
func checkFormat(path string) error {
	f, _, err := regular.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() // read only
	records, err := eventlog.NewRecords(f, maxRecord)
	if err != nil {
		return err
	}
	if records.Run() == nil {
		return errors.New("it is of the format before: resume the run with the version of fedpace that wrote it, " +
			"or begin another with --out (run --replay reads it)")
	}
	return nil
}

// ErrNoUpdates is wrapped by the error for a log without the updates that a replay needs.
var ErrNoUpdates = errors.New("it holds how long tasks took and no updates")

// ErrNoLog is wrapped by the error for a folder without a log.
var ErrNoLog = errors.New("no run with real devices is there")

// Open opens the log of the run in a folder, to be played again. With [ErrNoUpdates] it has all but the
// updates.
func Open(dir string) (*Log, error) {
	l := &Log{
		path:          filepath.Join(dir, File),
		Replay:        true,
		answerOffsets: map[uint64]int64{},
		Reported:      map[int]Samples{},
	}
	f, _, err := regular.Open(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w (it holds no %s)", dir, ErrNoLog, File)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only
	if err := l.scan(f); err != nil {
		return l, fmt.Errorf("%s: %w", l.path, err)
	}
	return l, nil
}

// scan reads all records of a log: it keeps bans and presences in memory, and of answers where they stand in the file.
// A record that a crash tore off at the end counts as if it were not there.
func (l *Log) scan(in io.Reader) (err error) {
	l.records, err = eventlog.NewRecords(in, maxRecord)
	if err != nil {
		return err
	}
	// lacksUpdates says that some update has been read without its values, so that no replay is possible.
	lacksUpdates := false
	for {
		offset := l.records.Offset()
		r, err := l.records.Next()
		if err == nil {
			if problem := checkRecord(r); problem != "" {
				err = l.records.Damaged(offset, problem)
			}
		}
		switch {
		case errors.Is(err, io.EOF) && lacksUpdates:
			return fmt.Errorf(
				"%w: the run cannot be played again (a run with devices.keep_updates: true can)",
				ErrNoUpdates,
			)
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
				l.Reported[int(p.Client)] = Samples{
					Joined:   int(p.Samples),
					Answered: l.Reported[int(p.Client)].Answered,
				}
			}
		}
		if a := r.GetAnswer(); a != nil {
			lacksUpdates = lacksUpdates || a.Kind == record.Answer_UPDATE && a.Values == nil
			// Later answers to the same task replace earlier ones.
			l.answerOffsets[a.Task] = offset
			if a.Kind == record.Answer_UPDATE {
				l.Reported[int(a.Client)] = Samples{Joined: l.Reported[int(a.Client)].Joined, Answered: int(a.Samples)}
			}
		}
	}
}

// checkRecord returns what is wrong with a record, or "" if it is as a log of devices has it.
func checkRecord(r *record.Record) string {
	a := r.GetAnswer()
	// The getters return zero for a record of another kind, so the checks fit all kinds.
	samples := max(a.GetSamples(), r.GetPresence().GetSamples())
	loss := a.GetFirstLoss()
	durations := []round.Time{
		round.Time(a.GetDownloadNs()),
		round.Time(a.GetComputeNs()),
		round.Time(a.GetUploadNs()),
	}
	isEmpty := a == nil && r.GetPresence() == nil && r.GetBan() == nil
	isKnownAnswer := a.GetKind() >= 0 && int(a.GetKind()) < len(kinds)
	switch {
	case isEmpty || !isKnownAnswer:
		return "it is of an unknown kind"
	case slices.Min(durations) < 0 || slices.Max(durations) > round.MaxDuration:
		return fmt.Sprintf("it has durations of %d ns", durations)
	case samples > bus.MaxDeviceSamples || loss < 0 || loss > bus.MaxDeviceLoss:
		return fmt.Sprintf("it has a loss of %g and %d samples", loss, samples)
	}
	return ""
}

// write appends a record. It is in the file when write returns: what devices did is known however the
// run ends.
func (l *Log) write(r *record.Record) error {
	if err := errors.Join(l.writer.Add(r), l.writer.Flush()); err != nil {
		return fmt.Errorf("results: %s: %w", File, err)
	}
	return nil
}

// AddAnswer implements [realdevices.Record]: it appends the answer a to the log. The values of an update are
// written only if Keep is set.
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

// Presence implements [realdevices.Record]: in a replay it takes the next joining or leaving of a device off
// the list. ok is false if there is none left.
func (l *Log) Presence() (p realdevices.Presence, ok bool, err error) {
	if len(l.presence) == 0 {
		return p, false, nil
	}
	p = l.presence[0]
	l.presence = l.presence[1:]
	return p, true, nil
}

// Answer implements [realdevices.Record]: in a replay it reads the last answer to a task from the log. It
// returns nil if the log has none.
func (l *Log) Answer(task uint64) (*realdevices.Answer, error) {
	offset, ok := l.answerOffsets[task]
	if !ok {
		return nil, nil
	}
	f, _, err := regular.Open(l.path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only
	// A record is no longer than this.
	tail := io.NewSectionReader(f, offset, framing.Size+maxRecord)
	r, err := eventlog.RecordAt(tail, offset, maxRecord, l.records)
	if err == nil {
		if problem := checkRecord(r); problem != "" {
			err = l.records.Damaged(offset, problem)
		} else if r.GetAnswer() == nil {
			err = l.records.Damaged(offset, "it is no answer")
		}
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
