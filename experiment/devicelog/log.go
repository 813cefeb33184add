package devicelog

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"

	"fedpace/bus"
	"fedpace/coordinator/realdevices"
	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/internal/vector"
	"fedpace/metrics"
)

// File is where a run with real devices keeps what they answered. If that is with their
// updates, the run can be played again without them.
//
//	"fedpace devices 1\n"
//	records: length of the payload (uint32), CRC-32C of it (uint32), payload
//
// Numbers are little-endian. A payload starts with its kind:
//
//	1 presence   clock (uint64), client (uint32), joined (1 byte)
//	2 update     task (uint64), client (uint32), download, compute, upload (int64 ns),
//	             first-step loss (float64; NaN: not told), samples (uint64; 0: not told),
//	             values (float32 each)
//	3 silent     task (uint64), client (uint32)
//	4 refused    task (uint64), client (uint32), download, compute, upload (int64 ns)
//	5 measured   an update without its values
//	6 joined     clock (uint64), client (uint32), samples (uint64; 0: it did not say)
//	7 overtaken  as 4, of a device without whom its round closed
//	8 banned     nanoseconds (uint64; 0: for good), client (uint32), the reason (UTF-8)
const File = folder.DevicesFile

const magic = "fedpace devices 1\n"

const (
	recordPresence byte = iota + 1
	recordUpdate
	recordSilent
	recordRefused
	recordMeasured
	recordJoined
	recordOvertaken
	recordBanned
)

// Sizes of payloads.
const (
	presenceSize  = 1 + 8 + 4 + 1
	silentSize    = 1 + 8 + 4
	refusedSize   = silentSize + 3*8
	updateSize    = refusedSize + 8 + 8
	joinedSize    = silentSize + 8
	maxRecord     = updateSize + 4*bus.MaxParams
	recordHeading = 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Bytes is how much the log grows with so many updates of a model of so many parameters.
func Bytes(updates, params float64, keep bool) float64 {
	if !keep {
		params = 0
	}
	return updates * (recordHeading + updateSize + 4*params)
}

// Log is the record of one run's devices. It belongs to the run's goroutine. One that is
// written remembers nothing of what it holds, however long the run is.
type Log struct {
	Keep    bool // the updates' values, too
	Replay  bool // the log is read
	path    string
	out     metrics.File // nil: a replay
	buffer  []byte
	answers map[uint64]place // of a replay, by task: the last
	present []realdevices.Presence
	bans    []realdevices.Ban
	bare    bool // a replay's log has updates without their values
}

// place is where a payload is in the file.
type place struct {
	at   int64
	size uint32
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
	}
	return err
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
	l := &Log{path: filepath.Join(dir, File), Replay: true, answers: map[uint64]place{}}
	err := l.index()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: no run with real devices is there (it holds no %s)", dir, File)
	}
	return l, err
}

// index finds the records.
func (l *Log) index() error {
	f, err := os.Open(l.path)
	if err != nil {
		return err
	}
	defer f.Close() // read only
	if err := l.scan(bufio.NewReaderSize(f, 1<<16)); err != nil {
		return fmt.Errorf("%s: %w", l.path, err)
	}
	return nil
}

// scan reads all records. A record that was torn off by a crash at the end counts as if it
// were not there.
func (l *Log) scan(in *bufio.Reader) error {
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(in, head); err != nil || string(head) != magic {
		return errors.New("it is not a log of devices of this version")
	}
	at := int64(len(head))
	var payload []byte
	for n := 1; ; n++ {
		var answer *realdevices.Answer
		var presence *realdevices.Presence
		var err error
		if payload, err = nextRecord(in, payload[:0]); err == nil && payload[0] == recordBanned {
			l.bans = append(l.bans, realdevices.Ban{
				Client: clientOf(payload), Reason: string(payload[silentSize:]), For: int64(binary.LittleEndian.Uint64(payload[1:])),
			})
			at += recordHeading + int64(len(payload))
			continue
		}
		if err == nil {
			answer, presence, err = parseRecord(payload)
		} else if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		switch {
		case err != nil:
			return fmt.Errorf("record %d at byte %d: %w", n, at, err)
		case presence != nil:
			l.present = append(l.present, *presence)
		default:
			l.bare = l.bare || answer.Kind == round.Planned && answer.Values == nil
			l.answers[answer.Task] = place{at + recordHeading, uint32(len(payload))}
		}
		at += recordHeading + int64(len(payload))
	}
}

// nextRecord appends the next payload to b. Memory follows the bytes that are
// there, not the length that they claim.
func nextRecord(in io.Reader, b []byte) ([]byte, error) {
	var head [recordHeading]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return b, err
	}
	length := binary.LittleEndian.Uint32(head[:])
	if length < silentSize || int64(length) > maxRecord {
		return b, fmt.Errorf("it has %d bytes, want %d to %d", length, silentSize, int64(maxRecord))
	}
	w := bytes.NewBuffer(b)
	if _, err := io.CopyN(w, in, int64(length)); err != nil {
		if errors.Is(err, io.EOF) { // before the payload's end
			err = io.ErrUnexpectedEOF
		}
		return w.Bytes(), err
	}
	if crc32.Checksum(w.Bytes(), castagnoli) != binary.LittleEndian.Uint32(head[4:]) {
		return w.Bytes(), errors.New("its checksum is not that of its bytes: the file is damaged")
	}
	return w.Bytes(), nil
}

// clientOf is the client that a record is of.
func clientOf(payload []byte) int { return int(binary.LittleEndian.Uint32(payload[9:])) }

// parseRecord reads a payload: an answer or a presence.
func parseRecord(b []byte) (a *realdevices.Answer, p *realdevices.Presence, err error) {
	size := map[byte]int{
		recordPresence: presenceSize, recordUpdate: updateSize, recordSilent: silentSize, recordRefused: refusedSize,
		recordMeasured: updateSize, recordJoined: joinedSize, recordOvertaken: refusedSize,
	}[b[0]]
	switch {
	case size == 0:
		return nil, nil, fmt.Errorf("it is of an unknown kind %d", b[0])
	case b[0] == recordUpdate && (len(b) <= size || (len(b)-size)%4 != 0), b[0] != recordUpdate && len(b) != size:
		return nil, nil, fmt.Errorf("it is of kind %d and has %d bytes", b[0], len(b))
	}
	number, client := binary.LittleEndian.Uint64(b[1:]), clientOf(b)
	if b[0] == recordPresence {
		if b[13] > 1 {
			return nil, nil, fmt.Errorf("its device is %d, want 0 (left) or 1 (joined)", b[13])
		}
		return nil, &realdevices.Presence{Clock: number, Client: client, Joined: b[13] == 1}, nil
	}
	if b[0] == recordJoined {
		samples := binary.LittleEndian.Uint64(b[13:])
		if samples > bus.MaxDeviceSamples {
			return nil, nil, fmt.Errorf("its device has %d samples", samples)
		}
		return nil, &realdevices.Presence{Clock: number, Client: client, Joined: true, Samples: int(samples)}, nil
	}
	a = &realdevices.Answer{Kind: round.Silent, Task: number, Client: client}
	if b[0] == recordSilent {
		return a, nil, nil
	}
	for i, d := range []*round.Time{&a.Plan.Download, &a.Plan.Compute, &a.Plan.Upload} {
		*d = round.Time(binary.LittleEndian.Uint64(b[13+8*i:]))
		if *d < 0 || *d > round.MaxDuration {
			return nil, nil, fmt.Errorf("it has a duration of %d ns", *d)
		}
	}
	switch b[0] {
	case recordRefused:
		a.Kind = round.Invalid
		return a, nil, nil
	case recordOvertaken:
		a.Kind = round.Overtaken
		return a, nil, nil
	}
	a.Kind = round.Planned
	a.Loss = math.Float64frombits(binary.LittleEndian.Uint64(b[37:]))
	samples := binary.LittleEndian.Uint64(b[45:])
	if told := a.Loss == a.Loss; told && !(a.Loss >= 0 && a.Loss <= bus.MaxDeviceLoss) || samples > bus.MaxDeviceSamples {
		return nil, nil, fmt.Errorf("it has a loss of %g and %d samples", a.Loss, samples)
	}
	a.Samples = int(samples)
	if b[0] == recordUpdate {
		a.Values = vector.Append[float32](nil, b[updateSize:])
	}
	return a, nil, nil
}

// write appends a record with the payload that fill appends.
func (l *Log) write(fill func([]byte) []byte) error {
	l.buffer = fill(append(l.buffer[:0], make([]byte, recordHeading)...))
	body := l.buffer[recordHeading:]
	binary.LittleEndian.PutUint32(l.buffer, uint32(len(body)))
	binary.LittleEndian.PutUint32(l.buffer[4:], crc32.Checksum(body, castagnoli))
	if _, err := l.out.Write(l.buffer); err != nil {
		return fmt.Errorf("results: %s: %w", File, err)
	}
	return nil
}

// AddAnswer implements [devices.Record].
func (l *Log) AddAnswer(a *realdevices.Answer) error {
	if !l.Keep && a.Values != nil {
		bare := *a
		bare.Values = nil
		a = &bare
	}
	return l.write(func(b []byte) []byte { return appendAnswer(b, a) })
}

// appendHead appends the fields with which every payload starts.
func appendHead(b []byte, kind byte, number uint64, client int) []byte {
	b = binary.LittleEndian.AppendUint64(append(b, kind), number)
	return binary.LittleEndian.AppendUint32(b, uint32(client))
}

func appendAnswer(b []byte, a *realdevices.Answer) []byte {
	kind := map[round.EventKind]byte{round.Planned: recordUpdate, round.Silent: recordSilent, round.Invalid: recordRefused, round.Overtaken: recordOvertaken}[a.Kind]
	if kind == recordUpdate && a.Values == nil {
		kind = recordMeasured
	}
	b = appendHead(b, kind, a.Task, a.Client)
	if kind == recordSilent {
		return b
	}
	for _, d := range []round.Time{a.Plan.Download, a.Plan.Compute, a.Plan.Upload} {
		b = binary.LittleEndian.AppendUint64(b, uint64(d))
	}
	if kind == recordRefused || kind == recordOvertaken {
		return b
	}
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(a.Loss))
	b = binary.LittleEndian.AppendUint64(b, uint64(a.Samples))
	return append(b, vector.Bytes(a.Values)...)
}

// AddPresence implements [devices.Record].
func (l *Log) AddPresence(p realdevices.Presence) error {
	return l.write(func(b []byte) []byte {
		if p.Joined {
			return binary.LittleEndian.AppendUint64(appendHead(b, recordJoined, p.Clock, p.Client), uint64(p.Samples))
		}
		return append(appendHead(b, recordPresence, p.Clock, p.Client), 0)
	})
}

// AddBan implements [devices.Record].
func (l *Log) AddBan(ban realdevices.Ban) error {
	return l.write(func(b []byte) []byte {
		return append(appendHead(b, recordBanned, uint64(ban.For), ban.Client), bus.ValidText(ban.Reason)...)
	})
}

// Bans implements [devices.Record].
func (l *Log) Bans() []realdevices.Ban { return l.bans }

// Presence implements [devices.Record].
func (l *Log) Presence() (p realdevices.Presence, ok bool, err error) {
	if len(l.present) == 0 {
		return p, false, nil
	}
	p, l.present = l.present[0], l.present[1:]
	return p, true, nil
}

// Answer implements [devices.Record].
func (l *Log) Answer(task uint64) (*realdevices.Answer, error) {
	p, ok := l.answers[task]
	if !ok {
		return nil, nil
	}
	f, err := os.Open(l.path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only
	var a *realdevices.Answer
	b, err := nextRecord(io.NewSectionReader(f, p.at-recordHeading, recordHeading+int64(p.size)), nil)
	if err == nil {
		a, _, err = parseRecord(b)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: byte %d: %w", l.path, p.at, err)
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
