package table

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/parquet-go/parquet-go"

	"fedpace/data/federated"
	"fedpace/data/parquetfile"
)

// parquetTable is one Parquet file, read as a table. Its columns are read independently of one
// another.
type parquetTable struct {
	openFile
	*parquetfile.Sheet
}

// newParquetTable returns the table of the sheet t. file is the file from which the sheet is read. It returns an
// error for a sheet with more than maxColumns columns.
func newParquetTable(file openFile, t *parquetfile.Sheet) (*parquetTable, error) {
	fields, err := t.Fields()
	if err == nil && len(fields) > maxColumns {
		err = fmt.Errorf("%d columns, want at most %d", len(fields), maxColumns)
	}
	return &parquetTable{file, t}, err
}

// format returns the word for files of this kind.
func (p *parquetTable) format() string { return "parquet" }

// columns returns the names of the sheet's columns.
func (p *parquetTable) columns() []string { return p.Names() }

// read hands the values of the wanted columns to their takers and advances r.rows by the rows of
// the file. As many columns as there are processors are read at the same time. If several columns
// fail, the error is that of the first of them in wanted, so that it does not depend on timing.
func (p *parquetTable) read(wanted []column, r *reading) error {
	if p.Rows == 0 {
		return nil
	}
	// Check refuses a file that announces more values than its size can hold.
	if err := p.Check(max(1, parquetfile.ValueBytes*len(wanted))); err != nil {
		return err
	}
	if err := r.reserve(p.Rows, p.Room); err != nil {
		return err
	}
	// Row numbers continue those of the files before.
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

// each reads the wanted column and hands its values to the column's taker. firstRow is the number of the
// file's first row in the table, which may have rows of other files before it. The values of a list come one
// by one with the same row.
func (p *parquetTable) each(wanted column, firstRow int) error {
	f := p.Field(wanted.name)
	if f.Kind == parquetfile.KindOther {
		return fmt.Errorf("column %s holds %s; want numbers, text or bytes", wanted.name, f.TypeName())
	}
	values := &columnValues{
		field:    f,
		wanted:   wanted,
		firstRow: firstRow,
		lastRow:  noRow,
		lengths:  nestedLengths{counts: make([]int, f.Lists()+1)},
	}
	taker := parquetfile.Taker{Value: values.take}
	if wanted.takeRun != nil {
		taker.Numbers = values.takeNumbers
	}
	err := p.Take(wanted.name, parquetfile.AnyValues, taker)
	if errors.Is(err, errStop) {
		return nil
	}
	if err != nil {
		return err
	}
	return values.endRow()
}

// noRow stands for the row before the first.
const noRow = -1

// columnValues hands the values of one column of a Parquet file to the taker of the column.
type columnValues struct {
	field  *parquetfile.Field
	wanted column
	// firstRow is the number in the table of the file's first row.
	firstRow int
	// lastRow is the row of the last value, counted in the file from 0; noRow before the first value.
	lastRow int
	// lengths counts the values of that row, as far as it was read, for the lengths of its nested lists.
	lengths nestedLengths
}

// take hands v, the next value of the column, to the column's taker. row is the row of v, counted in the file. It
// is an error if the row has a value already and the column may not have lists.
func (c *columnValues) take(row int, v parquet.Value) error {
	if row != c.lastRow {
		if err := c.endRow(); err != nil {
			return err
		}
	}
	// An empty or a missing list has a value in the file, too, but that is no element and is not counted.
	if c.field.IsElement(v) {
		c.lengths.counts[v.RepetitionLevel()]++
	}
	if row == c.lastRow && !c.wanted.mayHaveLists {
		return errors.New("a list of several values; want one value in a row (a list may be the only column of " +
			"features)")
	}
	c.lastRow = row
	value, err := newCell(c.field, v)
	if err != nil {
		return err
	}
	return c.wanted.take(c.firstRow+row, value)
}

// takeNumbers hands all numbers of a page, n, to the column's taker of runs. It hands out none and reports false
// if one of them is NaN, which counts as missing, or too large, or if the column may not have the lists that they
// are in. The caller then calls take for each of them, which finds the error. n.Levels are the repetition levels
// of the numbers: 0 begins a row, and any other level continues its list.
func (c *columnValues) takeNumbers(n parquetfile.Numbers) (taken bool, err error) {
	hasLists := n.Levels != nil
	if hasLists && !c.wanted.mayHaveLists || !allFitFloat32(n.Values) {
		return false, nil
	}
	run := &numberRun{
		row:       c.firstRow + n.Row,
		values:    n.Values,
		isInteger: c.field.IsInteger,
		isSingle:  c.field.IsSingle(),
	}
	if !hasLists {
		c.lastRow = n.Row + len(n.Values) - 1
		return true, c.wanted.takeRun(run)
	}
	// Each pass hands out the numbers of one row: those from index first to end-1.
	run.inOneRow = true
	row := n.Row
	for first := 0; first < len(n.Values); row++ {
		// The next row begins at the next level of 0.
		end := len(n.Values)
		if next := bytes.IndexByte(n.Levels[first+1:], 0); next >= 0 {
			end = first + 1 + next
		}
		run.row = c.firstRow + row
		run.values = n.Values[first:end]
		c.lastRow = row
		if err := c.wanted.takeRun(run); err != nil {
			return true, err
		}
		first = end
	}
	return true, nil
}

// endRow ends the row whose values were taken last. If the column has nested lists, it calls the function that
// checks their lengths (wanted.nested), if there is one. Before the first row there are no lengths, and the
// function is not called.
func (c *columnValues) endRow() error {
	isNested := c.field.Lists() > 1
	if c.wanted.takeLengths == nil || !isNested {
		return nil
	}
	return c.lengths.end(c.wanted.takeLengths)
}

// nestedLengths counts the values of one row by their repetition level, from which the lengths of
// its nested lists follow: a value of level 0 begins the row, and one of level k is the next element of the
// lists of depth k, of which the outermost has depth 1.
type nestedLengths struct {
	// counts[k] is the number of values of level k.
	counts []int
}

// end computes the lengths of the nested lists of the row that has ended, calls take with them, the
// outermost first, and clears the counts for the next row. It returns an error if lists of one
// level have different lengths.
func (n *nestedLengths) end(take func([]int) error) error {
	defer clear(n.counts)
	elements := n.counts[0]
	// A row without values has no list or an empty one.
	if elements == 0 {
		return nil
	}
	var lengths []int
	// The outermost list is one. The elements of its depth are the lists of the next depth, and so on.
	lists := 1
	for _, count := range n.counts[1:] {
		// A value of a lower level begins an element of this depth, too, so the counts up to this level add up to
		// the elements of all lists of this depth.
		elements += count
		if elements%lists != 0 {
			return fmt.Errorf("%d values in %d lists of different lengths; want equal ones", elements, lists)
		}
		lengths = append(lengths, elements/lists)
		lists = elements
	}
	return take(lengths)
}

// newCell converts a value v of the Parquet column f to a cell. A null within a list becomes NaN,
// so that the list keeps its length, and any other null a missing cell. An integer too large for
// int64 becomes a text.
func newCell(f *parquetfile.Field, v parquet.Value) (c cell, err error) {
	switch {
	// A null that is an element stands for a missing value of a list that is there.
	case f.IsElement(v) && v.IsNull():
		c = cell{kind: realCell, real: math.NaN()}
	case v.IsNull():
		// The zero cell is a missing one.
	case f.Kind == parquetfile.KindBytes:
		c = cell{kind: bytesCell, bytes: v.Bytes()}
	// A text of Parquet is valid only during the call, so f.Text copies it.
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

// ReadPlain reads the set of a Parquet table t with the columns client, x and y, the label, which
// are whole numbers. opt are the options of the run, such as the number of classes.
func ReadPlain(t *parquetfile.Sheet, opt federated.Options) (*federated.Grouped, error) {
	file, err := newParquetTable(openFile{onlyFile: true}, t)
	if err != nil {
		return nil, err
	}
	return Plain().read([]tableFile{file}, opt)
}

// Plain returns the mapping of a table with the columns client, x (the features) and y (the label), whose labels
// are whole numbers from 0: the layout that package data reads without a mapping of the user.
func Plain() Table {
	return Table{
		Client:   "client",
		Features: []string{"x"},
		Label:    "y",
		plain:    true,
	}
}
