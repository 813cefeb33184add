//go:build unix

package federated_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"fedpace/data/federated"
)

// TestBelow_Links has a folder with linked files and folders, one of which leads back to where it lies, a
// pipe and a link that leads nowhere.
func TestBelow_Links(t *testing.T) {
	dir := t.TempDir()
	write := func(name string) {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, nil, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	write("blobs/one")
	write("blobs/sub/two")
	write("set/.hidden")
	write("set/c")
	root := filepath.Join(dir, "set")
	err := errors.Join(
		os.Symlink("../blobs/one", filepath.Join(root, "a")),
		os.Symlink("../blobs", filepath.Join(root, "b")),
		os.Symlink("nowhere", filepath.Join(root, "d")),
		os.Symlink("../../set", filepath.Join(dir, "blobs", "sub", "up")),
		syscall.Mkfifo(filepath.Join(root, "pipe"), 0o666),
		os.Symlink("set", filepath.Join(dir, "link")),
	)
	if err != nil {
		t.Fatal(err)
	}
	takes := func(name string) bool { return !strings.HasPrefix(name, ".") }
	for _, from := range []string{"set", "link"} {
		var found []string
		err := federated.Below(filepath.Join(dir, from), takes, func(path string) error {
			name, err := filepath.Rel(filepath.Join(dir, from), path)
			found = append(found, name)
			return err
		})
		// The link that leads nowhere is an error that hides no file.
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", from, err)
		}
		if want := []string{"a", "b/one", "b/sub/two", "c"}; !slices.Equal(found, want) {
			t.Errorf("%s: %q, want %q", from, found, want)
		}
	}
}
