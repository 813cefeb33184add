package data

import (
	"strings"

	"fedpace/actors/data/federated"
	"fedpace/actors/data/text"
)

func init() { Readers.Register("sent140", "Sentiment140's CSV, CSV.gz or zip", Sent140{}) }

// Sent140 reads Sentiment140's tweets (Go et al. 2009).
type Sent140 struct{}

// Recognises implements [Reader].
func (Sent140) Recognises(s *Source) Match {
	switch {
	case s.isZip() && text.ZippedTweets(s.File, s.Size) != nil, s.isGzip() && !s.isArchive():
		return ByContent
	case !s.Folder && strings.HasSuffix(s.Name(), ".csv"), len(s.Head) > 1 && s.Head[1] == '\t':
		return ByName
	}
	return NoMatch
}

// Open implements [Reader].
func (Sent140) Open(s *Source, o federated.Options) (federated.Set, error) {
	if s.isZip() {
		if entry := text.ZippedTweets(s.File, s.Size); entry != nil {
			return text.OpenZippedTweets(s.Path, entry, o)
		}
	}
	return text.OpenTweets(s.Path, s.File, o)
}

func init() {
	Readers.Register("shakespeare", "Project Gutenberg's Shakespeare as text or zip", Shakespeare{})
}

// Shakespeare reads Project Gutenberg's Complete Works (etext 100).
type Shakespeare struct{}

// Recognises implements [Reader].
func (Shakespeare) Recognises(s *Source) Match {
	if s.isZip() && text.ZippedTweets(s.File, s.Size) == nil || strings.HasPrefix(s.Head, "The Project Gute") {
		return ByContent
	}
	return NoMatch
}

// Open implements [Reader].
func (Shakespeare) Open(s *Source, o federated.Options) (federated.Set, error) {
	return text.OpenShakespeare(s.Path, s.File, s.Size, o)
}
