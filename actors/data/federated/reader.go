package federated

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"

	"fedpace/internal/registry"
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
	NoMatch   Match = iota
	ByName          // of the file, or a folder that nothing speaks against
	ByContent       // first bytes, or the files in a folder
)

// Source is a file or folder that may hold a set.
type Source struct {
	Path   string
	Folder bool
	Head   string   // up to 16 bytes that the file begins with
	File   *os.File // at its start
	Size   int64    // of the file
}

// Name is the last part of the path in lower case.
func (s *Source) Name() string { return strings.ToLower(filepath.Base(s.Path)) }

// Content is the file's, of which reading is told; that may be nil.
func (s *Source) Content(reading *Reading) io.Reader {
	return io.NewSectionReader(reading.At(s.File), 0, s.Size)
}

func (s *Source) IsZip() bool  { return strings.HasPrefix(s.Head, "PK\x03\x04") }
func (s *Source) IsGzip() bool { return strings.HasPrefix(s.Head, "\x1f\x8b") }

// IsArchive tells whether a gzip holds a tar archive.
func (s *Source) IsArchive() bool {
	z, err := gzip.NewReader(io.NewSectionReader(s.File, 0, s.Size))
	if err != nil {
		return false
	}
	var block [512]byte
	_, err = io.ReadFull(z, block[:])
	return err == nil && string(block[257:262]) == "ustar"
}
