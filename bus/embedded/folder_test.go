package embedded

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"fedpace/internal/filelock"
)

// A server removes the folders of servers that were killed. It leaves those of living
// ones, and files that are none of a server's.
func TestFoldersOfKilledServersAreRemoved(t *testing.T) {
	if !filelock.Excludes {
		t.Skip("files cannot be locked here")
	}
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	living, err := newFolder()
	if err != nil {
		t.Fatal(err)
	}
	killed, err := newFolder()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(killed.path, "jetstream", "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	_ = killed.lock.Close() // as the system does when a process dies
	for name, mode := range map[string]os.FileMode{"fedpace-nats-7": os.ModeDir, "fedpace-nats-8.lock": os.ModeDir, "fedpace-paper.lock": 0} {
		path := filepath.Join(dir, name)
		if mode.IsDir() {
			err = os.Mkdir(path, 0o700)
		} else {
			err = os.WriteFile(path, nil, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	next, err := Start(t.Context(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"fedpace-nats-7", "fedpace-nats-8.lock", "fedpace-paper.lock"}
	for _, f := range []*folder{living, next.folder} {
		want = append(want, filepath.Base(f.path), filepath.Base(f.path)+lockSuffix)
	}
	slices.Sort(want)
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
	next.Close()
	living.remove()
	if got := names(t, dir); len(got) != 3 {
		t.Errorf("servers that were closed leave %q", got)
	}
}

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}
