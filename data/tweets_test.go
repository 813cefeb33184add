package data

import (
	"archive/zip"
	"bytes"
	"slices"
	"strings"
	"testing"

	"fedpace/data/federated"
)

// Vocabulary: the most frequent words, ties by first appearance, case kept,
// the empty word between two spaces counted.
func TestVocabulary(t *testing.T) {
	got := vocabulary(4, slices.Values(strings.Split("the The  cat the dog  Cat", " ")))
	want := map[string]uint16{"the": 0, "": 1, "The": 2, "cat": 3}
	if len(got) != len(want) {
		t.Errorf("%v", got)
	}
	for w, i := range want {
		if got[w] != i {
			t.Errorf("%q is %d, want %d", w, got[w], i)
		}
	}
}

func FuzzZippedTweets(f *testing.F) {
	for _, csv := range []string{"\"4\",\"1\",\"Mon\",\"NO_QUERY\",\"u\",\"a b\"\n", "\"7\""} {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		w, err := z.Create("training.csv")
		if err == nil {
			_, err = w.Write([]byte(csv))
		}
		if err != nil {
			f.Fatal(err)
		}
		if err := z.Close(); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		entry := zippedTweets(bytes.NewReader(b), int64(len(b)))
		if entry == nil {
			return
		}
		if s, err := readZippedTweets(entry, federated.Options{MinTweets: 1}); err == nil && s.Clients() < 1 {
			t.Error("a set without clients")
		}
	})
}
