package data

import (
	"archive/zip"
	"crypto/sha256"
	"fmt"
	"io"
	"path"
	"strings"

	"fedpace/actors/data/federated"
)

// zippedTweets finds Sentiment140's training CSV in a zip as it is published,
// beside a small test file; nil where there is none.
func zippedTweets(f io.ReaderAt, size int64) *zip.File {
	z, err := zip.NewReader(f, size)
	if err != nil {
		return nil // whoever reads it says what is wrong
	}
	for _, entry := range z.File {
		name := strings.ToLower(path.Base(entry.Name))
		if strings.HasSuffix(name, ".csv") && !strings.HasPrefix(name, "test") {
			return entry
		}
	}
	return nil
}

// openZippedTweets reads the CSV without unpacking it to disk. The set is that
// of the CSV, by its digest too.
func openZippedTweets(name string, entry *zip.File, opt federated.Options) (*federated.Grouped, error) {
	s, err := readZippedTweets(entry, opt)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", name, entry.Name, err)
	}
	return s, nil
}

func readZippedTweets(entry *zip.File, opt federated.Options) (*federated.Grouped, error) {
	r, err := entry.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	h := sha256.New()
	s, err := readTweets(io.TeeReader(r, h), opt)
	if err != nil {
		return nil, err
	}
	s.About.Digest = opt.Digest("sent140", [sha256.Size]byte(h.Sum(nil)))
	return s, nil
}

func init() { Readers.Register("sent140", "Sentiment140's CSV, CSV.gz or zip", Sent140{}) }

// Sent140 reads Sentiment140's tweets (Go et al. 2009).
type Sent140 struct{}

// Recognises implements [Reader].
func (Sent140) Recognises(s *Source) Match {
	switch {
	case s.isZip() && zippedTweets(s.File, s.Size) != nil, s.isGzip() && !s.isArchive():
		return ByContent
	case !s.Folder && strings.HasSuffix(s.Name(), ".csv"), len(s.Head) > 1 && s.Head[1] == '\t':
		return ByName
	}
	return NoMatch
}

// Open implements [Reader].
func (Sent140) Open(s *Source, o federated.Options) (federated.Set, error) {
	if s.isZip() {
		if entry := zippedTweets(s.File, s.Size); entry != nil {
			return openZippedTweets(s.Path, entry, o)
		}
	}
	return openTweets(s.Path, s.File, o)
}
