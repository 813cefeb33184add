package text

import (
	"strings"
	"testing"
)

// Vocabulary: the most frequent words, ties by first appearance, case kept,
// the empty word between two spaces counted.
func TestVocabulary(t *testing.T) {
	c := newWordCount()
	for _, w := range strings.Split("the The  cat the dog  Cat", " ") {
		c.add(w)
	}
	got := c.vocabulary(4)
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
