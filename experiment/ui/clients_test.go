package ui_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fedpace/config"
	"fedpace/experiment/run"
	"fedpace/metrics"
	"fedpace/metrics/live"
)

// The page of a run that has ended calls clients as their data does, also where that is gone.
func TestClients_Names(t *testing.T) {
	dir := t.TempDir()
	table := filepath.Join(dir, "own.csv")
	text := "who,x,y\n"
	for i := range 120 {
		text += fmt.Sprintf("ward-%d,%d,%d\n", i%4, i%7, i%2)
	}
	if err := os.WriteFile(table, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load("", []string{
		"task=custom", "data={path: " + table + ", reader: table, client: who, features: [x], label: y}", "model=linear", "batch=4", "cohort=3", "stop.rounds=2",
		"schedule.k0=2", "schedule.eta0=0.1", "compute.seconds_per_step=0.01", "network={download_mbps: 20, upload_mbps: 5, model_megabits: exact}",
		"out=" + filepath.Join(dir, "runs", "own"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Run(t.Context(), c, run.Options{Version: "test"}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(table); err != nil {
		t.Fatal(err)
	}
	_, address := served(t, filepath.Join(dir, "runs"))
	get := func(path string, v any) {
		t.Helper()
		answer, err := http.Get(address + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if err := json.NewDecoder(answer.Body).Decode(v); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	var list struct{ Runs []struct{ ID string } }
	get("runs.json", &list)
	type round struct{ Tasks []struct{ Name string } }
	var first round
	var last struct {
		Round round `json:"last_round"`
	}
	get("round.json?round=1&run="+list.Runs[0].ID, &first)
	get("snapshot.json?run="+list.Runs[0].ID, &last)
	if len(first.Tasks) != 3 || len(last.Round.Tasks) != 3 {
		t.Fatalf("%d and %d tasks, want 3", len(first.Tasks), len(last.Round.Tasks))
	}
	for _, task := range append(first.Tasks, last.Round.Tasks...) {
		if !strings.HasPrefix(task.Name, "ward-") {
			t.Errorf("a client is called %q", task.Name)
		}
	}
}

// kept is an output that keeps what outputs are told of their run.
type kept struct{}

var told *metrics.Run

func init() { metrics.Sinks.Register("kept", "of a test", kept{}) }

func (kept) Files() []string { return nil }

func (k kept) Open(run *metrics.Run) (metrics.Output, error) {
	told = run
	return k, nil
}

func (kept) Round(*metrics.Round) error { return nil }

// The page of a run that has ended says of it what its own page said: by what its models are compared, at
// what it was to end, and that late updates count, so that nobody waits for the slowest.
func TestClients_PageNotes(t *testing.T) {
	dir := t.TempDir()
	c, err := config.Load("", []string{
		"task=sent140", "clients=40", "cohort=8", "stop={rounds: 6, virtual_seconds: 4e6, metric: {name: accuracy, reaches: 0.9999}}", "evaluate={every: 2, metric: loss}",
		"close={rule: first, n: 5}", "late=use", "outputs=[rounds, kept]", "out=" + filepath.Join(dir, "own"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Run(t.Context(), c, run.Options{Version: "test"}); err != nil {
		t.Fatal(err)
	}
	library, address := served(t, dir)
	if library.Len() != 1 {
		t.Fatalf("%d runs", library.Len())
	}
	type page struct {
		Run      map[string]any
		Progress struct {
			Total float64 `json:"virtual_total"`
		}
		Waits struct{ Rounds int }
	}
	read := func(text []byte) (p page) {
		if err := json.Unmarshal(text, &p); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for _, other := range []string{"id", "name", "data", "started", "version"} {
			delete(p.Run, other)
		}
		return p
	}
	get := func(path string) []byte {
		answer, err := http.Get(address + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var list struct{ Runs []struct{ ID string } }
	if err := json.Unmarshal(get("runs.json"), &list); err != nil {
		t.Fatal(err)
	}
	own := read(live.New(told).Snapshot())
	if closing := own.Run["closing"].(string); !strings.Contains(closing, "late updates are ") || own.Progress.Total != 4e6 {
		t.Errorf("the run's own page says %q and %v s", closing, own.Progress.Total)
	}
	if diff := cmp.Diff(own, read(get("snapshot.json?run="+list.Runs[0].ID))); diff != "" {
		t.Errorf("the page (+) differs from the run's own:\n%s", diff)
	}
}

// What a run's page says of its clients is what ui reads from the run's tables.
func TestClients_OfRunAndTables(t *testing.T) {
	dir := t.TempDir()
	c, err := config.Load("", []string{
		"task=sent140", "clients=30", "cohort=6", "stop.rounds=12", "close={rule: first, n: 4}", "evaluate={every: 4, clients: {every: 5}}",
		"fleet=[{name: phone}, {name: slow, seconds_per_step: 0.5}]", "out=" + filepath.Join(dir, "run"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Run(t.Context(), c, run.Options{Version: "test"}); err != nil {
		t.Fatal(err)
	}
	type clients struct {
		Participation any
		Fairness      any
	}
	page := string(read(t, filepath.Join(dir, "run", live.File)))
	_, text, _ := strings.Cut(page, `id="snapshot">`)
	text, _, _ = strings.Cut(text, "</script>")
	var want, got clients
	if err := json.Unmarshal([]byte(text), &want); err != nil {
		t.Fatal(err)
	}
	_, address := served(t, dir)
	var list struct{ Runs []struct{ ID string } }
	if err := json.Unmarshal(get(t, address+"runs.json"), &list); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(get(t, address+"snapshot.json?run="+list.Runs[0].ID), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the run's own page has -, ui has +:\n%s", diff)
	}
	bars := want.Participation.(map[string]any)["bars"].([]any)
	sum := 0.0
	for _, b := range bars {
		sum += b.(map[string]any)["count"].(float64)
	}
	if sum != 30 {
		t.Errorf("the histogram has %v of 30 clients: %v", sum, bars)
	}
}
