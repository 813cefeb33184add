package tables

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"fedpace/coordinator/round"
	"fedpace/internal/testkit/slow"
	"fedpace/metrics"
)

// place is a folder of a run.
type place string

func (p place) Path(name string) string { return filepath.Join(string(p), name) }

func (p place) Append(string) (metrics.File, error) { return nil, errors.New("nothing is appended to") }

func (p place) Spool(name string) (metrics.File, error) {
	f, err := os.OpenFile(p.Path(name), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	return spool{f}, err
}

func (p place) Replace(name string, write func(io.Writer) error) error {
	f, err := os.Create(p.Path(name))
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

type spool struct{ *os.File }

func (s spool) Size() int64 {
	info, err := s.Stat()
	if err != nil {
		panic(err)
	}
	return info.Size()
}

// started is the output of a run in a folder.
func started(t testing.TB, run *metrics.Run, dir string) *tasks {
	t.Helper()
	o, err := TasksSink{}.Open(run)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.(*tasks).Start(&metrics.Start{Folder: place(dir)}); err != nil {
		t.Fatal(err)
	}
	return o.(*tasks)
}

// tasksTable ends a run, or stops it, and reads its table.
func tasksTable(t *testing.T, o *tasks, dir string, completed bool) []Task {
	t.Helper()
	if err := errors.Join(o.Flush(), o.Finish(&metrics.End{Start: &metrics.Start{Folder: place(dir)}, Completed: completed})); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(place(dir).Path(TasksFile))
	if err != nil {
		t.Fatal(err)
	}
	rows, f := readBack[Task](t, text)
	described(t, f)
	return rows
}

func TestTasks(t *testing.T) {
	run := &metrics.Run{Clients: 8, Devices: []string{"pi"}, Classes: []string{"phone", "tablet"}, Class: func(client int) int { return client % 2 }}
	dir := t.TempDir()
	o := started(t, run, dir)
	total := femnist.Total()
	task := func(e round.TaskReport) { o.Task(&e) }
	task(round.TaskReport{Task: 1, Client: 2, LocalSteps: 1, Probe: true, Outcome: round.Accepted, End: 352_500_000, Plan: round.Plan{Download: 335_500_000, Compute: 17_000_000}})
	task(round.TaskReport{Task: 3, Client: 5, LocalSteps: 80, Model: 4, Staleness: 2, Outcome: round.Accepted, Start: 1e9, End: 1e9 + total, Plan: femnist})
	task(round.TaskReport{Task: 2, Client: 2, LocalSteps: 40, Model: 6, Outcome: round.Late, Start: 1e9, End: 3e9, Plan: femnist})
	task(round.TaskReport{Task: round.FirstDeviceTask, Client: 8, LocalSteps: 80, Model: 6, Outcome: round.Accepted, Start: 1e9, End: 2e9, Plan: round.Plan{Compute: 1e9}})
	o.Losses([]round.Task{{Task: 3}, {Task: round.FirstDeviceTask}, {Task: 99}}, []float64{4.25, 0, 7})
	// The run ends with this round, and breaks off task 5; task 4 ends in the round after, for nothing.
	task(round.TaskReport{Task: 5, Client: 1, LocalSteps: 80, Model: 7, Outcome: round.Cancelled, Start: 4e9, End: 5e9, Plan: femnist})
	if err := o.Round(&metrics.Round{Report: round.Report{Round: 7, Cohort: 3, Candidates: 1}}); err != nil {
		t.Fatal(err)
	}
	task(round.TaskReport{Task: 4, Client: 0, LocalSteps: 80, Model: 7, Outcome: round.Accepted, Start: 5e9, End: 5e9 + total, Plan: femnist})
	value := func(v float64) *float64 { return &v }
	if diff := cmp.Diff([]Task{
		{Task: 1, Round: 7, Client: 2, Class: "phone", Candidate: true, LocalSteps: 1, DownloadSeconds: 0.3355, ComputeSeconds: 0.017, EndSeconds: 0.3525, Outcome: "accepted"},
		{Task: 3, Round: 7, Client: 5, Class: "tablet", Model: 4, Staleness: 2, LocalSteps: 80, StartSeconds: 1, DownloadSeconds: 0.3355, ComputeSeconds: 1.36, UploadSeconds: 1.342, EndSeconds: 4.0375, Outcome: "accepted", Loss: value(4.25)},
		{Task: 2, Round: 7, Client: 2, Class: "phone", Model: 6, LocalSteps: 40, StartSeconds: 1, DownloadSeconds: 0.3355, ComputeSeconds: 1.36, UploadSeconds: 1.342, EndSeconds: 3, Outcome: "late"},
		{Task: 1 << 52, Round: 7, Client: 8, Real: true, Model: 6, LocalSteps: 80, StartSeconds: 1, ComputeSeconds: 1, EndSeconds: 2, Outcome: "accepted", Loss: value(0)},
		{Task: 5, Round: 8, Client: 1, Class: "tablet", Model: 7, LocalSteps: 80, StartSeconds: 4, DownloadSeconds: 0.3355, ComputeSeconds: 1.36, UploadSeconds: 1.342, EndSeconds: 5, Outcome: "cancelled"},
		{Task: 4, Round: 8, Client: 0, Class: "phone", Model: 7, LocalSteps: 80, StartSeconds: 5, DownloadSeconds: 0.3355, ComputeSeconds: 1.36, UploadSeconds: 1.342, EndSeconds: 8.0375, Outcome: "cancelled"},
	}, tasksTable(t, o, dir, true)); diff != "" {
		t.Error(diff)
	}
}

// A run that was stopped goes on with the tasks of its open round.
func TestTasks_StoppedRun(t *testing.T) {
	dir := t.TempDir()
	o := started(t, &metrics.Run{Clients: 8}, dir)
	o.Task(&round.TaskReport{Task: 1, Outcome: round.Accepted, End: femnist.Total(), Plan: femnist})
	if err := o.Round(&metrics.Round{Report: round.Report{Round: 1, Cohort: 1}}); err != nil {
		t.Fatal(err)
	}
	o.Task(&round.TaskReport{Task: 2, Outcome: round.Accepted, End: femnist.Total(), Plan: femnist})
	if rows := tasksTable(t, o, dir, false); len(rows) != 1 || rows[0].Task != 1 {
		t.Errorf("%+v", rows)
	}
}

// What a record and a checkpoint hold is what was noted.
func TestTasks_ReadBack(t *testing.T) {
	nan := cmpopts.EquateNaNs()
	rapid.Check(t, func(t *rapid.T) {
		long := func(name string) round.Time {
			return round.Time(rapid.Int64Range(0, int64(round.MaxTime)).Draw(t, name))
		}
		e := record{
			Round: uint32(rapid.IntRange(1, round.MaxRounds).Draw(t, "round")), Loss: rapid.OneOf(rapid.Float64(), rapid.Just(math.NaN())).Draw(t, "loss"),
			Task: rapid.Uint64().Draw(t, "task"), Client: uint32(rapid.IntRange(0, round.MaxClients).Draw(t, "client")), Model: rapid.Uint64().Draw(t, "model"),
			Staleness: uint32(rapid.IntRange(0, 1<<31-1).Draw(t, "staleness")), LocalSteps: uint32(rapid.IntRange(1, round.MaxLocalSteps).Draw(t, "steps")),
			Probe: rapid.Bool().Draw(t, "probe"), Outcome: round.Outcome(rapid.IntRange(0, round.Outcomes-1).Draw(t, "outcome")), Start: long("start"), End: long("end"),
			Plan: round.Plan{Download: long("download"), Compute: long("compute"), Upload: long("upload")},
		}
		var spool bytes.Buffer
		if err := binary.Write(&spool, binary.LittleEndian, &e); err != nil {
			t.Fatal(err)
		}
		want := Task{
			Task: int64(e.Task), Round: int32(e.Round), Client: int32(e.Client), Candidate: e.Probe, Model: int64(e.Model), LocalSteps: int32(e.LocalSteps),
			StartSeconds: e.Start.Seconds(), DownloadSeconds: e.Plan.Download.Seconds(), ComputeSeconds: e.Plan.Compute.Seconds(), UploadSeconds: e.Plan.Upload.Seconds(),
			EndSeconds: e.End.Seconds(), Outcome: e.Outcome.String(), Staleness: int32(e.Staleness), Loss: metrics.Measured(e.Loss),
		}
		for got, err := range (&tasks{run: &metrics.Run{Clients: round.MaxClients + 1}}).rows(&spool) {
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Fatal(diff, err)
			}
		}
		one, other := &tasks{open: []record{e, {}}}, &tasks{}
		state, err := one.Save()
		err = errors.Join(err, other.Restore(state))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(one.open, other.open, nan); diff != "" {
			t.Fatal(diff)
		}
	})
}

// A spool that ends within a record is damaged, and told.
func TestTasks_TornSpool(t *testing.T) {
	o := &tasks{run: &metrics.Run{}}
	for _, err := range o.rows(bytes.NewReader(make([]byte, binary.Size(record{})+1))) {
		if err != nil && errors.Is(err, io.ErrUnexpectedEOF) {
			return
		}
	}
	t.Error("its rows end without an error")
}

// Memory does not grow with the tasks: the heap never holds more than a few of the table's row
// groups. With FEDPACE_LONG there are a million.
func TestTasks_LittleMemory(t *testing.T) {
	const clients, cohort = 1000, 1000
	run, dir := &metrics.Run{Clients: clients}, t.TempDir()
	o := started(t, run, dir)
	most := uint64(0)
	look := func() {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapAlloc)
	}
	number := 250_000
	if slow.On() {
		number = 1_000_000
	}
	look()
	before := most
	e := round.TaskReport{LocalSteps: 80, Plan: femnist}
	for i := range number {
		e.Task, e.Client, e.Start = uint64(i+1), i*7919%clients, round.Time(i)*1e6
		e.End = e.Start + femnist.Total()
		o.Task(&e)
		if i%cohort == cohort-1 {
			if err := o.Round(&metrics.Round{Report: round.Report{Round: i/cohort + 1, Cohort: cohort}}); err != nil {
				t.Fatal(err)
			}
		}
		if i%100_000 == 0 {
			look()
		}
	}
	rows := 0
	err := errors.Join(o.Flush(), place(dir).Replace(TasksFile, func(w io.Writer) error {
		spool, err := os.Open(place(dir).Path(spoolFile))
		if err != nil {
			return err
		}
		return errors.Join(write(w, run, reflect.TypeFor[Task](), func(yield func(Task, error) bool) {
			for row, err := range o.rows(spool) {
				if rows++; rows%120_000 == 0 {
					look()
				}
				if !yield(row, err) {
					return
				}
			}
		}), spool.Close())
	}))
	if err != nil || rows != number {
		t.Fatalf("%d rows, %v", rows, err)
	}
	if grown := most - before; grown > 64<<20 {
		t.Errorf("%d tasks take %d MiB of memory", number, grown>>20)
	} else {
		t.Logf("%d tasks take %d MiB of memory", number, grown>>20)
	}
}
