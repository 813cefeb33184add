package data

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

// damaged turns a panic of the Parquet library into an error.
func damaged(err *error) {
	if p := recover(); p != nil {
		if fault, ok := p.(runtime.Error); ok && strings.Contains(fault.Error(), "nil pointer") {
			*err = errors.New("damaged Parquet file: a part that its footer names is absent")
			return
		}
		*err = fmt.Errorf("damaged Parquet file: %v", p)
	}
}

// sheet is one or several Parquet files with the same columns, one after the
// other. It is read column by column and, within a column, by row group.
type sheet struct {
	tables []*table
	groups []rowGroup
	rows   int
}

type rowGroup struct {
	*table
	group, start, rows int // its number in the file, its first row in the sheet, how many it has
}

// where names a column's part in the row group, for errors.
func (g *rowGroup) where(column string) string {
	where := fmt.Sprintf("column %s, row group %d", column, g.group)
	if g.name != "" {
		return g.name + ": " + where
	}
	return where
}

// newSheet joins tables.
func newSheet(tables ...*table) *sheet {
	t := &sheet{tables: tables}
	for _, one := range tables {
		for g, group := range one.groups {
			t.groups = append(t.groups, rowGroup{one, g, t.rows, int(group.NumRows)})
			t.rows += int(group.NumRows)
		}
	}
	return t
}

// check looks at the number of rows. Nothing real compresses a row of width
// bytes to less than a thousandth of them.
func (t *sheet) check(width int) error {
	var size int64
	for _, one := range t.tables {
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

// has tells whether every file has the columns.
func (t *sheet) has(names ...string) bool {
	for _, one := range t.tables {
		if slices.ContainsFunc(names, func(n string) bool { return one.columns[n] == nil }) {
			return false
		}
	}
	return true
}

// columns are the functions that take the values of columns.
type columns = map[string]func(row int, v parquet.Value) error

// each reads columns of one value per row, row groups and columns on all
// processors. Of several errors it returns that of the first row group.
func (t *sheet) each(values columns) error {
	names := slices.Sorted(maps.Keys(values))
	errs := make([]error, len(t.groups)*len(names))
	_ = each(len(errs), func(i int) error { // which returns what it has stored
		defer damaged(&errs[i])
		name := names[i%len(names)]
		errs[i] = t.column(i/len(names), name, values[name])
		return nil
	})
	return cmp.Or(errs...)
}

// inOrder reads one column, row by row.
func (t *sheet) inOrder(name string, value func(row int, v parquet.Value) error) error {
	for g := range t.groups {
		if err := t.column(g, name, value); err != nil {
			return err
		}
	}
	return nil
}

// column reads a column of one value per row in one row group.
func (t *sheet) column(group int, name string, value func(row int, v parquet.Value) error) error {
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

// values calls f with the values of one column in one row group, in order.
// They are valid during the call only.
func (t *sheet) values(group int, column string, f func(v parquet.Value) error) error {
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
