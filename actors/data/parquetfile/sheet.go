package parquetfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"fedpace/actors/data/federated"
)

// Damaged, deferred, turns a panic of the Parquet library into an error.
func Damaged(err *error) {
	if p := recover(); p != nil {
		if fault, ok := p.(runtime.Error); ok && strings.Contains(fault.Error(), "nil pointer") {
			*err = errors.New("damaged Parquet file: a part that its footer names is absent")
			return
		}
		*err = fmt.Errorf("damaged Parquet file: %v", p)
	}
}

// Sheet is one or several Parquet files with the same columns, one after the
// other. It is read column by column and, within a column, by row group.
type Sheet struct {
	Files  []*File
	groups []rowGroup
	Rows   int
}

type rowGroup struct {
	*File
	group, start, rows int // its number in the file, its first row in the sheet, how many it has
}

// where names a column's part in the row group, for errors.
func (g *rowGroup) where(column string) string {
	where := fmt.Sprintf("column %s, row group %d", column, g.group)
	if g.Name != "" {
		return g.Name + ": " + where
	}
	return where
}

// Join joins files.
func Join(files ...*File) *Sheet {
	t := &Sheet{Files: files}
	for _, one := range files {
		for g, group := range one.groups {
			t.groups = append(t.groups, rowGroup{one, g, t.Rows, int(group.NumRows)})
			t.Rows += int(group.NumRows)
		}
	}
	return t
}

// Check looks at the number of rows. Nothing real compresses a row of width
// bytes to less than a thousandth of them.
func (t *Sheet) Check(width int) error {
	var size int64
	for _, one := range t.Files {
		size += one.size
	}
	total := 0
	for _, g := range t.groups {
		if total += g.rows; g.rows < 0 || g.rows > federated.MaxSamples || total > federated.MaxSamples {
			return fmt.Errorf("damaged: %d rows in one group", g.rows)
		}
	}
	if total == 0 {
		return errors.New("no row; want at least one sample")
	}
	if int64(total) > (size*expansion+slack)/int64(width) {
		return fmt.Errorf("damaged: a file of %d bytes claims %d rows of %d bytes", size, total, width)
	}
	return nil
}

// Has tells whether every file has the columns.
func (t *Sheet) Has(names ...string) bool {
	for _, one := range t.Files {
		if slices.ContainsFunc(names, func(n string) bool { return one.columns[n] == nil }) {
			return false
		}
	}
	return true
}

// Names are the columns of the first file, of which some may be groups.
func (t *Sheet) Names() []string {
	var names []string
	for _, c := range t.Files[0].root.Columns() {
		names = append(names, c.Name())
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
	_ = federated.Each(len(errs), func(i int) error { // which returns what it has stored
		defer Damaged(&errs[i])
		name := names[i%len(names)]
		errs[i] = t.column(i/len(names), name, values[name])
		return nil
	})
	return cmp.Or(errs...)
}

// InOrder reads one column, row by row.
func (t *Sheet) InOrder(name string, value func(row int, v parquet.Value) error) error {
	for g := range t.groups {
		if err := t.column(g, name, value); err != nil {
			return err
		}
	}
	return nil
}

// column reads a column of one value per row in one row group.
func (t *Sheet) column(group int, name string, value func(row int, v parquet.Value) error) error {
	i, g := 0, t.groups[group]
	err := t.values(group, name, func(v parquet.Value) error {
		if i == g.rows {
			return fmt.Errorf("more than the row group's %d rows", g.rows)
		}
		i++
		if v.IsNull() {
			return errors.New("no value (null)")
		}
		return value(g.start+i-1, v)
	})
	if err == nil && i < g.rows {
		err = fmt.Errorf("%s: %d values for %d rows", g.where(name), i, g.rows)
	}
	return err
}

// Values calls take with the values of one column, row by row; those of a list come
// one by one, all with its row. They are valid during the call only.
func (t *Sheet) Values(name string, take func(row int, v parquet.Value) error) error {
	row := -1
	for g, group := range t.groups {
		until := group.start + group.rows
		err := t.values(g, name, func(v parquet.Value) error {
			if v.RepetitionLevel() == 0 {
				row++
			}
			if row >= until || row < 0 {
				return fmt.Errorf("more than the row group's %d rows", group.rows)
			}
			return take(row, v)
		})
		if err == nil && row != until-1 {
			err = fmt.Errorf("%s: %d rows, want %d", group.where(name), row-group.start+1, group.rows)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// values calls f with the values of one column in one row group, in order.
// They are valid during the call only.
func (t *Sheet) values(group int, column string, f func(v parquet.Value) error) error {
	g := t.groups[group]
	where := g.where(column)
	leaf, err := g.leaf(column)
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	s, err := g.stream(g.group, leaf)
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	defer streams.Put(s)
	pages := g.chunks[leaf.Index()].(*parquet.FileColumnChunk).PagesFrom(s)
	defer pages.Close()
	number := 0
	err = readPages(pages, func(v parquet.Value) error {
		if err := f(v); err != nil {
			where = fmt.Sprintf("%s, value %d", where, number)
			return err
		}
		number++
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	return nil
}

// readPages calls f with the values of pages.
func readPages(pages parquet.Pages, f func(v parquet.Value) error) error {
	var buffer [256]parquet.Value
	for {
		page, err := pages.ReadPage()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		values := page.Values()
		for err == nil {
			var n int
			n, err = values.ReadValues(buffer[:])
			if n == 0 && err == nil {
				err = io.ErrNoProgress
			}
			for _, v := range buffer[:n] {
				if err := f(v); err != nil {
					parquet.Release(page)
					return err
				}
			}
		}
		parquet.Release(page)
		if err != io.EOF {
			return err
		}
	}
}
