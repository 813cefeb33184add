package regular

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
)

// ErrNotRegular is wrapped by the error for what is there and is no regular file.
var ErrNotRegular = errors.New("is no regular file, but a pipe, a device or a folder")

// Open opens a regular file for reading and returns what is known of it. A pipe, a device or a folder, which
// could block the reader for ever or hold anything, is an error that wraps [ErrNotRegular].
func Open(path string) (*os.File, fs.FileInfo, error) {
	f, err := OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// OpenFile is [os.OpenFile] for what is a regular file, or is not there yet. For anything else the error wraps
// [ErrNotRegular].
func OpenFile(path string, flag int, mode fs.FileMode) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: path, Err: ErrNotRegular}
	}
	return os.OpenFile(path, flag, mode)
}

// ReadFile reads the whole of a regular file. If something else than a regular file is there, the error wraps
// [ErrNotRegular].
func ReadFile(path string) ([]byte, error) { return ReadHead(path, math.MaxInt64) }

// ReadHead reads the first limit bytes of a regular file, or all of a shorter one. If something else than a regular
// file is there, the error wraps [ErrNotRegular].
func ReadHead(path string, limit int64) ([]byte, error) {
	f, _, err := Open(path)
	if err != nil {
		return nil, err
	}
	// The file is only read, so closing it loses nothing.
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}
