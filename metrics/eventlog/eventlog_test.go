package eventlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"fedpace/coordinator/round"
	"fedpace/internal/framing"
	_ "fedpace/internal/testkit/testseed"
	"fedpace/learn/metric"
	"fedpace/metrics"
)

var demo = &metrics.Run{
	Name: "demo", Task: "femnist", Schedule: "rounds", Seed: math.MaxUint64, Clients: 3000, Cohort: 60,
	Close: "deadline", Deadline: 3e9, Classes: []string{"phone", "tablet"}, Slowest: 8, Sample: 32, Version: "v1", Metrics: []metric.Metric{{Name: metric.Accuracy}},
}

// write makes a log and returns the places behind its run and each round.
func write(t testing.TB, run *metrics.Run, rounds []metrics.Round) (file []byte, ends []int64) {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, run)
	if err != nil {
		t.Fatal(err)
	}
	ends = append(ends, int64(b.Len()))
	for i := range rounds {
		if err := errors.Join(w.Round(&rounds[i]), w.Flush()); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, int64(b.Len()))
	}
	return b.Bytes(), ends
}

// read returns all rounds, with the error that ended them.
func read(file []byte) (r *Reader, rounds []metrics.Round, err error) {
	r, err = NewReader(bytes.NewReader(file))
	if err != nil {
		return nil, nil, err
	}
	for {
		got, err := r.Round()
		if errors.Is(err, io.EOF) {
			return r, rounds, nil
		}
		if err != nil {
			return r, rounds, err
		}
		kept := *got
		kept.Tasks = slices.Clone(got.Tasks)
		rounds = append(rounds, kept)
	}
}

// anyRound draws a round of any numbers that the machine can report.
func anyRound(t *rapid.T, number int) metrics.Round {
	loss := func(name string) float64 {
		return rapid.OneOf(rapid.Float64Range(0, 1e9), rapid.Just(math.NaN())).Draw(t, name)
	}
	start := round.Time(rapid.Int64Range(0, int64(round.MaxTime)).Draw(t, "start"))
	r := metrics.Round{Report: round.Report{
		Round: number, Start: start, End: start + round.Time(rapid.Int64Range(0, int64(round.MaxDuration)).Draw(t, "took")),
		LocalSteps: rapid.IntRange(1, round.MaxLocalSteps).Draw(t, "K"), LearningRate: rapid.Float64Range(0, 1e6).Draw(t, "eta"),
		Cohort: rapid.IntRange(0, 1e6).Draw(t, "cohort"), Candidates: rapid.IntRange(0, 1e6).Draw(t, "candidates"),
		TrainingLoss: loss("training"), WindowLoss: loss("window"), SGDSteps: rapid.Int64Range(0, math.MaxInt64).Draw(t, "steps"),
		ValidationLoss: math.NaN(),
	}, Ended: rapid.IntRange(0, 1e6).Draw(t, "ended")}
	for i := range r.Outcomes {
		r.Outcomes[i] = rapid.IntRange(0, 1e6).Draw(t, "outcome")
	}
	if rapid.Bool().Draw(t, "evaluated") {
		r.Evaluated, r.ValidationLoss, r.Metrics = true, rapid.Float64Range(0, 100).Draw(t, "validation"), []float64{rapid.Float64Range(0, 1).Draw(t, "accuracy")}
	}
	length := rapid.Map(rapid.Int64Range(0, int64(round.MaxDuration)), func(n int64) round.Time { return round.Time(n) })
	for range rapid.IntRange(0, 5).Draw(t, "tasks") {
		e := metrics.Task{
			TaskReport: round.TaskReport{
				Task: rapid.Uint64().Draw(t, "task"), Client: rapid.IntRange(0, round.MaxClients).Draw(t, "client"), LocalSteps: rapid.IntRange(1, round.MaxLocalSteps).Draw(t, "steps"),
				Probe: rapid.Bool().Draw(t, "probe"), Outcome: round.Outcome(rapid.IntRange(0, round.Outcomes-1).Draw(t, "how")),
				Plan: round.Plan{Download: length.Draw(t, "download"), Compute: length.Draw(t, "compute"), Upload: length.Draw(t, "upload"), Drops: rapid.Bool().Draw(t, "drops"), Dropout: length.Draw(t, "dropout")},
			},
			Class: rapid.IntRange(0, 9).Draw(t, "class"), Real: rapid.Bool().Draw(t, "real"), Slow: rapid.Bool().Draw(t, "slow"),
			Name: rapid.SampledFrom([]string{"", "f0001_41", "Zoë"}).Draw(t, "name"),
		}
		e.Start = round.Time(rapid.Int64Range(0, int64(r.End)).Draw(t, "begins")) // before the round's where rounds overlap
		e.End = e.Start + length.Draw(t, "took")
		r.Tasks = append(r.Tasks, e)
	}
	return r
}

func TestReader_ReadsBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var rounds []metrics.Round
		for i := range rapid.IntRange(0, 4).Draw(rt, "rounds") {
			rounds = append(rounds, anyRound(rt, i+1))
		}
		file, ends := write(t, demo, rounds)
		r, got, err := read(file)
		if err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(demo, r.Run()); diff != "" {
			rt.Fatal(diff)
		}
		if diff := cmp.Diff(rounds, got, cmpopts.EquateNaNs(), cmpopts.EquateEmpty()); diff != "" {
			rt.Fatal(diff)
		}
		if r.Torn() || r.frames.Offset != int64(len(file)) || ends[len(ends)-1] != r.frames.Offset {
			rt.Fatalf("torn %v at %d of %d bytes", r.Torn(), r.frames.Offset, len(file))
		}
	})
}

// example has two rounds of one task each.
func example() []metrics.Round {
	var list []metrics.Round
	for i := range 2 {
		start := round.Time(i) * 4e9
		list = append(list, metrics.Round{
			Report: round.Report{
				Round: i + 1, Start: start, End: start + 4e9, LocalSteps: 80, LearningRate: 0.3, Cohort: 1, Outcomes: [round.Outcomes]int{1},
				TrainingLoss: 4.25, WindowLoss: 4.25, ValidationLoss: math.NaN(), SGDSteps: 80,
			},
			Ended: 1,
			Tasks: []metrics.Task{{TaskReport: round.TaskReport{Task: uint64(i + 1), Client: 7, LocalSteps: 80, Start: start, End: start + 4e9, Plan: round.Plan{Download: 1e9, Compute: 2e9, Upload: 1e9}}, Slow: true}},
		})
	}
	return list
}

// A run that is killed leaves a log that ends anywhere: its whole records are
// read, and the place is known from which it can go on.
func TestReader_TornTail(t *testing.T) {
	file, ends := write(t, demo, example())
	for n := int(ends[0]); n <= len(file); n++ {
		whole := 0
		for whole+1 < len(ends) && ends[whole+1] <= int64(n) {
			whole++
		}
		r, got, err := read(file[:n])
		if err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if len(got) != whole || r.Torn() != (int64(n) != ends[whole]) || r.frames.Offset != ends[whole] {
			t.Fatalf("%d bytes: %d rounds, torn %v, whole to %d; want %d rounds, to %d", n, len(got), r.Torn(), r.frames.Offset, whole, ends[whole])
		}
	}
	r, got, err := read(append(slices.Clone(file), make([]byte, 5000)...))
	if err != nil || len(got) != 2 || !r.Torn() || r.frames.Offset != int64(len(file)) {
		t.Errorf("zeros behind the log: %d rounds, %v", len(got), err)
	}
	for n := range ends[0] {
		if _, _, err := read(file[:n]); !errors.Is(err, ErrNotALog) {
			t.Fatalf("%d bytes, without the run: %v", n, err)
		}
	}
}

// No change of any byte goes unnoticed.
func TestRead_Damage(t *testing.T) {
	file, _ := write(t, demo, example())
	want := example()
	for i := range file {
		for _, flip := range []byte{1, 0x80, 0xff} {
			broken := slices.Clone(file)
			broken[i] ^= flip
			_, got, err := read(broken)
			if err == nil {
				t.Fatalf("byte %d ^ %#x goes unnoticed", i, flip)
			}
			if !cmp.Equal(want[:len(got)], got, cmpopts.EquateNaNs(), cmpopts.EquateEmpty()) {
				t.Fatalf("byte %d ^ %#x changes what is read", i, flip)
			}
		}
	}
}

func TestRead_Mistakes(t *testing.T) {
	file, ends := write(t, demo, example())
	twice := append(slices.Clone(file), file[ends[0]:ends[1]]...)
	newer := slices.Clone(file)
	binary.LittleEndian.PutUint32(newer[8:], Version+1)
	for _, test := range []struct {
		name string
		file []byte
		want error
		says string
	}{
		{"nothing", nil, ErrNotALog, "eventlog: not an event log (it is empty)"},
		{"another file", []byte("round,virtual_seconds"), ErrNotALog, "eventlog: not an event log (it does not begin with FPEVENTS)"},
		{"a newer one", newer, ErrVersion, "eventlog: an event log of a version that this program does not know: 2, this one reads 1 to 1"},
		{"a round twice", twice, ErrDamaged, "eventlog: the event log is damaged at byte 308: round 1 follows round 2"},
	} {
		_, _, err := read(test.file)
		if !errors.Is(err, test.want) || err.Error() != test.says {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// Outputs are cut back to a checkpoint and written again from there.
func TestWriter_Appends(t *testing.T) {
	rounds := example()
	file, ends := write(t, demo, rounds)
	var b bytes.Buffer
	b.Write(file[:ends[1]])
	w := Append(&b, demo)
	if err := errors.Join(w.Round(&rounds[1]), w.Flush()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), file) {
		t.Error("the log that goes on differs from the one that was never cut")
	}
}

// Of long runs few rounds are written in detail; the slowest task and real
// devices always are.
func TestThinning(t *testing.T) {
	for _, test := range []struct{ upTo, want int }{{1023, 1023}, {2047, 1023 + 512}, {4095, 1023 + 2*512}, {1 << 20, 1023 + 10*512 + 1}} {
		n := 0
		for r := 1; r <= test.upTo; r++ {
			if Detailed(r) {
				n++
			}
		}
		if n != test.want {
			t.Errorf("%d of %d rounds are detailed, want %d", n, test.upTo, test.want)
		}
	}
	tasks := []metrics.Task{
		{TaskReport: round.TaskReport{Task: 1, End: 2e9}, Slow: true}, {TaskReport: round.TaskReport{Task: 2, End: 1e9}}, {TaskReport: round.TaskReport{Task: 3, End: 3e9}, Slow: true},
		{TaskReport: round.TaskReport{Task: 4, End: 1e9}, Real: true},
	}
	file, _ := write(t, demo, []metrics.Round{{Report: round.Report{Round: 1024}, Tasks: tasks}, {Report: round.Report{Round: 1025}, Tasks: tasks}})
	_, got, err := read(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(got[0].Tasks) != 4 || len(got[1].Tasks) != 2 || got[1].Tasks[0].Task != 3 || got[1].Tasks[1].Task != 4 {
		t.Errorf("%+v", got)
	}
}

type full struct{ room int }

var errFull = errors.New("no space left")

func (f *full) Write(b []byte) (int, error) {
	n := min(len(b), f.room)
	f.room -= n
	if n < len(b) {
		return n, errFull
	}
	return n, nil
}

func TestWriter_FullDisk(t *testing.T) {
	w, err := NewWriter(&full{room: 1000}, demo)
	if err != nil {
		t.Fatal(err)
	}
	r := example()[0]
	for i := range 10_000 {
		r.Round = i + 1
		err = w.Round(&r)
		if err != nil {
			break
		}
	}
	if !errors.Is(err, errFull) || !errors.Is(w.Flush(), errFull) || !errors.Is(w.Round(&r), errFull) {
		t.Errorf("%v", err)
	}
}

// frame wraps a message for the fuzzer's seeds.
func frame(message []byte) []byte {
	return framing.Seal(append(framing.Begin(nil), message...))
}

// Whatever comes in, a reader ends without a panic, and what it accepts
// can be written again and reads the same.
func FuzzReader(f *testing.F) {
	file, ends := write(f, demo, example())
	f.Add(file, false)
	f.Add(file[:ends[1]+5], false)
	f.Add(file[ends[0]+int64(framing.Size):ends[1]], true)
	f.Add([]byte("FPEVENTS\x01\x00\x00\x00\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00"), false)
	f.Fuzz(func(t *testing.T, b []byte, message bool) {
		if message { // past the checksum
			b = append(slices.Clone(file[:ends[0]]), frame(b)...)
		}
		r, rounds, err := read(b)
		if err != nil || r.Torn() {
			return
		}
		for i := range rounds {
			for j := range rounds[i].Tasks {
				metrics.PartsOf(&rounds[i].Tasks[j].TaskReport)
			}
		}
		again, _ := write(t, r.Run(), rounds)
		_, got, err := read(again)
		if err != nil {
			t.Fatal(err)
		}
		for i := range rounds {
			if !Detailed(rounds[i].Round) {
				rounds[i].Tasks, got[i].Tasks = nil, nil
			}
			if !rounds[i].Evaluated { // the two are written together
				rounds[i].Metrics = nil
			}
		}
		if diff := cmp.Diff(rounds, got, cmpopts.EquateNaNs(), cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// A round of a timing-only run takes 200 µs and more.
func BenchmarkRound(b *testing.B) {
	w, err := NewWriter(io.Discard, demo)
	if err != nil {
		b.Fatal(err)
	}
	r := example()[0]
	for len(r.Tasks) < 40 {
		r.Tasks = append(r.Tasks, r.Tasks[0])
	}
	for b.Loop() {
		if err := w.Round(&r); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(w.record)), "B/round")
}

// A log keeps the metrics of models that have others than the accuracy, or none.
func TestWriter_AnyMetrics(t *testing.T) {
	for _, list := range [][]metric.Metric{{{Name: "mae", Lower: true}, {Name: "f1"}}, {}} {
		run := *demo
		run.Train, run.Metrics = true, list
		rounds := example()
		for i := range rounds {
			rounds[i].Evaluated, rounds[i].ValidationLoss, rounds[i].Metrics = i == 0, 2, nil
			for k := range list {
				if i == 0 {
					rounds[i].Metrics = append(rounds[i].Metrics, 0.5+float64(k))
				}
			}
		}
		file, _ := write(t, &run, rounds)
		r, back, err := read(file)
		if err != nil || !slices.Equal(metric.Names(r.Run().Metrics), metric.Names(list)) {
			t.Fatalf("%v: read back as %v, %v", list, r.Run().Metrics, err)
		}
		for i := range rounds {
			if !slices.Equal(back[i].Metrics, rounds[i].Metrics) || back[i].Evaluated != rounds[i].Evaluated {
				t.Errorf("%v: round %d has %v, want %v", list, i+1, back[i].Metrics, rounds[i].Metrics)
			}
		}
	}
	quadratics := *demo
	quadratics.Train, quadratics.Task, quadratics.Metrics = true, quadratic, nil
	file, _ := write(t, &quadratics, example()[:0])
	if r, _, err := read(file); err != nil || len(r.Run().Metrics) != 0 {
		t.Errorf("quadratics have %v, %v", r.Run().Metrics, err)
	}
}
