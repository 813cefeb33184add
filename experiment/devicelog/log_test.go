package devicelog

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fedpace/config"
	"fedpace/coordinator/realdevices"
	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/internal/framing"
	"fedpace/metrics"
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
	l := &Log{Keep: true}
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

// What devices said comes back from the file, by task and in order.
func TestLog_ReadsBack(t *testing.T) {
	dir := t.TempDir()
	logged(t, dir)
	l, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range someAnswers() {
		got, err := l.Answer(want.Task)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("task %d: %s", want.Task, diff)
		}
	}
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
	if l, err := Open(dir); err != nil || len(l.answers) != 4 || len(l.bans) != 0 {
		t.Errorf("a torn log: %v", err)
	}
	if err := os.WriteFile(path, []byte("something else\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "not a log of devices") {
		t.Errorf("another file: %v", err)
	}
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no run with real devices") {
		t.Errorf("no file: %v", err)
	}
}

// A run does not go on in a log of another format.
func TestLog_AnotherFormat(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, File), []byte("fedpace devices 1\nand what it held"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := new(Log).Start(&metrics.Start{Folder: earlier{dir: dir}})
	if err == nil || !strings.Contains(err.Error(), "not a log of devices of this version") {
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
	f.Add([]byte(magic + "\xff\xff\xff\x3f0000"))
	f.Fuzz(func(t *testing.T, b []byte) {
		l := &Log{Replay: true, answers: map[uint64]int64{}, Reported: map[int]Samples{}}
		if err := l.scan(bufio.NewReader(bytes.NewReader(b))); err != nil {
			return
		}
		for task, at := range l.answers {
			records := framing.NewReader(bufio.NewReader(bytes.NewReader(b[at:])), at, maxRecord, errDamaged)
			r, err := next(records)
			if err != nil || r.GetAnswer().GetTask() != task {
				t.Fatalf("task %d is found as %v, %v", task, r, err)
			}
		}
	})
}
