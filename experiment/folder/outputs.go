package folder

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
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
	store *Store
	// name is the name of the file in the run's folder.
	name string
	file File
	// size is the number of bytes that were written whole.
	size int64
	// sum is the digest of those bytes.
	sum hash.Hash
	// spool says that the file is removed once the run is complete.
	spool bool
}

// Size implements [metrics.File].
func (a *appendFile) Size() int64 { return a.size }

// Append implements [metrics.Folder]. Where no checkpoint holds its length, the
// file of a resumed run is cut to nothing.
func (s *Store) Append(name string) (metrics.File, error) { return s.open(name, keptFile) }

// Spool implements [metrics.Folder].
func (s *Store) Spool(name string) (metrics.File, error) { return s.open(name, spoolFile) }

// Which outputs [Store.open] opens: files that stay, or files that are needed only until the run is complete.
const (
	keptFile  = false
	spoolFile = true
)

// open opens the output of this name for appending, cut to the length that the checkpoint says; a
// new run creates it. spool says that the file is a spoolFile.
func (s *Store) open(name string, spool bool) (metrics.File, error) {
	a := &appendFile{
		store: s,
		name:  name,
		sum:   sha256.New(),
		spool: spool,
	}
	if saved, ok := s.checkpointed[name]; ok {
		a.size = saved.size
		a.sum = saved.sum
	}
	flags := os.O_WRONLY | os.O_CREATE
	// A new run must not write into a file that is there already.
	if !s.resumed {
		flags |= os.O_EXCL
	}
	var err error
	a.file, err = s.disk.OpenFile(s.Path(name), flags)
	if err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	// The file is noted, so that it is removed if the run does not begin.
	s.created = append(s.created, name)
	s.outputs = append(s.outputs, a)
	s.namesUnsynced = true
	if err := a.cutToSize(); err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	return a, nil
}

// cutToSize ends the file at the length up to which it is whole, a.size, and lets writing continue there.
func (a *appendFile) cutToSize() error {
	if err := a.file.Truncate(a.size); err != nil {
		return err
	}
	_, err := a.file.Seek(a.size, io.SeekStart)
	return err
}

// Write appends all bytes or none. After a failure all later writes fail: nothing may follow what is
// missing.
func (a *appendFile) Write(b []byte) (int, error) {
	if err := a.store.failure; err != nil {
		return 0, err
	}
	n, err := a.file.Write(b)
	if err != nil {
		if n > 0 {
			err = errors.Join(err, a.cutToSize())
		}
		a.store.failure = aboutResults(err)
		return 0, err
	}
	a.size += int64(n)
	// Writing to a hash never fails.
	a.sum.Write(b)
	return n, nil
}

// closeOutputs closes the files of all outputs and returns their errors joined to one. A second
// call does nothing.
func (s *Store) closeOutputs() (err error) {
	for _, a := range s.outputs {
		err = errors.Join(err, a.file.Close())
	}
	s.outputs = nil
	return err
}

// ReopenResults locks the folder of a run that is there, to resume, complete, tidy or remove it, and changes nothing in
// it. A run that is resumed calls [Results.Rewind] next.
func ReopenResults(dir string) (*Results, error) {
	release, err := lockFolder(dir)
	if err != nil {
		return nil, err
	}
	return &Results{Store: *OnDisk(system{}, dir), unlock: release}, nil
}

// outputState is the length of an output at a checkpoint, and the hash of its bytes so far.
type outputState struct {
	size int64
	sum  hash.Hash
}

// Rewind prepares the folder for a run that continues from the checkpoint that Check was given
// last, or begins where there was none: it removes files that the run will write again and what an
// interrupted write has left. Files that only grow are cut to their length at the checkpoint later,
// when they are opened. sinks are the outputs that the configuration adds.
func (r *Results) Rewind(sinks []metrics.Sink) error {
	if err := r.removeLeftovers(); err != nil {
		return err
	}
	d, err := digestOf(r.dir, ConfigFile)
	if err != nil {
		return aboutResults(err)
	}
	r.replaced = []FileDigest{d}
	stale := append(outputFiles(sinks), SummaryFile, unfinishedCheckpoint)
	stale = slices.DeleteFunc(stale, func(name string) bool {
		_, ok := r.checkpointed[name]
		return ok
	})
	return aboutResults(r.remove(stale...))
}

// removeLeftovers removes the temporary files that a process left when it died. The folder is locked: nobody is writing
// any.
func (r *Results) removeLeftovers() error {
	entries, err := os.ReadDir(r.dir)
	for _, e := range entries {
		if name, ok := atomicfile.Leftover(e.Name()); ok && slices.Contains(Files(), name) {
			err = errors.Join(err, r.remove(e.Name()))
		}
	}
	return aboutResults(err)
}
