package federated

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"fedpace/internal/names"
)

// OpenSource looks at a path. Close its File after use.
func OpenSource(path string) (*Source, error) {
	found, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		var there []string
		beside, _ := os.ReadDir(filepath.Dir(path)) // nothing is near without them
		for _, f := range beside {
			there = append(there, f.Name())
		}
		if near := names.Nearest(filepath.Base(path), there); near != "" {
			return nil, fmt.Errorf("%w (did you mean %q?)", err, filepath.Join(filepath.Dir(path), near))
		}
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w; want %s", err, Layouts())
	}
	s := &Source{Path: path, Folder: found.IsDir(), Size: found.Size()}
	if !s.Folder && !found.Mode().IsRegular() { // reading a pipe would wait for ever
		return nil, fmt.Errorf("%s is neither a file nor a folder; want %s", path, Layouts())
	}
	if s.File, err = os.Open(path); err != nil || s.Folder {
		return s, err
	}
	var head [16]byte
	n, err := s.File.ReadAt(head[:], 0)
	s.Head = string(head[:n])
	if err != nil && err != io.EOF {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), s.File.Close())
	}
	return s, nil
}

// Layouts is what the readers read, in the words of its errors.
func Layouts() string {
	var list []string
	for _, e := range Readers.Entries {
		list = append(list, e.Help)
	}
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + ", or " + list[last]
}
