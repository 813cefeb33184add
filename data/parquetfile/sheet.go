package parquetfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/parquet-go/parquet-go"

	"fedpace/data/federated"
)

// Damaged turns a panic of the Parquet library into an error, which it stores in err. It must be
// deferred itself, as in defer Damaged(&err).
func Damaged(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("damaged Parquet file: %v", p)
	}
}

// Sheet is one or several Parquet files with the same columns, one after the
// other. It is read column by column and, within a column, by row group.
type Sheet struct {
	// Files are the files in the order of their rows.
	Files []*File
	// groups are the row groups of all files, in the order of their rows.
	groups []rowGroup
	// Rows is the number of rows that the files claim to have.
	Rows int
}

// rowGroup is a row group of one of the sheet's files.
type rowGroup struct {
	*File
	// group is the number of the row group in the file, start is its first row in the sheet, and
	// rows is how many rows it has.
	group, start, rows int
}

// location returns the words for the part of a column in this row group, for errors. They include
// the name of the file if it has one.
func (g *rowGroup) location(column string) string {
	location := fmt.Sprintf("column %s, row group %d", column, g.group)
	if g.Name != "" {
		return g.Name + ": " + location
	}
	return location
}

// Join makes one sheet of files with the same columns, whose rows follow one another in the order
// of the files.
func Join(files ...*File) *Sheet {
	t := &Sheet{Files: files}
	for _, file := range files {
		for g, group := range file.groups {
			t.groups = append(t.groups, rowGroup{
				File:  file,
				group: g,
				start: t.Rows,
				rows:  int(group.NumRows),
			})
			t.Rows += int(group.NumRows)
		}
	}
	return t
}

// Check returns an error if the number of rows that the files claim cannot be true: it is 0,
// exceeds federated.MaxSamples, or needs more bytes than files of this size can hold. A row takes at least
// width bytes.
func (t *Sheet) Check(width int) error {
	total := 0
	for _, g := range t.groups {
		total += g.rows
		if g.rows < 0 || g.rows > federated.MaxSamples || total > federated.MaxSamples {
			return fmt.Errorf("damaged: %d rows in one group", g.rows)
		}
	}
	if total == 0 {
		return errors.New("no row; want at least one sample")
	}
	if size, limit := t.sizeAndLimit(); int64(total) > limit/int64(width) {
		return fmt.Errorf("damaged: a file of %d bytes claims %d rows of %d bytes", size, total, width)
	}
	return nil
}

// sizeAndLimit returns the size of all files in bytes, and the largest number of bytes that the values
// of files of this size can take: no real file has more than expansion bytes of values for each of its own, beyond
// slack.
func (t *Sheet) sizeAndLimit() (size, limit int64) {
	for _, file := range t.Files {
		size += file.size
	}
	return size, size*expansion + slack
}

// Room returns for how many rows of width bytes each memory may be reserved: the number that the
// files claim, unless files of this size cannot hold as many.
func (t *Sheet) Room(width int) int {
	_, limit := t.sizeAndLimit()
	return int(min(int64(t.Rows), limit/int64(width), int64(math.MaxInt/width)))
}

// HasColumn reports whether every file has a column of this name.
func (t *Sheet) HasColumn(name string) bool {
	return !slices.ContainsFunc(t.Files, func(f *File) bool { return f.byName[name] == nil })
}

// Field returns the description of the column of this name in the first file; nil if there is none.
func (t *Sheet) Field(name string) *Field { return t.Files[0].byName[name] }

// Names returns the names of the columns of the first file, in its order.
func (t *Sheet) Names() (names []string) {
	for _, f := range t.Files[0].fields {
		names = append(names, f.Name)
	}
	return names
}

// Columns has, for the name of each column to read, the function that takes its values, each with
// its row.
type Columns = map[string]func(row int, v parquet.Value) error

// Each reads columns that have exactly one value in each row, on all processors at the same time: a
// function must expect calls for different row groups at once. If several columns fail, the error
// is that of the first row group.
func (t *Sheet) Each(values Columns) error {
	names := slices.Sorted(maps.Keys(values))
	errs := make([]error, len(t.groups)*len(names))
	// Errors are stored by their place and not returned, so that the first in order can be reported
	// whichever processor was faster.
	_ = federated.Each(len(errs), func(i int) error {
		defer Damaged(&errs[i])
		name := names[i%len(names)]
		errs[i] = t.values(i/len(names), name, OneValue, Taker{Value: values[name]})
		return nil
	})
	return cmp.Or(errs...)
}

// Content says how many values each row of a column may have.
type Content bool

const (
	// OneValue means exactly one: a row with a list or without a value is an error.
	OneValue Content = true
	// AnyValues means any number: the values of a list come one by one, all with its row.
	AnyValues Content = false
)

// Values calls take with the values of one column, row by row, with the number of the row. content says how
// many values a row may have. A value is valid only during the call.
func (t *Sheet) Values(name string, content Content, take func(row int, v parquet.Value) error) error {
	return t.Take(name, content, Taker{Value: take})
}

// Take hands the values of one column to taker, row by row. content says how many values a row may have.
func (t *Sheet) Take(name string, content Content, taker Taker) error {
	for g := range t.groups {
		if err := t.values(g, name, content, taker); err != nil {
			return err
		}
	}
	return nil
}

// values hands the values of one column in one row group to taker, in the order of the rows, which
// are numbered within the sheet. content says how many values a row may have. It returns an error if the
// column has more or fewer rows than the row group claims.
func (t *Sheet) values(group int, name string, content Content, taker Taker) error {
	g := t.groups[group]
	location := g.location(name)
	r := &rowReader{
		first:   g.start,
		until:   g.start + g.rows,
		field:   g.byName[name],
		content: content,
		taker:   taker,
		lastRow: g.start - 1,
	}
	err := g.read(name, r)
	if err != nil && r.isRefused {
		location = fmt.Sprintf("%s, value %d", location, r.valueIndex)
	}
	if found := r.lastRow + 1 - g.start; err == nil && found != g.rows {
		err = fmt.Errorf("%d rows, want %d", found, g.rows)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", location, err)
	}
	return nil
}

// rowReader hands the values of a column in one row group to a taker, and finds the row of each.
type rowReader struct {
	// first is the group's first row in the sheet, and until the row behind its last. Rows are numbered from 0 across
	// the row groups of all files.
	first, until int
	// field is the column; nil if the file has none of this name.
	field *Field
	// content says how many values a row may have.
	content Content
	taker   Taker

	// lastRow is the row of the last value; first-1 before the first value.
	lastRow int
	// valueIndex is the number, counted from 0, of the next value in the row group. If isRefused is set, it is that
	// of the value that was refused.
	valueIndex int
	// isRefused says that a value was refused, at which the reading ended.
	isRefused bool
}

// takeValue hands the next value to the taker. It returns an error if the row may not have the value, or the
// taker's error.
func (r *rowReader) takeValue(v parquet.Value) (err error) {
	// DuckDB 2.0 writes a null of a type such as DOUBLE[3] as three values that are elements of no list. The first
	// of them, which begins the row, stands for the null, and the others are passed over.
	isSpurious := v.RepetitionLevel() > 0 && r.field.Lists() == 1 && !r.field.IsElement(v)
	if isSpurious {
		r.valueIndex++
		return nil
	}
	// A repetition level of 0 begins a row; any other continues the list of the present one.
	beginsRow := v.RepetitionLevel() == 0
	isBehindLastRow := beginsRow && r.lastRow+1 == r.until
	isBeforeFirstRow := !beginsRow && r.lastRow < r.first
	switch {
	case isBehindLastRow || isBeforeFirstRow:
		err = fmt.Errorf("more than the row group's %d rows", r.until-r.first)
	case r.content == OneValue && !beginsRow:
		err = errors.New("a list of several values; want one value in a row")
	case r.content == OneValue && v.IsNull():
		err = errors.New("no value (null)")
	default:
		if beginsRow {
			r.lastRow++
		}
		err = r.taker.Value(r.lastRow, v)
	}
	if err != nil {
		r.isRefused = true
		return err
	}
	r.valueIndex++
	return nil
}

// takeNumbers hands all numbers of a page to the taker at once. levels are their repetition levels: 0 begins a
// row, and any other level continues its list; nil means that each number has a row of its own. It reports false,
// and hands out none, if the taker wants the numbers one by one, or if one of them may be an error, which
// takeValue finds.
func (r *rowReader) takeNumbers(numbers []float64, levels []byte) (taken bool, err error) {
	if len(numbers) == 0 {
		return false, nil
	}
	// newRows is how many rows begin in the page, and row the row of the first number.
	newRows := len(numbers)
	row := r.lastRow + 1
	if levels != nil {
		newRows = bytes.Count(levels, []byte{0})
		// The first value may continue the list with which the page before ended.
		if levels[0] > 0 {
			row = r.lastRow
		}
	}
	// The last row of the page must lie before until, the end of the row group.
	isInside := row >= r.first && r.lastRow+newRows < r.until
	hasLists := newRows < len(numbers)
	if !isInside || hasLists && r.content == OneValue {
		return false, nil
	}
	taken, err = r.taker.Numbers(Numbers{Row: row, Values: numbers, Levels: levels})
	if taken {
		r.lastRow += newRows
		r.valueIndex += len(numbers)
	}
	return taken, err
}

// read hands the values of a column in the row group to r, in order. It returns an error if
// the column is absent or is a group that cannot be read as one column.
func (g *rowGroup) read(column string, r *rowReader) error {
	f := g.byName[column]
	switch {
	case f == nil:
		return errors.New("is absent")
	case f.leaf == nil:
		return fmt.Errorf("found %s, want one column, a list, or an image with its bytes", f.typeName)
	}
	s, err := g.stream(g.group, f)
	if err != nil {
		return err
	}
	// The stream is reused, since its buffers are large.
	defer streams.Put(s)
	pages := g.chunks[f.leaf.Index()].(*parquet.FileColumnChunk).PagesFrom(s)
	defer pages.Close()
	for {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = s.readPage(page, r)
			parquet.Release(page)
		}
		if err != nil {
			return err
		}
	}
}

// readPage hands the values of a page to r: numbers at once where that is possible, and others one by one.
func (s *stream) readPage(page parquet.Page, r *rowReader) error {
	if r.taker.Numbers == nil {
		return s.readValues(page, r.takeValue)
	}
	if numbers, ok := s.numbers(r.field, page); ok {
		taken, err := r.takeNumbers(numbers, page.RepetitionLevels())
		if taken || err != nil {
			return err
		}
	}
	return s.readValues(page, r.takeValue)
}

// readValues calls take with the values of a page. The bytes of a value in a dictionary are charged
// to the file each time that the page refers to it, because a taker may keep a copy of each.
func (t *File) readValues(page parquet.Page, take func(v parquet.Value) error) error {
	kind := page.Type().Kind()
	hasBytes := kind == parquet.ByteArray || kind == parquet.FixedLenByteArray
	isCharged := page.Dictionary() != nil && hasBytes
	var buffer [256]parquet.Value
	for values := page.Values(); ; {
		n, err := values.ReadValues(buffer[:])
		for _, v := range buffer[:n] {
			if isCharged {
				if err := t.spend(int64(len(v.ByteArray()))); err != nil {
					return err
				}
			}
			if err := take(v); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		// Without this case a damaged page could keep the loop running for ever.
		case err == nil && n == 0:
			return io.ErrNoProgress
		case err != nil:
			return err
		}
	}
}
