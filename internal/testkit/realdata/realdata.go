package realdata

import (
	"os"
	"path/filepath"
	"testing"
)

// folder is found when the test's program starts, in its package's folder: tests change theirs.
var folder = func() string {
	if named := os.Getenv("FEDPACE_DATA"); named != "" {
		return named
	}
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	return filepath.Join(dir, "..", "shared", "data")
}()

// Find is where a file or folder of that name, as in "femnist/leaf", would be, and whether it is there.
func Find(name string) (path string, there bool) {
	path = filepath.Join(folder, filepath.FromSlash(name))
	_, err := os.Stat(path)
	return path, err == nil
}

// Path is where it is. The test is skipped, by name, where it is absent.
func Path(t testing.TB, name string) string {
	t.Helper()
	path, there := Find(name)
	if !there {
		t.Skipf("no %s (set FEDPACE_DATA to the folder that holds %s)", path, name)
	}
	return path
}
