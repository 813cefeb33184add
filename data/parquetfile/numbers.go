package parquetfile

import (
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"
)

// Numbers are values of a column of numbers, one behind the other, none of them null. Handing out a page at
// once costs a twentieth of handing out its values one by one.
type Numbers struct {
	// Row is the sheet's row of the first value.
	Row int
	// Values are the numbers. They are valid only during the call.
	Values []float64
	// Levels are the repetition levels of the values of a column of lists: 0 begins a row, and 1 continues
	// the list of the row before. nil means that each value has a row of its own.
	Levels []byte
}

// Taker takes the values of a column in their order.
type Taker struct {
	// Value takes one value with its row. The value is valid only during the call.
	Value func(row int, v parquet.Value) error
	// Numbers takes all numbers of a page. If it reports false it has taken none, and Value gets them one by
	// one. A nil function never takes any.
	Numbers func(n Numbers) (taken bool, err error)
}

// IsSingle reports whether every value of the column is a float32.
func (f *Field) IsSingle() bool { return f.leaf != nil && f.leaf.Type().Kind() == parquet.Float }

// hasPlainNumbers reports whether the values of the column are what the file stores as numbers: floats and
// integers of 32 or 64 bits, neither decimals nor floats of 16 bits, alone or in lists that are not nested.
func (f *Field) hasPlainNumbers() bool {
	if f.Kind != KindNumber || f.scale != 0 || f.isHalf || f.Lists() > 1 {
		return false
	}
	switch f.leaf.Type().Kind() {
	case parquet.Float, parquet.Double:
		return true
	case parquet.Int32, parquet.Int64:
		return f.IsInteger
	}
	return false
}

// numbers returns the values of a page of column f as numbers, if each of them is exactly a float64 and none is
// null. The result is false for any other page, whose values must be read one by one. The numbers are valid
// until the next page of the stream.
func (s *stream) numbers(f *Field, page parquet.Page) ([]float64, bool) {
	if !f.hasPlainNumbers() || page.NumNulls() > 0 {
		return nil, false
	}
	isExact := false
	if dictionary := page.Dictionary(); dictionary == nil {
		s.numbersOfPage, isExact = appendNumbers(s.numbersOfPage[:0], f, page.Data())
	} else {
		isExact = s.lookUp(f, dictionary, page)
	}
	// A damaged page may have other values than its levels announce.
	isComplete := int64(len(s.numbersOfPage)) == page.NumValues()
	return s.numbersOfPage, isExact && isComplete
}

// lookUp fills s.numbersOfPage with the numbers that a page stores as places in a dictionary. It reports
// whether each number of the dictionary is exactly a float64.
func (s *stream) lookUp(f *Field, dictionary parquet.Dictionary, page parquet.Page) bool {
	// All pages of a chunk have the same dictionary, which is converted once.
	if s.dictionary != dictionary {
		s.dictionary = dictionary
		s.numbersOfDictionary, s.isDictionaryExact = appendNumbers(
			s.numbersOfDictionary[:0],
			f,
			dictionary.Page().Data(),
		)
	}
	if !s.isDictionaryExact {
		return false
	}
	data := page.Data()
	places := data.Int32()
	s.numbersOfPage = slices.Grow(s.numbersOfPage[:0], len(places))
	for _, place := range places {
		s.numbersOfPage = append(s.numbersOfPage, s.numbersOfDictionary[place])
	}
	return true
}

// appendNumbers appends the values of a page of column f to numbers. It reports false, and the result is
// incomplete, if the values have another type than the column or if one is no exact float64.
func appendNumbers(numbers []float64, f *Field, values encoding.Values) ([]float64, bool) {
	switch f.leaf.Type().Kind() {
	case parquet.Float:
		stored := values.Float()
		numbers = slices.Grow(numbers, len(stored))
		for _, x := range stored {
			numbers = append(numbers, float64(x))
		}
		return numbers, true
	case parquet.Double:
		return append(numbers, values.Double()...), true
	case parquet.Int32:
		stored := values.Int32()
		numbers = slices.Grow(numbers, len(stored))
		for _, n := range stored {
			if f.unsigned {
				numbers = append(numbers, float64(uint32(n)))
			} else {
				numbers = append(numbers, float64(n))
			}
		}
		return numbers, true
	case parquet.Int64:
		stored := values.Int64()
		numbers = slices.Grow(numbers, len(stored))
		for _, n := range stored {
			// An unsigned number of 2^63 and above has the bits of a negative one.
			if !isExact(n) || f.unsigned && n < 0 {
				return numbers, false
			}
			numbers = append(numbers, float64(n))
		}
		return numbers, true
	}
	return numbers, false
}
