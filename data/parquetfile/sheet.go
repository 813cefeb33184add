package parquetfile

import (
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

// Damaged, deferred, turns a panic of the Parquet library into an error.
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

// location names a column's part in the row group, for errors.
func (g *rowGroup) location(column string) string {
	location := fmt.Sprintf("column %s, row group %d", column, g.group)
	if g.Name != "" {
		return g.Name + ": " + location
	}
	return location
}

// Join makes one sheet of files with the same columns, one behind the other.
func Join(files ...*File) *Sheet {
	t := &Sheet{Files: files}
	for _, file := range files {
		for g, group := range file.groups {
			t.groups = append(t.groups, rowGroup{file, g, t.Rows, int(group.NumRows)})
			t.Rows += int(group.NumRows)
		}
	}
	return t
}

// Check looks at the number of rows. Nothing real compresses a row of width
// bytes to less than a thousandth of them.
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
	if size, limit := t.believed(); int64(total) > limit/int64(width) {
		return fmt.Errorf("damaged: a file of %d bytes claims %d rows of %d bytes", size, total, width)
	}
	return nil
}

// believed returns the size of all files in bytes, and how many bytes of values files of that size may
// hold: a real file does not compress better.
func (t *Sheet) believed() (size, limit int64) {
	for _, file := range t.Files {
		size += file.size
	}
	return size, size*expansion + slack
}

// Room is how many rows of a width there is to make room for: those that are claimed, as far as
// their bytes are believed.
func (t *Sheet) Room(width int) int {
	_, limit := t.believed()
	return int(min(int64(t.Rows), limit/int64(width), int64(math.MaxInt/width)))
}

// HasColumn tells whether every file has the column.
func (t *Sheet) HasColumn(name string) bool {
	return !slices.ContainsFunc(t.Files, func(f *File) bool { return f.byName[name] == nil })
}

// Field describes a column of the first file, the first one of the name.
func (t *Sheet) Field(name string) *Field { return t.Files[0].byName[name] }

// Names are the columns of the first file.
func (t *Sheet) Names() (names []string) {
	for _, f := range t.Files[0].fields {
		names = append(names, f.Name)
	}
	return names
}

// Columns are the functions that take the values of columns.
type Columns = map[string]func(row int, v parquet.Value) error

// Each reads columns of one value per row, row groups and columns on all
// processors. Of several errors it returns that of the first row group.
func (t *Sheet) Each(values Columns) error {
	names := slices.Sorted(maps.Keys(values))
	errs := make([]error, len(t.groups)*len(names))
	// Errors are stored by their place and not returned, so that the first in order can be reported
	// whichever processor was faster.
	_ = federated.Each(len(errs), func(i int) error {
		defer Damaged(&errs[i])
		name := names[i%len(names)]
		errs[i] = t.values(i/len(names), name, true, values[name])
		return nil
	})
	return cmp.Or(errs...)
}

// Values calls take with the values of one column, row by row; those of a list, which
// oneValue does not allow, come one by one, all with its row. They are valid during the
// call only.
func (t *Sheet) Values(name string, oneValue bool, take func(row int, v parquet.Value) error) error {
	for g := range t.groups {
		if err := t.values(g, name, oneValue, take); err != nil {
			return err
		}
	}
	return nil
}

// values calls take with the values of one column in one row group, in the order of the rows, which are
// numbered within the sheet. With oneValue, each row must have exactly one value. It fails if the column
// has more or fewer rows than the row group claims.
func (t *Sheet) values(group int, name string, oneValue bool, take func(row int, v parquet.Value) error) error {
	g := t.groups[group]
	row := g.start - 1
	number := 0
	until := g.start + g.rows
	location := g.location(name)
	field := g.byName[name]
	err := g.read(name, func(v parquet.Value) (err error) {
		// DuckDB 2.0 writes a null of a type such as DOUBLE[3] as three entries of a list that is absent.
		// The first one stands for it.
		isSpurious := v.RepetitionLevel() > 0 && field.Lists() == 1 && !field.IsElement(v)
		if isSpurious {
			number++
			return nil
		}
		// A repetition level of 0 begins a row; any other continues the list of the present one.
		switch next := v.RepetitionLevel() == 0; {
		case next && row+1 == until, !next && row < g.start:
			err = fmt.Errorf("more than the row group's %d rows", g.rows)
		case oneValue && !next:
			err = errors.New("a list of several values; want one value in a row")
		case oneValue && v.IsNull():
			err = errors.New("no value (null)")
		default:
			if next {
				row++
			}
			err = take(row, v)
		}
		if err != nil {
			location = fmt.Sprintf("%s, value %d", location, number)
		}
		number++
		return err
	})
	if found := row + 1 - g.start; err == nil && found != g.rows {
		err = fmt.Errorf("%d rows, want %d", found, g.rows)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", location, err)
	}
	return nil
}

// read calls take with the values of a column in the row group, in order.
func (g *rowGroup) read(column string, take func(v parquet.Value) error) error {
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
	defer streams.Put(s)
	pages := g.chunks[f.leaf.Index()].(*parquet.FileColumnChunk).PagesFrom(s)
	defer pages.Close()
	for {
		page, err := pages.ReadPage()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = g.readPage(page, take)
			parquet.Release(page)
		}
		if err != nil {
			return err
		}
	}
}

// readPage calls take with the values of a page. Those that lie in a dictionary are charged
// each time that the page refers to them: a taker may keep a copy.
func (t *File) readPage(page parquet.Page, take func(v parquet.Value) error) error {
	kind := page.Type().Kind()
	charged := page.Dictionary() != nil && (kind == parquet.ByteArray || kind == parquet.FixedLenByteArray)
	var buffer [256]parquet.Value
	for values := page.Values(); ; {
		n, err := values.ReadValues(buffer[:])
		for _, v := range buffer[:n] {
			if charged {
				if err := t.spend(int64(len(v.ByteArray()))); err != nil {
					return err
				}
			}
			if err := take(v); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF:
			return nil
		// Without this case a damaged page could keep the loop running for ever.
		case err == nil && n == 0:
			return io.ErrNoProgress
		case err != nil:
			return err
		}
	}
}
