package folder

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"fedpace/internal/regular"
)

// FileDigest is what a file of the folder held: at a checkpoint, or when the run
// ended. An output that only grows begins with these bytes for ever after.
type FileDigest struct {
	Name string `json:"name"`
	Size int64  `json:"bytes"`
	// SHA256 is the digest of the first Size bytes, in hexadecimal.
	SHA256 string `json:"sha256"`
}

// What is wrong with a file.
var (
	errShort  = errors.New("bytes are missing")
	errDiffer = errors.New("it does not hold what was written")
)

// hashPrefix reads the bytes that the digest is of, and returns their hash, to which more can be added.
// dir is the folder of the file. It returns an error if the file does not begin with these bytes.
// size is the length of the whole file.
func (d FileDigest) hashPrefix(disk Disk, dir string) (sum hash.Hash, size int64, err error) {
	f, err := disk.OpenFile(filepath.Join(dir, d.Name), os.O_RDONLY)
	if err != nil {
		return nil, 0, err
	}
	// Closing a file that was only read loses nothing, so its error does not count.
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	sum = sha256.New()
	// A file that ends early is told from one with other bytes.
	if n, err := io.CopyN(sum, f, d.Size); errors.Is(err, io.EOF) {
		return nil, n, errShort
	} else if err != nil {
		return nil, 0, err
	}
	if got := hexadecimal(sum); got != d.SHA256 {
		return nil, info.Size(), fmt.Errorf("%w (SHA-256 %.12s, written was %.12s)", errDiffer, got, d.SHA256)
	}
	return sum, info.Size(), nil
}

// digestOf returns the digest of a whole file: its name in the folder dir, its length in bytes, and
// the SHA-256 of its content.
func digestOf(dir, name string) (FileDigest, error) {
	f, _, err := regular.Open(filepath.Join(dir, name))
	if err != nil {
		return FileDigest{}, err
	}
	// Closing a file that was only read loses nothing, so its error does not count.
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	return FileDigest{name, n, hexadecimal(sum)}, err
}

// hexadecimal is the sum so far as text.
func hexadecimal(sum hash.Hash) string { return hex.EncodeToString(sum.Sum(nil)) }

// digestWriter takes the digest of what is written.
type digestWriter struct {
	sum  hash.Hash
	size int64
}

// Write implements [io.Writer]. It never fails.
func (c *digestWriter) Write(b []byte) (int, error) {
	c.size += int64(len(b))
	return c.sum.Write(b)
}

// FileState is what became of a file.
type FileState struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Size is the size of the file now, in bytes.
	Size int64 `json:"bytes"`
	// Problem says what is wrong with the file, or what to know about it.
	Problem string `json:"problem,omitempty"`
}

// State is what a file was found to be.
type State string

// What a file may be found to be.
const (
	// Intact means that the file has the digest that was written down.
	Intact State = "ok"
	// Damaged means that the file is there and has another digest or cannot be read.
	Damaged State = "damaged"
	// Missing means that no such file is there any more.
	Missing State = "missing"
	// Unchecked means that there is no digest which says what the file held.
	Unchecked State = "unchecked"
)

// Bad reports whether the file is not what it was.
func (f FileState) Bad() bool { return f.State == Damaged || f.State == Missing }

// Err says what is wrong with the file; it is nil where nothing is known to be.
func (f FileState) Err() error {
	if !f.Bad() {
		return nil
	}
	return fmt.Errorf("%s is %s: %s", f.Name, f.State, f.Problem)
}

// Whether a run has ended, for [FileDigest.Examine].
const (
	Ended   = true
	Ongoing = false
)

// Examine compares a file in the folder dir with its digest, and says whether it is intact, missing
// or damaged. ended says that the run has ended ([Ended]): then the file must hold nothing more. While the
// run continues, or after its process died ([Ongoing]), more may follow.
func (d FileDigest) Examine(dir string, ended bool) FileState {
	_, size, err := d.hashPrefix(system{}, dir)
	s := FileState{Name: d.Name, State: Intact, Size: size}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.State = Missing
		s.Problem = fmt.Sprintf("%d bytes were written", d.Size)
	case errors.Is(err, errShort):
		s.State = Damaged
		s.Problem = fmt.Sprintf("it ends after %d of %d bytes", size, d.Size)
	case err != nil:
		s.State = Damaged
		s.Problem = err.Error()
	case ended && size > d.Size:
		s.State = Damaged
		s.Problem = fmt.Sprintf("%d bytes follow the %d that were written", size-d.Size, d.Size)
	// An intact file may have grown since its digest was taken.
	case size > d.Size:
		s.Problem = fmt.Sprintf("%d bytes are newer than the checkpoint, which has no digest of them", size-d.Size)
	}
	return s
}
