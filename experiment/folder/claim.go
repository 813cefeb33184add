package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"fedpace/config"
)

// maxClaims bounds the numbers that are tried for a folder of a free name.
const maxClaims = 100_000

// Claim makes the first folder of base, base-2, base-3, ... that does not exist, and returns its path, dir, with
// that of the folder before it in this series; before is "" if dir is base. No two calls make the same folder, in
// whatever processes. release removes the folder again, with the folders around it that Claim made, unless
// something is in them. It is never nil.
func Claim(base string) (dir, before string, release func(), err error) {
	madeFolders, err := makeFolders(filepath.Dir(base))
	release = func() {
		for _, path := range slices.Backward(madeFolders) {
			if os.Remove(path) != nil {
				// A folder that has something in it is left.
				return
			}
		}
	}
	for n := 1; err == nil && n <= maxClaims; n++ {
		dir = base
		if n > 1 {
			dir = fmt.Sprintf("%s-%d", base, n)
		}
		err = os.Mkdir(dir, 0o777)
		if err == nil {
			madeFolders = append(madeFolders, dir)
			return dir, before, release, nil
		}
		if errors.Is(err, fs.ErrExist) {
			before = dir
			err = nil
		}
	}
	release()
	if err == nil {
		err = fmt.Errorf("there are %d folders of that name", maxClaims)
	}
	return "", "", func() {}, fmt.Errorf("results: %s: %w (choose another with --out)", base, err)
}

// Remove removes the run in a folder: its files, and the folder if nothing else is in it. remaining are
// the names of what stays in the folder. A run that is still going on is refused.
func Remove(dir string) (remaining []string, err error) {
	if err := HoldsRun(dir); err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	// A configuration that cannot be read adds no outputs.
	c, _ := config.Load(filepath.Join(dir, ConfigFile), nil)
	r, err := ReopenResults(dir)
	if err != nil {
		return nil, err
	}
	names := slices.Concat(Files(c.Outputs...), spoolFiles(), []string{unfinishedCheckpoint, NoiseFile, NotesFile})
	names = slices.DeleteFunc(names, func(name string) bool { return name == ConfigFile })
	// The configuration goes last: until then the folder is still known to hold a run.
	leftovers := r.removeLeftovers()
	removed := aboutResults(r.remove(append(names, ConfigFile)...))
	if err := errors.Join(leftovers, removed, r.Close()); err != nil {
		return nil, err
	}
	return RemoveEmpty(dir)
}

// RemoveEmpty removes a folder if nothing is in it. Otherwise it leaves the folder and returns the
// names of what is in it.
func RemoveEmpty(dir string) (remaining []string, err error) {
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) == 0 {
		err = os.Remove(dir)
	}
	// An empty folder has no entries, so nothing is listed then.
	for _, e := range entries {
		remaining = append(remaining, e.Name())
	}
	return remaining, aboutResults(err)
}
