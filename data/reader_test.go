package data_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "fedpace/data"
	"fedpace/data/federated"
	"fedpace/data/table"
	"fedpace/learn"
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

func TestReader_AnotherPackage(t *testing.T) {
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

// The reading of every layout is told, from its beginning to its end, and changes no set.
func TestReader_Reported(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"rows.csv":   "client,x,y,label\n" + strings.Repeat("a,1,2,0\nb,3,4,1\n", 5000),
		"tweets.csv": strings.Repeat(`"0","1","d","q","ann","a text"`+"\n"+`"4","2","d","q","ann","another"`+"\n", 2000),
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		var reader federated.Reader
		if name == "rows.csv" {
			reader = table.Table{Client: "client", Features: []string{"x", "y"}, Label: "label"}
		}
		var told federated.Reading
		opt := federated.Options{Seed: 1, Reading: &told}
		set, err := OpenWith(reader, path, opt)
		if err != nil {
			t.Fatal(err)
		}
		if at, share := told.State(); at != "" || share < 0.9 {
			t.Errorf("%s has been read: %q is being read, %v of it", name, at, share)
		}
		opt.Reading = nil
		same, err := OpenWith(reader, path, opt)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := set.Info().Digest, same.Info().Digest; a != b {
			t.Errorf("%s: the digest is %s where its reading is told, else %s", name, a, b)
		}
		if err := errors.Join(set.Close(), same.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// What is read through a reading counts, and the share never exceeds all.
func TestReader_Counts(t *testing.T) {
	var r federated.Reading
	if at, share := r.State(); at != "" || share != 0 {
		t.Errorf("%q is read before anything is, %v", at, share)
	}
	r.Begin("set.csv", 200)
	if n, err := io.CopyN(io.Discard, io.NewSectionReader(r.Counted(strings.NewReader(strings.Repeat("x", 200))), 0, 200), 82); n != 82 || err != nil {
		t.Fatal(n, err)
	}
	if at, share := r.State(); at != "set.csv" || share != 0.41 {
		t.Errorf("%q, %v, want set.csv, 0.41", at, share)
	}
	if _, err := r.Counted(strings.NewReader(strings.Repeat("x", 500))).ReadAt(make([]byte, 400), 0); err != nil {
		t.Fatal(err)
	}
	if _, share := r.State(); share != 1 {
		t.Errorf("share %v, want 1", share)
	}
	var none *federated.Reading
	none.Begin("x", 1)
	none.End()
	if in := strings.NewReader("x"); none.Counted(in) != io.ReaderAt(in) {
		t.Error("nothing is read through a nil reading")
	}
}
