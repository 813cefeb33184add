package embedded

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"fedpace/internal/filelock"
)

// A server removes the folders of servers that were killed. It leaves those of living
// ones, of one that is just starting, and what is none of a server's.
func TestFolder_KilledServers(t *testing.T) {
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
	starting := filepath.Join(dir, "fedpace-nats-9")
	for _, path := range []string{filepath.Join(dir, "fedpace-nats-7"), filepath.Join(dir, "fedpace-paper", lockName), starting} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(starting, lockName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-2 * startTime)
	for _, f := range []*folder{living, killed} {
		if err := os.Chtimes(filepath.Join(f.path, lockName), long, long); err != nil {
			t.Fatal(err)
		}
	}
	next, err := Start(t.Context(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"fedpace-nats-7", "fedpace-nats-9", "fedpace-paper", filepath.Base(living.path), filepath.Base(next.folder.path)}
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

// names returns the names of the files in a folder.
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
