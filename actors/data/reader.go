package data

import (
	"compress/gzip"
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
	"fedpace/internal/registry"
)

// Reader reads sets of one layout.
type Reader interface {
	// Recognises says how surely a source has the layout.
	Recognises(s *Source) Match
	// Open reads the set. Its caller adds the path to its errors.
	Open(s *Source, o federated.Options) (federated.Set, error)
}

// Readers are the layouts that [Open] chooses from.
var Readers = registry.New[Reader]("data reader", "reader")

// Match is how surely a source has a layout.
type Match int

// The grades of certainty. What a source begins with outweighs its name.
const (
	NoMatch   Match = iota
	ByName          // of the file, or a folder that nothing speaks against
	ByContent       // first bytes, or the files in a folder
)

// Source is a file or folder that may hold a set.
type Source struct {
	Path   string
	Folder bool
	Head   string   // up to 16 bytes that the file begins with
	File   *os.File // at its start; nil for a folder
	Size   int64    // of the file
}

// openSource looks at a path. Close its File, if it has one, after use.
func openSource(path string) (*Source, error) {
	found, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("%w; want %s", err, layouts())
	}
	s := &Source{Path: path, Folder: found.IsDir(), Size: found.Size()}
	if s.Folder {
		return s, nil
	}
	if !found.Mode().IsRegular() { // reading a pipe would wait for ever
		return nil, fmt.Errorf("%s is neither a file nor a folder; want %s", path, layouts())
	}
	if s.File, err = os.Open(path); err != nil {
		return nil, err
	}
	var head [16]byte
	n, err := s.File.ReadAt(head[:], 0)
	s.Head = string(head[:n])
	if err != nil && err != io.EOF {
		s.File.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// Name is the last part of the path in lower case.
func (s *Source) Name() string { return strings.ToLower(filepath.Base(s.Path)) }

// reader finds the reader that knows the source best.
func (s *Source) reader() (Reader, error) {
	var best Reader
	match := NoMatch
	for _, name := range Readers.Names() {
		r, _ := Readers.Entry(name)
		if m := r.Recognises(s); m > match {
			best, match = r, m
		}
	}
	if best != nil {
		return best, nil
	}
	if s.Head == "" {
		return nil, fmt.Errorf("%s: is empty; want %s", s.Path, layouts())
	}
	return nil, fmt.Errorf("%s: begins with %q, which is no layout known here; want %s", s.Path, s.Head, layouts())
}

// Open reads a federated set by the one of [Readers] that recognises what lies at
// the path: Parquet, LEAF's JSON, Sentiment140's CSV, the Complete Works of
// Shakespeare, CIFAR-100's binary version, or a prepared file.
//
// A source without held-out samples of its own is split per client: the seeded
// choice of int(0.8 n) samples trains, the rest is held out.
func Open(path string, opt federated.Options) (federated.Set, error) { return OpenWith(nil, path, opt) }

// OpenWith is [Open] by a given reader; nil: the one that recognises the path. A
// reader may do without a path.
func OpenWith(r Reader, path string, opt federated.Options) (federated.Set, error) {
	if err := opt.Check(); err != nil {
		return nil, err
	}
	partition, err := opt.Partition.Complete()
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	source := &Source{}
	if r == nil || path != "" {
		if source, err = openSource(path); err != nil {
			return nil, fmt.Errorf("data: %w", err)
		}
		defer source.File.Close() // fails, as it may, for a folder
	}
	if r == nil {
		if r, err = source.reader(); err != nil {
			return nil, fmt.Errorf("data: %w", err)
		}
	}
	s, err := r.Open(source, opt)
	if err != nil {
		return nil, wrong(path, err)
	}
	if err := fitsTask(path, s, opt); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	// Sources without clients have been dealt already.
	if partition.Natural() || s.Info().Synthetic {
		return s, nil
	}
	g, ok := s.(*federated.Grouped)
	if !ok {
		s.Close()
		return nil, wrong(path, fmt.Errorf("partition %s: the windows of a text overlap and belong to their role; want natural", partition.Kind))
	}
	if s, err = g.Partitioned(opt.Partition, nil, opt.Seed); err != nil {
		return nil, wrong(path, err)
	}
	return s, nil
}

// wrong is an error that names the set's path, if it has one.
func wrong(path string, err error) error {
	if path == "" {
		return fmt.Errorf("data: %w", err)
	}
	return fmt.Errorf("data: %s: %w", path, err)
}

// fitsTask compares what was found with what is expected. Custom data fits any
// task that its numbers fit.
func fitsTask(path string, set federated.Set, opt federated.Options) error {
	s, ok := set.(opened)
	if !ok {
		return nil
	}
	if task := s.TaskName(); opt.Task != "" && task != "" && task != opt.Task {
		return wrong(path, fmt.Errorf("found %s (%s), want %s", task, s.Info().Name, opt.Task))
	}
	return nil
}

// opened is a Set that knows its task, "" for custom data, and its size.
type opened interface {
	federated.Set
	TaskName() string
	Memory() int
}

// layouts is what Open reads, in the words of its errors.
func layouts() string {
	var list []string
	for _, name := range Readers.Names() {
		list = append(list, Readers.Help(name))
	}
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + ", or " + list[last]
}

func (s *Source) isZip() bool  { return strings.HasPrefix(s.Head, "PK\x03\x04") }
func (s *Source) isGzip() bool { return strings.HasPrefix(s.Head, "\x1f\x8b") }

// isArchive tells whether a gzip holds a tar archive.
func (s *Source) isArchive() bool {
	z, err := gzip.NewReader(io.NewSectionReader(s.File, 0, s.Size))
	if err != nil {
		return false
	}
	var block [512]byte
	_, err = io.ReadFull(z, block[:])
	return err == nil && string(block[257:262]) == "ustar"
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

// What sets are, see package federated.
type (
	Set     = federated.Set
	Info    = federated.Info
	Options = federated.Options
)
