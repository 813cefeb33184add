package data

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"fedpace/actors/data/federated"
)

// IsPrepared tells whether a file is one that OpenPrepared has written, whole
// or damaged. What cannot be read is none.
func IsPrepared(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var head [len(preparedMagic)]byte
	_, err = io.ReadFull(f, head[:])
	return err == nil && bytes.Equal(head[:], []byte(preparedMagic))
}

// openPreparedFile reads a prepared file for its own sake, without its source:
// its clients and its split are those that it was made with.
func openPreparedFile(path string, opt federated.Options) (opened, error) {
	if !opt.Partition.Natural() {
		return nil, fmt.Errorf("%s: a prepared file holds its clients; want the set that it was made from to deal samples anew", path)
	}
	s, err := readPrepared(path, "")
	if err != nil {
		return nil, fmt.Errorf("%w; prepare it again", err)
	}
	return s, nil
}

// Memory is what the samples take in the mapped file, and their index.
func (m *mapped) Memory() int {
	if s, ok := m.opened.(interface{ Memory() int }); ok {
		return s.Memory()
	}
	return 0
}

func init() { Readers.Register("prepared", "a prepared file", Prepared{}) }

// Prepared reads what [OpenPrepared] has written.
type Prepared struct{}

// Recognises implements [Reader].
func (Prepared) Recognises(s *Source) Match {
	if s.Head == preparedMagic {
		return ByContent
	}
	return NoMatch
}

// Open implements [Reader].
func (Prepared) Open(s *Source, o federated.Options) (federated.Set, error) {
	return openPreparedFile(s.Path, o)
}
