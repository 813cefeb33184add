package federated

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"

	"fedpace/internal/names"
	"fedpace/registry"
)

// Files returns the paths of the files of a folder whose names end in suffix, in lexical order, without those
// that begin with a dot, which programs keep beside the data; nil if there is none.
func Files(dir, suffix string) (files []string) {
	// Glob fails only for a malformed pattern, and this one is well formed.
	names, _ := fs.Glob(os.DirFS(dir), "*"+suffix)
	for _, name := range names {
		if strings.HasPrefix(name, ".") {
			continue
		}
		files = append(files, filepath.Join(dir, name))
	}
	return files
}

// Hash returns the SHA-256 of the content of each of the files called names, in their order. The
// files are read on all processors.
func Hash(names []string) ([][sha256.Size]byte, error) {
	sums := make([][sha256.Size]byte, len(names))
	return sums, Each(len(names), func(i int) error {
		f, err := OpenSource(names[i])
		if err != nil {
			return err
		}
		defer f.File.Close()
		hash := sha256.New()
		_, err = io.Copy(hash, f.File)
		sums[i] = [sha256.Size]byte(hash.Sum(nil))
		return err
	})
}

// Each calls do with 0 to n-1, on all processors at the same time, and waits for all calls. If several
// fail, it returns the error of the one that failed first, which may differ from run to run.
func Each(n int, do func(i int) error) error {
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		workers.Go(func() error { return do(i) })
	}
	return workers.Wait()
}

// OpenSource looks at the file or folder at path and opens a file. It reads the first bytes, by
// which readers recognise it. For a path that does not exist, the error names a similar one in the
// same folder. The caller closes File, which is nil for a folder.
func OpenSource(path string) (*Source, error) {
	found, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		var siblings []string
		// Without the entries of the folder, nothing is suggested.
		entries, _ := os.ReadDir(filepath.Dir(path))
		for _, f := range entries {
			siblings = append(siblings, f.Name())
		}
		if near := names.Nearest(filepath.Base(path), siblings); near != "" {
			return nil, fmt.Errorf("%w (did you mean %q?)", err, filepath.Join(filepath.Dir(path), near))
		}
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w; want %s", err, Layouts())
	}
	s := &Source{Path: path, Folder: found.IsDir(), Size: found.Size()}
	// Only regular files are read: reading a pipe could wait for ever.
	if !s.Folder && !found.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is neither a file nor a folder; want %s", path, Layouts())
	}
	s.File, err = os.Open(path)
	if err != nil || s.Folder {
		return s, err
	}
	var head [16]byte
	n, err := s.File.ReadAt(head[:], 0)
	s.Head = string(head[:n])
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), s.File.Close())
	}
	return s, nil
}

// Layouts returns, for error messages, a list in words of all layouts that the readers read.
func Layouts() string {
	list := names.Of(Readers.Entries, func(e registry.Entry) string { return e.Help })
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + ", or " + list[last]
}
