package folder

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fedpace/config"
	"fedpace/internal/atomicfile"
	"fedpace/metrics"
)

// A folder says what it holds, in each state of its run.
func TestRun_States(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	c := config.Demonstration()
	c.Tags = []string{"paper"}
	r, err := CreateResults(dir, c, false)
	if err != nil {
		t.Fatal(err)
	}
	check := func(state RunState, rounds int, best float64, sentence string) {
		t.Helper()
		o := Inspect(dir)
		if o.State != state || o.Rounds != rounds || o.Best != best && best > 0 || o.Best == o.Best && best == 0 || !slices.Equal(o.Config.Tags, c.Tags) {
			t.Errorf("%s after %d rounds, best %v, tags %v, want %s, %d, %v", o.State, o.Rounds, o.Best, o.Config.Tags, state, rounds, best)
		}
		if want := dir + " holds a run that " + strings.ReplaceAll(sentence, "DIR", dir); o.Sentence() != want {
			t.Errorf("\n got %s\nwant %s", o.Sentence(), want)
		}
	}
	check(RunRunning, 0, 0, "is still going on")
	if err := VacantFolder(dir, true); !errors.Is(err, ErrRunning) {
		t.Errorf("%v, want that the run is still going on", err)
	}
	rows, report := rowsOf(t, r), anyReport(1)
	report.Evaluated = true
	if err := rows.add(report); err != nil {
		t.Fatal(err)
	}
	check(RunRunning, 1, 0.25, "is still going on")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	check(RunKilled, 1, 0.25, "was killed after 1 round (to go on: fedpace resume DIR)")
	if err := VacantFolder(dir, false); !errors.Is(err, ErrHoldsRun) || !strings.Contains(err.Error(), "fedpace resume") {
		t.Errorf("%v, want that the run can be resumed", err)
	}

	r, err = ReopenResults(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := Summary{Task: "femnist", Rounds: 1200, Completed: true, Metrics: []Metric{{Name: "accuracy", Best: metrics.Measured(0.5)}}}
	if err := errors.Join(r.Summary(&s), r.Close()); err != nil {
		t.Fatal(err)
	}
	check(RunComplete, 1200, 0.5, "is complete, after 1,200 rounds")
	if err := VacantFolder(dir, false); !errors.Is(err, ErrHoldsRun) || strings.Contains(err.Error(), "resume") {
		t.Errorf("%v, want no advice to resume a complete run", err)
	}

	if err := os.WriteFile(filepath.Join(dir, SummaryFile), []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	if o := Inspect(dir); o.State != RunDamaged || o.Err == nil {
		t.Errorf("%s, %v, want damaged", o.State, o.Err)
	}
}

// Runs that start at once get a folder each, in order, and leave none that is empty.
func TestFolders_Numbered(t *testing.T) {
	base := filepath.Join(t.TempDir(), "runs", "demo")
	var mu sync.Mutex
	var dirs []string
	var releases []func()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			dir, _, release, err := Claim(base)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			dirs, releases = append(dirs, dir), append(releases, release)
		})
	}
	group.Wait()
	slices.Sort(dirs)
	want := []string{base}
	for _, n := range "2345678" {
		want = append(want, base+"-"+string(n))
	}
	if diff := cmp.Diff(want, dirs); diff != "" {
		t.Error(diff)
	}
	for _, release := range releases {
		release()
	}
	if left := files(t, filepath.Dir(base)); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}

	r, err := CreateResults(base, config.Demonstration(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	dir, before, release, err := Claim(base)
	if err != nil || dir != base+"-2" || before != base {
		t.Fatalf("%s behind %s, %v", dir, before, err)
	}
	second, err := CreateResults(dir, config.Demonstration(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	release()
	if _, err := os.Stat(filepath.Join(dir, ConfigFile)); err != nil {
		t.Errorf("a folder that is in use was removed: %v", err)
	}
}

func TestRuns_Removed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	make := func() *Results {
		r, err := CreateResults(dir, config.Demonstration(), false)
		if err != nil {
			t.Fatal(err)
		}
		rowsOf(t, r)
		return r
	}
	r := make()
	if _, err := Remove(dir); !errors.Is(err, ErrRunning) {
		t.Fatalf("%v, want that the run is still going on", err)
	}
	if names := files(t, dir); !slices.Contains(names, ConfigFile) || !slices.Contains(names, RoundsFile) {
		t.Errorf("files of a run that goes on are gone: %v left", names)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := Remove(dir); err != nil || left != nil {
		t.Errorf("%v stays, %v", left, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is there: %v", err)
	}
	if _, err := Remove(dir); !errors.Is(err, ErrNoRun) {
		t.Errorf("%v, want that there is no run", err)
	}

	if err := make().Close(); err != nil {
		t.Fatal(err)
	}
	notes := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(notes, []byte("mine"), 0o666); err != nil {
		t.Fatal(err)
	}
	if left, err := Remove(dir); err != nil || !slices.Equal(left, []string{"notes.txt"}) {
		t.Errorf("%v stays, %v, want the notes", left, err)
	}
}

// A complete run whose files hold other bytes than it wrote, or whose rounds are gone, is
// changed; its outputs may be thrown away.
func TestRuns_OtherFiles(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"cut":      func(path string) error { return os.Truncate(path, 3) },
		"appended": func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("x", 1000)), 0o666) },
		"flipped": func(path string) error {
			text, err := os.ReadFile(path)
			if err == nil {
				text[len(text)-2] ^= 1
				err = os.WriteFile(path, text, 0o666)
			}
			return err
		},
		"removed": os.Remove,
	} {
		for file, damage := range map[string]bool{RoundsFile: true, ConfigFile: true, "page.html": name != "removed"} {
			if name == "removed" && file == ConfigFile {
				continue // no run is there then
			}
			dir := filepath.Join(t.TempDir(), "a")
			r, err := CreateResults(dir, config.Demonstration(), false)
			if err != nil {
				t.Fatal(err)
			}
			err = rowsOf(t, r).add(anyReport(1))
			s := Summary{Task: "femnist", Rounds: 1, Completed: true}
			if err := errors.Join(err, r.Replace("page.html", atomicfile.Bytes([]byte("page"))), r.Summary(&s), r.Close()); err != nil {
				t.Fatal(err)
			}
			run, err := Open(dir)
			if err == nil {
				if state, _, err := run.State(); state != RunComplete {
					t.Errorf("%s before: %s, %v", file, state, err)
				}
				err = change(run.Path(file))
			}
			if err != nil {
				t.Fatal(err)
			}
			state, _, err := run.State()
			if (state == RunChanged) != damage || damage && !strings.Contains(err.Error(), "fedpace verify "+dir) {
				t.Errorf("%s %s: %s, %v", file, name, state, err)
			}
		}
	}
}
