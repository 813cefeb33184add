package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Find returns the folders that hold a run, in the order of their names: dir
// itself, or else those in it, at most depth levels down. Hidden folders are not
// searched. More than limit runs are an error. unread says which folders in dir
// cannot be read; one that goes meanwhile is left out.
func Find(dir string, depth, limit int) (runs []string, unread []error, err error) {
	if info, err := os.Stat(dir); err != nil {
		return nil, nil, err
	} else if !info.IsDir() {
		return nil, nil, fmt.Errorf("%s is a file, and no folder of a run", dir)
	}
	s := search{limit: limit}
	if err := s.searchFolder(dir, depth); err != nil {
		return nil, nil, err
	}
	if len(s.runs) > limit {
		return nil, nil, fmt.Errorf("%s holds more than %d runs", dir, limit)
	}
	return s.runs, s.unread, nil
}

// search is one search for runs.
type search struct {
	limit int
	// runs are the folders of the runs found so far; the search ends with one more than limit.
	runs   []string
	unread []error
}

// searchFolder searches one folder and those in it, depth levels down. It does not look within a run.
func (s *search) searchFolder(dir string, depth int) error {
	if _, err := os.Stat(filepath.Join(dir, ConfigFile)); err == nil {
		s.runs = append(s.runs, filepath.Clean(dir))
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// The entries are sorted by name, so the order of the runs does not vary.
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		isHidden := strings.HasPrefix(e.Name(), ".")
		isDone := depth == 0 || len(s.runs) > s.limit
		if !e.IsDir() || isHidden || isDone {
			continue
		}
		if err := s.searchFolder(filepath.Join(dir, e.Name()), depth-1); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.unread = append(s.unread, err)
		}
	}
	return nil
}

// Distinct returns the folders of dirs in their order, without those that are listed before under
// another name, as by a symbolic link.
func Distinct(dirs []string) (list []string) {
	seen := map[string]bool{}
	for _, dir := range dirs {
		canonical, err := Canonical(dir)
		if err != nil {
			// The folder may be removed meanwhile; its own path is good enough then.
			canonical = dir
		}
		if !seen[canonical] {
			seen[canonical] = true
			list = append(list, dir)
		}
	}
	return list
}

// Canonical returns the absolute path of a folder without symbolic links, by which two names of one
// folder are equal. It is an error if the folder is not there.
func Canonical(dir string) (string, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(absolute)
}
