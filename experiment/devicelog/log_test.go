package devicelog

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"fedpace/config"
	"fedpace/coordinator/realdevices"
	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/internal/framing"
	"fedpace/metrics"
	"fedpace/metrics/eventlog"
	"fedpace/metrics/eventlog/record"
)

func someAnswers() []*realdevices.Answer {
	const first = round.FirstDeviceTask
	return []*realdevices.Answer{
		{Kind: round.Planned, Task: first, Client: 200, Plan: round.Plan{Download: 1, Compute: 2, Upload: 3}, Loss: 4.1, Samples: 170, Values: []float32{1, -2.5, math.SmallestNonzeroFloat32}},
		{Kind: round.Silent, Task: first + 1, Client: 201},
		{Kind: round.Invalid, Task: first + 2, Client: 200, Plan: round.Plan{Compute: 5}},
		{Kind: round.TimedOut, Task: first + 3, Client: 201, Plan: round.Plan{Compute: 7}},
	}
}

// logged is a log of some answers with a device that comes and goes.
func logged(t testing.TB, dir string) *Log {
	t.Helper()
	r, err := folder.CreateResults(dir, config.Demonstration(), true)
	if err != nil {
		t.Fatal(err)
	}
	output, err := Sink{}.Open(&metrics.Run{Name: "hall", Task: "femnist", Clients: 200})
	if err != nil {
		t.Fatal(err)
	}
	l := output.(*Log)
	l.Keep = true
	if err := l.Start(&metrics.Start{Folder: r}); err != nil {
		t.Fatal(err)
	}
	for i, a := range someAnswers() {
		err = errors.Join(err, l.AddPresence(realdevices.Presence{Clock: uint64(i) + 5, Client: 200 + i%2, Joined: i < 2}), l.AddAnswer(a))
	}
	err = errors.Join(err, l.AddBan(realdevices.Ban{Client: 201, Reason: "it has no manners", For: 6e10}))
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	return l
}

// checkAnswers holds a log to someAnswers.
func checkAnswers(t *testing.T, l *Log) {
	t.Helper()
	for _, want := range someAnswers() {
		got, err := l.Answer(want.Task)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("task %d: %s", want.Task, diff)
		}
	}
}

// What devices said comes back from the file, by task and in order.
func TestLog_ReadsBack(t *testing.T) {
	dir := t.TempDir()
	logged(t, dir)
	l, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	checkAnswers(t, l)
	if a, err := l.Answer(7); a != nil || err != nil {
		t.Errorf("a task that nobody answered: %v, %v", a, err)
	}
	for i := range someAnswers() {
		p, ok, err := l.Presence()
		if want := (realdevices.Presence{Clock: uint64(i) + 5, Client: 200 + i%2, Joined: i < 2}); p != want || !ok || err != nil {
			t.Errorf("presence %d is %+v, %v, %v", i, p, ok, err)
		}
	}
	if _, ok, _ := l.Presence(); ok {
		t.Error("there is another")
	}
	if diff := cmp.Diff([]realdevices.Ban{{Client: 201, Reason: "it has no manners", For: 6e10}}, l.Bans()); diff != "" {
		t.Error(diff)
	}
}

// A bit that is wrong anywhere is noticed; a tail that is torn off ends the log.
func TestLog_Damaged(t *testing.T) {
	dir := t.TempDir()
	logged(t, dir)
	path := filepath.Join(dir, File)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := range whole {
		spoilt := bytes.Clone(whole)
		spoilt[at] ^= 0x10
		if err := os.WriteFile(path, spoilt, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir); err == nil {
			t.Errorf("the bit at %d goes unnoticed", at)
		}
	}
	if err := os.WriteFile(path, whole[:len(whole)-3], 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := Open(dir); err != nil || len(l.answerOffsets) != 4 || len(l.bans) != 0 {
		t.Errorf("a torn log: %v", err)
	}
	if err := os.WriteFile(path, []byte("something else\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); !errors.Is(err, eventlog.ErrNotALog) {
		t.Errorf("another file: %v", err)
	}
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no run with real devices") {
		t.Errorf("no file: %v", err)
	}
}

// oldLog writes the log of some answers with a ban as fedpace wrote it before its logs had one format:
// a line, and records without a run.
func oldLog(t testing.TB, dir string) []byte {
	t.Helper()
	text := []byte("fedpace devices 3\n")
	add := func(r *record.OldDevices) {
		framed, err := proto.MarshalOptions{}.MarshalAppend(framing.Begin(nil), r)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, framing.Seal(framed)...)
	}
	add(&record.OldDevices{Kind: &record.OldDevices_Presence{Presence: &record.Presence{Clock: 5, Client: 200, Joined: true, Samples: 9}}})
	for _, a := range someAnswers() {
		add(&record.OldDevices{Kind: &record.OldDevices_Answer{Answer: &record.Answer{
			Kind:       record.Answer_Kind(slices.Index(kinds[:], a.Kind)),
			Task:       a.Task,
			Client:     uint32(a.Client),
			DownloadNs: int64(a.Plan.Download),
			ComputeNs:  int64(a.Plan.Compute),
			UploadNs:   int64(a.Plan.Upload),
			FirstLoss:  a.Loss,
			Samples:    uint32(a.Samples),
			Values:     a.Values,
		}}})
	}
	add(&record.OldDevices{Kind: &record.OldDevices_Ban{Ban: &record.Ban{Client: 201, Reason: "it has no manners", ForNs: 6e10}}})
	if err := os.WriteFile(filepath.Join(dir, File), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return text
}

// A log of the format before is replayed as ever, and no run continues it.
func TestLog_FormatBefore(t *testing.T) {
	dir := t.TempDir()
	oldLog(t, dir)
	l, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	checkAnswers(t, l)
	if p, ok, err := l.Presence(); p != (realdevices.Presence{Clock: 5, Client: 200, Joined: true, Samples: 9}) || !ok || err != nil {
		t.Errorf("the presence is %+v, %v, %v", p, ok, err)
	}
	if diff := cmp.Diff([]realdevices.Ban{{Client: 201, Reason: "it has no manners", For: 6e10}}, l.Bans()); diff != "" {
		t.Error(diff)
	}
	err = new(Log).Start(&metrics.Start{Folder: earlier{dir: dir}})
	if err == nil || !strings.Contains(err.Error(), "the format before") || !strings.Contains(err.Error(), "--out") {
		t.Errorf("a run that continues it: %v, want the way out", err)
	}
}

// The two logs of a run have one format: each names its run, and says that the other's content is not its own.
func TestLog_EventLogFormat(t *testing.T) {
	dir := t.TempDir()
	logged(t, dir)
	f, err := os.Open(filepath.Join(dir, File))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	log, err := eventlog.NewReader(f)
	if err != nil || log.Run().Name != "hall" || log.Run().Clients != 200 {
		t.Fatalf("%+v, %v, want the run hall of 200 clients", log, err)
	}
	if _, err := log.Round(); !errors.Is(err, eventlog.ErrDamaged) || !strings.Contains(err.Error(), "not a round") {
		t.Errorf("a round of %s: %v", File, err)
	}
	var events bytes.Buffer
	w, err := eventlog.NewWriter(&events, &metrics.Run{Name: "hall", Task: "femnist"})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Round(&metrics.Round{Report: round.Report{Round: 1}}), w.Flush()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, File), events.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); !errors.Is(err, eventlog.ErrDamaged) || !strings.Contains(err.Error(), "unknown kind") {
		t.Errorf("rounds in %s: %v", File, err)
	}
}

// A run does not go on in a log of another format.
func TestLog_AnotherFormat(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, File), []byte("fedpace devices 1\nand what it held"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := new(Log).Start(&metrics.Start{Folder: earlier{dir: dir}})
	if !errors.Is(err, eventlog.ErrNotALog) {
		t.Errorf("it goes on: %v", err)
	}
}

// earlier is the folder of a run that goes on in a file of another version.
type earlier struct {
	metrics.Folder
	dir string
}

func (e earlier) Append(string) (metrics.File, error) { return long{}, nil }
func (e earlier) Path(name string) string             { return filepath.Join(e.dir, name) }

type long struct{ io.Writer }

func (long) Size() int64 { return 34 }

// Whatever a file holds, reading it neither fails badly nor takes more memory than
// the file has bytes for.
func FuzzDeviceLog(f *testing.F) {
	dir := f.TempDir()
	logged(f, dir)
	whole, err := os.ReadFile(filepath.Join(dir, File))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(oldLog(f, f.TempDir()))
	f.Add(append(bytes.Clone(whole[:12]), "\xff\xff\xff\x3f0000"...))
	f.Fuzz(func(t *testing.T, b []byte) {
		l := &Log{Replay: true, answerOffsets: map[uint64]int64{}, Reported: map[int]Samples{}}
		if err := l.scan(bytes.NewReader(b)); err != nil {
			return
		}
		for task, at := range l.answerOffsets {
			r, err := eventlog.RecordAt(bytes.NewReader(b[at:]), at, maxRecord, l.records)
			if err != nil || r.GetAnswer().GetTask() != task {
				t.Fatalf("task %d is found as %v, %v", task, r, err)
			}
		}
	})
}
