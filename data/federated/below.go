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
	// around are the folders from the first one down to the present one.
	around []fs.FileInfo
	// err is the first error.
	err error
}

// failed keeps the first error, and reports whether err is one.
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
	// A folder within itself would never end.
	isAround := slices.ContainsFunc(w.around, func(above fs.FileInfo) bool { return os.SameFile(above, info) })
	if !info.IsDir() || isAround {
		return
	}
	w.around = append(w.around, info)
	entries, err := os.ReadDir(path)
	w.failed(err)
	for _, entry := range entries {
		if w.takes == nil || w.takes(entry.Name()) {
			w.walk(filepath.Join(path, entry.Name()))
		}
	}
	w.around = w.around[:len(w.around)-1]
}
