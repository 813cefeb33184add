package data

import (
	"archive/zip"
	"fmt"
	"strings"

	"fedpace/actors/data/federated"
	"fedpace/actors/data/text"
)

func init() {
	Readers.Register("sent140", "Sentiment140's CSV, CSV.gz or zip", Sent140{})
	Readers.Register("shakespeare", "Project Gutenberg's Shakespeare as text or zip", Shakespeare{})
}

// Sent140 reads Sentiment140's tweets (Go et al. 2009): its CSV, plain, gzip or
// zip; or tweets without users, polarity and text apart by a tab.
type Sent140 struct{}

func (Sent140) Recognises(s *Source) Match {
	switch {
	case s.isZip() && text.ZippedTweets(s.File, s.Size) != nil, s.isGzip() && !s.isArchive():
		return ByContent
	case !s.Folder && strings.HasSuffix(s.Name(), ".csv"), len(s.Head) > 1 && s.Head[1] == '\t':
		return ByName
	}
	return NoMatch
}

func (Sent140) Open(s *Source, o federated.Options) (federated.Set, error) {
	if s.isZip() {
		if entry := text.ZippedTweets(s.File, s.Size); entry != nil {
			return readZippedTweets(entry, o)
		}
	}
	return text.ReadTweets(s.File, o)
}

// readZippedTweets reads the CSV without unpacking it to disk. The set is that of
// the CSV, by its digest too.
func readZippedTweets(entry *zip.File, opt federated.Options) (*federated.Grouped, error) {
	r, err := entry.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	s, err := text.ReadTweets(r, opt)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", entry.Name, err)
	}
	return s, nil
}

// Shakespeare reads Project Gutenberg's Complete Works (etext 100).
type Shakespeare struct{}

func (Shakespeare) Recognises(s *Source) Match {
	if s.isZip() && text.ZippedTweets(s.File, s.Size) == nil || strings.HasPrefix(s.Head, "The Project Gute") {
		return ByContent
	}
	return NoMatch
}

func (Shakespeare) Open(s *Source, o federated.Options) (federated.Set, error) {
	return text.ReadShakespeare(s.File, s.Size, o)
}
