package folder

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// holds makes folders that are taken for runs.
func holds(t *testing.T, root string, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, dir, ConfigFile), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// A folder below the given one that cannot be read hides none beside it.
func TestFind_BesideUnreadable(t *testing.T) {
	root := t.TempDir()
	holds(t, root, "a/x", "c", ".hidden/x", "d/1/2/3/4")
	bad := filepath.Join(root, "b")
	if err := os.Mkdir(bad, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(ConfigFile, filepath.Join(bad, ConfigFile)); err != nil { // it leads nowhere, for every user
		t.Skip(err)
	}
	runs, unread, err := Find(root, 3, 2)
	if diff := cmp.Diff([]string{filepath.Join(root, "a", "x"), filepath.Join(root, "c")}, runs); diff != "" || err != nil || len(unread) != 1 {
		t.Errorf("%s, %v, %v", diff, unread, err)
	}
	for _, dir := range []string{bad, filepath.Join(root, "none"), filepath.Join(root, "c", ConfigFile)} {
		if runs, _, err := Find(dir, 3, 2); err == nil {
			t.Errorf("%s holds %v", dir, runs)
		}
	}
	if _, _, err := Find(root, 3, 1); err == nil {
		t.Error("2 runs, where 1 is the limit")
	}
}

// Folders may come and go while runs are looked for.
func TestFind_BesideVanishing(t *testing.T) {
	root := t.TempDir()
	holds(t, root, "z")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				dir := filepath.Join(root, "a", "b")
				if err := errors.Join(os.MkdirAll(dir, 0o777), os.RemoveAll(filepath.Dir(dir))); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	for range 2000 {
		runs, unread, err := Find(root, 3, 9)
		if diff := cmp.Diff([]string{filepath.Join(root, "z")}, runs); diff != "" || len(unread) > 0 || err != nil {
			t.Errorf("%s, %v, %v", diff, unread, err)
			break
		}
	}
	close(stop)
	<-stopped
	if _, _, err := Find(filepath.Join(root, "a"), 3, 9); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestFind_FoldersInOtherWords(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	holds(t, root, "runs/a", "runs/b")
	given := []string{"runs/a", "./runs/a", filepath.Join(root, "runs", "a"), "runs/b/../a", "runs/b", "gone", "gone"}
	if err := os.Symlink("runs", "link"); err == nil {
		given = append(given, "link/b")
	}
	if diff := cmp.Diff([]string{"runs/a", "runs/b", "gone"}, Distinct(given)); diff != "" {
		t.Error(diff)
	}
}
