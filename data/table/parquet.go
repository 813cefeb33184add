package table

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/parquet-go/parquet-go"

	"fedpace/data/federated"
	"fedpace/data/parquetfile"
)

// parquetTable is one Parquet file as a table, whose columns are read one by one.
type parquetTable struct {
	place
	*parquetfile.Sheet
}

// newParquetTable makes a table of a sheet, and refuses one with too many columns.
func newParquetTable(file place, t *parquetfile.Sheet) (*parquetTable, error) {
	fields, err := t.Fields()
	if err == nil && len(fields) > maxColumns {
		err = fmt.Errorf("%d columns, want at most %d", len(fields), maxColumns)
	}
	return &parquetTable{file, t}, err
}

// format is the word for files of this kind.
func (p *parquetTable) format() string { return "parquet" }

// columns are the names of the sheet's columns.
func (p *parquetTable) columns() []string { return p.Names() }

// read goes through the columns, as many at a time as there are processors. Of
// several errors it returns that of the first column.
func (p *parquetTable) read(wanted []column, r *reading) error {
	if p.Rows == 0 {
		return nil
	}
	if err := p.Check(max(1, parquetfile.ValueBytes*len(wanted))); err != nil {
		return err
	}
	if err := r.reserve(p.Rows, p.Room); err != nil {
		return err
	}
	first := r.rows
	errs := make([]error, len(wanted))
	// The result of Each is not needed, because the function stores its errors.
	_ = federated.Each(len(wanted), func(i int) error {
		defer parquetfile.Damaged(&errs[i])
		errs[i] = p.each(wanted[i], first)
		return nil
	})
	r.rows += p.Rows
	return cmp.Or(errs...)
}

// each hands the values of one column to their taker.
func (p *parquetTable) each(wanted column, first int) error {
	f := p.Field(wanted.name)
	if f.Kind == parquetfile.KindOther {
		return fmt.Errorf("column %s holds %s; want numbers, text or bytes", wanted.name, f.TypeName())
	}
	last := -1
	lists := nestedLengths{counts: make([]int, f.Lists()+1)}
	endRow := func() error {
		if wanted.nested == nil || f.Lists() < 2 {
			return nil
		}
		return lists.end(wanted.nested)
	}
	err := p.Values(wanted.name, false, func(row int, v parquet.Value) error {
		if row != last {
			if err := endRow(); err != nil {
				return err
			}
		}
		if f.IsElement(v) {
			lists.counts[v.RepetitionLevel()]++
		}
		if row == last && !wanted.lists {
			return errors.New("a list of several values; want one value in a row (a list may be the only column of " +
				"features)")
		}
		last = row
		c, err := newCell(f, v)
		if err != nil {
			return err
		}
		return wanted.take(first+row, c)
	})
	if errors.Is(err, errStop) {
		return nil
	}
	return cmp.Or(err, endRow())
}

// nestedLengths counts the values of one row by their repetition level, from which the lengths of
// its nested lists follow: level 0 begins the row, level k the next element of list k.
type nestedLengths struct{ counts []int }

// end hands the lengths of the row's lists to take, the outermost first, and begins another row.
func (n *nestedLengths) end(take func([]int) error) error {
	defer clear(n.counts)
	total := n.counts[0]
	// A row without values has no list or an empty one.
	if total == 0 {
		return nil
	}
	var lengths []int
	outer := 1
	for _, count := range n.counts[1:] {
		total += count
		if total%outer != 0 {
			return fmt.Errorf("%d values in %d lists of different lengths; want equal ones", total, outer)
		}
		lengths = append(lengths, total/outer)
		outer = total
	}
	return take(lengths)
}

// newCell is a value without its type of Parquet.
func newCell(f *parquetfile.Field, v parquet.Value) (c cell, err error) {
	switch {
	case f.IsElement(v) && v.IsNull(): // of a list, which is there
		c = cell{kind: realCell, real: math.NaN()}
	case v.IsNull():
	case f.Kind == parquetfile.KindBytes:
		c = cell{kind: bytesCell, bytes: v.Bytes()}
	case f.Kind == parquetfile.KindText:
		c = cell{kind: textCell, text: f.Text(v)}
	case f.IsInteger:
		var fits bool
		c.integer, fits = f.Integer(v)
		if fits {
			c.kind = wholeCell
		} else {
			c = cell{kind: textCell, text: strconv.FormatUint(v.Uint64(), 10)}
		}
	default:
		c.kind = realCell
		c.real, err = f.Number(v)
	}
	return c, err
}

// ReadPlain reads the columns client, x and y, whose labels are whole numbers.
func ReadPlain(t *parquetfile.Sheet, opt federated.Options) (*federated.Grouped, error) {
	file, err := newParquetTable(place{onlyFile: true}, t)
	if err != nil {
		return nil, err
	}
	return Plain().read([]tableFile{file}, opt)
}

// Plain is the mapping of a table with the columns client, x and y, whose labels are whole numbers
// from 0.
func Plain() Table {
	return Table{
		Client:   "client",
		Features: []string{"x"},
		Label:    "y",
		plain:    true,
	}
}
