package cmd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fedpace/config"
	"fedpace/experiment/folder"
	"fedpace/study"
)

// fedpaceTo runs the program that users have, and fails the test unless it ends with the status want.
func fedpaceTo(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	if status := execute(t.Context(), library, args, &out, &errs); status != want {
		t.Fatalf("%v: status %d, want %d: %s", args, status, want, errs.String())
	}
	return out.String(), errs.String()
}

// smallest are the flags of a run of no time.
var smallest = []string{"--set", "task=sent140", "--set", "clients=20", "--set", "cohort=4", "--set", "stop.rounds=3", "--set", "evaluate.every=3"}

// The second run needs no folder to be named, tags change no bit, and all runs are listed
// and removed.
func TestRuns_LeaveNoFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	run := append([]string{"run", "--name", "house"}, smallest...)
	_, said := fedpaceTo(t, 0, run...)
	if strings.Contains(said, "this run goes to") {
		t.Errorf("the first run is said to go elsewhere: %s", said)
	}
	_, said = fedpaceTo(t, 0, append(run, "--tag", "paper", "--tag", "k=8")...)
	if want := "runs/house holds a run that is complete, after 3 rounds: this run goes to runs/house-2.\n"; !strings.HasPrefix(said, want) {
		t.Errorf("said %q, want %q", said, want)
	}
	if _, said := fedpaceTo(t, 1, append(run, "--set", "data={source: table, path: none.csv, label: y}")...); strings.Contains(said, "this run goes to") {
		t.Errorf("a run without data goes nowhere: %s", said)
	}
	first, second := folder.Inspect("runs/house"), folder.Inspect("runs/house-2")
	if a, b := first.Summary, second.Summary; *a.ModelSHA256 != *b.ModelSHA256 || a.Fingerprint != b.Fingerprint {
		t.Error("tags change what a run computes")
	}
	if diff := cmp.Diff([]string{"paper", "k=8"}, second.Config.Tags); diff != "" {
		t.Error(diff)
	}
	a, errA := study.Identity(first.Config)
	b, errB := study.Identity(second.Config)
	if a != b || errA != nil || errB != nil {
		t.Errorf("tags make another run of it: %v, %v", errA, errB)
	}
	_, said = fedpaceTo(t, 1, append(run, "--out", "runs/house")...)
	if want := "fedpace: results: runs/house holds a run that is complete, after 3 rounds: choose another folder with --out, or replace the run with --force\n"; said != want {
		t.Errorf("a folder that is taken: %s", said)
	}
	if _, said := fedpaceTo(t, 2, append(run, "--tag", "two words")...); !strings.Contains(said, `--tag: "two words" is not a tag`) {
		t.Errorf("a tag of two words: %s", said)
	}

	plain, _ := fedpaceTo(t, 0, "ls")
	lines := strings.Split(strings.TrimSuffix(plain, "\n"), "\n")
	if len(lines) != 3 || lines[0] != "run\tstate\ttask\tschedule\tseed\trounds\tvirtual time\tbest\ttags" {
		t.Fatalf("the list is\n%s", plain)
	}
	if cells := strings.Split(lines[2], "\t"); len(cells) != 9 || cells[0] != "runs/house-2" || cells[1] != "complete" || cells[2] != "sent140" || cells[3] != "rounds" || cells[4] != "1" || cells[5] != "3" || cells[8] != "paper k=8" {
		t.Errorf("the second run is %q", cells)
	}
	text, _ := fedpaceTo(t, 0, "ls", "runs", "--json", "--tag", "paper")
	var found struct {
		Runs []struct {
			Folder string
			Best   *float64
		}
	}
	if err := json.Unmarshal([]byte(text), &found); err != nil || len(found.Runs) != 1 || found.Runs[0].Folder != "runs/house-2" || found.Runs[0].Best == nil {
		t.Errorf("by tag %s, %v", text, err)
	}

	fedpaceTo(t, 0, "report", "runs")
	if page, err := os.ReadFile("report.html"); err != nil || !strings.Contains(string(page), `"tags":["paper","k=8"]`) {
		t.Errorf("the page has no tags: %v", err)
	}

	if _, said := fedpaceTo(t, 2, "rm", "runs/house"); !strings.Contains(said, "--force") {
		t.Errorf("removed without a question: %s", said)
	}
	r, err := folder.ReopenResults("runs/house-2")
	if err != nil {
		t.Fatal(err)
	}
	if _, said := fedpaceTo(t, 1, "rm", "--force", "runs/house", "runs/house-2"); !strings.Contains(said, "runs/house-2: its run is still going on") {
		t.Errorf("a run that goes on: %s", said)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if said, _ := fedpaceTo(t, 0, "rm", "--force", "runs"); said != "2 runs removed\n" {
		t.Errorf("said %q", said)
	}
	if _, err := os.Stat("runs"); !os.IsNotExist(err) {
		t.Errorf("the folder stays: %v", err)
	}
	if list, _ := fedpaceTo(t, 0, "ls", "--json"); list != `{"runs":[]}`+"\n" {
		t.Errorf("nothing is listed as %s", list)
	}
}

// A comparison keeps its table, and refuses the runs of another by the key that differs.
func TestCompare_LeavesNoFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	compare := append([]string{"compare"}, smallest...)
	printed, _ := fedpaceTo(t, 0, compare...)
	out := filepath.Join("runs", "demo-compare")
	table, err := os.ReadFile(filepath.Join(out, study.TableFile))
	if err != nil || string(table)+"\nAs a picture, with all runs: "+filepath.Join(out, study.PageFile)+"\n" != printed {
		t.Errorf("the table is %q, printed was %q, %v", table, printed, err)
	}
	rows, err := os.ReadFile(filepath.Join(out, study.CSVFile))
	if lines := strings.Split(string(rows), "\n"); err != nil || len(lines) != 4 || !strings.HasPrefix(lines[1], "fixed,") {
		t.Errorf("the CSV is %s, %v", rows, err)
	}
	runs, err := os.ReadFile(filepath.Join(out, study.RunsFile))
	if lines := strings.Split(string(runs), "\n"); err != nil || len(lines) != 4 || !strings.HasPrefix(lines[2], "rounds,1,") {
		t.Errorf("the runs are %s, %v", runs, err)
	}
	page, err := os.ReadFile(filepath.Join(out, study.PageFile))
	if err != nil || !strings.Contains(string(page), "demo-compare/rounds") || !strings.Contains(string(page), `id="comparison"`) {
		t.Errorf("a page of %d bytes, %v", len(page), err)
	}

	// Keys that change no bit are no other configuration.
	same, _ := fedpaceTo(t, 0, append(compare, "--set", "checkpoint.seconds=3", "--set", "limits.state_gb=2", "--tag", "again", "--set", "nats.url=none")...)
	if same != printed {
		t.Errorf("the same runs are\n%s, want\n%s", same, printed)
	}
	_, said := fedpaceTo(t, 1, append(compare, "--set", "schedule.k0=7", "--set", "pace=1e9")...)
	if want := "which is of another configuration: schedule.k0 is 60 there and 7 here (choose"; !strings.Contains(said, want) {
		t.Errorf("said %s, want %s", said, want)
	}
	if said, _ := fedpaceTo(t, 0, "rm", "--force", out); said != "2 runs removed\n" {
		t.Errorf("said %q", said)
	}
	if _, err := os.Stat(out); !os.IsNotExist(err) {
		t.Errorf("the folder stays: %v", err)
	}
}

// What only lists show reaches no host.
func TestHosts_WithoutTags(t *testing.T) {
	c := config.Demonstration()
	c.Tags = []string{"secret"}
	if strings.Contains(string(c.ForHosts().YAML()), "secret") {
		t.Error("hosts are told the tags")
	}
}

// A comparison in the folder of another says that it replaces the table there, if that has runs that it lacks.
func TestCompare_ReplacesEarlierTable(t *testing.T) {
	t.Chdir(t.TempDir())
	const replaced = "had the table and page of another comparison, with 1 run that this one lacks: "
	both := append([]string{"compare", "--schedules", "fixed,rounds"}, smallest...)
	alone := append([]string{"compare", "--schedules", "fixed"}, smallest...)
	fedpaceTo(t, 0, both...)
	if _, said := fedpaceTo(t, 0, alone...); !strings.Contains(said, replaced) {
		t.Errorf("no %q in %s", replaced, said)
	}
	// The table that is made again lacks nothing of the one that it replaces.
	if _, said := fedpaceTo(t, 0, both...); strings.Contains(said, "another comparison") {
		t.Errorf("nothing is lost, and it says %s", said)
	}
}
