package table

import (
	"fmt"
	"math"
	"slices"

	"fedpace/actors/data/federated"
)

// maxWords bounds the different words of a column, each of which is a feature.
const maxWords = 1000

// words takes a column of few words.
type words struct{ nameColumn }

func (w *words) take(row int, c cell) error {
	if err := w.nameColumn.take(row, c); err != nil || len(w.List) <= maxWords {
		return err
	}
	return fmt.Errorf("more than %d different words; want few, or text for a column of sentences", maxWords)
}

// maxHot bounds the values of features and words together, also where an int has 32 bits.
const maxHot = math.MaxInt32

// addWords puts a feature for each word behind the others, in the order of the words: 1 where
// the row has it, 0 where it has another. No scale changes them. A row without a word has the
// words' shares of the training rows.
func (r *reading) addWords(s *federated.Grouped, values []float32, width int, train []int32) ([]float32, int, error) {
	all := width
	for _, w := range r.words {
		if all += len(w.List); all > maxFeatures || r.rows > maxHot/all {
			return nil, 0, fmt.Errorf("words: %d rows of %d features and words are too many; want columns of fewer words", r.rows, all)
		}
	}
	s.About.Columns = slices.Clip(s.About.Columns) // the mapping's own
	for i, w := range r.words {
		order := slices.Sorted(slices.Values(w.List))
		hot, n := make([]float32, r.rows*len(order)), len(order)
		for row, own := range w.of {
			at := hot[row*n:][:n]
			for j := range at {
				switch {
				case own < 0:
					at[j] = nan
				case order[j] == w.List[own]:
					at[j] = 1
				}
			}
		}
		share, _ := moments(hot, n, train)
		fillHoles(hot, share)
		values, width = beside(values, width, hot, n, r.rows), width+n
		for _, word := range order {
			s.About.Columns = append(s.About.Columns, r.t.Words[i]+federated.WordOf+word)
			if s.About.Mean != nil {
				s.About.Mean, s.About.Deviation = append(s.About.Mean, 0), append(s.About.Deviation, 1)
			}
		}
	}
	return values, width, nil
}

// beside puts the rows of one matrix behind those of another.
func beside(a []float32, aWidth int, b []float32, bWidth, rows int) []float32 {
	both := make([]float32, 0, rows*(aWidth+bWidth))
	for row := range rows {
		both = append(append(both, a[row*aWidth:][:aWidth]...), b[row*bWidth:][:bWidth]...)
	}
	return both
}
