package metrics_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"fedpace/coordinator/round"
	"fedpace/metrics"
)

func init() {
	metrics.Sinks.Register("counter", "counts tasks", counter{})
	metrics.Sinks.Register("broken", "fails where it is told to", broken{})
}

// counter is an output with a file and memory.
type counter struct {
	File string `key:"file" default:"counts.txt" help:"name of the file"`
}

func (c counter) Files() []string                           { return []string{c.File} }
func (c counter) Open(*metrics.Run) (metrics.Output, error) { return &counting{name: c.File}, nil }
func (o *counting) Start(s *metrics.Start) (err error)      { o.file, err = s.Append(o.name); return err }
func (o *counting) Task(*round.TaskReport)                  { o.tasks++ }
func (o *counting) Save() ([]byte, error)                   { return binary.AppendUvarint(nil, o.tasks), nil }
func (o *counting) Restore(state []byte) error              { o.tasks, _ = binary.Uvarint(state); return nil }
func (o *counting) Round(r *metrics.Round) error {
	_, err := fmt.Fprintln(o.file, r.Round, o.tasks)
	return err
}

type counting struct {
	name  string
	file  io.Writer
	tasks uint64
}

// broken fails at one of its methods.
type broken struct {
	At string `key:"at" default:"" help:"the method"`
}

var errBroken = errors.New("broken")

func (b broken) at(method string) error {
	if b.At == method {
		return errBroken
	}
	return nil
}

func (b broken) Files() []string                           { return nil }
func (b broken) Open(*metrics.Run) (metrics.Output, error) { return b, b.at("open") }
func (b broken) Start(*metrics.Start) error                { return b.at("start") }
func (b broken) Round(*metrics.Round) error                { return b.at("round") }
func (b broken) Save() ([]byte, error)                     { return nil, b.at("save") }
func (b broken) Restore([]byte) error                      { return b.at("restore") }
func (b broken) Flush() error                              { return b.at("flush") }
func (b broken) Finish(*metrics.End) error                 { return b.at("finish") }
func (b broken) Close(error) error                         { return b.at("close") }

// folder is a run's folder in memory.
type folder map[string]*file

type file struct{ strings.Builder }

func (f *file) Size() int64 { return int64(f.Len()) }

func (f folder) Append(name string) (metrics.File, error) {
	if f[name] == nil {
		f[name] = &file{}
	}
	return f[name], nil
}

func (f folder) Spool(name string) (metrics.File, error) { return f.Append(name) }

func (f folder) Replace(name string, write func(io.Writer) error) error {
	f[name] = &file{}
	return write(f[name])
}

func (f folder) Path(name string) string { return name }

// A FEMNIST client with K = 80 (Tables 1 and 2).
var femnist = round.Plan{Download: 335_500_000, Compute: 1_360_000_000, Upload: 1_342_000_000}

func open(t interface{ Fatal(...any) }, sinks ...metrics.Sink) *metrics.Recorder {
	run := &metrics.Run{
		Clients: 10, Slowest: 2, Sample: 2, Class: func(client int) int { return client % 2 },
		Power: metrics.Power{ModelBytes: 1000, UpdateBytes: 1000, Watts: []metrics.Watts{{Download: 1, Compute: 2, Upload: 3}, {}}},
	}
	r, err := metrics.Open(run, sinks)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A recorder that is stopped and restored, wherever, reports what one reports
// that never stopped.
func TestRecorder_Restored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := [2]folder{{}, {}}
		var recorders [2]*metrics.Recorder
		for i := range recorders {
			recorders[i] = open(t, counter{"counts.txt"})
			if err := recorders[i].Start(&metrics.Start{Folder: files[i]}, nil); err != nil {
				t.Fatal(err)
			}
		}
		number, task := 0, uint64(0)
		for range rapid.IntRange(0, 40).Draw(t, "events") {
			switch rapid.IntRange(0, 9).Draw(t, "event") {
			case 0:
				number++
				for _, r := range recorders {
					if err := r.Round(&round.Report{Round: number, End: round.Time(number) * 4e9, Start: round.Time(number-1) * 4e9}); err != nil {
						t.Fatal(err)
					}
				}
			case 1:
				state, err := recorders[1].Save()
				if err != nil {
					t.Fatal(err)
				}
				recorders[1] = open(t, counter{"counts.txt"})
				if err := recorders[1].Start(&metrics.Start{Folder: files[1]}, &state); err != nil {
					t.Fatal(err)
				}
			default:
				task++
				e := round.TaskReport{
					Task: task, Client: rapid.IntRange(0, 11).Draw(t, "client"), LocalSteps: 80, Plan: femnist,
					Outcome: round.Outcome(rapid.IntRange(0, round.Outcomes-1).Draw(t, "outcome")), Probe: rapid.Bool().Draw(t, "probe"),
					End: round.Time(rapid.Int64Range(0, int64(femnist.Total())).Draw(t, "took")),
				}
				for _, r := range recorders {
					r.Task(&e)
				}
			}
		}
		if diff := cmp.Diff(recorders[0].Usage(true), recorders[1].Usage(true)); diff != "" {
			t.Fatal(diff)
		}
		if a, b := files[0]["counts.txt"].String(), files[1]["counts.txt"].String(); a != b {
			t.Fatalf("%q without a stop, %q with stops", a, b)
		}
	})
}

// What tasks cost, by hand: a whole one, one that was cut in half of its steps, a
// candidate, and one of the open round.
func TestUsage(t *testing.T) {
	r := open(t)
	total := femnist.Total()
	for _, e := range []round.TaskReport{
		{Client: 0, LocalSteps: 80, Outcome: round.Accepted, End: total, Plan: femnist},
		{Client: 2, LocalSteps: 80, Outcome: round.Accepted, End: total - 1e9, Plan: round.Plan{Download: 335_500_000, Compute: 360_000_000, Upload: 1_342_000_000}},
		{Client: 1, LocalSteps: 80, Outcome: round.Late, End: 1_015_500_000, Plan: femnist},
		{Client: 4, LocalSteps: 1, Probe: true, Outcome: round.Cancelled, End: 352_500_000, Plan: round.Plan{Download: 335_500_000, Compute: 17_000_000}},
	} {
		r.Task(&e)
	}
	if err := r.Round(&round.Report{Round: 1, End: 4e9}); err != nil {
		t.Fatal(err)
	}
	r.Task(&round.TaskReport{Client: 3, LocalSteps: 80, Outcome: round.Accepted, End: total, Plan: femnist})
	if stopped := r.Usage(false); stopped.Time.Wasted != 1_015_500_000+352_500_000 || stopped.Steps.Wasted != 40 {
		t.Errorf("a run that is stopped wastes what its open round has done: %+v", stopped)
	}
	got := r.Usage(true)
	want := metrics.Usage{
		Time:  metrics.Split[int64]{Useful: int64(2*total - 1e9), Wasted: 1_015_500_000 + 352_500_000 + int64(total)},
		Steps: metrics.Split[int64]{Useful: 160, Wasted: 40 + 80},
		Bytes: metrics.Split[int64]{Useful: 4000, Wasted: 1000 + 1000 + 2000}, Downloaded: 5000,
		Joules:     metrics.Split[float64]{Useful: 0.3355*2 + (1.36+0.36)*2 + 1.342*6, Wasted: 0.3355 + 0.034},
		Straggling: 0.5, Shares: 0.125, Rounds: 1,
	}
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= 1e-12*math.Abs(a+b) })
	if diff := cmp.Diff(want, got, near); diff != "" {
		t.Error(diff)
	}
	if got.StragglerShare() != 0.125 || got.Uploaded() != 3000 || !math.IsNaN((&metrics.Usage{}).StragglerShare()) {
		t.Errorf("share %v, %d bytes uploaded", got.StragglerShare(), got.Uploaded())
	}
}

// Whatever fails is told with the output's name.
func TestRecorder_FailingOutput(t *testing.T) {
	for _, at := range []string{"open", "start", "restore", "round", "save", "flush", "finish", "close"} {
		r, err := metrics.Open(&metrics.Run{}, []metrics.Sink{broken{}, broken{at}})
		for _, step := range []func() error{
			func() error {
				return r.Start(&metrics.Start{}, &metrics.State{Outputs: []metrics.OutputState{{Name: "broken"}}})
			},
			func() error { return r.Round(&round.Report{}) },
			func() error { _, err := r.Save(); return err },
			func() error { return r.Flush() }, func() error { return r.Finish(&metrics.End{}) }, func() error { return r.Close(nil) },
		} {
			if err == nil {
				err = step()
			}
		}
		if !errors.Is(err, errBroken) || !strings.HasPrefix(err.Error(), "output broken: ") {
			t.Errorf("an output that fails to %s: %v", at, err)
		}
	}
}

// Tasks go to the outputs that observe tasks, and cost no memory.
func TestRecorder_TaskAllocatesNothing(t *testing.T) {
	r := open(t, counter{"counts.txt"}, broken{})
	e := &round.TaskReport{Client: 1, LocalSteps: 80, Outcome: round.Late, End: femnist.Total(), Plan: femnist}
	r.Task(e)
	if n := testing.AllocsPerRun(1000, func() { r.Task(e) }); n > 0 {
		t.Errorf("%v allocations a task", n)
	}
}
