package realdata

import (
	"os"
	"path/filepath"
	"testing"
)

// folder is the folder of the real data. It is found when the program of the tests starts, because tests may
// change the working directory.
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

// Find returns the path of the file or folder with this name, such as "femnist/leaf", in the real data, and
// whether it is there.
func Find(name string) (path string, there bool) {
	path = filepath.Join(folder, filepath.FromSlash(name))
	_, err := os.Stat(path)
	return path, err == nil
}

// Path returns the path of the file or folder with this name in the real data. If it is absent, the test is
// skipped with a message that names it.
func Path(t testing.TB, name string) string {
	t.Helper()
	path, there := Find(name)
	if !there {
		t.Skipf("no %s (set FEDPACE_DATA to the folder that holds %s)", path, name)
	}
	return path
}
