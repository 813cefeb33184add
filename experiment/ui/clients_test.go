package ui_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/experiment/config"
	"fedpace/experiment/run"
)

// The page of a run that has ended calls clients as their data does, also where that is gone.
func TestClientsHaveTheirNames(t *testing.T) {
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
