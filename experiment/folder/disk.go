package folder

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"fedpace/internal/regular"
)

// Disk is what a run's outputs and checkpoints are written to: the operating system's
// files, or those of a test that plays a power cut. Until a file, or a folder with a
// new name in it, is synced, a power cut may lose the change.
type Disk interface {
	OpenFile(path string, flag int) (File, error)
	Rename(from, to string) error
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

func (system) OpenFile(path string, flag int) (File, error) {
	mode := os.FileMode(0o666)
	if slices.Contains(secrets, filepath.Base(path)) {
		mode = 0o600
	}
	return regular.OpenFile(path, flag, mode)
}

// secrets are the files that may hold updates of real devices, from which something of
// their samples can be told. Only the run's own user may read them.
var secrets = []string{CheckpointFile, PreviousCheckpointFile, unfinishedCheckpoint, DevicesFile}

// Files that packages above this one write.
const (
	DevicesFile = "devices.log" // the log of real devices (package devicelog)
	NoiseFile   = "noise.key"   // of differential privacy with real devices (package run)
)

func (system) Rename(from, to string) error { return os.Rename(from, to) }

func (system) Remove(path string) error { return os.Remove(path) }

func (system) SyncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrInvalid) || errors.Is(err, fs.ErrPermission) {
		err = nil // not every system has this for folders
	}
	return errors.Join(err, f.Close())
}
