package atomicfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Write replaces the file at path with what write writes. Errors name the path;
// on an error the file stays as it was. The temporary file is named
// ".NAME.DIGITS" (see [Leftover]).
func Write(path string, write func(io.Writer) error) error { return put(path, 0o644, write) }

// WriteSecret is [Write] for a file that its owner alone may read.
func WriteSecret(path string, write func(io.Writer) error) error { return put(path, 0o600, write) }

// Bytes returns the function that writes b, for [Write] and [WriteSecret].
func Bytes(b []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	}
}

// put is [Write] for a file with the given permissions.
func put(path string, mode os.FileMode, write func(io.Writer) error) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("%s cannot be written: %w", path, cause(err))
	}
	err = write(unnamed{file})
	if err == nil {
		// CreateTemp makes a file that its owner alone may read.
		err = cause(cmp.Or(file.Sync(), file.Chmod(mode)))
	}
	err = errors.Join(err, cause(file.Close()))
	if err == nil {
		err = cause(os.Rename(file.Name(), path))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s cannot be written: %w", path, err), os.Remove(file.Name()))
	}
	return nil
}

// unnamed is a temporary file, whose name is in no error.
type unnamed struct{ f *os.File }

func (u unnamed) Write(b []byte) (int, error) {
	n, err := u.f.Write(b)
	return n, cause(err)
}

// cause is an error of the operating system without the names of files.
func cause(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return e.Err
	}
	return err
}

// Leftover returns the name of the file that a process was writing when it died and left a temporary file
// of this name. ok is false if no temporary file of [Write] has such a name.
func Leftover(name string) (written string, ok bool) {
	hidden, isHidden := strings.CutPrefix(name, ".")
	i := strings.LastIndexByte(hidden, '.')
	if !isHidden ||
		i < 1 ||
		i == len(hidden)-1 ||
		strings.Trim(hidden[i+1:], "0123456789") != "" {
		return "", false
	}
	return hidden[:i], true
}
