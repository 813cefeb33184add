package data

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

	"fedpace/actors/data/federated"
)

// openSource looks at a path. Close its File after use.
func openSource(path string) (*federated.Source, error) {
	found, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("%w; want %s", err, layouts())
	}
	s := &federated.Source{Path: path, Folder: found.IsDir(), Size: found.Size()}
	if !s.Folder && !found.Mode().IsRegular() { // reading a pipe would wait for ever
		return nil, fmt.Errorf("%s is neither a file nor a folder; want %s", path, layouts())
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

// readerOf finds the reader that knows the source best.
func readerOf(s *federated.Source) (best federated.Reader, err error) {
	match := federated.NoMatch
	for _, name := range federated.Readers.Names() {
		r, _ := federated.Readers.Entry(name)
		if m := r.Recognises(s); m > match {
			best, match = r, m
		}
	}
	switch {
	case best != nil:
		return best, nil
	case s.Head == "":
		return nil, fmt.Errorf("is empty; want %s", layouts())
	}
	return nil, fmt.Errorf("begins with %q, which is no layout known here; want %s", s.Head, layouts())
}

// layouts is what Open reads, in the words of its errors.
func layouts() string {
	var list []string
	for _, e := range federated.Readers.Entries {
		list = append(list, e.Help)
	}
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + ", or " + list[last]
}

// Open reads a federated set by the one of [federated.Readers] that recognises
// what lies at the path: Parquet, LEAF's JSON, Sentiment140's CSV, the Complete
// Works of Shakespeare, CIFAR-100's binary version, or a prepared file.
//
// A source without held-out samples of its own is split per client: the seeded
// choice of int(0.8 n) samples trains, the rest is held out.
func Open(path string, opt federated.Options) (federated.Set, error) { return OpenWith(nil, path, opt) }

// OpenWith is [Open] by a given reader; nil: the one that recognises the path. A
// reader may do without a path.
func OpenWith(r federated.Reader, path string, opt federated.Options) (federated.Set, error) {
	s, err := open(r, path, opt)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	return s, nil
}

func open(r federated.Reader, path string, opt federated.Options) (set federated.Set, err error) {
	if err := opt.Check(); err != nil {
		return nil, err
	}
	source := &federated.Source{}
	if r == nil || path != "" {
		if source, err = openSource(path); err != nil {
			return nil, err
		}
		defer source.File.Close()
		defer func() {
			if err != nil {
				err = fmt.Errorf("%s: %w", path, err)
			}
		}()
	}
	if r == nil {
		if r, err = readerOf(source); err != nil {
			return nil, err
		}
	}
	if set, err = r.Open(source, opt); err != nil {
		return nil, err
	}
	if err := fitsTask(set, opt); err != nil {
		return nil, errors.Join(err, set.Close())
	}
	// Sources without clients have been dealt already.
	if opt.Partition.Natural() || set.Info().Synthetic {
		return set, nil
	}
	g, ok := set.(*federated.Grouped)
	if !ok {
		err := fmt.Errorf("partition %s: the windows of a text overlap and belong to their role; want natural", opt.Partition.Kind)
		return nil, errors.Join(err, set.Close())
	}
	return g.Partitioned(opt.Partition, nil, opt.Seed)
}

// fitsTask compares what was found with what is expected. Data that no task knows
// are those of task custom, whose settings are not another task's.
func fitsTask(set federated.Set, opt federated.Options) error {
	if opt.Task == "" {
		return nil
	}
	of := ""
	if s, ok := set.(interface{ TaskName() string }); ok {
		of = s.TaskName()
	}
	switch of {
	case opt.Task:
		return nil
	case "":
		return fmt.Errorf("found %s, which is not data of task %s: set task: custom", set.Info().Name, opt.Task)
	}
	return fmt.Errorf("found %s (%s), want %s", of, set.Info().Name, opt.Task)
}

// opened is a Set that knows its task, "" for custom data, and its size.
type opened interface {
	federated.Set
	TaskName() string
	Memory() int
}

// filesIn lists a folder's files with such names, in lexical order; nil if there
// is none.
func filesIn(dir, suffix string) (files []string) {
	names, _ := fs.Glob(os.DirFS(dir), "*"+suffix) // which fails on a bad pattern only
	for _, name := range names {
		files = append(files, filepath.Join(dir, name))
	}
	return files
}

// hashFiles identifies files by their content.
func hashFiles(names []string) ([][sha256.Size]byte, error) {
	sums := make([][sha256.Size]byte, len(names))
	return sums, each(len(names), func(i int) error {
		f, err := os.Open(names[i])
		if err != nil {
			return err
		}
		defer f.Close()
		h := sha256.New()
		_, err = io.Copy(h, f)
		sums[i] = [sha256.Size]byte(h.Sum(nil))
		return err
	})
}

// each runs do for 0 to n-1 on all processors and waits for all.
func each(n int, do func(i int) error) error {
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		workers.Go(func() error { return do(i) })
	}
	return workers.Wait()
}
