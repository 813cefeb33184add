package data

import (
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

// table is one Parquet file.
type table struct {
	*parquet.File
	name string // where a set has several
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

// newSheet joins tables.
func newSheet(tables ...*table) *sheet {
	t := &sheet{tables: tables}
	for _, one := range tables {
		for g, group := range one.RowGroups() {
			t.groups = append(t.groups, rowGroup{one, g, t.rows, int(group.NumRows())})
			t.rows += int(group.NumRows())
		}
	}
	return t
}

// check looks at the number of rows. Nothing real compresses a row of width
// bytes to less than a thousandth of them.
func (t *sheet) check(width int) error {
	var size int64
	for _, one := range t.tables {
		size += one.Size()
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
	if int64(total) > size*expansion/int64(width) {
		return fmt.Errorf("damaged: a file of %d bytes claims %d rows of %d bytes", size, total, width)
	}
	return nil
}

// has tells whether every file has the columns.
func (t *sheet) has(names ...string) bool {
	for _, one := range t.tables {
		if slices.ContainsFunc(names, func(n string) bool { return one.Root().Column(n) == nil }) {
			return false
		}
	}
	return true
}

// leaf finds the one leaf below a column; image and lists nest theirs, and an
// image's struct has a path beside its bytes.
func (t *table) leaf(name string) (*parquet.Column, error) {
	c := t.Root().Column(name)
	for !c.Leaf() {
		below := c.Columns()
		next := c.Column("bytes")
		if next == nil && len(below) == 1 {
			next = below[0]
		}
		if next == nil {
			return nil, fmt.Errorf("found a group of %d columns, want one column, a list, or an image with its bytes", len(below))
		}
		c = next
	}
	return c, nil
}

// columns are the functions that take the values of columns.
type columns = map[string]func(row int, v parquet.Value) error

// each reads columns of one value per row, the row groups on all processors.
func (t *sheet) each(values columns) error {
	return each(len(t.groups), func(g int) (err error) {
		defer damaged(&err)
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if err := t.column(g, name, values[name]); err != nil {
				return err
			}
		}
		return nil
	})
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
		err = fmt.Errorf("column %s, row group %d: %d values for %d rows", name, g.group, i, g.rows)
	}
	return err
}

// values calls f with the values of one column in one row group, in order.
// They are valid during the call only.
func (t *sheet) values(group int, column string, f func(v parquet.Value) error) error {
	g := t.groups[group]
	where := fmt.Sprintf("column %s, row group %d", column, g.group)
	if g.name != "" {
		where = g.name + ": " + where
	}
	c, err := g.leaf(column)
	if err == nil {
		err = g.checkPages(g.group, c.Index())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	reader := parquet.NewColumnChunkValueReader(g.RowGroups()[g.group].ColumnChunks()[c.Index()])
	defer reader.Close()
	number := 0
	var buffer [512]parquet.Value
	for {
		n, err := reader.ReadValues(buffer[:])
		for _, v := range buffer[:n] {
			if err := f(v); err != nil {
				return fmt.Errorf("%s, value %d: %w", where, number, err)
			}
			number++
		}
		switch {
		case err == io.EOF:
			return nil
		case err == nil && n == 0:
			err = io.ErrNoProgress
		}
		if err != nil {
			return fmt.Errorf("%s, value %d: %w", where, number, err)
		}
	}
}
