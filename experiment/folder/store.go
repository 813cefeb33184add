package folder

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"fedpace/internal/regular"
)

// Store is the part of a run's folder that a run goes on from after a power cut: the
// outputs that grow, and the checkpoints. It is not safe for concurrent use.
type Store struct {
	// disk is where the files are; a test may put another in the place of the operating system's.
	disk Disk
	// dir is the path of the run's folder.
	dir string
	// created are the names of the files that this run has begun.
	created []string
	// createdFolders are the folders that did not exist before, the outermost first.
	createdFolders []string
	// outputs are the files of the run that grow.
	outputs []*appendFile
	// failure is the first error, after which the folder cannot be completed; nil means none.
	failure error
	// namesUnsynced says that files have been made since the folder was synced.
	namesUnsynced bool

	// resumed says that the run goes on in a folder that it had before, so that its outputs may be there already.
	resumed bool
	// checkpointed holds the lengths and the hashes of the outputs at the checkpoint from which the run goes on, by
	// name.
	checkpointed map[string]outputState
}

// OnDisk returns the outputs and checkpoints in the folder dir of a run that goes on. disk has the folder.
func OnDisk(disk Disk, dir string) *Store { return &Store{disk: disk, dir: dir, resumed: true} }

// Path implements [metrics.Folder].
func (s *Store) Path(name string) string { return filepath.Join(s.dir, name) }

// ErrUnsynced is wrapped by the error for outputs that cannot be brought to the disk:
// the run must end, for no checkpoint can count on them.
var ErrUnsynced = errors.New("cannot be brought to the disk")

// Checkpoint brings a checkpoint to the disk in the place of the newest, which
// becomes the previous one if keepNewest is set. write writes what the checkpoint holds,
// and is told what the outputs hold.
//
// A power cut may undo each step, and those before it since the last sync, in any
// order. So nothing is named before it is whole on the disk: the outputs and
// their names come first, then the new file, then its name.
func (s *Store) Checkpoint(keepNewest bool, write func(w io.Writer, outputs []FileDigest) error) error {
	outputs, err := s.sync()
	if err != nil {
		return err
	}
	err = s.writeCheckpoint(func(w io.Writer) error { return write(w, outputs) })
	if err == nil && keepNewest {
		err = s.disk.Rename(s.Path(CheckpointFile), s.Path(PreviousCheckpointFile))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err == nil {
		err = s.disk.Rename(s.Path(unfinishedCheckpoint), s.Path(CheckpointFile))
	}
	if err != nil {
		if file := (*fs.PathError)(nil); errors.As(err, &file) && file.Path == s.Path(unfinishedCheckpoint) {
			// The user knows the file by its other name, so the path of the error is left out.
			err = file.Err
		}
		return errors.Join(
			fmt.Errorf("%s cannot be written: %w", s.Path(CheckpointFile), err),
			s.remove(unfinishedCheckpoint),
		)
	}
	return s.disk.SyncFolder(s.dir)
}

// sync brings all outputs and their names to the disk. It returns the digest of what each of them
// holds then.
func (s *Store) sync() ([]FileDigest, error) {
	list := make([]FileDigest, len(s.outputs))
	for i, a := range s.outputs {
		if err := a.file.Sync(); err != nil {
			return nil, fmt.Errorf("results: %s %w: %w", a.name, ErrUnsynced, err)
		}
		list[i] = FileDigest{a.name, a.size, hexadecimal(a.sum)}
	}
	return list, s.syncNames()
}

// syncNames brings the names of files and folders that this run has made to the disk. It does
// nothing if there are no new ones since the last call.
func (s *Store) syncNames() error {
	if !s.namesUnsynced {
		return nil
	}
	folders := []string{s.dir}
	// The name of a new folder is in its parent, so the parent is synced.
	for _, made := range s.createdFolders {
		folders = append(folders, filepath.Dir(made))
	}
	for _, dir := range folders {
		if err := s.disk.SyncFolder(dir); err != nil {
			return fmt.Errorf("results: %w", err)
		}
	}
	s.namesUnsynced = false
	return nil
}

// writeCheckpoint writes a checkpoint whole to the disk, under the name of an unfinished one, which
// the caller changes. payload writes its content.
func (s *Store) writeCheckpoint(payload func(io.Writer) error) error {
	f, err := s.disk.OpenFile(s.Path(unfinishedCheckpoint), os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	// Only a file that is whole on the disk may get the name of a checkpoint.
	err = encodeCheckpoint(f, payload)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// encodeCheckpoint fills the empty file f with a checkpoint: a head with the length of the payload,
// the payload that payload writes, and a checksum of both.
func encodeCheckpoint(f File, payload func(io.Writer) error) error {
	// The head holds the length of the payload, so it is written last, into the space left for it.
	if _, err := f.Seek(checkpointHeadLen, io.SeekStart); err != nil {
		return err
	}
	sum := sha256.New()
	buffered := bufio.NewWriterSize(f, 1<<18)
	if err := errors.Join(payload(io.MultiWriter(buffered, sum)), buffered.Flush()); err != nil {
		return err
	}
	end, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	// The checksum follows the payload, and covers the head, too.
	head := binary.LittleEndian.AppendUint32([]byte(checkpointMagic), checkpointFormat)
	head = binary.LittleEndian.AppendUint64(head, uint64(end-checkpointHeadLen))
	if _, err := f.Write(checkpointSum(head, sum)); err != nil {
		return err
	}
	_, err = f.WriteAt(head, 0)
	return err
}

// ReadCheckpoint gives a checkpoint's payload to read. Its errors name the file;
// they wrap one of ErrTruncated, ErrDamaged, ErrForeign, ErrInputs and ErrFormat, or are those
// of the file system (fs.ErrNotExist: there is no such checkpoint).
func (s *Store) ReadCheckpoint(name string, read func(*Payload) error) error {
	f, err := s.disk.OpenFile(s.Path(name), os.O_RDONLY)
	if err != nil {
		return err
	}
	// Closing a file that was only read loses nothing, so its error does not count.
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := decodeCheckpoint(f, info.Size(), read); err != nil {
		return fmt.Errorf("%s: %w", s.Path(name), err)
	}
	return nil
}

// ReadCheckpoint reads a checkpoint in a folder; see [Store.ReadCheckpoint].
func ReadCheckpoint(dir, name string, read func(*Payload) error) error {
	return OnDisk(system{}, dir).ReadCheckpoint(name, read)
}

// Check compares the files of the outputs with their digests in a checkpoint. It returns an error if a file
// does not begin with what it held then, so that the run cannot go on from there. It changes no file, and
// keeps the digests, to whose lengths the outputs are cut when they are opened.
func (s *Store) Check(outputs []FileDigest) error {
	s.checkpointed = map[string]outputState{}
	for _, o := range outputs {
		sum, size, err := o.hashPrefix(s.disk, s.dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("results: %s is gone, and the checkpoint goes on from its byte %d", o.Name, o.Size)
		case errors.Is(err, errShort):
			return fmt.Errorf(
				"results: %s holds %d bytes, and the checkpoint goes on from %d: it has been changed since",
				o.Name,
				size,
				o.Size,
			)
		case err != nil:
			return fmt.Errorf(
				"results: %s is damaged before its byte %d, from which the checkpoint goes on: %w",
				o.Name,
				o.Size,
				err,
			)
		}
		// The state up to the checkpoint is kept, so that the output can be cut back to it.
		s.checkpointed[o.Name] = outputState{o.Size, sum}
	}
	return nil
}

// remove removes files of the folder by their names. Files that are not there do not count.
func (s *Store) remove(names ...string) error {
	for _, name := range names {
		if err := s.disk.Remove(s.Path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Disk is what a run's outputs and checkpoints are written to: the operating system's
// files, or those of a test that plays a power cut. Until a file, or a folder with a
// new name in it, is synced, a power cut may lose the change.
type Disk interface {
	OpenFile(path string, flag int) (File, error)
	Rename(oldPath, newPath string) error
	Remove(path string) error
	SyncFolder(path string) error
}

// File is an open file of a [Disk]. An [os.File] is one.
type File interface {
	io.ReadWriteSeeker
	io.WriterAt
	io.Closer
	Stat() (fs.FileInfo, error)
	Truncate(size int64) error
	Sync() error
}

// system is the operating system's disk.
type system struct{}

// OpenFile implements [Disk]: it opens a regular file with the flags of os.OpenFile, and creates it
// with the permissions that its content needs.
func (system) OpenFile(path string, flag int) (File, error) {
	mode := os.FileMode(0o666)
	// Files that hold updates of real devices are readable for their owner alone.
	if slices.Contains(privateFiles, filepath.Base(path)) {
		mode = 0o600
	}
	return regular.OpenFile(path, flag, mode)
}

// privateFiles are the files that may hold updates of real devices, from which something of
// their samples can be told. Only the run's own user may read them.
var privateFiles = []string{CheckpointFile, PreviousCheckpointFile, unfinishedCheckpoint, DevicesFile}

// Files that packages above this one write.
const (
	// DevicesFile is the log of real devices (package devicelog).
	DevicesFile = "devices.log"
	// PoliciesFile holds the decisions of policies in Python (package policies).
	PoliciesFile = "policies.jsonl"
	// NoiseFile is the key of the noise of differential privacy with real devices (package run).
	NoiseFile = "noise.key"
)

// Rename implements [Disk] by os.Rename.
func (system) Rename(oldPath, newPath string) error { return os.Rename(oldPath, newPath) }

// Remove implements [Disk] by os.Remove.
func (system) Remove(path string) error { return os.Remove(path) }

// SyncFolder implements [Disk]: it brings the names in a folder to the disk, on systems that can.
func (system) SyncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrInvalid) || errors.Is(err, fs.ErrPermission) {
		// Not every system can sync folders, so this error does not count.
		err = nil
	}
	return errors.Join(err, f.Close())
}
