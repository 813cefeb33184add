package folder

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"slices"

	"fedpace/internal/atomicfile"
	"fedpace/metrics"
)

// An appendFile is a file of a run that only grows while the run goes on. A
// checkpoint holds how long each is, and a run that is resumed from it cuts them
// back to that length: what it writes then follows what it had written up to the
// checkpoint, as if it had never stopped.
type appendFile struct {
	results *Results
	name    string // in the run's folder
	file    *os.File
	size    int64     // bytes of what was written whole
	sum     hash.Hash // of them
}

// Size implements [metrics.File].
func (a *appendFile) Size() int64 { return a.size }

// Append implements [metrics.Folder]. Where no checkpoint holds its length, the
// file of a resumed run is cut to nothing.
func (r *Results) Append(name string) (metrics.File, error) {
	a := &appendFile{results: r, name: name, sum: sha256.New()}
	if kept, ok := r.kept[name]; ok {
		a.size, a.sum = kept.size, kept.sum
	}
	flags := os.O_WRONLY | os.O_CREATE
	if !r.resumed {
		flags |= os.O_EXCL
	}
	var err error
	if a.file, err = os.OpenFile(r.Path(name), flags, 0o666); err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	r.own, r.outputs = append(r.own, name), append(r.outputs, a)
	if err := a.cut(); err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	return a, nil
}

// cut ends the file where a checkpoint says.
func (a *appendFile) cut() error {
	if err := a.file.Truncate(a.size); err != nil {
		return err
	}
	_, err := a.file.Seek(a.size, io.SeekStart)
	return err
}

// Write appends wholly or not at all. What failed stays failed: nothing may follow
// what is missing.
func (a *appendFile) Write(b []byte) (int, error) {
	if err := a.results.failure; err != nil {
		return 0, err
	}
	n, err := a.file.Write(b)
	if err != nil {
		if n > 0 {
			err = errors.Join(err, a.cut())
		}
		a.results.failure = fmt.Errorf("results: %w (what is written stays: fedpace resume %s)", err, a.results.dir)
		return 0, err
	}
	a.size += int64(n)
	a.sum.Write(b) // never fails
	return n, nil
}

// Sync brings all outputs to the disk and returns what they hold.
func (r *Results) Sync() ([]FileDigest, error) {
	list := make([]FileDigest, len(r.outputs))
	for i, a := range r.outputs {
		if err := a.file.Sync(); err != nil {
			return nil, fmt.Errorf("results: %s: %w", a.name, err)
		}
		list[i] = FileDigest{a.name, a.size, hexadecimal(a.sum)}
	}
	return list, nil
}

// closeOutputs ends the writing.
func (r *Results) closeOutputs() (err error) {
	for _, a := range r.outputs {
		err = errors.Join(err, a.file.Close())
	}
	r.outputs = nil
	return err
}

// ReopenResults locks the folder of a run that is to go on. Nothing in it is
// changed before [Results.Rewind].
func ReopenResults(dir string) (*Results, error) {
	lock, err := lockFolder(dir)
	if err != nil {
		return nil, err
	}
	return &Results{dir: dir, lock: lock, resumed: true}, nil
}

// Check reads what a checkpoint holds of the outputs, and returns an error if they
// hold something else: the run cannot go on from there. It changes nothing.
func (r *Results) Check(outputs []FileDigest) error {
	r.kept = map[string]kept{}
	for _, o := range outputs {
		sum, size, err := o.read(r.dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("results: %s is gone, and the checkpoint goes on from its byte %d", o.Name, o.Size)
		case errors.Is(err, errShort):
			return fmt.Errorf("results: %s holds %d bytes, and the checkpoint goes on from %d: it has been changed since", o.Name, size, o.Size)
		case err != nil:
			return fmt.Errorf("results: %s is damaged before its byte %d, from which the checkpoint goes on: %w", o.Name, o.Size, err)
		}
		r.kept[o.Name] = kept{o.Size, sum}
	}
	return nil
}

// kept is the part of an output that a run goes on from.
type kept struct {
	size int64
	sum  hash.Hash
}

// Rewind cuts what the run had written back to the checkpoint that Check was given
// last, to nothing without one, and removes what it will write again. sinks are the
// outputs that the configuration adds.
func (r *Results) Rewind(sinks []metrics.Sink) error {
	if err := r.clean(); err != nil {
		return err
	}
	d, err := digestOf(r.dir, ConfigFile)
	if err != nil {
		return failed(err)
	}
	r.replaced = []FileDigest{d}
	stale := append(outputFiles(sinks), SummaryFile, unfinishedCheckpoint)
	stale = slices.DeleteFunc(stale, func(name string) bool { _, ok := r.kept[name]; return ok })
	return failed(r.remove(stale...))
}

// clean removes the temporary files that a process left when it died. The folder is locked: nobody is writing any.
func (r *Results) clean() error {
	entries, err := os.ReadDir(r.dir)
	for _, e := range entries {
		if name, ok := atomicfile.Leftover(e.Name()); ok && slices.Contains(Files(), name) {
			err = errors.Join(err, r.remove(e.Name()))
		}
	}
	return failed(err)
}

// remove removes files of the folder that may not be there.
func (r *Results) remove(names ...string) error {
	for _, name := range names {
		if err := os.Remove(r.Path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
