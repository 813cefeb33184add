package data

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"fedpace/data/federated"
	"fedpace/data/table"
	"fedpace/internal/memlimit"
)

// findReader returns the reader that recognises the source s best. It returns an error if s is
// surely no data, or if no reader knows it. Of equal matches, the first in the order of the names
// wins.
func findReader(s *federated.Source) (best federated.Reader, err error) {
	if err := checkKind(s); err != nil {
		return nil, err
	}
	match := federated.NoMatch
	for _, name := range federated.Readers.Names() {
		r, _ := federated.Readers.Entry(name)
		// A reader that knows the content is better than one that knows the name.
		if m := r.Recognises(s); m > match {
			best = r
			match = m
		}
	}
	switch {
	case best != nil:
		return best, nil
	case s.Head == "":
		return nil, fmt.Errorf("is empty; want %s", federated.Layouts())
	}
	// No reader knows the source, so the error says how it begins.
	kind := fmt.Sprintf("begins with %q", s.Head)
	if strings.HasPrefix(http.DetectContentType([]byte(s.Head)), "text/") {
		kind = "is plain text"
	}
	return nil, fmt.Errorf("%s, in no layout known here; want %s", kind, federated.Layouts())
}

// IsTable reports whether there is a table of the user's own at path, whose columns need a mapping.
// It is false for a path that cannot be opened.
func IsTable(path string) bool {
	s, err := federated.OpenSource(path)
	if err != nil {
		// Whoever opens the path reports the error.
		return false
	}
	defer s.File.Close()
	r, _ := findReader(s)
	switch r.(type) {
	case table.Table:
		return true
	case Parquet:
		columns, err := table.Columns(path)
		return err == nil && findLayout(func(name string) bool { return slices.Contains(columns, name) }) == nil
	case LEAF:
		return isNumbersLEAF(s)
	}
	return false
}

// Open reads a federated set by the one of [federated.Readers] that recognises
// what lies at the path: Parquet, LEAF's JSON, Sentiment140's CSV, the Complete
// Works of Shakespeare, CIFAR-100's binary version, or a prepared file.
//
// A source without held-out samples of its own is split per client: the seeded
// choice of int(0.8 n) samples trains, the rest is held out.
func Open(path string, opt federated.Options) (federated.Set, error) { return OpenWith(nil, path, opt) }

// OpenWith opens the set at path as [Open] does, with the given reader; nil stands for the reader
// that recognises the path. Some readers need no path.
func OpenWith(r federated.Reader, path string, opt federated.Options) (federated.Set, error) {
	s, err := open(r, path, opt)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	return s, nil
}

// open opens the set at path with the reader r, or with the one that recognises the path if r is nil. Unless
// opt.Partition is natural, it divides the training samples among new clients as the partition says. Its
// errors name the path.
func open(r federated.Reader, path string, opt federated.Options) (set federated.Set, err error) {
	if err := opt.Check(); err != nil {
		return nil, err
	}
	source := &federated.Source{}
	// A reader that makes its set has no path to open.
	if r == nil || path != "" {
		source, err = federated.OpenSource(path)
		if err != nil {
			return nil, err
		}
		defer source.File.Close()
		defer func() {
			if err != nil {
				err = fmt.Errorf("%s: %w", path, err)
			}
		}()
	}
	if source.Folder {
		defer func() {
			if err != nil {
				err = explainFolder(path, err)
			}
		}()
	}
	if _, isMapping := r.(table.Table); isMapping {
		switch {
		case path == "":
			return nil, errors.New("path is not set, only a mapping (set data.path to the file or folder)")
		// A mapping of columns does not go with a prepared file.
		case source.Head == preparedMagic:
			return nil, errors.New("is a prepared file, which is read without a mapping (set data to its path alone)")
		}
		// Without a mapping findReader checks this.
		if err := checkKind(source); err != nil {
			return nil, err
		}
	}
	if r == nil {
		r, err = findReader(source)
		if err != nil {
			return nil, err
		}
		defer func() {
			if err != nil {
				err = explainArchive(source, r, err)
			}
		}()
	}
	// The display shows the progress from here on.
	opt.Reading.Begin(path, sourceSize(source))
	defer opt.Reading.End()
	set, err = openBy(r, source, opt)
	if err != nil {
		return nil, err
	}
	if err := fitsTask(set, opt); err != nil {
		return nil, errors.Join(err, set.Close())
	}
	// Readers divide the samples of sources without clients themselves.
	if opt.Partition.Natural() || set.Info().Synthetic {
		return set, nil
	}
	g, ok := set.(*federated.Grouped)
	if !ok {
		err := fmt.Errorf(
			"partition %s: %s is a %T, whose samples cannot be dealt; want natural",
			opt.Partition.Kind,
			set.Info().Name,
			set,
		)
		return nil, errors.Join(err, set.Close())
	}
	return g.Partitioned(opt.Partition, nil, opt.Seed)
}

// largeParquet is the size in bytes from which on a file of Parquet is read frugally.
const largeParquet = 32 << 20

// openBy opens the source with the reader r. While it reads a large Parquet file, garbage is collected more often,
// because the Parquet library makes as much garbage as the file has data, which would double the memory in use.
func openBy(r federated.Reader, source *federated.Source, opt federated.Options) (federated.Set, error) {
	isParquet := strings.HasPrefix(source.Head, "PAR1")
	if isParquet && source.Size >= largeParquet {
		defer memlimit.Frugal()()
	}
	return r.Open(source, opt)
}

// fitsTask returns an error if the set is not of the task that opt expects; without a task, any set
// will do. Data that belongs to no task needs task custom, because the settings of a task are made
// for its own data.
func fitsTask(set federated.Set, opt federated.Options) error {
	if opt.Task == "" {
		return nil
	}
	found := ""
	if s, ok := set.(interface{ TaskName() string }); ok {
		found = s.TaskName()
	}
	switch found {
	case opt.Task:
		return nil
	case "":
		return fmt.Errorf("found %s, which is not data of task %s: set task: custom", set.Info().Name, opt.Task)
	}
	return fmt.Errorf("found %s (%s), want %s", found, set.Info().Name, opt.Task)
}

// sourceSize returns the number of bytes of a source, those of all its files if it is a folder, for
// the display of the progress.
func sourceSize(s *federated.Source) (size int64) {
	if !s.Folder {
		return s.Size
	}
	// The reader reports what cannot be read.
	_ = federated.Below(s.Path, nil, func(path string) error {
		info, err := os.Stat(path)
		if err == nil {
			size += info.Size()
		}
		return err
	})
	return size
}

// OpenClientTable opens the table of one client at path, such as that of a real device. r is the reader of the
// run's data. If it is a mapping of columns (a table.Table), that mapping is used; if it is nil or another
// reader, an empty mapping is. changes, each as option=value, replace options of the mapping. The run's mapping
// is for tables of many clients: this table may lack its columns for the client (Client) and for the part, train
// or held out, to which a row belongs (Split). Without changes, a path in a layout that a reader recognises is
// opened without a mapping.
func OpenClientTable(r federated.Reader, path string, changes []string) (federated.Set, error) {
	// Data of a known layout is read as such.
	if len(changes) == 0 {
		if set, err := Open(path, federated.Options{}); !errors.Is(err, table.ErrUnmapped) {
			return set, err
		}
	}
	// mapping stays nil if r is of another kind of data, or if there is no r.
	var mapping federated.Reader
	if t, ok := r.(table.Table); ok {
		columns, err := table.Columns(path)
		if err != nil {
			return nil, fmt.Errorf("data: %s: %w", path, err)
		}
		for _, name := range []*string{&t.Client, &t.Split} {
			// The table of one client need not say whose it is.
			if !slices.Contains(columns, *name) {
				*name = ""
			}
		}
		mapping = t
	}
	mapping, err := table.Map(mapping, changes)
	if err != nil {
		return nil, fmt.Errorf("data: %s: %w", path, err)
	}
	return OpenWith(mapping, path, federated.Options{})
}
