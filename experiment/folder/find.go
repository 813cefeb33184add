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
// searched. More than limit runs are an error.
func Find(dir string, depth, limit int) ([]string, error) {
	if _, err := os.Stat(filepath.Join(dir, ConfigFile)); err == nil {
		return []string{filepath.Clean(dir)}, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	entries, err := os.ReadDir(dir) // sorted
	if err != nil {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		if !e.IsDir() || depth == 0 || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		below, err := Find(filepath.Join(dir, e.Name()), depth-1, limit)
		if err != nil {
			return nil, err
		}
		if found = append(found, below...); len(found) > limit {
			return nil, fmt.Errorf("%s holds more than %d runs", dir, limit)
		}
	}
	return found, nil
}

// Completed returns the summary of the run in a folder; nil where the run is not
// complete, or none is there.
func Completed(dir string) (*Summary, error) {
	s, err := ReadSummary(filepath.Join(dir, SummaryFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil || !s.Completed {
		return nil, err
	}
	return &s, nil
}
