package tables

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"math"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"fedpace/coordinator/round"
	_ "fedpace/internal/testkit/testseed"
	"fedpace/learn/metric"
	"fedpace/metrics"
)

// readBack reads a table and its metadata.
func readBack[T any](t testing.TB, file []byte) ([]T, *parquet.File) {
	t.Helper()
	f, err := parquet.OpenFile(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := parquet.Read[T](bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	return rows, f
}

// described checks that a file says what each of its columns means.
func described(t *testing.T, f *parquet.File) {
	t.Helper()
	text, ok := f.Lookup("columns")
	var said map[string]about
	if err := json.Unmarshal([]byte(text), &said); err != nil || !ok {
		t.Fatalf("columns: %q: %v", text, err)
	}
	for _, c := range f.Schema().Fields() {
		if said[c.Name()].Meaning == "" {
			t.Errorf("column %s says nothing of itself", c.Name())
		}
		delete(said, c.Name())
	}
	if len(said) > 0 {
		t.Errorf("%v are no columns", said)
	}
}

func sequence(rounds []round.Report, then error) iter.Seq2[round.Report, error] {
	return func(yield func(round.Report, error) bool) {
		for _, r := range rounds {
			if !yield(r, nil) {
				return
			}
		}
		if then != nil {
			yield(round.Report{}, then)
		}
	}
}

// row are columns of rounds.parquet.
type row struct {
	Round          int32    `parquet:"round"`
	Start          float64  `parquet:"start_seconds"`
	End            float64  `parquet:"virtual_seconds"`
	Took           float64  `parquet:"round_seconds"`
	LearningRate   float64  `parquet:"learning_rate"`
	Cohort         int32    `parquet:"cohort"`
	Accepted       int32    `parquet:"accepted"`
	Refused        int32    `parquet:"refused"`
	TrainingLoss   *float64 `parquet:"training_loss,optional"`
	ValidationLoss *float64 `parquet:"validation_loss,optional"`
	Accuracy       *float64 `parquet:"validation_accuracy,optional"`
	SGDSteps       int64    `parquet:"sgd_steps"`
	Smallest       *int32   `parquet:"smallest_local_steps,optional"`
	Mean           *float64 `parquet:"mean_local_steps,optional"`
	Tokens         *int64   `parquet:"tokens,optional"`
	LateUsed       int32    `parquet:"late_used"`
	Members        int32    `parquet:"secure_members"`
	Recovered      int32    `parquet:"secure_recovered"`
	Unrecovered    int32    `parquet:"secure_unrecovered"`
	Setup          float64  `parquet:"secure_setup_seconds"`
	Recovery       float64  `parquet:"secure_recovery_seconds"`
	Keys           float64  `parquet:"secure_keys_seconds"`
	Survivors      float64  `parquet:"secure_survivors_seconds"`
	SecureBytes    float64  `parquet:"secure_bytes"`
}

func TestRounds(t *testing.T) {
	reports := []round.Report{
		{Round: 1, End: 4_037_500_000, LocalSteps: 80, LearningRate: 0.3, Cohort: 60, Outcomes: [round.Outcomes]int{55, 1, 2, 0, 1, 1}, Steps: metric.Spread{Tasks: 60, Smallest: 7, Largest: 80, Sum: 4653}, LateUsed: 7, TrainingLoss: 4.25, SGDSteps: 80, Tokens: 9600, Evaluated: true, ValidationLoss: 4, Metrics: []float64{0}},
		{Round: 2, Start: 4_037_500_000, End: 8e9, LocalSteps: 64, LearningRate: 0.3, TrainingLoss: math.NaN(), WindowLoss: math.NaN(), SGDSteps: 144},
	}
	var b bytes.Buffer
	if err := WriteRounds(&b, &metrics.Run{Name: "demo", Version: "v1", Tokens: true, Secure: true, Metrics: []metric.Metric{{Name: metric.Accuracy}}}, sequence(reports, nil)); err != nil {
		t.Fatal(err)
	}
	rows, f := readBack[row](t, b.Bytes())
	value := func(v float64) *float64 { return &v }
	smallest, tokens := int32(7), int64(9600)
	if diff := cmp.Diff([]row{
		{
			Round: 1, End: 4.0375, Took: 4.0375, LearningRate: 0.3, Cohort: 60, Accepted: 55, Refused: 1, TrainingLoss: value(4.25), ValidationLoss: value(4),
			Accuracy: value(0), SGDSteps: 80, Smallest: &smallest, Mean: value(77.55), Tokens: &tokens, LateUsed: 7,
		},
		{Round: 2, Start: 4.0375, End: 8, Took: 3.9625, LearningRate: 0.3, SGDSteps: 144},
	}, rows); diff != "" {
		t.Error(diff)
	}
	described(t, f)
	if run, _ := f.Lookup("run"); run != "demo" {
		t.Errorf("run %q", run)
	}
	reasons := 15 // columns of a steered K, of a round's formulas and of what clients use, which the run does not have
	if got, want := len(f.Schema().Fields()), len(metrics.Columns)+1-reasons; got != want {
		t.Errorf("%d columns, want %d", got, want)
	}
	types := map[string]string{}
	for _, c := range f.Schema().Fields() {
		types[c.Name()] = c.Type().String()
		if want := slices.Contains([]string{
			"training_loss", "window_loss", "validation_loss", "validation_accuracy", "smallest_local_steps", "mean_local_steps", "largest_local_steps", "tokens",
		}, c.Name()); c.Optional() != want {
			t.Errorf("column %s: null allowed is %v", c.Name(), c.Optional())
		}
	}
	for name, want := range map[string]string{"round": "INT(32,true)", "virtual_seconds": "DOUBLE", "sgd_steps": "INT(64,true)", "training_loss": "DOUBLE"} {
		if types[name] != want {
			t.Errorf("column %s is %s, want %s", name, types[name], want)
		}
	}
}

func TestRowGroups(t *testing.T) {
	reports := make([]round.Report, groupRows+batch+3)
	for i := range reports {
		reports[i] = round.Report{Round: i + 1, TrainingLoss: float64(i)}
	}
	var b bytes.Buffer
	if err := WriteRounds(&b, &metrics.Run{}, sequence(reports, nil)); err != nil {
		t.Fatal(err)
	}
	rows, f := readBack[row](t, b.Bytes())
	if len(f.RowGroups()) != 2 {
		t.Errorf("%d groups", len(f.RowGroups()))
	}
	for i, r := range rows {
		if int(r.Round) != i+1 || *r.TrainingLoss != float64(i) {
			t.Fatalf("row %d is %+v", i, r)
		}
	}
}

func TestWriteRounds_RowError(t *testing.T) {
	broken := errors.New("rounds.csv:7: round: ...")
	if err := WriteRounds(&bytes.Buffer{}, &metrics.Run{}, sequence(make([]round.Report, 3), broken)); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// A FEMNIST client with K = 80 (Tables 1 and 2).
var femnist = round.Plan{Download: 335_500_000, Compute: 1_360_000_000, Upload: 1_342_000_000}

func clientsTable(t testing.TB, c *Tables) []Client {
	t.Helper()
	var b bytes.Buffer
	if err := c.WriteClients(&b); err != nil {
		t.Fatal(err)
	}
	rows, f := readBack[Client](t, b.Bytes())
	if tt, ok := t.(*testing.T); ok {
		described(tt, f)
	}
	return rows
}

func TestClients(t *testing.T) {
	c := New(&metrics.Run{
		Clients: 8, Devices: []string{"pi", "own"}, Classes: []string{"phone", "tablet"},
		Class: func(client int) int { return client % 2 }, DeviceClass: func(client int) int { return 8 - client },
	})
	total := femnist.Total()
	for _, e := range []round.TaskReport{
		{Client: 5, LocalSteps: 80, Outcome: round.Accepted, End: total, Plan: femnist},
		{Client: 5, LocalSteps: 80, Outcome: round.Late, End: 1_015_500_000, Plan: femnist}, // half of its steps done
		{Client: 2, LocalSteps: 80, Outcome: round.Dropped, End: 100_000_000, Plan: femnist},
		{Client: 8, LocalSteps: 80, Outcome: round.Lost, End: 120e9},
		{Client: 9, LocalSteps: 80, Outcome: round.Lost, End: 120e9},
		{Client: 2, LocalSteps: 1, Probe: true, Outcome: round.Accepted, End: 352_500_000, Plan: round.Plan{Download: 335_500_000, Compute: 17_000_000}},
	} {
		c.Task(&e)
	}
	c.countOpen()
	// The run ends in the round after: this one was for nothing.
	c.Task(&round.TaskReport{Client: 0, LocalSteps: 80, Outcome: round.Accepted, End: total, Plan: femnist})
	finish(t, c)
	if diff := cmp.Diff([]Client{
		{Client: 0, Class: "phone", Tasks: 1, Cancelled: 1, StepsWasted: 80, DownloadWasted: 0.3355, ComputeWasted: 1.36, UploadWasted: 1.342},
		{Client: 2, Class: "phone", Tasks: 1, Dropped: 1, Candidates: 1, DownloadUseful: 0.3355, DownloadWasted: 0.1, ComputeUseful: 0.017},
		{Client: 5, Class: "tablet", Tasks: 2, Accepted: 1, Late: 1, StepsUseful: 80, StepsWasted: 40, DownloadUseful: 0.3355, DownloadWasted: 0.3355, ComputeUseful: 1.36, ComputeWasted: 0.68, UploadUseful: 1.342},
		{Client: 8, Class: "phone", Real: true, Tasks: 1, Lost: 1, WaitingWasted: 120},
		{Client: 9, Real: true, Tasks: 1, Lost: 1, WaitingWasted: 120},
	}, clientsTable(t, c)); diff != "" {
		t.Error(diff)
	}
}

// A run that was stopped goes on with the tasks of its open round: its table has them as little as
// its summary.
func TestClients_StoppedRun(t *testing.T) {
	c := New(&metrics.Run{Clients: 8})
	c.Task(&round.TaskReport{Client: 5, LocalSteps: 80, Outcome: round.Accepted, End: femnist.Total(), Plan: femnist})
	c.countOpen()
	c.Task(&round.TaskReport{Client: 0, LocalSteps: 80, Outcome: round.Accepted, End: femnist.Total(), Plan: femnist})
	if err := c.Finish(&metrics.End{Start: &metrics.Start{Folder: nowhere{}}}); err != nil {
		t.Fatal(err)
	}
	if rows := clientsTable(t, c); len(rows) != 1 || rows[0].Client != 5 {
		t.Errorf("%+v", rows)
	}
}

// finish ends a run that has no folder.
func finish(t interface{ Fatal(...any) }, c *Tables) {
	if err := c.Finish(&metrics.End{Start: &metrics.Start{Folder: nowhere{}}, Completed: true}); err != nil {
		t.Fatal(err)
	}
}

type nowhere struct{ metrics.Folder }

func (nowhere) Replace(string, func(io.Writer) error) error { return nil }

// saved is what a checkpoint keeps.
func saved(t interface{ Fatal(...any) }, c *Tables) []byte {
	b, err := c.Save()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A run that goes on from a checkpoint ends with the accounts of one that was
// never stopped, wherever it was stopped.
func TestTables_Restored(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		clients := rapid.SampledFrom([]int{3, 3000}).Draw(rt, "clients")
		run := &metrics.Run{Clients: clients}
		whole, parts := New(run), New(run)
		for range rapid.IntRange(0, 60).Draw(rt, "events") {
			switch rapid.IntRange(0, 9).Draw(rt, "what") {
			case 0:
				whole.countOpen()
				parts.countOpen()
			case 1:
				next := New(run)
				if err := next.Restore(saved(rt, parts)); err != nil {
					rt.Fatal(err)
				}
				parts = next
			default:
				e := round.TaskReport{
					Client: rapid.IntRange(0, clients-1).Draw(rt, "client"), LocalSteps: 80, Plan: femnist,
					Outcome: round.Outcome(rapid.IntRange(0, round.Outcomes-1).Draw(rt, "outcome")), End: round.Time(rapid.Int64Range(0, int64(femnist.Total())).Draw(rt, "took")),
					Probe: rapid.Bool().Draw(rt, "probe"),
				}
				whole.Task(&e)
				parts.Task(&e)
			}
		}
		finish(rt, whole)
		finish(rt, parts)
		if !bytes.Equal(saved(rt, whole), saved(rt, parts)) {
			rt.Fatalf("%+v and %+v", whole, parts)
		}
	})
	for _, s := range []state{
		{Accounts: binary.AppendVarint(nil, 1)}, {Accounts: binary.AppendVarint(nil, -1)},
		{Accounts: append(binary.AppendVarint(nil, math.MaxInt64), make([]byte, 17)...)},
	} {
		var b bytes.Buffer
		if err := gob.NewEncoder(&b).Encode(s); err != nil {
			t.Fatal(err)
		}
		if err := New(&metrics.Run{Clients: 3}).Restore(b.Bytes()); err == nil {
			t.Errorf("%+v is accepted", s)
		}
	}
}

func BenchmarkTask(b *testing.B) {
	const clients, cohort = 1_000_000, 1000
	c := New(&metrics.Run{Clients: clients})
	e := round.TaskReport{LocalSteps: 80, Plan: femnist, End: femnist.Total()}
	for i := 0; b.Loop(); i++ {
		e.Client = i * 7919 % clients
		c.Task(&e)
		if i%cohort == 0 {
			c.countOpen()
		}
	}
}

func BenchmarkWriteRounds(b *testing.B) {
	reports := make([]round.Report, 10_000)
	for i := range reports {
		reports[i] = round.Report{Round: i + 1, End: round.Time(i) * 3_037_500_000, LocalSteps: 80, LearningRate: 0.3, Cohort: 60, TrainingLoss: math.NaN()}
	}
	for b.Loop() {
		if err := WriteRounds(&bytes.Buffer{}, &metrics.Run{}, sequence(reports, nil)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(reports)), "ns/round")
}

// docs/results.md has the columns as the files do, with the unit where the meaning does not name it. A row
// about several columns names each of them.
func TestColumns_Documented(t *testing.T) {
	page, err := os.ReadFile("../../docs/results.md")
	if err != nil {
		t.Fatal(err)
	}
	shared := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^`\\w+`(, `\\w+`)+ \\| ").FindAllString(string(page), -1) {
		for name := range strings.SplitSeq(strings.TrimSuffix(row, " | "), ", ") {
			shared[name] = true
		}
	}
	for _, text := range []string{columns(rowType(metrics.ColumnsOf(metric.Accuracy))), columns(reflect.TypeFor[Client]()), columns(reflect.TypeFor[Task]())} {
		var list map[string]about
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatal(err)
		}
		for name, a := range list {
			row := "\n`" + name + "` | " + a.Meaning
			words := strings.FieldsFunc(a.Meaning, func(r rune) bool { return !unicode.IsLetter(r) && r != '\'' })
			if a.Unit != "" && !slices.Contains(words, a.Unit) {
				row += " (" + a.Unit + ")"
			}
			if !shared["`"+name+"`"] && !strings.Contains(string(page), row+"\n") {
				t.Errorf("%s (%s, %s) is not in docs/results.md", name, a.Meaning, a.Unit)
			}
		}
	}
}
