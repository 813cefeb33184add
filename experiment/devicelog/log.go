package devicelog

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"fedpace/bus"
	"fedpace/coordinator/realdevices"
	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/internal/framing"
	"fedpace/internal/regular"
	"fedpace/internal/vector"
	"fedpace/metrics"
)

// File is where a run with real devices keeps what they answered. If that is with their
// updates, the run can be played again without them.
//
// It begins with the line "fedpace devices 2". Then come records as package framing has them.
// Numbers are little-endian. A payload starts with its kind (1 byte), a number (uint64) and a
// client (uint32):
//
//	1 left       the clock
//	2 update     the task; download, compute, upload (int64 ns), first-step loss (float64; NaN:
//	             not told), samples (uint64; 0: not told), values (float32 each)
//	3 silent     the task
//	4 refused    the task; download, compute, upload (int64 ns)
//	5 measured   an update without its values
//	6 joined     the clock; samples (uint64; 0: it did not say)
//	7 overtaken  as 4, of a device without whom its round closed
//	8 banned     nanoseconds (0: for good); the reason (UTF-8)
const File = folder.DevicesFile

const magic = "fedpace devices 2\n"

const (
	recordLeft byte = iota + 1
	recordUpdate
	recordSilent
	recordRefused
	recordMeasured
	recordJoined
	recordOvertaken
	recordBanned
)

// The parts of a payload.
type (
	head struct {
		Kind   byte
		Number uint64
		Client uint32
	}
	durations [3]round.Time
	told      struct {
		Loss    float64
		Samples uint64
	}
)

var (
	updateSize = binary.Size(head{}) + binary.Size(durations{}) + binary.Size(told{})
	maxRecord  = int64(updateSize) + 4*bus.MaxParams
)

// kinds are what became of tasks, by the kind of their records.
var kinds = map[byte]round.EventKind{
	recordUpdate: round.Planned, recordMeasured: round.Planned, recordSilent: round.Silent, recordRefused: round.Invalid, recordOvertaken: round.Overtaken,
}

// Bytes is how much the log grows with so many updates of a model of so many parameters.
func Bytes(updates, params float64, keep bool) float64 {
	if !keep {
		params = 0
	}
	return updates * (framing.Size + float64(updateSize) + 4*params)
}

// Log is the record of one run's devices. It belongs to the run's goroutine. One that is
// written remembers nothing of what it holds, however long the run is.
type Log struct {
	Keep    bool // the updates' values, too
	Replay  bool // the log is read
	path    string
	out     metrics.File // nil: a replay
	buffer  []byte
	answers map[uint64]int64 // of a replay, where the last is in the file, by task
	present []realdevices.Presence
	bans    []realdevices.Ban
	bare    bool // a replay's log has updates without their values
}

func init() {
	metrics.Sinks.Register("devices", "what real devices answered, in "+File, Sink{})
}

// Sink is the output's entry; it has no options.
type Sink struct{}

func (Sink) Files() []string { return []string{File} }

func (Sink) Open(*metrics.Run) (metrics.Output, error) {
	return &Log{}, nil
}

// Round implements [metrics.Output].
func (l *Log) Round(*metrics.Round) error { return nil }

// Start implements [metrics.Starter].
func (l *Log) Start(s *metrics.Start) (err error) {
	if l.out, err = s.Append(File); err != nil {
		return err
	}
	if l.out.Size() == 0 {
		_, err = io.WriteString(l.out, magic)
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

// readMagic reads how a log begins.
func readMagic(in io.Reader) error {
	start := make([]byte, len(magic))
	if _, err := io.ReadFull(in, start); err != nil || string(start) != magic {
		return errors.New("it is not a log of devices of this version")
	}
	return nil
}

// ErrBare is wrapped by the error for a log without the updates that a replay needs.
var ErrBare = errors.New("it holds how long tasks took and no updates")

// Open opens the log of the run in a folder, to be played again.
func Open(dir string) (*Log, error) {
	l, err := open(dir)
	if err == nil && l.bare {
		err = fmt.Errorf("%s: %w: the run cannot be played again (a run with devices.keep_updates: true can)", l.path, ErrBare)
	}
	return l, err
}

// open finds what the log in a folder holds.
func open(dir string) (*Log, error) {
	l := &Log{path: filepath.Join(dir, File), Replay: true, answers: map[uint64]int64{}}
	f, _, err := regular.Open(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: no run with real devices is there (it holds no %s)", dir, File)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only
	if err := l.scan(bufio.NewReaderSize(f, 1<<16)); err != nil {
		return nil, fmt.Errorf("%s: %w", l.path, err)
	}
	return l, nil
}

// errDamaged is wrapped by the errors for records that are not as they were written.
var errDamaged = errors.New("it is damaged")

// scan reads all records. A record that was torn off by a crash at the end counts as if it
// were not there.
func (l *Log) scan(in *bufio.Reader) error {
	if err := readMagic(in); err != nil {
		return err
	}
	records := framing.NewReader(in, int64(len(magic)), maxRecord, errDamaged)
	for {
		at := records.Offset
		record, err := next(records)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch r := record.(type) {
		case *realdevices.Ban:
			l.bans = append(l.bans, *r)
		case *realdevices.Presence:
			l.present = append(l.present, *r)
		case *realdevices.Answer:
			l.bare = l.bare || r.Kind == round.Planned && r.Values == nil
			l.answers[r.Task] = at
		}
	}
}

// next reads a record, as [parseRecord] has them; io.EOF at the end, torn or not.
func next(records *framing.Reader) (any, error) {
	at := records.Offset
	payload, err := records.Next()
	if err != nil {
		return nil, err
	}
	record, err := parseRecord(payload)
	if err != nil {
		return nil, records.Damaged(at, err.Error())
	}
	return record, nil
}

// parseRecord reads a payload: an answer, a presence or a ban.
func parseRecord(b []byte) (record any, err error) {
	size := len(b)
	take := func(into any) {
		n, e := binary.Decode(b, binary.LittleEndian, into)
		b, err = b[n:], cmp.Or(err, e)
	}
	var h head
	take(&h)
	client := int(h.Client)
	switch h.Kind {
	case recordBanned:
		return &realdevices.Ban{Client: client, Reason: string(b), For: int64(h.Number)}, err
	case recordLeft:
		record = &realdevices.Presence{Clock: h.Number, Client: client}
	case recordJoined:
		var t uint64
		if take(&t); t > bus.MaxDeviceSamples {
			return nil, fmt.Errorf("its device has %d samples", t)
		}
		record = &realdevices.Presence{Clock: h.Number, Client: client, Joined: true, Samples: int(t)}
	case recordUpdate, recordMeasured, recordSilent, recordRefused, recordOvertaken:
		a := &realdevices.Answer{Kind: kinds[h.Kind], Task: h.Number, Client: client}
		record = a
		if a.Kind == round.Silent && len(b) == 0 { // it said nothing
			break
		}
		var d durations
		take(&d)
		a.Plan = round.Plan{Download: d[0], Compute: d[1], Upload: d[2]}
		if slices.Min(d[:]) < 0 || slices.Max(d[:]) > round.MaxDuration {
			return nil, fmt.Errorf("it has durations of %d ns", d)
		}
		if a.Kind != round.Planned {
			break
		}
		var t told
		take(&t)
		if known := t.Loss == t.Loss; known && !(t.Loss >= 0 && t.Loss <= bus.MaxDeviceLoss) || t.Samples > bus.MaxDeviceSamples {
			return nil, fmt.Errorf("it has a loss of %g and %d samples", t.Loss, t.Samples)
		}
		a.Loss, a.Samples = t.Loss, int(t.Samples)
		if h.Kind == recordUpdate && len(b) > 0 && len(b)%4 == 0 {
			a.Values, b = vector.Append[float32](nil, b), nil
		} else if h.Kind == recordUpdate {
			err = io.ErrUnexpectedEOF
		}
	default:
		return nil, fmt.Errorf("it is of an unknown kind %d", h.Kind)
	}
	if err != nil || len(b) > 0 {
		return nil, fmt.Errorf("it is of kind %d and has %d bytes", h.Kind, size)
	}
	return record, nil
}

// write appends a record of these parts.
func (l *Log) write(parts ...any) error {
	l.buffer = framing.Begin(l.buffer[:0])
	for _, part := range parts {
		l.buffer = appendPart(l.buffer, part)
	}
	if _, err := l.out.Write(framing.Seal(l.buffer)); err != nil {
		return fmt.Errorf("results: %s: %w", File, err)
	}
	return nil
}

func appendPart(b []byte, part any) []byte {
	if values, ok := part.([]float32); ok {
		return append(b, vector.Bytes(values)...)
	}
	b, err := binary.Append(b, binary.LittleEndian, part)
	if err != nil {
		panic("devicelog: a part has no fixed size")
	}
	return b
}

// AddAnswer implements [realdevices.Record].
func (l *Log) AddAnswer(a *realdevices.Answer) error { return l.write(partsOf(a, l.Keep)...) }

// partsOf are the parts of an answer's record, with its values if they are kept.
func partsOf(a *realdevices.Answer, keep bool) []any {
	h := head{recordMeasured, a.Task, uint32(a.Client)}
	plan, t := durations{a.Plan.Download, a.Plan.Compute, a.Plan.Upload}, told{a.Loss, uint64(a.Samples)}
	for _, kind := range []byte{recordSilent, recordRefused, recordOvertaken} {
		if kinds[kind] == a.Kind {
			h.Kind = kind
		}
	}
	switch {
	case h.Kind == recordSilent && a.Plan == round.Plan{}:
		return []any{h}
	case h.Kind != recordMeasured:
		return []any{h, plan}
	case a.Values == nil || !keep:
		return []any{h, plan, t}
	}
	h.Kind = recordUpdate
	return []any{h, plan, t, a.Values}
}

// AddPresence implements [realdevices.Record].
func (l *Log) AddPresence(p realdevices.Presence) error {
	if !p.Joined {
		return l.write(head{recordLeft, p.Clock, uint32(p.Client)})
	}
	return l.write(head{recordJoined, p.Clock, uint32(p.Client)}, uint64(p.Samples))
}

// AddBan implements [realdevices.Record].
func (l *Log) AddBan(ban realdevices.Ban) error {
	return l.write(head{recordBanned, uint64(ban.For), uint32(ban.Client)}, []byte(bus.ValidText(ban.Reason)))
}

// Bans implements [realdevices.Record].
func (l *Log) Bans() []realdevices.Ban { return l.bans }

// Presence implements [realdevices.Record].
func (l *Log) Presence() (p realdevices.Presence, ok bool, err error) {
	if len(l.present) == 0 {
		return p, false, nil
	}
	p, l.present = l.present[0], l.present[1:]
	return p, true, nil
}

// Answer implements [realdevices.Record].
func (l *Log) Answer(task uint64) (*realdevices.Answer, error) {
	at, ok := l.answers[task]
	if !ok {
		return nil, nil
	}
	f, _, err := regular.Open(l.path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only
	rest := bufio.NewReader(io.NewSectionReader(f, at, framing.Size+maxRecord))
	records := framing.NewReader(rest, at, maxRecord, errDamaged)
	record, err := next(records)
	a, ok := record.(*realdevices.Answer)
	if err == nil && !ok {
		err = records.Damaged(at, "it is no answer")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.path, err)
	}
	return a, nil
}

// Read reads the answers of the real devices of the run in a folder, in the order
// of their tasks, without values where the log holds none.
func Read(dir string) ([]*realdevices.Answer, error) {
	l, err := open(dir)
	if err != nil {
		return nil, err
	}
	list := make([]*realdevices.Answer, 0, len(l.answers))
	for _, task := range slices.Sorted(maps.Keys(l.answers)) {
		a, err := l.Answer(task)
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	return list, nil
}
