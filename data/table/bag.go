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
	for c := range names {
		train[c], held[c] = r.splitRows(c, clientRows[c])
	}
	vocabulary := r.vocabulary(train)
	if len(vocabulary) == 0 {
		return nil, fmt.Errorf("column %s: no training row has a word", r.t.Text)
	}
	bags := newBagList(vocabulary)
	g := r.newGrouping()
	for c, name := range names {
		trainSamples, err := r.addBags(bags, train[c], s.Labels)
		if err != nil {
			return nil, err
		}
		heldSamples, err := r.addBags(bags, held[c], s.Labels)
		if err != nil {
			return nil, err
		}
		g.Add(name, trainSamples, heldSamples)
	}
	s.Rows = bags.rows
	s.Labels = bags.labels
	s.About.Input = learn.Sparse
	s.About.Features = len(vocabulary)
	s.About.Columns = vocabulary
	if bags.leftOut > 0 {
		s.About.AddNote("%d rows without a word of the training rows' %d left out", bags.leftOut, len(vocabulary))
	}
	return g.Set(s)
}

// vocabulary returns the most frequent words of the texts of these rows, which are listed by client: at most
// maxVocabulary, the most frequent first.
func (r *reading) vocabulary(clientRows [][]int32) []string {
	count := map[string]int{}
	for _, rows := range clientRows {
		for _, row := range rows {
			for _, word := range wordsOf(r.text.row(row)) {
				count[word]++
			}
		}
	}
	return mostFrequent(count, maxVocabulary)
}

// bagList collects texts as bags of words, each a sample with its label.
type bagList struct {
	// numberOf gives the number of each word of the vocabulary. Other words are not counted.
	numberOf map[string]uint16
	rows     *federated.BagRows
	labels   []int32
	// leftOut counts the texts without a word of the vocabulary, which are no samples.
	leftOut int
}

// newBagList returns a list without samples, for texts of which these words count.
func newBagList(vocabulary []string) *bagList {
	numberOf := make(map[string]uint16, len(vocabulary))
	for i, word := range vocabulary {
		numberOf[word] = uint16(i)
	}
	return &bagList{numberOf: numberOf, rows: &federated.BagRows{Starts: []uint32{0}}}
}

// addBags adds the texts of some rows of the table to the list and returns the numbers of their samples. labels has
// the label of every row of the table.
func (r *reading) addBags(bags *bagList, tableRows []int32, labels []int32) (samples []int32, err error) {
	for _, row := range tableRows {
		var known []uint16
		for _, word := range wordsOf(r.text.row(row)) {
			if i, ok := bags.numberOf[word]; ok {
				known = append(known, i)
			}
		}
		if len(known) > maxRowWords {
			return nil, fmt.Errorf(
				"column %s, row %d: %d words, want at most %d",
				r.t.Text,
				row+1,
				len(known),
				maxRowWords,
			)
		}
		if len(known) == 0 {
			bags.leftOut++
			continue
		}
		bags.rows.Add(known)
		samples = append(samples, int32(len(bags.labels)))
		bags.labels = append(bags.labels, labels[row])
	}
	return samples, nil
}

// mostFrequent returns the n words with the highest counts, the most frequent first, and of equally
// frequent ones the first in the order of their letters.
func mostFrequent(count map[string]int, n int) []string {
	words := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
	return words[:min(n, len(words))]
}
