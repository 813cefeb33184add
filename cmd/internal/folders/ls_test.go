package folders

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/experiment/folder"
	"fedpace/learn/metric"
)

// A person reads columns and human figures; a program reads tabs and plain numbers. What
// is not known is no number, and no name does anything on a terminal.
func TestLs_Runs(t *testing.T) {
	best := 0.75
	list := []listedRun{
		{Folder: "runs/a", State: folder.RunComplete, Task: "femnist", Schedule: "rounds", Seed: 1, Rounds: 3, Virtual: 61.5, Metric: metric.Accuracy, Best: &best, Tags: []string{"paper", "k=8"}},
		{Folder: "runs/longer", State: folder.RunDamaged, Tags: []string{"old"}},
		{Folder: "runs/\t\x1b", State: folder.RunRunning, Task: "femnist", Schedule: "rounds", Seed: 1, Tags: []string{"new"}},
	}
	for person, want := range map[bool]string{
		true: `run            state     task     schedule  seed  rounds  virtual time  best    tags
runs/a         complete  femnist  rounds    1     3       61.5 s        0.7500  paper k=8
runs/longer    damaged   -        -         -     -       -             -       old
"runs/\t\x1b"  running   femnist  rounds    1     0       0.0 s         -       new
`,
		false: `run	state	task	schedule	seed	rounds	virtual time	best	tags
runs/a	complete	femnist	rounds	1	3	61.5	0.7500	paper k=8
runs/longer	damaged							old
"runs/\t\x1b"	running	femnist	rounds	1	0	0		new
`,
	} {
		var b strings.Builder
		if err := writeRuns(&b, list, person); err != nil || b.String() != want {
			t.Errorf("for a person %v:\n%s, %v, want\n%s", person, b.String(), err, want)
		}
	}
}

// A terminal's table is as wide as a page at most, however long the names are; a program's has all of them.
func TestLs_FitsTerminal(t *testing.T) {
	long := strings.Repeat("abcdefghij", 6)
	list := []listedRun{{Folder: "runs/" + long, State: folder.RunComplete, Task: "femnist", Schedule: strings.Repeat("ü", 40), Seed: 1, Rounds: 12_000, Virtual: 1e6, Tags: []string{long}}}
	for _, person := range []bool{true, false} {
		var b strings.Builder
		if err := writeRuns(&b, list, person); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if n := len([]rune(line)) - 1; person && n > 100 {
				t.Errorf("%d columns: %s", n, line)
			}
		}
		if strings.Contains(b.String(), long) == person || person && !strings.Contains(b.String(), "runs/a…efghij") || !strings.Contains(b.String(), "12000") {
			t.Errorf("for a person %v:\n%s", person, b.String())
		}
	}
}

// listOf is what fedpace ls finds, by folder, and its notes.
func listOf(t *testing.T, args ...string) (states map[string]folder.RunState, notes string) {
	t.Helper()
	var out, errs strings.Builder
	c := LsCommand()
	c.SetArgs(append([]string{"--json"}, args...))
	c.SetOut(&out)
	c.SetErr(&errs)
	if err := c.Execute(); err != nil {
		t.Fatal(err)
	}
	var list struct{ Runs []listedRun }
	if err := json.Unmarshal([]byte(out.String()), &list); err != nil {
		t.Fatal(err)
	}
	states = map[string]folder.RunState{}
	for _, r := range list.Runs {
		if _, twice := states[r.Folder]; twice {
			t.Errorf("%s is listed twice", r.Folder)
		}
		states[r.Folder] = r.State
	}
	return states, errs.String()
}

// What is damaged or cannot be read is noted, and hides no other run.
func TestLs_DamagedRuns(t *testing.T) {
	t.Chdir(t.TempDir())
	if states, notes := listOf(t); len(states) > 0 || notes != "" {
		t.Errorf("before any run: %v, %q", states, notes)
	}
	for _, dir := range []string{"runs/bad", "runs/good"} {
		runIn(t, dir)
	}
	write(t, "runs/bad/summary.json")
	if err := os.MkdirAll("runs/closed", 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("config.yaml", "runs/closed/config.yaml"); err != nil { // it leads nowhere, for every user
		t.Skip(err)
	}
	states, notes := listOf(t)
	if want := map[string]folder.RunState{filepath.Join("runs", "bad"): folder.RunDamaged, filepath.Join("runs", "good"): folder.RunKilled}; !maps.Equal(states, want) {
		t.Errorf("%v, want %v", states, want)
	}
	if lines := strings.Split(notes, "\n"); len(lines) != 3 || !strings.HasPrefix(lines[0], "note: stat "+filepath.Join("runs", "closed")) || !strings.HasPrefix(lines[1], "note: "+filepath.Join("runs", "bad", "summary.json")) {
		t.Errorf("noted %q", notes)
	}
}

func TestLs_RunsOnce(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	runIn(t, "runs/a")
	at := filepath.Join("runs", "a")
	if states, _ := listOf(t, "runs", "./runs", filepath.Join(root, "runs"), "runs/a/"); len(states) != 1 || states[at] != folder.RunKilled {
		t.Errorf("%v", states)
	}
}

// The page says what the list says where nothing has run yet.
func TestLs_NoRuns(t *testing.T) {
	t.Chdir(t.TempDir())
	c := UICommand()
	c.SetArgs([]string{})
	c.SilenceErrors, c.SilenceUsage = true, true
	if err := c.Execute(); err == nil || !strings.HasPrefix(err.Error(), "no run is there") {
		t.Error(err)
	}
}
