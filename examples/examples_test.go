//go:build unix

package examples

import (
	"encoding/csv"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/internal/testkit/slow"
)

// Every example with a table plays, in its small form, to the same table and figure that
// stand in its folder, but for the numbers: K-eta-fixed and K_r-rounds are among the
// schedules.
func TestExamples_Play(t *testing.T) {
	slow.Test(t, "it plays whole examples")
	tables, err := filepath.Glob("*/compare.csv")
	if err != nil || len(tables) == 0 {
		t.Fatalf("%d examples, %v", len(tables), err)
	}
	fedpace := filepath.Join(t.TempDir(), "fedpace")
	if out, err := exec.Command("go", "build", "-o", fedpace, "../cmd/fedpace").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, kept := range tables {
		from := filepath.Dir(kept)
		t.Run(from, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), from)
			if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
				t.Fatal(err)
			}
			if script, err := os.ReadFile("compare.sh"); err != nil || os.WriteFile(filepath.Join(dir, "..", "compare.sh"), script, 0o666) != nil {
				t.Fatal(err)
			}
			figure := filepath.Join(dir, from+".svg")
			if err := os.Remove(figure); err != nil {
				t.Fatal(err)
			}
			command := exec.CommandContext(t.Context(), "sh", filepath.Join(dir, "run.sh"), "small")
			command.Env = append(os.Environ(), "FEDPACE="+fedpace, "OUT="+filepath.Join(dir, "runs"))
			if out, err := command.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if _, err := os.Stat(figure); err != nil {
				t.Error(err)
			}
			header, kept := table(t, filepath.Join(from, "compare.csv"))
			played, small := table(t, filepath.Join(dir, "compare.csv"))
			// Tables that were kept before comparisons had spans of time lack their columns.
			for _, was := range [][2]string{{"best_training_loss", "tail_training_loss"}, {"seconds_to_fixed_best_loss", "seconds_to_level"}} {
				header = strings.ReplaceAll(header, was[0], was[1])
			}
			played = strings.ReplaceAll(played, "level,level_ci95,level_n,", "")
			if header != played || !maps.Equal(kept, small) {
				t.Errorf("the table has the columns %s and rows %v, the one kept %s and %v", played, small, header, kept)
			}
			for _, name := range []string{"fixed", "rounds"} {
				if small[name] == 0 {
					t.Errorf("no run has the schedule %s", name)
				}
			}
		})
	}
}

// The program beside the synthetic homes makes them.
func TestSyntheticHomes(t *testing.T) {
	t.Parallel()
	kept, err := os.ReadFile("regression/synthetic_homes.csv")
	if err != nil {
		t.Fatal(err)
	}
	if made, err := exec.CommandContext(t.Context(), "go", "run", "./regression").Output(); err != nil || string(made) != string(kept) {
		t.Errorf("the program makes %d other bytes than the %d that are kept, %v", len(made), len(kept), err)
	}
}

// table counts the rows of a table by their schedule.
func table(t *testing.T, path string) (header string, schedules map[string]int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatalf("%s: %d rows, %v", path, len(rows), err)
	}
	schedules = map[string]int{}
	for i, name := range rows[0] {
		if name != "schedule" {
			continue
		}
		for _, row := range rows[1:] {
			schedules[row[i]]++
		}
	}
	return strings.Join(rows[0], ","), schedules
}
