package data_test

import (
	"os"
	"strings"
	"testing"

	. "fedpace/actors/data"
	"fedpace/actors/data/federated"
	"fedpace/actors/learn"
)

// zeros is a set of one client with two samples.
type zeros struct{ federated.Set }

func (zeros) Info() federated.Info {
	return federated.Info{Name: "zeros", Samples: learn.Samples{Features: 1, Classes: 2}}
}
func (zeros) Clients() int                           { return 1 }
func (zeros) Samples(int) int                        { return 2 }
func (zeros) HeldOut() int                           { return 1 }
func (zeros) Client(int) string                      { return "only" }
func (zeros) Close() error                           { return nil }
func (zeros) Batch(*learn.Batch, int, []int32) error { return nil }

// zerosReader is a reader as another package may register one.
type zerosReader struct{}

func (zerosReader) Recognises(s *federated.Source) federated.Match {
	if s.Head == "zeros" {
		return federated.ByContent
	}
	return federated.NoMatch
}

func (zerosReader) Open(*federated.Source, federated.Options) (federated.Set, error) {
	return zeros{}, nil
}

func TestReaderOfAnotherPackage(t *testing.T) {
	federated.Readers.Register("zeros", "a file that says zeros", zerosReader{})
	path := t.TempDir() + "/x.csv" // whose name is another reader's
	if err := os.WriteFile(path, []byte("zeros"), 0o666); err != nil {
		t.Fatal(err)
	}
	s, err := Open(path, federated.Options{})
	if err != nil || s.Info().Name != "zeros" {
		t.Errorf("opened %v, %v", s, err)
	}
	if _, err := Open(path, federated.Options{Task: "femnist"}); err == nil || !strings.Contains(err.Error(), "found zeros, which is not data of task femnist: set task: custom") {
		t.Errorf("as a task's: %v", err)
	}
	if s, err := OpenWith(zerosReader{}, "", federated.Options{}); err != nil || s.Clients() != 1 {
		t.Errorf("opened %v, %v without a path", s, err)
	}
	if _, _, err := OpenPrepared(nil, path, t.TempDir()+"/prepared", federated.Options{}); err == nil {
		t.Error("a set whose samples nobody knows is prepared")
	}
}
