package table

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"

	"fedpace/data/federated"
	"fedpace/learn"
)

// maxVocabulary is the largest number of words of a bag, each of which is a feature: the most
// frequent ones of the training rows.
const maxVocabulary = 10_000

// maxRowWords bounds the known words of a text, whose counts have 16 bits.
const maxRowWords = math.MaxUint16

// wordsOf returns the words of a text: stretches of letters, marks and digits, in lower case.
func wordsOf(text []byte) []string {
	return strings.FieldsFunc(strings.ToLower(string(text)), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r)
	})
}

// bags makes the samples of a table of texts as bags of words, and returns s with them: each row is
// a sample, of which a model reads which words it has and how often, not their order. names are the
// clients, and clientRows has the rows of each. Held-out rows have no part in the choice of the
// words. Rows without a word of the vocabulary are left out, and a note says how many.
func (r *reading) bags(s federated.Grouped, names []string, clientRows [][]int32) (*federated.Grouped, error) {
	train := make([][]int32, len(names))
	held := make([][]int32, len(names))
	count := map[string]int{}
	for c := range names {
		train[c], held[c] = r.splitRows(c, clientRows[c])
		for _, row := range train[c] {
			for _, word := range wordsOf(r.text.row(row)) {
				count[word]++
			}
		}
	}
	vocabulary := mostFrequent(count, maxVocabulary)
	if len(vocabulary) == 0 {
		return nil, fmt.Errorf("column %s: no training row has a word", r.t.Text)
	}
	numberOf := make(map[string]uint16, len(vocabulary))
	for i, word := range vocabulary {
		numberOf[word] = uint16(i)
	}
	rows := &federated.BagRows{Starts: []uint32{0}}
	var labels []int32
	leftOut := 0
	// addBags adds the bags of some rows of the table and returns the numbers of the samples.
	addBags := func(tableRows []int32) (samples []int32, err error) {
		for _, row := range tableRows {
			var known []uint16
			for _, word := range wordsOf(r.text.row(row)) {
				if i, ok := numberOf[word]; ok {
					known = append(known, i)
				}
			}
			if len(known) > maxRowWords {
				return nil, fmt.Errorf("column %s, row %d: %d words, want at most %d", r.t.Text, row+1, len(known), maxRowWords)
			}
			if len(known) == 0 {
				leftOut++
				continue
			}
			rows.Add(known)
			samples = append(samples, int32(len(labels)))
			labels = append(labels, s.Labels[row])
		}
		return samples, nil
	}
	g := federated.Grouping{HeldOutOnly: r.options.HeldOutOnly, Marked: r.split != nil || r.heldOut != nil}
	for c, name := range names {
		trainRows, err := addBags(train[c])
		if err != nil {
			return nil, err
		}
		heldRows, err := addBags(held[c])
		if err != nil {
			return nil, err
		}
		g.Add(name, trainRows, heldRows)
	}
	s.Rows = rows
	s.Labels = labels
	s.About.Input = learn.Sparse
	s.About.Features = len(vocabulary)
	s.About.Columns = vocabulary
	if leftOut > 0 {
		s.About.AddNote("%d rows without a word of the training rows' %d left out", leftOut, len(vocabulary))
	}
	return g.Set(s)
}

// mostFrequent returns the n words with the highest counts, the most frequent first, and of equally
// frequent ones the first in the order of their letters.
func mostFrequent(count map[string]int, n int) []string {
	words := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
	return words[:min(n, len(words))]
}
