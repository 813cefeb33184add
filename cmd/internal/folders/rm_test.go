package folders

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fedpace/cmd/internal/cli"
	"fedpace/config"
	"fedpace/experiment/folder"
	"fedpace/study"
)

// runIn makes a run in a folder, which nothing has been written to yet.
func runIn(t *testing.T, dir string) {
	t.Helper()
	r, err := folder.CreateResults(dir, config.Demonstration(), false)
	if err == nil {
		err = r.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("text"), 0o666); err != nil {
		t.Fatal(err)
	}
}

// paths are those in the current folder.
func paths(t *testing.T) (list []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, _ os.DirEntry, err error) error {
		if path != "." {
			list = append(list, filepath.ToSlash(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// remove is fedpace rm --force.
func remove(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	var out, errs strings.Builder
	c := RmCommand()
	c.SetArgs(append([]string{"--force"}, args...))
	c.SetOut(&out)
	c.SetErr(&errs)
	c.SilenceErrors, c.SilenceUsage = true, true
	err = c.ExecuteContext(ctx)
	return out.String(), errs.String(), err
}

// Folders may be given twice, within each other and in other words: each run is counted
// and removed once.
func TestRm_RunsOnce(t *testing.T) {
	for _, given := range [][]string{
		{"runs/a", "runs/a", "runs/b"}, {"runs/a/", "./runs/b", "runs//b"}, {"runs", "runs/a"}, {"runs/a", "runs"}, {"$/runs/b", "runs"}, {"runs/../runs", "$"},
	} {
		root := t.TempDir()
		t.Chdir(root)
		runIn(t, "runs/a")
		runIn(t, "runs/b")
		args := []string{}
		for _, dir := range given {
			args = append(args, strings.ReplaceAll(dir, "$", root))
		}
		out, said, err := remove(t.Context(), args...)
		if err != nil || out != "2 runs removed\n" || said != "" {
			t.Errorf("%v: %q, %q, %v", given, out, said, err)
		}
		if _, err := os.Stat("runs/a"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%v: a run is there: %v", given, err)
		}
	}
}

// What a comparison left goes with its runs, also where a folder around it is given.
func TestRm_WholeComparisons(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{"runs/demo", "runs/x-compare/fixed", "runs/x-compare/dsgd", "runs/noted/a"} {
		runIn(t, dir)
	}
	for _, name := range study.Files {
		write(t, filepath.Join("runs/x-compare", name))
	}
	write(t, "runs/noted/notes.txt")
	write(t, "runs/noted/compare.txt")
	out, said, err := remove(t.Context(), "runs")
	if want := "runs/noted stays: other files are in it (notes.txt)\nruns stays: other files are in it (noted)\n"; err != nil || out != "4 runs removed\n" || said != want {
		t.Errorf("%q, %q, %v", out, said, err)
	}
	if diff := cmp.Diff([]string{"runs", "runs/noted", "runs/noted/notes.txt"}, paths(t)); diff != "" {
		t.Error(diff)
	}
}

// A link to a run is no run: it, and what it points to, stay.
func TestRm_ThroughLink(t *testing.T) {
	t.Chdir(t.TempDir())
	runIn(t, "kept/best")
	if err := os.Symlink("kept/best", "link"); err != nil {
		t.Skip(err)
	}
	for _, link := range []string{"link", "link/"} {
		if _, _, err := remove(t.Context(), link); err == nil || !strings.Contains(err.Error(), "is a symbolic link to "+filepath.Join("kept", "best")) {
			t.Errorf("%s: %v", link, err)
		}
	}
	if err := folder.HoldsRun("link"); err != nil {
		t.Error(err)
	}
}

// The current folder may be the one to remove.
func TestRm_CurrentFolder(t *testing.T) {
	root := t.TempDir()
	for _, given := range []string{".", ".."} {
		dir := filepath.Join(root, "runs", "demo")
		runIn(t, dir)
		t.Chdir(dir)
		out, _, err := remove(t.Context(), given)
		if err != nil || out != "1 run removed\n" {
			t.Errorf("%s: %q, %v", given, out, err)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the folder is there: %v", given, err)
		}
		t.Chdir(root)
	}
}

// A signal that came before the first run goes keeps all of them.
func TestRm_SignalKeepsRuns(t *testing.T) {
	t.Chdir(t.TempDir())
	runIn(t, "runs/a")
	ctx, signal := context.WithCancel(t.Context())
	signal()
	if _, _, err := remove(ctx, "runs"); !errors.As(err, new(cli.Interrupted)) || !strings.Contains(err.Error(), "0 of 1 run") {
		t.Error(err)
	}
	if err := folder.HoldsRun("runs/a"); err != nil {
		t.Error(err)
	}
}

func TestRm_FileOfAnotherKind(t *testing.T) {
	t.Chdir(t.TempDir())
	runIn(t, "runs/a")
	if _, _, err := remove(t.Context(), "runs/a/config.yaml"); err == nil || !strings.HasSuffix(err.Error(), "config.yaml is a file, and no folder of a run") {
		t.Error(err)
	}
	if out, _, err := remove(t.Context(), "nowhere"); !errors.Is(err, os.ErrNotExist) || out != "" {
		t.Errorf("%q, %v", out, err)
	}
}
