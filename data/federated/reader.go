package federated

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"

	"fedpace/registry"
)

// Reader reads sets of one layout.
type Reader interface {
	// Recognises says how surely a source has the layout.
	Recognises(s *Source) Match
	// Open reads the set. Its caller adds the path to its errors.
	Open(s *Source, o Options) (Set, error)
}

// Readers are the layouts that package data chooses from. A map of options that
// names none is a mapping of the columns of a table.
var Readers = registry.New[Reader]("data reader", "reader").Standard("table")

// Match is how surely a source has a layout.
type Match int

// The grades of certainty. What a source begins with outweighs its name.
const (
	NoMatch Match = iota
	// ByName means that the name of the file fits, or that nothing in a folder speaks against it.
	ByName
	// ByContent means that the first bytes of the file fit, or the files in a folder.
	ByContent
)

// Source is a file or folder that may hold a set.
type Source struct {
	// Path is the path as the user gave it.
	Path string
	// Folder says that the path is a folder.
	Folder bool
	// Head is what the file begins with, up to 16 bytes.
	Head string
	// File is the open file, at its start.
	File *os.File
	// Size is the size of the file in bytes.
	Size int64
}

// Name returns the last part of the path in lower case.
func (s *Source) Name() string { return strings.ToLower(filepath.Base(s.Path)) }

// Content returns a reader of the whole file, whose bytes are counted in reading; reading may be nil.
func (s *Source) Content(reading *Reading) io.Reader {
	return io.NewSectionReader(reading.Counted(s.File), 0, s.Size)
}

// IsZip reports whether the file begins as a zip archive.
func (s *Source) IsZip() bool { return strings.HasPrefix(s.Head, "PK\x03\x04") }

// IsGzip reports whether the file begins as gzip.
func (s *Source) IsGzip() bool { return strings.HasPrefix(s.Head, "\x1f\x8b") }

// IsArchive reports whether the file is a tar archive within a gzip.
func (s *Source) IsArchive() bool { return s.ArchiveEntry() != "" }

// ArchiveEntry returns the name of the first file or folder in the tar archive within a gzip, without a
// leading ./; it is empty if the file is no such archive.
func (s *Source) ArchiveEntry() string {
	z, err := gzip.NewReader(io.NewSectionReader(s.File, 0, s.Size))
	if err != nil {
		return ""
	}
	// A block of tar begins with a name in 100 bytes, and has its sign at byte 257.
	packed := bufio.NewReaderSize(z, 512)
	block, err := packed.Peek(512)
	if err != nil || string(block[257:262]) != "ustar" {
		return ""
	}
	// Python's tarfile writes times of entries in a block of their own before each, which Next skips.
	archive := tar.NewReader(packed)
	for {
		entry, err := archive.Next()
		switch {
		case err != nil:
			// A damaged archive is one still.
			return strings.TrimRight(string(block[:100]), "\x00")
		case path.Clean(entry.Name) != ".":
			return strings.TrimPrefix(entry.Name, "./")
		}
	}
}

// Reading is how far the reading of a data set is, for those who wait for it. A nil
// *Reading notes nothing. It is safe for concurrent use.
type Reading struct {
	// path is the file that is being read; empty while nothing is.
	path atomic.Value
	// total is the number of bytes to read, and done the number of those that have been read.
	total, done atomic.Int64
}

// Begin starts the count from 0: from now on the source at path, of size bytes, is read. It does nothing for
// a nil Reading.
func (r *Reading) Begin(path string, size int64) {
	if r != nil {
		r.done.Store(0)
		r.total.Store(size)
		r.path.Store(path)
	}
}

// End notes that the reading is over. It does nothing for a nil Reading.
func (r *Reading) End() {
	if r != nil {
		r.path.Store("")
	}
}

// State returns the path of what is being read, empty if nothing is, and the share of its bytes that has been
// read, 0 to 1. After End the share is that of what was read last. It is 0 if the size is not known.
func (r *Reading) State() (path string, share float64) {
	if r == nil {
		return "", 0
	}
	if total := r.total.Load(); total > 0 {
		share = min(1, float64(r.done.Load())/float64(total))
	}
	path, _ = r.path.Load().(string)
	return path, share
}

// Counted returns a reader of the same content as in that adds the bytes read to the count. For a nil Reading
// it returns in.
func (r *Reading) Counted(in io.ReaderAt) io.ReaderAt {
	if r == nil {
		return in
	}
	return counted{in, &r.done}
}

// counted counts the bytes that are read from what it holds.
type counted struct {
	io.ReaderAt
	done *atomic.Int64
}

// ReadAt reads and counts the bytes.
func (c counted) ReadAt(b []byte, offset int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(b, offset)
	c.done.Add(int64(n))
	return n, err
}
