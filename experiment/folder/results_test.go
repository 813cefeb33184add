package folder

import (
	"encoding/csv"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"fedpace/config"
	"fedpace/coordinator/round"
	_ "fedpace/internal/testkit/testseed"
	"fedpace/learn/metric"
	"fedpace/metrics"
)

func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// classifier are the columns of a run whose models have an accuracy.
var classifier = new(metrics.Run).WithValues(columnsOf([]string{metric.Accuracy}))

func anyReport(number int) *round.Report {
	return &round.Report{
		Round: number, Start: 1_677_500_000, End: 4_715_000_001, LocalSteps: 64, LearningRate: 0.3, Cohort: 60,
		Outcomes:     [round.Outcomes]int{60},
		TrainingLoss: math.NaN(), SGDSteps: 144, ValidationLoss: 1.5, Metrics: []float64{0.25},
	}
}

// rowsOf opens a folder's rounds.csv.
func rowsOf(t testing.TB, r *Results) *rounds {
	t.Helper()
	o := &rounds{columns: classifier}
	if err := o.Start(&metrics.Start{Folder: r}); err != nil {
		t.Fatal(err)
	}
	return o
}

// add adds a row.
func (o *rounds) add(r *round.Report) error {
	return o.Round(&metrics.Round{Report: *r})
}

func TestFolder_Filled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs", "demo")
	r, err := CreateResults(dir, config.Demonstration(), false)
	if err != nil {
		t.Fatal(err)
	}
	first, second := anyReport(1), anyReport(2)
	second.TrainingLoss, second.Evaluated = 2.25, true
	first.WindowLoss = math.NaN()
	second.WindowLoss = 2.5
	second.Steps, second.LateUsed = metric.Spread{Tasks: 60, Smallest: 8, Largest: 64, Sum: 2250}, 3
	rows := rowsOf(t, r)
	for _, report := range []*round.Report{first, second} {
		if err := rows.add(report); err != nil {
			t.Fatal(err)
		}
	}
	// The rows can be read while the run goes on.
	text, err := os.ReadFile(filepath.Join(dir, RoundsFile))
	if err != nil {
		t.Fatal(err)
	}
	want := "round,virtual_seconds,round_seconds,local_steps,learning_rate,cohort,accepted,late,dropped,lost,cancelled,refused,training_loss,validation_loss,validation_accuracy,sgd_steps," +
		"smallest_local_steps,mean_local_steps,largest_local_steps,late_used,window_loss\n" +
		"1,4.715000001,3.037500001,64,0.3,60,60,0,0,0,0,0,,,,144,,,,0,\n" +
		"2,4.715000001,3.037500001,64,0.3,60,60,0,0,0,0,0,2.25,1.5,0.25,144,8,37.5,64,3,2.5\n"
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Error(diff)
	}
	for _, write := range []error{
		r.Summary(&Summary{Task: "femnist"}), r.Close(),
	} {
		if write != nil {
			t.Fatal(write)
		}
	}
	if diff := cmp.Diff([]string{"config.yaml", "rounds.csv", "summary.json"}, files(t, dir)); diff != "" {
		t.Error(diff)
	}
	c, err := config.Load(filepath.Join(dir, ConfigFile), nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(config.Demonstration(), c); diff != "" {
		t.Error(diff)
	}
}

func TestFolder_HoldsRun(t *testing.T) {
	dir := t.TempDir()
	r, err := CreateResults(dir, config.Demonstration(), false)
	if err != nil {
		t.Fatalf("an empty folder: %v", err)
	}
	if err := errors.Join(rowsOf(t, r).add(anyReport(1)), r.Close()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("mine"), 0o666); err != nil {
		t.Fatal(err)
	}
	before := files(t, dir)

	_, err = CreateResults(dir, config.Demonstration(), false)
	want := "results: " + dir + " holds a run that was killed after 1 round (to go on: fedpace resume " + dir + "): choose another folder with --out"
	if !errors.Is(err, ErrHoldsRun) || err.Error() != want {
		t.Errorf("\n got %v\nwant %s", err, want)
	}
	if diff := cmp.Diff(before, files(t, dir)); diff != "" {
		t.Errorf("a refused run changed the folder: %s", diff)
	}

	r, err = CreateResults(dir, config.Demonstration(), true)
	if err != nil {
		t.Fatal(err)
	}
	rowsOf(t, r)
	if text, err := os.ReadFile(filepath.Join(dir, RoundsFile)); err != nil || string(text) != header(classifier)+"\n" {
		t.Errorf("force keeps the old rows: %q, %v", text, err)
	}
	if err := r.Discard(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"notes.txt"}, files(t, dir)); diff != "" {
		t.Errorf("a discarded run leaves more or less than it found: %s", diff)
	}
}

// Lists of runs stop at a run: one within another would be in none.
func TestFolder_WithinAnother(t *testing.T) {
	top := t.TempDir()
	if err := os.WriteFile(filepath.Join(top, ConfigFile), nil, 0o666); err != nil { // a user's own
		t.Fatal(err)
	}
	outer := filepath.Join(top, "outer")
	r, err := CreateResults(outer, config.Demonstration(), false)
	if err != nil {
		t.Fatal(err)
	}
	rowsOf(t, r)
	if err := Outside(top); err != nil {
		t.Error(err)
	}
	for _, dir := range []string{"outer/a", "outer/a/b", "outer/a/b/c"} {
		dir = filepath.Join(top, dir)
		for _, force := range []bool{false, true} {
			if inner, err := CreateResults(dir, config.Demonstration(), force); err == nil || !strings.Contains(err.Error(), outer+" holds a run") {
				t.Errorf("%s within a run, force %v: %v", dir, force, errors.Join(err, inner.Close()))
			}
		}
		if Outside(dir) == nil {
			t.Errorf("%s passes as a folder for runs", dir)
		}
	}
	if Outside(outer) == nil || Outside(filepath.Join(outer, RoundsFile)) == nil {
		t.Error("a run's folder and a file pass as folders for runs")
	}
	// What is said of a run that goes on can be done.
	if err := VacantFolder(outer, false); !errors.Is(err, ErrHoldsRun) || strings.Contains(err.Error(), "--force") {
		t.Errorf("a run that goes on: %v", err)
	}
	if err := r.Discard(); err != nil {
		t.Fatal(err)
	}
}

func TestFolder_FailedStart(t *testing.T) {
	root := t.TempDir()
	r, err := CreateResults(filepath.Join(root, "a", "b"), config.Demonstration(), false)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Discard(); err != nil {
		t.Fatal(err)
	}
	if left := files(t, root); len(left) > 0 {
		t.Errorf("stays: %v", left)
	}
	if err := os.WriteFile(filepath.Join(root, "file"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Join(root, "file"), filepath.Join(root, "file", "below")} {
		if _, err := CreateResults(dir, config.Demonstration(), true); err == nil {
			t.Errorf("%s is accepted as a folder", dir)
		}
	}
	if diff := cmp.Diff([]string{"file"}, files(t, root)); diff != "" {
		t.Error(diff)
	}
}

// Of two runs that start in one folder at once, the second fails and leaves
// the first alone, also when it is told to replace what it finds.
func TestFolder_TwoRuns(t *testing.T) {
	dir := t.TempDir()
	first, err := CreateResults(dir, config.Demonstration(), false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := CreateResults(dir, config.Demonstration(), true); !errors.Is(err, ErrRunning) {
		t.Errorf("the second: %v", err)
	}
	if err := VacantFolder(dir, true); !errors.Is(err, ErrRunning) {
		t.Errorf("the folder is said to be free: %v", err)
	}
	if diff := cmp.Diff([]string{".lock", "config.yaml"}, files(t, dir)); diff != "" {
		t.Error(diff)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"config.yaml"}, files(t, dir)); diff != "" {
		t.Error(diff)
	}
	if err := VacantFolder(dir, true); err != nil {
		t.Error(err)
	}
}

func TestFolder_FullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("no /dev/full on this system: %v", err)
	}
	r, err := CreateResults(t.TempDir(), config.Demonstration(), false)
	if err != nil {
		t.Fatal(err)
	}
	rows := rowsOf(t, r)
	file := rows.file.(*appendFile)
	if err := file.file.Close(); err != nil {
		t.Fatal(err)
	}
	file.file = full
	err = rows.add(anyReport(7))
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "round 7 cannot be written") || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("got %v", err)
	}
	// What failed stays failed: no later row may follow a missing one.
	if again := rows.add(anyReport(8)); !errors.Is(again, syscall.ENOSPC) {
		t.Errorf("the next row gave %v", again)
	}
	if err := r.Summary(&Summary{}); err == nil {
		t.Error("a summary is written on top of missing rows")
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// Cells read back to what the report held, times to the nanosecond.
func TestRows_ReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := round.Report{
			Round:  rapid.IntRange(1, 1e9).Draw(t, "round"),
			End:    round.Time(rapid.Int64Range(0, 4e18).Draw(t, "end")),
			Cohort: rapid.IntRange(0, 1e6).Draw(t, "cohort"), LocalSteps: 3, LateUsed: rapid.IntRange(0, 9).Draw(t, "late used"),
			LearningRate: rapid.Float64Range(1e-9, 10).Draw(t, "rate"),
			TrainingLoss: rapid.Float64Range(0, 1e9).Draw(t, "loss"),
		}
		for i := range r.Outcomes {
			r.Outcomes[i] = rapid.IntRange(0, 100).Draw(t, "outcome")
		}
		if rapid.Bool().Draw(t, "known") && r.Cohort > 0 {
			r.Steps = metric.Spread{Tasks: r.Cohort, Smallest: rapid.IntRange(1, 1<<24).Draw(t, "smallest")}
			r.Steps.Largest = rapid.IntRange(r.Steps.Smallest, 1<<24).Draw(t, "largest")
			r.Steps.Sum = rapid.Int64Range(int64(r.Cohort*r.Steps.Smallest), int64(r.Cohort*r.Steps.Largest)).Draw(t, "sum")
		}
		line := strings.TrimSuffix(string(appendRow(nil, classifier, &r)), "\n")
		rows, err := csv.NewReader(strings.NewReader(header(classifier) + "\n" + line)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		cell := map[string]string{}
		for i, name := range rows[0] {
			cell[name] = rows[1][i]
		}
		whole, fraction, _ := strings.Cut(cell["virtual_seconds"], ".")
		ns, err := strconv.ParseInt(whole+(fraction + "000000000")[:9], 10, 64)
		if err != nil || ns != int64(r.End) {
			t.Errorf("%d ns is written %s", r.End, cell["virtual_seconds"])
		}
		in, err := newReader(rows[0])
		if err != nil {
			t.Fatal(err)
		}
		back, err := in.parse(line)
		if err != nil || back.Steps != r.Steps || back.LateUsed != r.LateUsed {
			t.Errorf("the steps %+v and %d late updates read back as %+v and %d, %v", r.Steps, r.LateUsed, back.Steps, back.LateUsed, err)
		}
		for name, want := range map[string]float64{"learning_rate": r.LearningRate, "training_loss": r.TrainingLoss} {
			if got, err := strconv.ParseFloat(cell[name], 64); err != nil || got != want {
				t.Errorf("%s %v is written %s", name, want, cell[name])
			}
		}
		for i, n := range r.Outcomes {
			if cell[round.Outcome(i).String()] != strconv.Itoa(n) {
				t.Errorf("%v: %d is written %s", round.Outcome(i), n, cell[round.Outcome(i).String()])
			}
		}
	})
}

// Columns are read by their names, in any order; a value without a column is not known. A run
// goes on in its own columns alone.
func TestRows_ColumnsByName(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, RoundsFile)
	text := "toy,late_used,virtual_seconds,round,validation_f1,round_seconds,validation_loss\nx,2,7.5,3,0.5,1.25,4\nx,0,8,4,,0.5,\n"
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	nan := math.NaN()
	want := []round.Report{
		{Round: 3, Start: 6.25e9, End: 7.5e9, LateUsed: 2, Evaluated: true, ValidationLoss: 4, Metrics: []float64{0.5}, TrainingLoss: nan, WindowLoss: nan},
		{Round: 4, Start: 7.5e9, End: 8e9, TrainingLoss: nan, WindowLoss: nan, ValidationLoss: nan},
	}
	list, err := ReadRounds(path)
	if diff := cmp.Diff(want, list, cmpopts.EquateNaNs()); diff != "" || err != nil {
		t.Error(err, diff)
	}
	s := OnDisk(system{}, dir)
	if err := s.Check([]FileDigest{{RoundsFile, int64(len(text)), sealOf([]byte(text))}}); err != nil {
		t.Fatal(err)
	}
	if err := (&rounds{columns: classifier}).Start(&metrics.Start{Folder: &Results{Store: *s}}); err == nil || !strings.Contains(err.Error(), "has the columns toy,late_used") {
		t.Errorf("a run goes on in another's columns: %v", err)
	}
	for _, bad := range []string{"", "round\n", "virtual_seconds,local_steps\n", RoundsHeader()} {
		if err := os.WriteFile(path, []byte(bad), 0o666); err != nil {
			t.Fatal(err)
		}
		_, err := (&Run{Dir: dir}).Metrics()
		if _, rows := ReadRounds(path); err == nil || rows == nil {
			t.Errorf("%q is a header: %v, %v", bad, err, rows)
		}
	}
}

// Steps that no round can have are refused, as is a number that is none.
func TestRows_ImpossibleCells(t *testing.T) {
	in, err := newReader(strings.Split("round,virtual_seconds,cohort,training_loss,smallest_local_steps,mean_local_steps,largest_local_steps", ","))
	if err != nil {
		t.Fatal(err)
	}
	for cells, what := range map[string]string{
		",8,37.5,64": "", "1.5,,,": "", ",8,8,8": "",
		",8,64.4,64": "mean_local_steps", ",8,7.5,64": "mean_local_steps", ",8,,64": "mean_local_steps", ",8,37.5,": "mean_local_steps", ",,37.5,64": "mean_local_steps",
		",8,NaN,64": "mean_local_steps", "nan,8,37.5,64": "training_loss", "Inf,8,37.5,64": "training_loss",
	} {
		_, err := in.parse("1,7.5,2," + cells)
		if (err != nil) != (what != "") || err != nil && !strings.HasPrefix(err.Error(), what+": ") {
			t.Errorf("%s: %v, want an error of %q", cells, err, what)
		}
	}
}

// A loss that no run goes on with is refused with its place, and not averaged.
func TestRows_InfiniteLoss(t *testing.T) {
	r := &Run{Dir: t.TempDir(), Config: config.Demonstration()}
	if err := os.WriteFile(r.Path(RoundsFile), []byte("round,virtual_seconds,training_loss\n1,1,0.5\n2,2,Inf\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Rounds(); err == nil || !strings.HasSuffix(err.Error(), `rounds.csv:3: training_loss: "Inf" is not a number`) {
		t.Errorf("it is read with %v", err)
	}
}

// A run of 250,000 rounds must not feel its rows: one should cost a few
// microseconds.
func BenchmarkRound(b *testing.B) {
	r, err := CreateResults(b.TempDir(), config.Demonstration(), false)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	rows, report := rowsOf(b, r), &metrics.Round{Report: *anyReport(1)}
	b.ReportAllocs()
	for b.Loop() {
		if err := rows.Round(report); err != nil {
			b.Fatal(err)
		}
	}
}

// A run has a column for each of its metrics, none where it has none, and a file says
// which they are.
func TestRows_ColumnsOfMetrics(t *testing.T) {
	for _, test := range []struct {
		metrics []string
		values  []float64
		cells   string
	}{
		{nil, nil, "1.5,144"},
		{[]string{"mae"}, []float64{0.75}, "1.5,0.75,144"},
		{[]string{"f1", metric.Accuracy, "mae"}, []float64{0.5, 0.25, 7}, "1.5,0.5,0.25,7,144"},
	} {
		dir := t.TempDir()
		report := anyReport(1)
		report.Evaluated, report.Metrics = true, test.values
		missing := anyReport(2)
		missing.ValidationLoss, missing.Metrics = math.NaN(), nil
		run := &metrics.Run{}
		for _, name := range test.metrics {
			run.Metrics = append(run.Metrics, metric.Metric{Name: name})
		}
		opened, err := Rounds{}.Open(run)
		if err != nil {
			t.Fatal(err)
		}
		o := opened.(*rounds)
		s := OnDisk(system{}, dir)
		if err := errors.Join(o.Start(&metrics.Start{Folder: &Results{Store: *s}}), o.add(report), o.add(missing), o.file.(*appendFile).file.Close()); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, RoundsFile))
		if err != nil || !strings.HasPrefix(string(text), RoundsHeader(test.metrics...)+"\n") || !strings.Contains(string(text), ","+test.cells+",") {
			t.Errorf("%v: it holds %q, %v", test.metrics, text, err)
		}
		list, err := (&Run{Dir: dir}).Metrics()
		if names := metric.Names(list); err != nil || !slices.Equal(names, test.metrics) {
			t.Errorf("%v: the file names %v, %v", test.metrics, list, err)
		}
		back, err := ReadRounds(filepath.Join(dir, RoundsFile))
		if err != nil || !slices.Equal(back[0].Metrics, test.values) || back[0].ValidationLoss != 1.5 || back[0].SGDSteps != 144 || back[1].Evaluated || back[1].Metrics != nil {
			t.Errorf("%v: it is read as %+v, %v", test.metrics, back, err)
		}
		// Another run's metrics are not taken for one's own.
		s = OnDisk(system{}, dir)
		if err := s.Check([]FileDigest{{RoundsFile, int64(len(text)), sealOf(text)}}); err != nil {
			t.Fatal(err)
		}
		other := &rounds{columns: columnsOf([]string{"other"})}
		if err := other.Start(&metrics.Start{Folder: &Results{Store: *s}}); err == nil || !strings.Contains(err.Error(), "validation_other") {
			t.Errorf("%v: a run with another metric goes on: %v", test.metrics, err)
		}
	}
}

// ReadRounds are all rounds of a rounds.csv, as [Reports].
func ReadRounds(path string) (list []round.Report, err error) {
	for r, err := range Reports(path) {
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}
