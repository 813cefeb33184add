package federated

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Below visits the regular files at path: itself, or all in the folder and the folders below it, in the
// order of their names. Links are followed, but not to a folder that they lie within. Entries whose names
// takes refuses are left out, folders with all that they hold; a nil takes refuses none. It goes on after
// an error of the file system or of visit, and returns the first.
func Below(path string, takes func(name string) bool, visit func(path string) error) error {
	w := walker{takes: takes, visit: visit}
	w.walk(path)
	return w.err
}

// walker visits files below a folder.
type walker struct {
	takes func(name string) bool
	visit func(path string) error
	// ancestors are the folders from the first one down to the present one.
	ancestors []fs.FileInfo
	// err is the first error.
	err error
}

// failed reports whether err is an error, and keeps the first one that it gets in w.err.
func (w *walker) failed(err error) bool {
	if w.err == nil {
		w.err = err
	}
	return err != nil
}

// walk visits the file at path, or all files in the folder there.
func (w *walker) walk(path string) {
	info, err := os.Stat(path)
	if w.failed(err) {
		return
	}
	if info.Mode().IsRegular() {
		w.failed(w.visit(path))
		return
	}
	// A link may lead to a folder that contains it. To follow it would never end.
	isWithinItself := slices.ContainsFunc(w.ancestors, func(above fs.FileInfo) bool { return os.SameFile(above, info) })
	if !info.IsDir() || isWithinItself {
		return
	}
	w.ancestors = append(w.ancestors, info)
	entries, err := os.ReadDir(path)
	w.failed(err)
	for _, entry := range entries {
		if w.takes == nil || w.takes(entry.Name()) {
			w.walk(filepath.Join(path, entry.Name()))
		}
	}
	w.ancestors = w.ancestors[:len(w.ancestors)-1]
}
